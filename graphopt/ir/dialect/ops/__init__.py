"""The ops of the `pd` dialect, one file per family; `ALL` lists every concrete op class."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from graphopt.ir.dialect.op import PdOp

FAMILIES = tuple(import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))

ALL: tuple[type[PdOp], ...] = tuple(
    value
    for family in FAMILIES
    for value in vars(family).values()
    if isinstance(value, type)
    and issubclass(value, PdOp)
    and value.__module__ == family.__name__
    and "name" in vars(value)
)

BY_NAME: dict[str, type[PdOp]] = {op.name: op for op in ALL}
