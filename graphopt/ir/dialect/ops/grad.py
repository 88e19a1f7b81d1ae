"""Derivatives as ops.

The backward graph of `pd.grad` is implied, so passes match forward ops only. `pd.vjp` is the
derivative of one op, the form of a single gradient operator of a saved program.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.irdl import irdl_op_definition, var_operand_def, var_result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dictionary, flag, integers, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.op import bind_groups, class_of, infer_types
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.dynamic import decode_properties, group_operands
from graphopt.ir.dialect.types import TENSOR, Tensor, compatible, dtype_of, show


@irdl_op_definition
class Grad(OpaqueOp):
    """The gradients of `of`, weighted by `cotangents`, with respect to `wrt`.

    Gradients do not flow through the values in `no_grad`. `parameters` are the positions in `wrt`
    whose gradients belong to parameters; data parallelism aggregates just these. With `addto` a
    part of a gradient is not computed before the parts so far are added up. Paddle:
    append_backward, gradients.
    """

    name = "pd.grad"
    of = var_operand_def(TENSOR)
    wrt = var_operand_def(TENSOR)
    cotangents = var_operand_def(TENSOR)
    no_grad = var_operand_def(TENSOR)
    grads = var_result_def(TENSOR)
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


@irdl_op_definition
class Vjp(OpaqueOp):
    """The vector-Jacobian product of the op named `op` at `inputs`.

    `inputs` are `groups` operands for each field of that op, and `attrs` its properties.
    `cotangents` belong to its results at the positions `outs`, all others count as zero; given are
    the gradients of the inputs at the positions `ins`. Paddle: operators whose type ends in _grad.
    """

    name = "pd.vjp"
    inputs = var_operand_def(TENSOR)
    cotangents = var_operand_def(TENSOR)
    grads = var_result_def(TENSOR)
    op = string()
    groups = integers()
    attrs = dictionary()
    ins = integers()
    outs = integers()

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        inputs: tuple[Tensor, ...],
        cotangents: tuple[Tensor, ...],
        op: str,
        groups: Sequence[int],
        attrs: DictionaryAttr,
        ins: Sequence[int],
        outs: Sequence[int],
    ) -> tuple[Tensor, ...]:
        op_class = class_of(op)
        properties, shared = decode_properties(op_class, attrs), group_operands(inputs, groups)
        bind_groups(op_class, shared)
        results = infer_types(op_class, shared, properties)
        if len(outs) != len(cotangents) or any(not 0 <= i < len(results) for i in outs):
            raise ProgramError(f"{len(cotangents)} cotangents for the results {list(outs)} of {op}")
        for position, cotangent in zip(outs, cotangents, strict=True):
            if not compatible(results[position], cotangent):
                raise ProgramError(
                    f"the cotangent {show(cotangent)} does not fit {show(results[position])}"
                )
        if any(not 0 <= i < len(inputs) for i in ins):
            raise ProgramError(f"{list(ins)} are not positions of {len(inputs)} inputs")
        for position in ins:
            if not dtype_of(inputs[position]).is_differentiable:
                raise ProgramError(f"no gradient exists with respect to {show(inputs[position])}")
        return tuple(inputs[position] for position in ins)
