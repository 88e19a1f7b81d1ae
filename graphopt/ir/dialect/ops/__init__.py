"""The ops of the `pd` dialect, one file per family; `ALL` lists every concrete op class."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from graphopt.ir.dialect.op import PdOp

FAMILIES = tuple(
    import_module(found.name)
    for found in walk_packages(__path__, f"{__name__}.")
    if not found.ispkg
)

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


def family_of(op: type[PdOp]) -> str:
    """The path of the op's file below this folder, without `.py`: `math`, `detection/boxes`."""
    return op.__module__.removeprefix(f"{__name__}.").replace(".", "/")
