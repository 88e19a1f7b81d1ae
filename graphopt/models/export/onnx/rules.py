"""Imports every module of rules to register them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from graphopt.models.export.onnx import ops

for _found in walk_packages(ops.__path__, f"{ops.__name__}."):
    import_module(_found.name)
