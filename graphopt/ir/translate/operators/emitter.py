"""A short way to write translations: the inputs of an operator, ops of them, its named results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import BY_NAME
from graphopt.ir.dialect.ops.activation import (
    Gelu,
    Hardsigmoid,
    Hardswish,
    LeakyRelu,
    Relu6,
    Swish,
)
from graphopt.ir.dialect.ops.math import Cast, Scale
from graphopt.ir.dialect.ops.shape import Flatten, Reshape
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt.ir.translate.operators.translator import Translator

Written = dict[str, SSAValue]


class Emitter:
    """Translation of one operator: `emit(Add, x, y)` is a value, `emit.results(Out=value)` the end.

    `default` attributes are what Paddle takes where the file says nothing.
    """

    def __init__(self, translator: Translator, op: Operator) -> None:
        self.translator = translator
        self.op = op

    def __call__(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> SSAValue:
        """The first result of an op."""
        return self.all(op_class, *operands, **attrs)[0]

    def all(self, op_class: type[PdOp], *operands: Any, **attrs: Any) -> Sequence[SSAValue]:
        """Every result of an op."""
        return self.translator.emit(op_class, self.op, *operands, **attrs).results

    def inputs(self, slot: str) -> list[SSAValue]:
        """The values in a slot."""
        return [self.translator.read(n) for n in self.op.input(slot) if n != EMPTY]

    def optional(self, slot: str) -> SSAValue | None:
        """The value in a slot that may be empty."""
        found = self.inputs(slot)
        return found[0] if found else None

    def input(self, slot: str) -> SSAValue:
        """The value in a slot; ProgramError when there is none."""
        found = self.optional(slot)
        if found is None:
            raise ProgramError(f"operator {self.op.type} needs an input '{slot}'")
        return found

    def only(self, *slots: str) -> None:
        """UnsupportedError when another slot is filled: it may carry meaning."""
        for slot, names in self.op.inputs.items():
            if slot not in slots and any(name != EMPTY for name in names):
                raise UnsupportedError(
                    f"operator {self.op.type} takes '{slot}' from a tensor ({', '.join(names)}), "
                    "which is not supported"
                )

    def attr(self, name: str, default: Any) -> Any:
        """An attribute, of the kind of the default; ProgramError when it is of another kind."""
        value = self.op.attrs.get(name)
        if value is None:
            return default
        try:
            if isinstance(default, bool | int | float):
                return type(default)(value)
            fits = isinstance(value, list | tuple) == isinstance(default, list | tuple)
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise ProgramError(f"operator {self.op.type}: attribute '{name}' is {value!r}")
        return value

    def choice(self, name: str, default: str, options: Sequence[str]) -> str:
        """A text attribute that is one of the options."""
        value = self.attr(name, default)
        if value not in options:
            raise UnsupportedError(
                f"operator {self.op.type}: '{name}' {value!r} is none of {', '.join(options)}"
            )
        return value

    def results(self, **values: SSAValue | Sequence[SSAValue]) -> Written:
        """These values under the names in the slots of the same name."""
        written: Written = {}
        for slot, value in values.items():
            names = self.op.output(slot)
            found = [value] if isinstance(value, SSAValue) else list(value)
            if names and len(names) != len(found):
                raise ProgramError(
                    f"operator {self.op.type} has {len(found)} results for '{slot}', found "
                    f"{len(names)} names"
                )
            written.update((n, v) for n, v in zip(names, found, strict=False) if n != EMPTY)
        return written

    def by_row(self) -> Written:
        """The translation by the table `table.py`, for the operator without its empty slots."""
        op = self.op
        kept = {slot: names for slot, names in op.inputs.items() if any(n != EMPTY for n in names)}
        twin = copy(op)
        twin.inputs = kept
        return self.translator.by_row(twin, BY_TYPE[op.type])

    def scaled(self, x: SSAValue, factor: float, bias: float = 0.0) -> SSAValue:
        """x * factor + bias."""
        return x if (factor, bias) == (1.0, 0.0) else self(Scale, x, scale=factor, bias=bias)

    def like(self, x: SSAValue, other: SSAValue) -> SSAValue:
        """x in the dtype of another value."""
        dtype = dtype_of(other.type)
        return x if dtype_of(x.type) == dtype else self(Cast, x, dtype=dtype)

    def matrix(self, x: SSAValue, axis: int) -> SSAValue:
        """x with the dimensions from `axis` on as one; ProgramError unless 0 < axis < rank."""
        if not 0 < axis < rank_of(x.type):
            raise ProgramError(f"{list(shape_of(x.type))} cannot be split before axis {axis}")
        return self(Flatten, x, start_axis=axis) if axis < rank_of(x.type) - 1 else x

    def reshaped(self, x: SSAValue, *shape: int) -> SSAValue:
        """x in another shape; 0 keeps a dimension, -1 takes the rest."""
        return self(Reshape, x, shape=shape)

    def along(self, vector: SSAValue, rank: int, axis: int) -> SSAValue:
        """A vector as a tensor whose dimensions are 1, but for `axis`."""
        return self.reshaped(vector, *(-1 if i == axis else 1 for i in range(rank)))

    def activated(self, x: SSAValue, name: str, alpha: float = 0.0, beta: float = 0.0) -> SSAValue:
        """An activation by the name that fused operators call it by; '' is none.

        UnsupportedError for an unknown one.
        """
        if name in ("", "identity", "linear", "none"):
            return x
        if name == "hard_swish":
            return self(Hardswish, x)
        if name == "gelu_tanh":
            return self(Gelu, x, approximate=True)
        if name == "leaky_relu":
            return self(LeakyRelu, x, negative_slope=alpha)
        if name == "hard_sigmoid":
            return self(Hardsigmoid, x, slope=alpha or 0.2, offset=beta or 0.5)
        if name == "swish":
            return self(Swish, x, beta=alpha or 1.0)
        if name == "relu6":
            return self(Relu6, x)
        found = BY_NAME.get(f"pd.{name}") if name in _PLAIN else None
        if found is None:
            raise UnsupportedError(f"operator {self.op.type} with the activation {name!r}")
        return self(found, x)


_PLAIN = frozenset(("relu", "gelu", "sigmoid", "tanh", "sqrt", "silu", "mish", "abs", "square"))

Translation = Callable[["Translator", Operator], Written]
Made = Callable[[Emitter], Written]


def translation(made: Made) -> Translation:
    """The translation that calls `made` with a Emitter."""
    return lambda translator, op: made(Emitter(translator, op))
