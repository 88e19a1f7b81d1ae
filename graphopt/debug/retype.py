"""A program with other dtypes or sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.retyped import retyped
from graphopt.ir.dialect.signature import FEED, Port
from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of, tensor


def with_dtype(module: ModuleOp, dtype: str) -> ModuleOp | None:
    """The program with another dtype for float32."""

    def retype(port: Port) -> Tensor:
        old = port.type
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

    def retype(port: Port) -> Tensor:
        old = port.type
        return tensor(first(shape_of(old)), dtype_of(old)) if port.kind == FEED else old

    def attrs(op: PdOp) -> Mapping[str, Any]:
        values = op.attr_values()
        if op.name != "pd.reshape":
            return values
        shape = tuple(values["shape"])
        return {**values, "shape": (0, *shape[1:]) if size == 0 else first(shape)}

    return retyped(module, retype, attrs)
