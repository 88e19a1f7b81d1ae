"""The front end's operator for the derivative, as `pd.grad`."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.types import compatible, dtype_of
from graphopt.ir.program import EMPTY
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates(GRAD_TYPE)
def derivative(emit: Emitter) -> Written:
    """Emit a derivative with an explicit cotangent for every target, by default ones."""
    targets, op = emit.inputs("Y"), emit.op
    given = op.input("YGrad") or [EMPTY] * len(targets)
    cotangents = [
        emit(FullLike, target, value=1.0) if name == EMPTY else _like(emit, emit.read(name), target)
        for name, target in zip(given, targets, strict=True)
    ]
    parameters = op.attrs["parameters"]
    operands = (targets, emit.inputs("X"), cotangents, emit.inputs("NoGrad"))
    return emit.results(XGrad=emit.all(Grad, *operands, parameters=parameters))


def _like(emit: Emitter, cotangent: SSAValue, target: SSAValue) -> SSAValue:
    """Convert a cotangent, declared in the type of another branch, to the type of its target."""
    if compatible(cotangent.type, target.type):
        return cotangent
    if isinstance(cotangent.owner, Full):
        return emit(FullLike, target, value=cotangent.owner.attr("value"))
    both = dtype_of(cotangent.type), dtype_of(target.type)
    if both[0] != both[1] and all(dtype.is_differentiable for dtype in both):
        return emit(Cast, cotangent, dtype=both[1])
    return cotangent
