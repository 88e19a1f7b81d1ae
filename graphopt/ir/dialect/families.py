"""All ops of the `pd` dialect; `ops/` has one file for each family."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from graphopt.ir.dialect import ops
from graphopt.ir.dialect.op import PdOp

FAMILIES = tuple(
    import_module(found.name)
    for found in walk_packages(ops.__path__, f"{ops.__name__}.")
    if not found.ispkg
)

ALL: tuple[type[PdOp], ...] = tuple(
    value
    for family in FAMILIES
    for value in vars(family).values()
    if isinstance(value, type)
    and PdOp in value.__mro__  # `issubclass` would make abc cache every other class
    and value.__module__ == family.__name__
    and "name" in vars(value)
)
"""Every concrete op class."""

BY_NAME: dict[str, type[PdOp]] = {op.name: op for op in ALL}


def family_of(op: type[PdOp]) -> str:
    """Return the path of the op's file below `ops/`, without `.py`: `math`, `detection/boxes`."""
    return op.__module__.removeprefix(f"{ops.__name__}.").replace(".", "/")
