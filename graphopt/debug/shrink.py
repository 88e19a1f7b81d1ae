"""Smaller sizes and rounder numbers for a program that is already reduced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from graphopt.debug.compare import Array
from graphopt.debug.reduce import Interesting
from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import UNKNOWN, Tensor, shape_of, tensor
from graphopt.ir.dialect.types import dtype_of as dtype_of_type
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.passes.engine.replay_file import MadeUp

# arrays of up to this size are kept
FEW = 64


def shrink_sizes(
    module: ModuleOp, inputs: Mapping[str, Array], interesting: Interesting
) -> tuple[ModuleOp, dict[str, Array]]:
    """Make dimensions smaller, one size at a time, while the program stays interesting.

    Every dimension of one size becomes the same smaller size, in attributes that hold shapes too.
    """
    best, fed = module, dict(inputs)
    tried: set[tuple[int, int]] = set()
    while True:
        for old, new in _smaller(best, fed):
            if (old, new) in tried:
                continue
            tried.add((old, new))
            attempt = _resize_program(best, fed, old, new)
            if attempt is not None and _holds(interesting, *attempt):
                best, fed = attempt
                break
        else:
            return best, fed


def plain_inputs(
    module: ModuleOp, inputs: Mapping[str, Array], interesting: Interesting
) -> dict[str, Array | MadeUp]:
    """Round the numbers of small inputs, draw large ones, if the program stays interesting."""
    best: dict[str, Array | MadeUp] = dict(inputs)
    arrays = dict(inputs)
    for seed, (name, array) in enumerate(inputs.items(), start=1):
        candidates: Sequence[Array | MadeUp]
        if array.size > FEW:
            candidates = [MadeUp(array.dtype.name, array.shape, seed)]
        elif array.dtype.kind in "fc" and array.size:
            candidates = [_round_array(array, 0), _round_array(array, 1)]
        else:
            candidates = []
        for candidate in candidates:
            value = candidate.array() if isinstance(candidate, MadeUp) else candidate
            attempt = {**arrays, name: value}
            if _holds(interesting, module, attempt):
                best[name], arrays = candidate, attempt
                break
    return best


def _round_array(array: Array, digits: int) -> Array:
    return np.round(array.astype(np.float64), digits).astype(array.dtype)


def _holds(interesting: Interesting, module: ModuleOp, inputs: Mapping[str, Array]) -> bool:
    try:
        return interesting(module, inputs)
    except Exception:
        return False


def _smaller(module: ModuleOp, inputs: Mapping[str, Array]) -> Iterator[tuple[int, int]]:
    """Yield sizes that occur, the largest first, with smaller ones to try."""
    sizes = {dim for array in inputs.values() for dim in array.shape}
    sizes |= {dim for p in signature_of(module).arguments for dim in shape_of(p.type)}
    for size in sorted(sizes, reverse=True):
        yield from ((size, new) for new in dict.fromkeys((2, 3, 4, size // 2)) if 1 < new < size)


def _resize_program(
    module: ModuleOp, inputs: Mapping[str, Array], old: int, new: int
) -> tuple[ModuleOp, dict[str, Array]] | None:
    """Replace the dimension `old` by `new` throughout; None if that gives no valid program."""
    changed = module.clone()
    block = main_function(changed).body.block
    fed: dict[str, Array] = {}
    try:
        for argument, port in zip(block.args, signature_of(module).arguments, strict=True):
            shape = shape_of(port.type)
            array = inputs.get(port.name)
            if array is not None:
                keep = [slice(new if dim == old else None) for dim in array.shape]
                fed[port.name] = array[tuple(keep)].copy()
            dims = tuple(new if dim == old else dim for dim in shape)
            _retype(argument, tensor(dims, dtype_of_type(port.type)))
        for op in block.ops:
            if isinstance(op, ReturnOp):
                break
            if not isinstance(op, PdOp) or op.regions:
                return None
            _resize_attrs(op, old, new)
            groups = [[v.type for v in group] for group in op.operand_groups()]
            types = infer_types(type(op), groups, op.attr_values())
            for result, inferred in zip(op.results, types, strict=True):
                _retype(result, _with_unknown(result.type, inferred))
        main_function(changed).update_function_type()
        changed.verify()
        verify_ssa(changed)
    except Exception:
        return None
    return changed, fed


def _with_unknown(declared: Any, inferred: Any) -> Tensor:
    """Combine types: the inferred one, unknown where the declared one is."""
    dims = zip(shape_of(declared), shape_of(inferred), strict=True)
    shape = tuple(UNKNOWN if a == UNKNOWN else b for a, b in dims)
    return tensor(shape, dtype_of_type(inferred))


def _retype(value: SSAValue, type_: Any) -> None:
    if value.type != type_:
        hint = value.name_hint
        Rewriter.replace_value_with_new_type(value, type_).name_hint = hint


def _resize_attrs(op: PdOp, old: int, new: int) -> None:
    for name, value in op.attr_values().items():
        if "shape" in name and isinstance(value, tuple) and old in value:
            made = encode_attrs(type(op), {name: tuple(new if d == old else d for d in value)})
            op.properties[name] = made[name]
