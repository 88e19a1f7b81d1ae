"""Kernels of rows in Pallas: blocks of rows one after the other, each read and written once.

Triton, on GPUs, needs blocks whose sizes are powers of two, and takes a mask where they reach over
the end. Mosaic, on TPUs, pads by itself, and has 32-bit indices only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.rows import MatrixForm
from graphopt.lowering.kernels.mosaic import with_short_indices
from graphopt.lowering.kernels.row_rules import Line

Array = jax.Array
Arrays = tuple[Array, ...]
Body = Callable[[Sequence[Array], Line, int], Arrays]
"""(operands of a block, its columns, its number of rows) -> results of the block."""

# the elements of a block for each warp of 32 threads: 16 registers a thread and value
OF_A_WARP = 512
WARPS = 4, 32


@dataclass(frozen=True)
class Tiling:
    """A matrix of `count` rows of `length` columns in blocks of at most `rows` rows."""

    count: int
    length: int
    rows: int

    def shape(self, form: MatrixForm) -> tuple[int, int]:
        """Return the shape of a value of this form."""
        return self.count if form.rows else 1, self.length if form.columns else 1


@dataclass(frozen=True)
class RowOperands:
    """The forms of the arrays that a kernel reads, and the forms and dtypes of its results."""

    read: tuple[MatrixForm, ...]
    made: tuple[tuple[MatrixForm, Any], ...]


def by_triton(
    body: Body, arrays: Sequence[Array], of: RowOperands, tiling: Tiling, *, interpret: bool = False
) -> Arrays:
    """Run a kernel on GPUs, on arrays in their two-dimensional forms."""
    # a late import: it is slow, and few programs need it
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    columns = _power_of_two(tiling.length)
    rows = min(_power_of_two(tiling.count), tiling.rows)
    line = Line(tiling.length, columns)

    def mask(form: MatrixForm) -> Array | None:
        """Mask the elements of a block that are inside the matrix; None if all are."""
        found = None
        if form.columns and columns != tiling.length:
            found = line.numbers() < tiling.length
        if form.rows and tiling.count % rows:
            first = pl.program_id(0) * np.int32(rows)
            below = first + lax.broadcasted_iota(np.int32, (rows, 1), 0) < tiling.count
            found = below if found is None else found & below
        size = rows if form.rows else 1, columns if form.columns else 1
        return None if found is None else jnp.broadcast_to(found, size)

    def kernel(*refs: Any) -> None:
        read, made = refs[: len(arrays)], refs[len(arrays) :]
        values: list[Array] = []
        for ref, form in zip(read, of.read, strict=True):
            within = mask(form)
            other = None if within is None else np.zeros((), ref.dtype)
            values.append(triton.load(ref, mask=within, other=other))
        for ref, (form, _), value in zip(made, of.made, body(values, line, rows), strict=True):
            triton.store(ref, value, mask=mask(form))

    fewest, most = WARPS
    warps = min(max(rows * columns // OF_A_WARP, fewest), most)
    return _call(
        kernel, arrays, of, tiling, (rows, columns), interpret,
        compiler_params=triton.CompilerParams(num_warps=warps, num_stages=1),
    )  # fmt: skip


def by_mosaic(
    body: Body, arrays: Sequence[Array], of: RowOperands, tiling: Tiling, *, interpret: bool = False
) -> Arrays:
    """Run a kernel on TPUs, on arrays in their two-dimensional forms."""
    rows = min(tiling.rows, tiling.count)
    line = Line(tiling.length, tiling.length)

    def kernel(*refs: Any) -> None:
        values = [ref[...] for ref in refs[: len(arrays)]]
        for ref, value in zip(refs[len(arrays) :], body(values, line, rows), strict=True):
            ref[...] = value

    def call(*arrays: Array) -> Arrays:
        return _call(kernel, arrays, of, tiling, (rows, tiling.length), interpret)

    return call(*arrays) if interpret else with_short_indices(call, *arrays)


def _call(
    kernel: Callable[..., None],
    arrays: Sequence[Array],
    of: RowOperands,
    tiling: Tiling,
    block: tuple[int, int],
    interpret: bool,
    **params: Any,
) -> Arrays:
    """Call a kernel for each block of rows."""
    from jax.experimental import pallas as pl

    def spec(form: MatrixForm) -> Any:
        size = block[0] if form.rows else 1, block[1] if form.columns else 1
        return pl.BlockSpec(size, lambda i: (i if form.rows else 0, 0))

    made = [jax.ShapeDtypeStruct(tiling.shape(form), dtype) for form, dtype in of.made]
    called = pl.pallas_call(
        kernel,
        out_shape=made,
        grid=(-(-tiling.count // block[0]),),
        in_specs=[spec(form) for form in of.read],
        out_specs=[spec(form) for form, _ in of.made],
        interpret=interpret,
        **params,
    )
    return tuple(called(*arrays))


def _power_of_two(size: int) -> int:
    """Round a size up to a power of two."""
    return 1 << (size - 1).bit_length()


LANGUAGES: Mapping[str, tuple[str, Callable[..., Arrays]]] = {
    "triton": ("cuda", by_triton),
    "mosaic": ("tpu", by_mosaic),
}
"""Each language's platform in JAX's naming, and the function that calls a kernel."""

INTERPRETED: Mapping[str, tuple[str, Callable[..., Arrays]]] = {
    name: ("cpu", partial(run, interpret=True)) for name, (_, run) in LANGUAGES.items()
}
"""The same functions in Pallas's interpreter on CPUs, which is slow: for tests."""
