"""The operator of the front end for the derivative, as `pd.grad`."""

from __future__ import annotations

from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.program import EMPTY
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates(GRAD_TYPE)
def derivative(emit: Emitter) -> Written:
    """The derivative; every target gets an explicit cotangent (ones unless one is given)."""
    targets, op = emit.inputs("Y"), emit.op
    given = op.input("YGrad") or [EMPTY] * len(targets)
    cotangents = [
        emit.read(name) if name != EMPTY else emit(FullLike, target, value=1.0)
        for name, target in zip(given, targets, strict=True)
    ]
    parameters = op.attrs.get("parameters", ())
    operands = (targets, emit.inputs("X"), cotangents, emit.inputs("NoGrad"))
    return emit.results(XGrad=emit.all(Grad, *operands, parameters=parameters))
