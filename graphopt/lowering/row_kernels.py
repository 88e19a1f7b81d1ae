"""`pd.row_kernel` -> a kernel in Pallas on the devices of its language, else its ops one by one.

The derivative keeps the operands of the kernel, and XLA computes it from the ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RowKernel, Yield
from graphopt.ir.dialect.regions import captured_values
from graphopt.ir.dialect.rows import WHOLE, MatrixForm, forms_in, frame_in
from graphopt.lowering.kernels import rows as kernels
from graphopt.lowering.kernels.row_rules import Line, compute
from graphopt.lowering.kernels.rows import RowOperands, Tiling

Array = jax.Array
Arrays = tuple[Array, ...]
Loose = Callable[[Sequence[Array], Array], Arrays]
"""(captured values, key data) -> results"""


def in_rows(
    op: RowKernel, ops_alone: Loose, arrays: Sequence[Array], key: Array, *, loose: bool
) -> Arrays:
    """Compute `op` from its captured values and a key; with `loose`, never by a kernel."""
    call = None if loose else _call_of(op, ops_alone, arrays, key)
    if call is None:
        return ops_alone(arrays, key)
    platform, kernel = call

    def by_ops(*values: Array) -> Arrays:
        return ops_alone(values[:-1], values[-1])

    @jax.custom_vjp
    def results(*values: Array) -> Arrays:
        return lax.platform_dependent(*values, default=by_ops, **{platform: kernel})

    def saving(*values: Array) -> tuple[Arrays, Any]:
        return results(*values), values

    def pulled_back(values: Any, cotangents: Any) -> Any:
        return jax.vjp(by_ops, *values)[1](cotangents)

    results.defvjp(saving, pulled_back)
    return results(*arrays, key)


def _call_of(
    op: RowKernel, ops_alone: Loose, arrays: Sequence[Array], key: Array
) -> tuple[str, Callable[..., Arrays]] | None:
    """Build the kernel call, with its platform; None where sizes do not fit."""
    block = op.body.block
    ops = [inner for inner in block.ops if isinstance(inner, PdOp) and not isinstance(inner, Yield)]
    forms = forms_in(ops)
    assert forms is not None, "pd.row_kernel was not verified"
    read, made = captured_values(op), op.yielded_values()
    results = jax.eval_shape(ops_alone, arrays, key)
    sizes = [(x.size, forms[v]) for x, v in zip((*arrays, *results), (*read, *made), strict=True)]
    length, wholes = frame_in(ops).length, [size for size, form in sizes if form == WHOLE]
    # a dynamic batch size is a symbol
    known = length > 0 and all(isinstance(size, int) for size, _ in sizes)
    if not known or not wholes or not wholes[0]:
        return None
    tiling = Tiling(wholes[0] // length, length, op.attr("rows"))
    if any(size != math.prod(tiling.shape(form)) for size, form in sizes):
        return None
    operands = RowOperands(
        tuple(forms[value] for value in read),
        tuple((forms[value], x.dtype) for value, x in zip(made, results, strict=True)),
    )
    platform, run = kernels.LANGUAGES[op.attr("language")]

    def call(*values: Array) -> Arrays:
        matrices = [
            _short(x).reshape(tiling.shape(form))
            for x, form in zip(values[:-1], operands.read, strict=True)
        ]
        found = run(partial(_of_block, ops, read, made, forms), matrices, operands, tiling)
        return tuple(x.reshape(y.shape) for x, y in zip(found, results, strict=True))

    return platform, call


def _short(x: Array) -> Array:
    """Clamp class numbers to 32 bits; numbers out of range stay out of range."""
    if x.dtype != np.int64:
        return x
    limits = np.iinfo(np.int32)
    return lax.clamp(np.int64(limits.min), x, np.int64(limits.max)).astype(np.int32)


def _of_block(
    ops: Sequence[PdOp],
    read: Sequence[SSAValue],
    made: Sequence[SSAValue],
    forms: Mapping[SSAValue, MatrixForm],
    operands: Sequence[Array],
    line: Line,
    rows: int,
) -> Arrays:
    """Compute the ops on a block of rows."""
    values = dict(zip(read, operands, strict=True))
    for op in ops:
        found = compute(op, [values[value] for value in op.operands], line)
        for value, array in zip(op.results, found, strict=True):
            form = forms[value]
            size = rows if form.rows else 1, line.columns if form.columns else 1
            values[value] = jnp.broadcast_to(array, size)
    return tuple(values[value] for value in made)
