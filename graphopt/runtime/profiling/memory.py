"""The memory of a step, known once XLA has compiled it and before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from xdsl.ir import Operation

from graphopt.display.table import Column, Page, Shown, Table
from graphopt.display.units import size
from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.signature import Port
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.lowering.dynamic import NeedsData
from graphopt.lowering.locations import number_ops
from graphopt.passes.engine.naming import source_line
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.profiling.instructions import Instructions
from graphopt.runtime.profiling.rows import keep_names, variable_of
from graphopt.runtime.settings.progress import announce

Shapes = Mapping[str, tuple[int, ...]]
# the most rows of a printed table
_MOST = 10


@dataclass(frozen=True)
class LiveResult:
    """The bytes of an op's results that are alive when a step takes the most memory.

    `number` is the number of the op in the optimized program.
    """

    op: str
    variable: str
    line: str
    bytes: int
    number: int


@dataclass(frozen=True, repr=False)
class Memory(Shown):
    """The bytes of a step on one device, as XLA reports them; it prints itself.

    `state` are variables between steps, `feeds` the inputs, `peak` the most at any time of a step,
    both of these included. Python, JAX and compiled code take some 300 MB more. `held` lists the
    ops whose results are alive at the peak, the largest first, as far as XLA's text shows them.
    """

    state: int
    feeds: int
    peak: int
    held: tuple[LiveResult, ...]

    def page(self) -> Page:
        """Build a page of the figures, and of the ops with the most bytes at the peak."""
        rest = max(self.peak - self.state - self.feeds, 0)
        head = (
            f"a step takes {size(self.peak)} at most: {size(self.state)} of state, "
            f"{size(self.feeds)} of feeds, {size(rest)} of activations, gradients and fetches"
        )
        columns = (Column("op"), Column("variable"), Column("line"), Column("bytes", right=True))
        rows = [(each.op, each.variable, each.line, size(each.bytes)) for each in self.held[:_MOST]]
        return Page([head, Table(columns, rows, "alive at that time, by op")])


def memory_of(compilation: Compilation, shapes: Shapes) -> Memory:
    """Compile a program for feeds of these shapes, and read how much memory a step takes.

    `shapes` are by name. Nothing runs, and no variable needs a value. Raise UnsupportedError for a
    program that XLA cannot compile as a whole, and the errors of `compile_program`.
    """
    compiled = compile_program(compilation)
    with announce(lambda: "compiling a program to know its memory"):
        try:
            with number_ops(compiled.module) as ops, keep_names(), jax.enable_x64(True):
                function = compiled.map_replicas(1, even=True).function.lower(
                    *_types(compiled, shapes)
                )
                made = function.compile(compiled.options())
        except NeedsData as error:
            raise UnsupportedError(f"the program runs op by op, as {error}") from None
    return memory_in(made, Instructions.of(made.as_text() or ""), compiled, shapes, ops)


def memory_in(
    made: jax.stages.Compiled,
    instructions: Instructions,
    compiled: Compiled,
    shapes: Shapes,
    ops: Sequence[Operation],
) -> Memory:
    """Read the memory of a compiled step, with the names of numbered `ops`.

    Raise UnsupportedError for a device for which XLA reports nothing.
    """
    found, plan = made.memory_analysis(), compiled.plan
    if found is None:
        raise UnsupportedError("XLA does not report the memory of a step on this device")
    ports = (*plan.updated, *plan.read_only, *plan.prepared)
    feeds = sum(_bytes(shapes[port.name], dtype_of(port.type).numpy) for port in plan.feeds)
    state = sum(_bytes(shape_of(port.type), dtype_of(port.type).numpy) for port in ports)
    # XLA's own peak omits temporaries on CPUs; results that replace state alias it
    new = found.output_size_in_bytes - found.alias_size_in_bytes
    peak = found.argument_size_in_bytes + new + found.temp_size_in_bytes
    return Memory(state, feeds, peak, _ops_at_peak(instructions, ops))


def rows_that_fit(measure: Callable[[int], Memory], rows: int, limit: int) -> int:
    """Estimate the most rows of a batch for which a step takes `limit` bytes; 0 for none.

    `measure` returns the memory for a number of rows. It grows nearly in proportion to them, so
    that two figures, for `rows` and half of them, determine the rest.
    """
    if rows < 2:
        return rows if measure(rows).peak <= limit else 0
    half, whole = measure(rows // 2).peak, measure(rows).peak
    each = (whole - half) / (rows - rows // 2)
    return max(int(rows + (limit - whole) / each), 0) if each > 0 else rows


def _types(compiled: Compiled, shapes: Shapes) -> tuple[object, ...]:
    """Build the types of a step's arguments."""
    plan = compiled.plan

    def types(ports: Sequence[Port]) -> tuple[jax.ShapeDtypeStruct, ...]:
        return tuple(
            jax.ShapeDtypeStruct(shapes.get(p.name, shape_of(p.type)), dtype_of(p.type).numpy)
            for p in ports
        )

    read_only = types((*plan.read_only, *plan.prepared))
    key = jax.ShapeDtypeStruct((2,), np.uint32)
    return types(plan.updated), read_only, types(plan.feeds), key


def _ops_at_peak(instructions: Instructions, ops: Sequence[Operation]) -> tuple[LiveResult, ...]:
    """List the ops with bytes in `Instructions.at_peak`, the largest first."""
    taken: Counter[int] = Counter()
    for name, count in instructions.at_peak().items():
        for part, share in instructions.shares(name).items():
            taken[part.number] += round(share * count)
    return tuple(
        LiveResult(ops[n].name, variable_of(ops[n]), source_line(ops[n].location), count, n)
        for n, count in taken.most_common()
    )


def _bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
