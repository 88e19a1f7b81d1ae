"""The derivative as one op: its backward graph is implied, so passes match forward ops only."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, var_operand_def, var_result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integers
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.types import Tensor, compatible, dtype_of, show


@irdl_op_definition
class Grad(OpaqueOp):
    """The gradients of `of`, weighted by `cotangents`, with respect to `wrt`.

    Gradients do not flow through the values in `no_grad`. `parameters` are the positions in `wrt`
    whose gradients belong to parameters; data parallelism aggregates just these. With `addto` a
    part of a gradient is not computed before the parts so far are added up. Paddle:
    append_backward, gradients.
    """

    name = "pd.grad"
    of = var_operand_def(Tensor)
    wrt = var_operand_def(Tensor)
    cotangents = var_operand_def(Tensor)
    no_grad = var_operand_def(Tensor)
    grads = var_result_def(Tensor)
    parameters = integers(())
    addto = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        of: tuple[Tensor, ...],
        wrt: tuple[Tensor, ...],
        cotangents: tuple[Tensor, ...],
        parameters: tuple[int, ...],
    ) -> tuple[Tensor, ...]:
        if len(of) != len(cotangents):
            raise ProgramError(f"grad of {len(of)} values needs as many cotangents")
        for target, cotangent in zip(of, cotangents, strict=True):
            if not compatible(target, cotangent):
                raise ProgramError(f"the cotangent {show(cotangent)} does not fit {show(target)}")
        for value in wrt:
            if not dtype_of(value).is_differentiable:
                raise ProgramError(f"no gradient exists with respect to {show(value)}")
        if any(not 0 <= index < len(wrt) for index in parameters):
            raise ProgramError(f"parameters {list(parameters)} are not positions of wrt")
        return tuple(wrt)
