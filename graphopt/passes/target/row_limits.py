"""The sizes of kernels of rows, as data: how many rows are a block on each kind of device.

They follow from the registers and memories that vendors state; nothing was measured on a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.rows import WHOLE, MatrixForm
from graphopt.passes.engine.fusion import Reason

ELEMENT = 4
"""Bytes of an element in a kernel, which computes in float32."""


@dataclass(frozen=True)
class KernelLimits:
    """Limits of kernels in one language; `block` and `most` are bytes of all values of a block.

    `rows` of a block are multiples of `step`, and rows are padded to multiples of `padding`
    elements, or to powers of two where it is 0.
    """

    language: str
    block: int
    most: int
    step: int
    rows: int
    padding: int

    def padded(self, length: int) -> int:
        """The elements of a row as they are in a block."""
        if not self.padding:
            return 1 << (length - 1).bit_length()
        return -(-length // self.padding) * self.padding


LIMITS: Mapping[str, KernelLimits] = {
    # 32 registers for each of 256 threads; at most all registers of a multiprocessor
    "gpu": KernelLimits("triton", 32 * 2**10, 256 * 2**10, 1, 64, 0),
    # half of the 16 MiB next to a core, as blocks of the next step are read in advance
    "tpu": KernelLimits("mosaic", 2 * 2**20, 8 * 2**20, 32, 512, 128),
}


def rows_of_block(limits: KernelLimits, length: int, alive: int) -> int | Reason:
    """The rows of a block with `alive` rows of this length at a time."""
    size = limits.padded(length) * ELEMENT * alive
    if size * limits.step > limits.most:
        text = f"{alive} rows of {length} elements at a time, {limits.step} of each, are more than "
        return Reason("long-row", text + f"the {limits.most} bytes of a block")
    fitting = max(limits.block // size, limits.step)
    return min(1 << (fitting.bit_length() - 1), limits.rows)


def most_alive(
    ops: Sequence[PdOp], forms: Mapping[SSAValue, MatrixForm], made: Sequence[SSAValue]
) -> int:
    """The largest number of whole rows that a kernel has at a time; what it reads, all the time."""
    whole = [value for value, form in forms.items() if form == WHOLE]
    inside = [result for op in ops for result in op.results if result in whole]
    last = {value: place for place, op in enumerate(ops) for value in op.operands}
    begin = {result: place for place, op in enumerate(ops) for result in op.results}
    end = {value: len(ops) if value in made else last.get(value, 0) for value in inside}
    alive = [sum(begin[v] <= place <= end[v] for v in inside) for place in range(len(ops))]
    return len(whole) - len(inside) + max(alive, default=0)
