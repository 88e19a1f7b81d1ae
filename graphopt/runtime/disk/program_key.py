"""The key of a compilation by the content of its program, without a module.

Programs with equal content, feeds and fetches become the same module, whether built or loaded. The
key covers everything that parsing and passes read, and all versions and flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Operator, Program, Variable
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.disk.entries import hash_value
from graphopt.runtime.settings.flags import (
    changed_flags,
    checks_all_ids,
    checks_nan_inf,
    uses_kernels,
)
from graphopt.runtime.settings.strategies import BuildStrategy

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class _Unknown(Exception):
    """A value whose content cannot be written into a key."""


def key_of(compilation: Compilation, settings: object) -> str | None:
    """Compute the key of a compilation for one step on one CPU place; None for any other.

    Return None also for a program with attributes that are neither numbers, texts nor arrays.
    `settings` are the settings that affect lowering.
    """
    places = compilation.places
    plain = (
        _is_plain(compilation.strategy)
        and len(places) == 1
        and places[0].platform == "cpu"
        and not compilation.stacked
        and compilation.steps == 1
        and not checks_nan_inf()
        and not checks_all_ids()
        # the available kernels are known only later
        and not uses_kernels()
    )
    if not plain:
        return None
    try:
        content = list(_program(compilation.program))
    except _Unknown:
        return None
    axes = None if compilation.axes is None else sorted(compilation.axes.items())
    asked = compilation.feeds, compilation.fetches, axes, compilation.types, compilation.numbers
    flags = None if compilation.strategy is None else compilation.strategy.key()
    ways = compilation.grows, compilation.data_parallel, compilation.sample_weighted
    return hash_value((content, *asked, *ways, flags, changed_flags(), settings))


def _is_plain(strategy: BuildStrategy | None) -> bool:
    """Return whether a strategy has only our passes, writes no files, and is for one process."""
    if strategy is None:
        return True
    return not (strategy.added_passes or strategy.debug_graphviz_path or strategy.num_trainers > 1)


def _program(program: Program) -> Iterator[object]:
    for block in program.blocks:
        yield block.idx, block.parent_idx, block.forward_block_idx, block.backward_block_idx
        yield [_variable(variable) for variable in block.vars.values()]
        yield [_operator(op) for op in block.ops]


def _variable(variable: Variable) -> object:
    return (
        *(variable.name, variable._shape, f"{variable._dtype}", variable.kind, variable.lod_level),
        *(variable.persistable, variable.stop_gradient, variable.is_data, variable.is_parameter),
        variable.need_check_feed,
    )


def _operator(op: Operator) -> object:
    attributes = [(name, _content(value)) for name, value in op.attrs.items()]
    kinds = sorted(op.attr_kinds.items())
    slots = _slots(op.inputs), _slots(op.outputs)
    return op.type, *slots, attributes, kinds, op.is_loaded, op.release


def _slots(slots: Mapping[str, Iterable[str]]) -> object:
    return [(slot, list(names)) for slot, names in slots.items()]


def _content(value: Any) -> object:
    """Encode a value by its content; raise _Unknown for an unsupported type."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return type(value).__name__, [_content(each) for each in value]
    if isinstance(value, dict):
        return [(_content(name), _content(each)) for name, each in value.items()]
    if isinstance(value, DType):
        return "dtype", f"{value}"
    if isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
        return type(value).__name__, value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Block):
        return "block", value.idx
    raise _Unknown
