"""An op with dynamic (tensor-valued) attributes: a shape, an axis, a count that the run decides.

`pd.dynamic` stands for another op. When the values are found to be constants of the program the
translation makes the plain op instead, so passes need not know this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, var_operand_def, var_result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dictionary, integers, string, strings
from graphopt.ir.dialect.definition import SEGMENTS, attr_kinds, default_attrs
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule, class_of
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.types import UNKNOWN, Partial, Tensor, shape_of


@irdl_op_definition
class Dynamic(OpaqueOp):
    """The op named `op` on `inputs` (`groups` operands for each of its fields).

    Its properties are `attrs`, and those named in `dynamic` are read from `values` when the program
    runs. Paddle: operators with inputs such as ShapeTensor, AxisTensor, StartsTensorList.
    """

    name = "pd.dynamic"
    inputs = var_operand_def(Tensor)
    values = var_operand_def(Tensor)
    outs = var_result_def(Tensor)
    op = string()
    groups = integers()
    dynamic = strings()
    attrs = dictionary()

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        inputs: tuple[Tensor, ...],
        values: tuple[Tensor, ...],
        op: str,
        groups: Sequence[int],
        dynamic: Sequence[str],
        attrs: DictionaryAttr,
    ) -> tuple[Tensor, ...]:
        count = len(dynamic)
        if count != len(values):
            raise ProgramError(f"dynamic names {count} properties, but there are {len(values)}")
        unknown = {n: _nothing_known(v) for n, v in zip(dynamic, values, strict=True)}
        op_class = class_of(op)
        return infer_dynamic(op_class, grouped(inputs, groups), decoded(op_class, attrs), unknown)


# the ops that name another one, with its properties in `attrs`
STAND_INS = ("pd.dynamic", "pd.vjp")


def draws(op: Operation) -> tuple[tuple[int, int], ...]:
    """The seed and the number among a program's random ops, for each draw of an op."""
    if isinstance(op, RandomOp):
        return op.draws()
    if isinstance(op, PdOp) and op.name in STAND_INS:
        return _drawn(op.attr("op"), op.attr("attrs"))
    return ()


def _drawn(name: str, stored: DictionaryAttr) -> tuple[tuple[int, int], ...]:
    attrs = decoded(class_of(name), stored)
    if name in STAND_INS:
        return _drawn(attrs["op"], attrs["attrs"])
    is_random = issubclass(class_of(name), RandomOp)
    return ((attrs["seed"], attrs["rng_id"]),) if is_random else ()


def grouped(flat: Sequence[Any], groups: Sequence[int]) -> list[Sequence[Any]]:
    """A flat list of operands cut into groups of these sizes."""
    if sum(groups) != len(flat):
        raise ProgramError(f"groups {list(groups)} do not share out {len(flat)} operands")
    ends = [sum(groups[: i + 1]) for i in range(len(groups))]
    return [flat[end - size : end] for end, size in zip(ends, groups, strict=True)]


def decoded(
    op_class: type[PdOp], attrs: DictionaryAttr | Mapping[str, Attribute]
) -> dict[str, Any]:
    """The properties of `op_class` in `attrs` as Python values, defaults filled in."""
    kinds = attr_kinds(op_class)
    stored = attrs.data if isinstance(attrs, DictionaryAttr) else attrs
    unknown = stored.keys() - kinds.keys()
    if unknown:
        raise ProgramError(f"'{op_class.name}' has no attribute '{min(unknown)}'")
    given = {name: kinds[name].decode(attr) for name, attr in stored.items()}
    return {**default_attrs(op_class), **given}


def _nothing_known(value: Tensor) -> Partial:
    shape = shape_of(value)
    return None if UNKNOWN in shape else (None,) * (shape[0] if shape else 1)


def infer_dynamic(
    op_class: type[PdOp],
    groups: Sequence[Sequence[Attribute]],
    attrs: Mapping[str, Any],
    unknown: Mapping[str, Partial],
) -> tuple[Tensor, ...]:
    """Result types of `op_class` when the properties in `unknown` are known in part only."""
    for name in unknown:
        if name not in attr_kinds(op_class):
            raise ProgramError(f"'{op_class.name}' has no attribute '{name}'")
    known = {**bind_groups(op_class, groups), **attrs, **unknown}
    types: Tensor | tuple[Tensor, ...] = call_rule(op_class.infer_partly, known)
    return (types,) if isinstance(types, TensorType) else types
