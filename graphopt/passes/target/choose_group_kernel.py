"""build_cinn_pass on GPUs and TPUs: reductions along rows in a group become one kernel each.

XLA makes one loop of each reduction and another of the ops after it, and each reads the rows again.
In a `pd.row_kernel` a block of rows is read once, with the ops before and after the reductions that
compute the same rows. An op without a row form, such as a product, stays in the group next to it.
Where kernels are measured, kernels that are not quicker than XLA's loops are left out, and so are
groups with which training takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.differentiated import KEPT, differentiated_ops, is_kept
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, RowKernel
from graphopt.ir.dialect.ops.norm import BatchNormBase, GroupNorm
from graphopt.ir.dialect.regions import ancestor_in
from graphopt.ir.dialect.rows import (
    COMBINING,
    NORMALISERS,
    WHOLE,
    MatrixForm,
    MatrixFrame,
    forms_in,
    forms_of,
    frame_of,
    has_row_dtypes,
)
from graphopt.ir.dialect.traits import Reduction
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.measured import GAIN, KernelTime, Measure, discard
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.target.group_costs import MOST_OPS, GroupKind
from graphopt.passes.target.group_growth import Growth, OpGroup, restore_order
from graphopt.passes.target.outlining import copied_body, stand_in, taken_out

ELEMENT = 4
"""The bytes of an element in a kernel, which computes in float32."""


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

    def pad_length(self, length: int) -> int:
        """Compute the padded length of a row in a block."""
        if not self.padding:
            return 1 << (length - 1).bit_length()
        return -(-length // self.padding) * self.padding


LIMITS: Mapping[str, KernelLimits] = {
    # 32 registers for each of 256 threads; at most all registers of a multiprocessor
    "gpu": KernelLimits("triton", 32 * 2**10, 256 * 2**10, 1, 64, 0),
    # at most half of a core's 16 MiB of memory, as blocks of the next step are prefetched
    "tpu": KernelLimits("mosaic", 2 * 2**20, 8 * 2**20, 32, 512, 128),
}


def rows_of_block(limits: KernelLimits, length: int, alive: int) -> int | Reason:
    """Compute the rows of a block, with `alive` rows of this length at a time, or a reason."""
    size = limits.pad_length(length) * ELEMENT * alive
    if size * limits.step > limits.most:
        text = f"a block needs {alive} x {limits.step} rows of {length} elements, more than the "
        return Reason("long-row", text + f"{limits.most} bytes that it may have")
    fitting = max(limits.block // size, limits.step)
    return min(1 << (fitting.bit_length() - 1), limits.rows)


def most_alive(
    ops: Sequence[PdOp], forms: Mapping[SSAValue, MatrixForm], made: Sequence[SSAValue]
) -> int:
    """Count the whole rows that a kernel holds at most at a time; its inputs are always held."""
    whole = [value for value, form in forms.items() if form == WHOLE]
    inside = [result for op in ops for result in op.results if result in whole]
    last = {value: place for place, op in enumerate(ops) for value in op.operands}
    begin = {result: place for place, op in enumerate(ops) for result in op.results}
    end = {value: len(ops) if value in made else last.get(value, 0) for value in inside}
    alive = [sum(begin[v] <= place <= end[v] for v in inside) for place in range(len(ops))]
    return len(whole) - len(inside) + max(alive, default=0)


NO_REDUCTION = Reason(
    "no-reduction", "the group has no reduction, so XLA computes it in one loop without a kernel"
)
NO_ROW_FORM = Reason("no-row-form", "kernels that compute rows do not support the op")
OTHER_AXES = Reason("other-axes", "the op combines elements along other axes than the last ones")
ROW_LENGTH = Reason(
    "row-length",
    "the length of the rows is known only when the program runs",
    "declare the data with known lengths",
)
ROW_DTYPE = Reason(
    "row-dtype", "the op has other dtypes than float32, bfloat16 and float16, which kernels support"
)
IS_KEPT = Reason(
    "is-kept", "the derivative keeps the result of the op in memory, so a kernel saves nothing"
)
MIXED_FORMS = Reason(
    "mixed-forms",
    "two sizes are equal, so that one value would be read both by rows and by columns",
)
ONE_LOOP = Reason(
    "one-loop", "the op is a single reduction, which XLA computes in one loop with its operands"
)

_MEMBER = GroupKind("row", lambda op: True, 1.0, "a kernel computes it once")


@dataclass(frozen=True)
class ChooseGroupKernel(RewritePass):
    """Let a kernel compute the rows of the groups, on GPUs (Triton) or TPUs (Mosaic)."""

    name = "choose-group-kernel"
    numerics = Numerics.REASSOCIATING
    platform: str = "gpu"
    measure: Measure | None = None

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, trained = RewriteLog(self.name, self.numerics), differentiated_ops(module)
        rates = None if self.measure is None else partial(_rate, self.measure, trained)
        for group in [op for op in module.walk() if isinstance(op, FusionGroup)]:
            _choose(group, LIMITS[self.platform], rates, log)
            if self.measure is not None and group in trained:
                _leave_if_slower(group, self.measure(group, True), log)
        return log.outcomes


Rates = Callable[[FusionGroup, RowKernel], KernelTime]
"""The time of a group with a kernel, as a fraction of its time without."""


def _rate(
    measure: Measure, trained: Container[Operation], group: FusionGroup, kernel: RowKernel
) -> KernelTime:
    return measure(kernel, group in trained)


def _choose(group: FusionGroup, limits: KernelLimits, rates: Rates | None, log: RewriteLog) -> None:
    """Replace the rows of a group by kernels; where these are rated, only by kernels that pay."""
    rate = None if rates is None else partial(rates, group)
    block = group.body.block
    combining = [op for op in block.ops if isinstance(op, PdOp) and _combines(op)]
    if not combining and not any(isinstance(op, RowKernel) for op in block.ops):
        log.declined(group, NO_REDUCTION)
    frames: dict[MatrixFrame, list[PdOp]] = {}
    for op in combining:
        frame = _frame_or_refusal(op)
        if isinstance(frame, Reason):
            log.declined(op, frame)
        else:
            frames.setdefault(frame, []).append(op)
    for frame, ops in frames.items():
        for rows in _parts(block, frame):
            found = [op for op in ops if op in rows.ops]
            _replace(block, rows, frame, found, limits, rate, log)
        restore_order(block)


def _leave_if_slower(group: FusionGroup, rated: KernelTime, log: RewriteLog) -> None:
    """Dissolve a group whose derivative takes longer to compute values again than it saves.

    Kernels among its ops stay.
    """
    if rated.ratio is None or rated.ratio <= 1 / GAIN or not log.allow(group):
        return
    time = f"{rated.ratio:.2f} of the time of one that keeps them"
    log.applied(
        group,
        note=f"the group was dissolved: a derivative that computes its values again takes {time}",
    )
    taken_out(group, log)


def _combines(op: PdOp) -> bool:
    """True for an op that combines many elements to few, or normalizes by such a combination."""
    return isinstance(op, (*COMBINING, BatchNormBase, GroupNorm)) or op.has_trait(Reduction)


def _frame_or_refusal(op: PdOp) -> MatrixFrame | Reason:
    """Return the rows whose elements an op combines, or the reason why it is in no kernel."""
    if not isinstance(op, COMBINING):
        return NO_ROW_FORM
    if not has_row_dtypes(op):
        return ROW_DTYPE
    frame = frame_of(op)
    if frame is None:
        return OTHER_AXES
    if frame.length == UNKNOWN:
        return ROW_LENGTH
    if forms_of(op, frame) is None:
        return NO_ROW_FORM
    return frame if _may_join(op, frame) else IS_KEPT


def _may_join(op: Operation, frame: MatrixFrame) -> bool:
    """True for an op that may be in a kernel and whose result is not kept as whole rows.

    A kept number for each row is computed again, with the row.
    """
    forms = forms_of(op, frame)
    return forms is not None and not (is_kept(op) and WHOLE in forms.results)


def _parts(block: Block, frame: MatrixFrame) -> Sequence[OpGroup]:
    """Find the connected parts of a block's ops that compute rows of a frame."""
    kinds = {op: _MEMBER for op in block.ops if isinstance(op, PdOp) and _may_join(op, frame)}
    paths = dict.fromkeys(block.ops, frozenset[Operation]())
    return Growth(block, kinds, paths, {}, MOST_OPS).groups()


def _replace(
    block: Block,
    group: OpGroup,
    frame: MatrixFrame,
    combining: Sequence[PdOp],
    limits: KernelLimits,
    rate: Callable[[RowKernel], KernelTime] | None,
    log: RewriteLog,
) -> None:
    """Move ops into the region of one kernel, unless there is a reason against it."""
    ops = group.ops
    forms = forms_in(ops)
    made = [r for op in ops for r in op.results if _is_read(r, ops, block)]
    chosen = _fitting(ops, forms, made, frame, limits)
    if isinstance(chosen, Reason):
        for op in combining:
            log.declined(op, chosen)
        return
    last = ops[-1]
    kernel, rated = _kernel_of(ops, made, limits.language, chosen), None
    if rate is not None and not (rated := rate(kernel)).pays:
        discard(kernel)
        for op in combining:
            log.declined(op, rated.reason(limits.language.capitalize()))
        return
    if not log.allow(last):
        discard(kernel)
        return
    held = ", ".join(op.name.removeprefix("pd.") for op in ops)
    note = f"the kernel holds {held}; {chosen} rows of {frame.length} elements at a time"
    note += f", {rated.note}" if rated is not None else ""
    log.applied(last, *ops[-2::-1], note=note)
    stand_in(kernel, ops, made, log)


def _kernel_of(
    ops: Sequence[PdOp], made: Sequence[SSAValue], language: str, rows: int
) -> RowKernel:
    """Build a kernel that computes `made` by copies of these ops; it is in no block yet."""
    body, copies = copied_body(ops, made)
    for copy in copies:
        copy.attributes.pop(KEPT, None)
    types = [value.type for value in made]
    return RowKernel.build_with([], types, [body], language=language, rows=rows)


def _is_read(value: SSAValue, ops: Sequence[PdOp], block: Block) -> bool:
    """True when another op of the block reads a value."""
    return any(ancestor_in(block, use.operation) not in ops for use in value.uses)


def _fitting(
    ops: Sequence[PdOp],
    forms: Mapping[SSAValue, MatrixForm] | None,
    made: Sequence[SSAValue],
    frame: MatrixFrame,
    limits: KernelLimits,
) -> int | Reason:
    """Compute the rows of a block in a kernel of these ops, or the reason against it."""
    if forms is None:
        return MIXED_FORMS
    if len(ops) == 1 and not isinstance(ops[0], NORMALISERS):
        return ONE_LOOP
    return rows_of_block(limits, frame.length, most_alive(ops, forms, made))
