"""Patterns of clean-up passes, and near misses of them, to be planted in generated programs.

Such a pattern is a fusion by name only: generators of programs plant it, and nothing replaces it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu, Tanh
from graphopt.ir.dialect.ops.creation import AssignValue, Full, FullLike
from graphopt.ir.dialect.ops.linalg.matrices import Einsum
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Divide,
    Erf,
    GreaterThan,
    LogicalNot,
    Multiply,
    Pow,
    Scale,
    Square,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import (
    Assign,
    Concat,
    Reshape,
    ShapeOf,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.signature import FEED, STATE
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.engine.fusion import Fusion, Match, Node, Value
from graphopt.testing.transformers import Builder

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0)


class Idiom(Fusion, ABC):
    """A pattern to plant."""

    root = Node(Assign, Value())

    @abstractmethod
    def plant(self, builder: Builder) -> SSAValue:
        """Add the pattern to a program and return its result."""

    def build(self, match: Match) -> PdOp:
        """Raise AssertionError: nothing replaces this pattern."""
        raise AssertionError("this pattern is only planted")


class _Chooser(Idiom):
    """One of several short sequences of ops on a fed matrix."""

    WAYS: Sequence[str]

    def plant(self, builder: Builder) -> SSAValue:
        self.builder = builder
        x = builder.leaf(FEED, self.choose([(2, 3), (2, 1, 3), (1, 4)]), "x")
        return getattr(self, f"_{self.choose(self.WAYS)}")(x)

    def choose(self, options: Sequence[Any]) -> Any:
        return self.builder.draw(st.sampled_from(list(options)))

    def add(self, kind: type[PdOp], *operands: Any, **attrs: Any) -> SSAValue:
        """Add an op, whose result other ops sometimes read, too."""
        value = self.builder.add(kind, *operands, **attrs)
        if self.choose(range(12)) == 11:
            self.builder.shared.append(value)
        return value

    def constant(self, *numbers: float, dtype: str = "float32") -> SSAValue:
        """Add one of these numbers as a constant, by one of two ops."""
        first, second = self.choose(numbers), self.choose(numbers)
        if self.choose(range(4)) == 3:
            return self.builder.add(AssignValue, shape=(1,), values=(second,), dtype=dtype)
        return self.builder.add(Full, shape=(1,), value=first, dtype=dtype)


class Identities(_Chooser):
    """Ops that change nothing, or seem to."""

    WAYS = (
        "arithmetic", "arithmetic", "integers", "scales", "casts", "casts", "transposes",
        "reshapes", "reshapes", "squeeze", "nots", "relus", "concat", "dropout",
    )  # fmt: skip

    def _arithmetic(self, x: SSAValue) -> SSAValue:
        kind = self.choose([Multiply, Divide, Subtract, Add])
        number = (
            self.constant(*NUMBERS)
            if self.choose([True, True, False])
            else self.add(FullLike, x, value=self.choose([1.0, 0.0, -0.0]))
        )
        if self.choose(range(6)) == 5:
            length = shape_of(x.type)[-1]
            values = [self.choose([1.0, 0.0, -0.0]) for _ in range(length)]
            number = self.add(AssignValue, shape=(length,), values=values)
        return self.add(kind, *((x, number) if self.choose(range(4)) else (number, x)))

    def _integers(self, x: SSAValue) -> SSAValue:
        whole = self.add(Cast, x, dtype="int32")
        one = self.constant(1.0, 0.0, dtype="int32")
        made = self.add(self.choose([Multiply, Subtract, Add]), whole, one)
        made = self._scales(made) if self.choose([True, False]) else made
        return self.add(Cast, made, dtype="float32")

    def _scales(self, x: SSAValue) -> SSAValue:
        for _ in range(2):
            bias = self.choose([0.0, 0.0, 0.0, 1.0])
            x = self.add(Scale, x, scale=self.choose([-1.0, -1.0, 1.0, 0.5]), bias=bias)
        return x

    def _casts(self, x: SSAValue) -> SSAValue:
        x = self.add(Scale, x, scale=self.choose([1.0, 100.0, 1e9]), bias=0.25)
        for dtype in (self.choose(DTYPES), self.choose(DTYPES), self.choose(DTYPES), "float32"):
            x = self.add(Cast, x, dtype=dtype)
        return x

    def _transposes(self, x: SSAValue) -> SSAValue:
        for _ in range(2):
            rank = len(shape_of(x.type))
            x = self.add(Transpose, x, perm=self.builder.draw(st.permutations(range(rank))))
        return x

    def _reshapes(self, x: SSAValue) -> SSAValue:
        first = shape_of(x.type)
        for _ in range(2):
            *lead, last = shape_of(x.type)
            ways = [
                (*lead, 1, last),
                (0, *[1] * len(lead), last),
                first,
                (-1,),
                (-1, last),
                (0, -1),
            ]
            ways = [way for way in ways if 0 not in way or (way[0] == 0 and _fits(way, x))]
            x = self.add(Reshape, x, shape=self.choose(ways))
        return x

    def _squeeze(self, x: SSAValue) -> SSAValue:
        x = self.add(Unsqueeze, x, axis=(1,)) if self.choose([True, False]) else x
        x = self.add(Squeeze, x, axis=(1,)) if shape_of(x.type)[1] == 1 else x
        return self.add(Reshape, x, shape=self.choose([(0, -1), (-1,), (2, -1), (1, -1, 1)]))

    def _nots(self, x: SSAValue) -> SSAValue:
        zero = self.constant(0.0)
        truth = self.add(GreaterThan, x, zero)
        for _ in range(self.choose([1, 2, 3])):
            truth = self.add(LogicalNot, truth)
        return self.add(Where, truth, x, zero)

    def _relus(self, x: SSAValue) -> SSAValue:
        for _ in range(self.choose([1, 2, 3])):
            x = self.add(Relu, x)
        return x

    def _concat(self, x: SSAValue) -> SSAValue:
        return self.add(Concat, [x] * self.choose([1, 1, 2]), axis=-1)

    def _dropout(self, x: SSAValue) -> SSAValue:
        attrs = {
            "p": self.choose([0.0, 0.25, 0.5]),
            "is_test": self.choose([True, True, False]),
            "mode": self.choose(["upscale_in_train", "downgrade_in_infer"]),
            "seed": 3,
        }
        return self.add(Relu, self.add(Dropout, self.add(Relu, x), **attrs))


class Arithmetic(Identities):
    """Arithmetic with ones and zeros of both signs."""

    WAYS = ("arithmetic", "arithmetic", "integers", "scales")


class Casts(Identities):
    """Casts of casts."""

    WAYS = ("casts", "narrow_casts")

    def _narrow_casts(self, x: SSAValue) -> SSAValue:
        """Cast from a narrow dtype by way of a wide one."""
        narrow = ("bool", "uint8", "int8", "int16", "float16", "bfloat16")
        wide = ("int32", "int64", "float16", "bfloat16", "float32", "float64")
        x = self.add(Scale, x, scale=self.choose([1.0, 40.0, 1e9]), bias=0.25)
        for options in (narrow, wide, DTYPES, ("float32",)):
            x = self.add(Cast, x, dtype=self.choose(options))
        return x


class Rearrangements(Identities):
    """Reshapes of reshapes, transposes of transposes."""

    WAYS = ("reshapes", "reshapes", "transposes", "squeeze")


class Dropouts(Identities):
    """Dropouts, most of which drop nothing."""

    WAYS = ("dropout",)


def _fits(way: tuple[int, ...], x: SSAValue) -> bool:
    shape = shape_of(x.type)
    return way == (0, -1) or (len(shape) == 2 and way[1:-1] == (1,))


class Constants(_Chooser):
    """Arithmetic on constants, in several dtypes, and ops on its results."""

    WAYS = ("arithmetic", "arithmetic", "move", "sizes", "cast")

    def numbers(self, dtype: str) -> SSAValue:
        count = self.choose([1, 3])
        values = [self.choose([*NUMBERS, 7.0, 100.0]) for _ in range(count)]
        if dtype.startswith("float") and self.choose(range(4)) == 3:
            values[0] = self.choose([3e38, 1e-40, float("inf"), float("nan"), 1 / 3])
        return self.builder.add(AssignValue, shape=(count,), values=values, dtype=dtype)

    def _arithmetic(self, x: SSAValue) -> SSAValue:
        dtype = self.choose(["float32", "float32", "float16", "int32", "int64", "float64"])
        made = self.numbers(dtype)
        for _ in range(self.choose([1, 2, 3])):
            kind = self.choose([Add, Subtract, Multiply, Scale, Divide])
            if kind is Scale:
                attrs = {"scale": self.choose([2.0, 0.1]), "bias": self.choose([0.0, 0.3, 1.0])}
                if not dtype.startswith("float"):
                    attrs = {"scale": 2.0, "bias": self.choose([0.0, 1.0, 0.5])}
                made = self.add(Scale, made, **attrs)
            elif kind is not Divide or dtype.startswith("float"):
                other = self.numbers(dtype)
                made = self.add(kind, made, other)
        return self._use_constant(x, made)

    def _use_constant(self, x: SSAValue, made: SSAValue) -> SSAValue:
        """Add an op that depends on x and on the constant."""
        number = self.add(Cast, made, dtype="float32")
        if shape_of(number.type) == (1,):
            return self.add(Multiply, x, number)
        self.builder.shared.append(number)
        return number

    def _move(self, x: SSAValue) -> SSAValue:
        made = self.add(Reshape, self.numbers("float32"), shape=(-1, 1))
        made = self.add(Squeeze, made, axis=(1,)) if self.choose([True, False]) else made
        made = self.add(Assign, made)
        other = self.numbers("float32")
        test = self.add(GreaterThan, made, other)
        return self.add(Cast, self.add(LogicalNot, test), dtype="float32")

    def _sizes(self, x: SSAValue) -> SSAValue:
        sizes = self.add(Cast, self.add(ShapeOf, x), dtype="float32")
        return self.add(Scale, sizes, scale=0.5)

    def _cast(self, x: SSAValue) -> SSAValue:
        made = self.numbers("float32")
        for dtype in (self.choose(DTYPES), self.choose(DTYPES)):
            made = self.add(Cast, made, dtype=dtype)
        return self._use_constant(x, made)


class MatrixChain(Idiom):
    """A product of three to five matrices, some transposed, in some order."""

    def plant(self, builder: Builder) -> SSAValue:
        draw = builder.draw
        sizes = [draw(st.sampled_from([1, 2, 4])) for _ in range(draw(st.integers(4, 6)))]
        sizes[0], lead = 2, draw(st.sampled_from([(), (), (), (2,)]))
        parts = [
            builder.leaf(FEED, (*lead, a, b), "x") if i == 0 else builder.leaf(STATE, (a, b), "w")
            for i, (a, b) in enumerate(pairwise(sizes))
        ]
        while len(parts) > 1:
            at = draw(st.integers(0, len(parts) - 2))
            a, b = parts[at : at + 2]
            attrs: dict[str, Any] = {}
            if draw(st.integers(0, 5)) == 5:
                b, attrs = builder.add(Transpose, b, perm=(1, 0)), {"transpose_y": True}
            made = builder.add(Matmul, a, b, **attrs)
            if draw(st.integers(0, 9)) == 9:
                builder.shared.append(made)
            parts[at : at + 2] = [made]
        return parts[0]


class Gelus(_Chooser):
    """gelu written out in one of many ways, sometimes with another number in it."""

    WAYS = ("tanh", "tanh", "erf")

    def _tanh(self, x: SSAValue) -> SSAValue:
        root, cubic = math.sqrt(2 / math.pi), self.choose([0.044715, 0.044715, 0.044715, 0.05])
        if self.choose([True, False]):
            cube = self._cube(x)
            inner = self._times(self._plus(x, self._times(cube, cubic)), root)
        else:
            square = self.add(*self.choose([(Square, x), (Multiply, x, x)]))
            inner = self.add(Multiply, self._shift(square, root * cubic, root), x)
        return self._result(x, self.add(Tanh, inner))

    def _erf(self, x: SSAValue) -> SSAValue:
        if self.choose([True, False]):
            inner = self._times(x, math.sqrt(0.5))
        else:
            root = self.builder.add(Full, shape=(1,), value=math.sqrt(2))
            inner = self.add(Divide, x, root)
        return self._result(x, self.add(Erf, inner))

    def _cube(self, x: SSAValue) -> SSAValue:
        way = self.choose(range(3))
        if way == 0:
            return self.add(Pow, x, factor=3.0)
        square = self.add(*self.choose([(Square, x), (Multiply, x, x)]))
        return self.add(Multiply, square, x)

    def _times(self, x: SSAValue, number: float) -> SSAValue:
        if self.choose([True, False]):
            return self.add(Scale, x, scale=number)
        constant = self.builder.add(Full, shape=(1,), value=number)
        return self.add(Multiply, *((x, constant) if self.choose([True, False]) else (constant, x)))

    def _shift(self, x: SSAValue, scale: float, bias: float) -> SSAValue:
        if self.choose([True, False]):
            return self.add(Scale, x, scale=scale, bias=bias)
        constant = self.builder.add(Full, shape=(), value=bias)
        return self._plus(self._times(x, scale), constant)

    def _plus(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add(Add, *((a, b) if self.choose([True, False]) else (b, a)))

    def _result(self, x: SSAValue, curve: SSAValue) -> SSAValue:
        way = self.choose(range(3))
        if way == 0:
            return self.add(Multiply, self._times(x, 0.5), self._shift(curve, 1.0, 1.0))
        if way == 1:
            return self.add(Multiply, self._shift(curve, 0.5, 0.5), x)
        return self._times(self.add(Multiply, x, self._shift(curve, 1.0, 1.0)), 0.5)


class Einsums(Idiom):
    """An einsum of two tensors, most of which are matrix products."""

    EQUATIONS = (
        "blhe,bshe->bhls", "bhls,bshd->blhd", "ibnd,jbnd->bnij", "ijbs,ibns->bnij", "ibm,hm->ibh",
        "hm,ibm->ibh", "ij,jk->ki", "...ij,...jk->...ik", "ibh,hnd->ibnd", "abxy,xbyc->cab",
        "i,d->id", "bi,bi->b", "ii,ij->ij", "bij,bk->bik", "ij,k->ik",
    )  # fmt: skip

    def plant(self, builder: Builder) -> SSAValue:
        equation = builder.draw(st.sampled_from(self.EQUATIONS))
        sizes = {c: builder.draw(st.integers(1, 3)) for c in sorted(set(equation)) if c.isalpha()}
        terms = equation.partition("->")[0].split(",")
        spread = builder.draw(st.sampled_from([(), (2,), (2, 2)]))
        inputs = [
            builder.leaf(
                FEED,
                (*(spread if "." in term else ()), *(sizes[c] for c in term.strip("."))),
                "x",
            )
            for term in terms
        ]
        return builder.add(Einsum, inputs, equation=equation)
