"""Operators as Paddle writes them: with the attributes that have their defaults."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from graphopt.ir.formats.pir.default_rows import DEFAULT_ROWS
from graphopt.ir.program import AttrKind, Operator, Program


class Default(NamedTuple):
    """The kind of an attribute and its default."""

    kind: int
    value: Any


@lru_cache(maxsize=1)
def _defaults() -> Mapping[str, Mapping[str, Default]]:
    found: dict[str, dict[str, Default]] = {}
    types: list[str] = []
    row: dict[str, Default] = {}
    for line in DEFAULT_ROWS.strip().splitlines():
        if not line.startswith(" "):
            types, row = ([], {}) if row else (types, row)
            types += line.split()
            continue
        for attribute in line.split():
            name, _, rest = attribute.partition(":")
            kind, _, value = rest.partition("=")
            row[name] = Default(getattr(AttrKind, kind), ast.literal_eval(value))
        found.update(dict.fromkeys(types, row))
    return found


def complete(program: Program) -> Program:
    """The program, with defaults for attributes that its operators lack.

    Operators that were read from a `.pdmodel` and not changed since stay as they were saved.
    """
    for block in program.blocks:
        for op in block.ops:
            if op.saved is None:
                _complete(op)
    return program


def _complete(op: Operator) -> None:
    for name, default in _defaults().get(op.type, {}).items():
        if op.attrs.get(name) is None:
            op.attrs[name] = copy.copy(default.value)
            op.attr_kinds[name] = default.kind
    if op.type == "cast" and op.attrs.get("in_dtype") is None:
        source = op.block.find_var(op.input("X")[0])
        if source is not None and source.has_type:
            op.attrs["in_dtype"] = source.dtype.code
