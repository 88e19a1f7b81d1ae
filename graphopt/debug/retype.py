"""A program with other dtypes or sizes: every op is created again for the new types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of, tensor

# maps the kind and the type of an argument to its new type
Retype = Callable[[str, Tensor], Tensor]
Attrs = Callable[[PdOp], Mapping[str, Any]]


def retyped(module: ModuleOp, retype: Retype, attrs: Attrs) -> ModuleOp | None:
    """The program for arguments of other types; None when an op does not take them.

    `attrs` returns the properties of each op, which may name dtypes and sizes.
    """
    made = module.clone()
    function = main_function(made)
    old, new = function.body.block, Block()
    ports = signature_of(made).arguments
    values: dict[SSAValue, SSAValue] = {}
    for port, argument in zip(ports, old.args, strict=True):
        values[argument] = new.insert_arg(retype(port.kind, port.type), len(new.args))
    for op in list(old.ops):
        if isinstance(op, RegionOp):
            return None
        if isinstance(op, PdOp):
            groups = [[values[value] for value in group] for group in op.operand_groups()]
            try:
                copy = type(op).make(*groups, **attrs(op))
            except ProgramError:
                return None
            new.add_op(copy)
            values.update(zip(op.results, copy.results, strict=True))
        elif isinstance(op, ReturnOp):
            new.add_op(ReturnOp(*(values[value] for value in op.operands)))
    outs = [value.type for value in new.last_op.operands] if new.last_op is not None else []
    function.body.detach_block(old)
    function.body.add_block(new)
    function.function_type = FunctionType.from_lists([a.type for a in new.args], outs)
    return made


def with_dtype(module: ModuleOp, dtype: str) -> ModuleOp | None:
    """The program with another dtype for float32."""

    def retype(kind: str, old: Tensor) -> Tensor:
        return tensor(shape_of(old), dtype) if dtype_of(old) == "float32" else old

    def attrs(op: PdOp) -> Mapping[str, Any]:
        values = op.attr_values()
        return {**values, "dtype": dtype} if values.get("dtype") == "float32" else values

    return retyped(module, retype, attrs)


def with_size(module: ModuleOp, old_size: int, size: int) -> ModuleOp | None:
    """The program with another first dimension of the feeds that have `old_size` there.

    Reshapes to that size follow; -1 makes it open.
    """

    def first(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (size, *shape[1:]) if shape[:1] == (old_size,) else shape

    def retype(kind: str, old: Tensor) -> Tensor:
        return tensor(first(shape_of(old)), dtype_of(old)) if kind == "pd.feed" else old

    def attrs(op: PdOp) -> Mapping[str, Any]:
        values = op.attr_values()
        if op.name != "pd.reshape":
            return values
        shape = tuple(values["shape"])
        return {**values, "shape": (0, *shape[1:]) if size == 0 else first(shape)}

    return retyped(module, retype, attrs)
