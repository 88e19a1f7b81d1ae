"""Adam with the sparse gradient of an embedding, which Paddle computes in another way.

Gradients are dense here, and for other optimizers that is the same. For Adam, Paddle on the CPU
corrects the bias with the powers of the next step, adds an epsilon that does not change with the
steps, and with `lazy_mode` leaves the rows alone that were not looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from graphopt.ir.gradients.flow import Contribution, GradientFlow
from graphopt.ir.gradients.versions import Place
from graphopt.ir.legacy.storage import is_sparse_lookup
from graphopt.ir.ops.creation import FullLike
from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.index import Embedding
from graphopt.ir.ops.math import Add, Cast, GreaterThan, Multiply, Scale, Sqrt, Where
from graphopt.ir.ops.shape import Assign, Squeeze
from graphopt.ir.program import Operator
from graphopt.ir.types import dtype_of, shape_of

if TYPE_CHECKING:
    from graphopt.ir.parse.block import BlockParser

_ROWS = ("ParamOut", "Moment1Out", "Moment2Out")


def sparse_lookups(flow: GradientFlow, at: int) -> list[int]:
    """The lookups that make up the sparse gradient of the Adam update `at`; else nothing."""
    gradient = flow.versions.reads[at].get(Place("Grad", 0))
    if flow.ops[at].type != "adam" or gradient is None or gradient not in flow.pure:
        return []
    terms = flow.pure[gradient][1]
    found = sorted({flow.links[t.at].forward for t in terms if isinstance(t, Contribution)})
    return found if all(is_sparse_lookup(flow.ops[i]) for i in found) else []


def run_sparse_adam(
    parser: BlockParser,
    op: Operator,
    ids: list[tuple[Operator, SSAValue]],
    run: Callable[[Operator], None],
) -> None:
    """The update, with `ids` that were looked up by which operator."""

    def emit(op_class: type, *operands: object, **attrs: object) -> SSAValue:
        return parser.translator.emit(op_class, op, *operands, **attrs).results[0]  # pyright: ignore

    inputs = dict(op.inputs)
    powers: dict[str, SSAValue] = {}
    for slot, default in (("Beta1", 0.9), ("Beta2", 0.999)):
        (name,) = op.input(f"{slot}Pow")
        factor = float(op.attrs.get(slot.lower(), default))
        value = emit(Scale, parser.read(name), scale=factor)
        inputs[f"{slot}Pow"] = [f"{name}@NEXT"]
        parser.frame.values[f"{name}@NEXT"] = value
        powers.update(dict.fromkeys(op.output(f"{slot}PowOut"), value))
    # With a power of zero the op corrects nothing, and the rate has the correction instead.
    second = parser.read(f"{op.input('Beta2Pow')[0]}@NEXT")
    correction = emit(Sqrt, emit(Scale, second, scale=-1.0, bias=1.0))
    (rate,) = op.input("LearningRate")
    corrected = {
        "Beta2Pow": emit(FullLike, second, value=0.0),
        "LearningRate": emit(
            Multiply,
            parser.read(rate),
            emit(Cast, correction, dtype=dtype_of(parser.read(rate).type)),
        ),
    }
    for slot, value in corrected.items():
        inputs[slot] = [f"{op.input(slot)[0]}@SPARSE"]
        parser.frame.values[inputs[slot][0]] = value
    before = {slot: parser.read(op.input(slot.removesuffix("Out"))[0]) for slot in _ROWS}
    run(Operator(op.block, op.type, inputs, op.outputs, op.attrs, op.location))
    for name, value in powers.items():
        parser.bind(name, value)
    if not op.attrs.get("lazy_mode"):
        return
    counts: SSAValue | None = None
    for lookup, numbers in ids:
        if lookup.type == "lookup_table" and shape_of(numbers.type)[-1:] == (1,):
            numbers = emit(Squeeze, numbers, axis=(-1,))
        found = _counted(emit, numbers, before["ParamOut"])
        counts = found if counts is None else emit(Add, counts, found)
    assert counts is not None
    touched = emit(GreaterThan, counts, emit(FullLike, counts, value=0.0))
    for slot in _ROWS:
        (name,) = op.output(slot)
        parser.bind(name, emit(Where, touched, parser.read(name), before[slot]))


def _counted(emit: Callable[..., SSAValue], numbers: SSAValue, table: SSAValue) -> SSAValue:
    """How often each row was looked up, in the shape of the table.

    This is the gradient of a lookup, and called so for data parallelism, which adds it up.
    """
    source = emit(Assign, table)
    rows = emit(Embedding, numbers, source, padding_idx=-1)
    seed = emit(FullLike, rows, value=1.0)
    return emit(Grad, [rows], [source], [seed], [], parameters=(0,))
