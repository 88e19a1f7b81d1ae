"""Elements and sizes that are known before a run equal those that the program computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import ProgramError
from graphopt.ir.dialect.definition import as_property
from graphopt.ir.dialect.known import KnownValues, known_numbers
from graphopt.ir.dialect.op import PdOp, class_of
from graphopt.ir.dialect.ops import math as ops
from graphopt.ir.dialect.ops.activation import Softmax
from graphopt.ir.dialect.ops.creation import Arange, AssignValue, Full
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.rearrange import RepeatInterleave, Tile, TriangleOf, Unbind
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Expand,
    Flatten,
    Reshape,
    ReshapeLike,
    ShapeOf,
    Slice,
    Split,
    Squeeze,
    Stack,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.sums import (
    Amount,
    Factor,
    Size,
    SymbolicSum,
    broadcast,
    is_at_least,
    product,
    quotient,
    size_of,
)
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of, tensor
from graphopt.ir.translate.operators.properties import make_dynamic
from graphopt.reference.interpreter import evaluate_ops
from graphopt.reference.registry import Unsupported
from graphopt_tests.example_counts import examples

Array = np.ndarray[Any, Any]
Environment = dict[SSAValue, Array]
FEEDS = tensor((-1, -1, 4), "float32"), tensor((-1, 2, 4), "float32")


class Chain:
    """Random ops on tensors with open sizes, and on the sizes that are read from them."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.block = Block(arg_types=FEEDS)
        self.ops: list[PdOp] = []
        self.values: list[SSAValue] = list(self.block.args)

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def tensor(self) -> SSAValue:
        return self.one_of([v for v in self.values if dtype_of(v.type).is_floating])

    def numbers(self, rank: int | None = None) -> SSAValue:
        """Choose a vector or scalar of numbers that may be sizes, or make one."""
        found = [v for v in self.values if dtype_of(v.type).startswith("int")]
        found = [v for v in found if UNKNOWN not in shape_of(v.type)]
        found = [v for v in found if rank_of(v.type) == rank or (rank is None)]
        return self.one_of(found) if found else self.add(self.constant())

    def one_of(self, values: list[SSAValue]) -> SSAValue:
        """Choose one; its index is drawn, since Hypothesis would print a value with its block."""
        return values[self.draw(st.sampled_from(range(len(values))))]

    def constant(self) -> PdOp:
        values = [float(self.number(-2, 5)) for _ in range(self.number(1, 3))]
        return AssignValue.make(shape=(len(values),), values=values, dtype="int32")

    def add(self, op: PdOp) -> SSAValue:
        self.ops.append(op)
        self.block.add_op(op)
        self.values += op.results
        return op.results[0]

    def axis(self, value: SSAValue, more: int = 0) -> int:
        return self.number(0, max(rank_of(value.type) - 1 + more, 0))

    def range_of(self, value: SSAValue) -> dict[str, Any]:
        axis, start = self.axis(value), self.number(-2, 2)
        end = self.draw(st.sampled_from([1, 2, 3, -1, 2**31 - 1]))
        drops = end - start == 1 and start >= 0 and self.number(0, 1)
        return {
            "axes": (axis,),
            "starts": (start,),
            "ends": (end,),
            "decrease_axis": (axis,) if drops else (),
        }

    def grow(self) -> None:
        """Add one more op, unless its type rule refuses it."""
        step = self.draw(st.sampled_from((*ON_NUMBERS, *ON_NUMBERS, *ON_TENSORS)))
        try:
            op = step(self)
        except (ProgramError, VerifyException):
            return
        if op.results:  # unbind along an axis of size 0 has none
            self.add(op)


Step = Callable[[Chain], PdOp]


def _binary(op_class: type[PdOp]) -> Step:
    return lambda c: op_class.make(c.numbers(), c.numbers())


def _shape_arithmetic() -> tuple[Step, ...]:
    return (
        lambda c: ShapeOf.make(c.tensor()),
        lambda c: ShapeOf.make(c.tensor()),
        lambda c: c.constant(),
        lambda c: Full.make(shape=(1,), value=float(c.number(-1, 7)), dtype="int64"),
        lambda c: Slice.make(v := c.numbers(1), **c.range_of(v)),
        lambda c: Concat.make([c.numbers(1), c.numbers(1)]),
        lambda c: Stack.make([v := c.numbers(), v, v], axis=c.axis(v, 1)),
        lambda c: Gather.make(c.numbers(1), c.numbers()),
        lambda c: ops.Scale.make(
            c.numbers(),
            scale=float(c.number(-2, 3)),
            bias=float(c.number(-2, 3)),
            bias_after_scale=bool(c.number(0, 1)),
        ),
        lambda c: ops.Cast.make(c.numbers(), dtype=c.draw(st.sampled_from(CASTS))),
        lambda c: Reshape.make(c.numbers(), shape=(-1,)),
        lambda c: Squeeze.make(c.numbers()),
        lambda c: Unsqueeze.make(v := c.numbers(), axis=(c.axis(v, 1),)),
        *(_binary(op_class) for op_class in BINARY),
    )


CASTS = ("int32", "int64", "int64", "int8", "float64")
BINARY = ops.Add, ops.Add, ops.Subtract, ops.Multiply, ops.FloorDivide, ops.LessThan


def _dynamic(op_class: type[PdOp]) -> Step:
    def step(chain: Chain) -> PdOp:
        return make_dynamic(op_class, [chain.tensor()], {}, {"shape": chain.numbers(1)})

    return step


def _dynamic_slice(chain: Chain) -> PdOp:
    x = chain.tensor()
    bounds = {"starts": chain.constant(), "ends": chain.constant()}
    one = {name: chain.add(op) for name, op in bounds.items()}
    one |= {name: chain.numbers(1) for name in bounds if chain.number(0, 1)}
    first = {
        name: chain.add(Slice.make(value, axes=(0,), starts=(0,), ends=(1,)))
        for name, value in one.items()
    }
    return make_dynamic(Slice, [x], {"axes": (chain.axis(x),)}, first)


def _dynamic_full(chain: Chain) -> PdOp:
    return make_dynamic(Full, [], {"value": 1.0}, {"shape": chain.numbers(1)})


def _dynamic_range(chain: Chain) -> PdOp:
    end = chain.add(Slice.make(chain.numbers(1), axes=(0,), starts=(0,), ends=(1,)))
    start = float(chain.number(0, 2))
    return make_dynamic(Arange, [], {"start": start, "dtype": "float32"}, {"end": end})


def _copied(chain: Chain) -> PdOp:
    """Build a reshape by the operand's own sizes, some of them joined."""
    x = chain.tensor()
    sizes = chain.add(ShapeOf.make(x))
    at = chain.axis(x)
    if rank_of(x.type) < 2 or at == 0:
        return make_dynamic(Reshape, [x], {}, {"shape": sizes})
    parts = [
        chain.add(Slice.make(sizes, axes=(0,), starts=(low,), ends=(high,)))
        for low, high in ((0, at - 1), (at - 1, at), (at, at + 1), (at + 1, rank_of(x.type)))
    ]
    joined = chain.add(ops.Multiply.make(parts[1], parts[2]))
    shape = chain.add(Concat.make([parts[0], joined, parts[3]]))
    return make_dynamic(Reshape, [x], {}, {"shape": shape})


def _on_tensors() -> tuple[Step, ...]:
    return (
        lambda c: ops.Add.make(c.tensor(), c.tensor()),
        lambda c: Concat.make([v := c.tensor(), c.tensor()], axis=c.axis(v)),
        lambda c: Stack.make([v := c.tensor(), c.tensor()], axis=c.axis(v)),
        lambda c: Slice.make(v := c.tensor(), **c.range_of(v)),
        lambda c: Split.make(v := c.tensor(), axis=c.axis(v), num=2),
        lambda c: Unbind.make(v := c.tensor(), axis=c.axis(v)),
        lambda c: Flatten.make(v := c.tensor(), start_axis=c.axis(v), stop_axis=-1),
        lambda c: Transpose.make(
            v := c.tensor(), perm=c.draw(st.permutations(range(rank_of(v.type))))
        ),
        lambda c: Squeeze.make(v := c.tensor(), axis=(c.axis(v),)),
        lambda c: Unsqueeze.make(v := c.tensor(), axis=(c.axis(v, 1),)),
        lambda c: Reshape.make(c.tensor(), shape=(c.draw(st.sampled_from([0, 1, 2])), -1)),
        lambda c: Expand.make(v := c.tensor(), shape=(c.number(1, 3), *(-1,) * rank_of(v.type))),
        lambda c: Matmul.make(v := c.tensor(), v, transpose_y=True),
        lambda c: Softmax.make(c.tensor()),
        lambda c: Tile.make(c.tensor(), repeat_times=(2, c.number(1, 2))),
        lambda c: RepeatInterleave.make(v := c.tensor(), repeats=2, axis=c.axis(v)),
        lambda c: Mean.make(v := c.tensor(), axis=(c.axis(v),), keepdim=bool(c.number(0, 1))),
        lambda c: Gather.make(v := c.tensor(), c.numbers(1), axis=c.axis(v)),
        lambda c: TriangleOf.make(c.tensor()),
        _dynamic(Reshape),
        _dynamic(Expand),
        _dynamic_slice,
        _dynamic_full,
        _dynamic_range,
        _copied,
        _copied,
    )


ON_NUMBERS, ON_TENSORS = _shape_arithmetic(), _on_tensors()


# Those of the interpreter are refusals, and results of another shape than the op declares.
FAILURES = ProgramError, Unsupported, AssertionError, ValueError, IndexError, ZeroDivisionError


def computed(op: PdOp, env: Environment) -> bool:
    """Compute the results of an op; return False where the run would fail."""
    run: PdOp = op
    try:
        if isinstance(op, Dynamic):
            run = _made_of(op, env)
            fed = dict(zip(run.operands, (env[value] for value in op.inputs), strict=True))
            found = evaluate_ops([run], fed)
        else:
            found = evaluate_ops([op], {v: env[v] for v in op.operands})
    except FAILURES:
        return False
    env |= dict(zip(op.results, (found[result] for result in run.results), strict=True))
    return all(_is_of(value.type, env[value].shape) for value in op.results)


def _made_of(run: Dynamic, env: Environment) -> PdOp:
    """Build the op that a dynamic op stands for in this run, with the run's sizes in its types."""
    made = class_of(run.attr("op"))
    groups = [tensor(env[value].shape, dtype_of(value.type)) for value in run.inputs]
    block = Block(arg_types=groups)
    attrs = decode_properties(made, run.attr("attrs"))
    for name, value in zip(run.attr("dynamic"), run.values, strict=True):
        numbers = env[value].ravel().tolist()
        attrs[name] = as_property(made, name, numbers)
    return made.make(*block.args, **attrs)


def _copies_of_nothing(op: PdOp, env: Environment) -> bool:
    """Return whether a reshape has a 0, which copies a size only if the operand has elements."""
    if not isinstance(op, (Reshape, Dynamic)) or env[op.operands[0]].size:
        return False
    return 0 in (op.attr("shape") if isinstance(op, Reshape) else env[op.values[0]])


def _is_of(type: Any, shape: tuple[int, ...]) -> bool:
    """Return whether an array has the shape that the op declares."""
    declared = shape_of(type)
    return len(declared) == len(shape) and all(
        dim in (UNKNOWN, size) for dim, size in zip(declared, shape, strict=True)
    )


def amount_in(amount: Amount, env: Mapping[SSAValue, Array]) -> int:
    """Evaluate a sum of sizes in a run."""
    if not isinstance(amount, SymbolicSum):
        return int(amount)
    return sum(
        factor * int(np.prod([_size_in(size, env) ** power for size, power in sizes]))
        for sizes, factor in amount.terms
    )


def _size_in(size: Factor, env: Mapping[SSAValue, Array]) -> int:
    if isinstance(size, Size):
        return env[size.value].shape[size.axis]
    return next((one for each in size.sizes if (one := amount_in(each, env)) != 1), 1)


@pytest.mark.exhaustive
@settings(max_examples=examples(240), deadline=None)
@given(st.data())
def test_known_is_what_the_program_computes(data: st.DataObject) -> None:
    """Known sizes and elements hold in each run that succeeds, whatever its sizes are."""
    chain = Chain(data.draw)
    for _ in range(chain.number(3, 14)):
        chain.grow()
    known = KnownValues()
    for op in chain.ops:
        known.see(op)
    for batch, length in ((2, 3), (1, 1), (3, 2), (0, 2)):
        feeds = [np.ones((batch, length, 4), np.float32), np.ones((batch, 2, 4), np.float32)]
        env: Environment = dict(zip(chain.block.args, feeds, strict=True))
        for op in chain.ops:
            if _copies_of_nothing(op, env) or not computed(op, env):
                break
            for value in op.results:
                check(value, known, env)


def check(value: SSAValue, known: KnownValues, env: Environment) -> None:
    """Check the known sizes and elements of a value against this run."""
    have = env[value]
    assert tuple(amount_in(size, env) for size in known.sizes(value)) == have.shape
    elements = known.elements(value)
    if elements is None or dtype_of(value.type) == "float32":
        return
    array = known.array(value)
    assert array is None or array.dtype == dtype_of(value.type).numpy
    for element, wanted in zip(elements.ravel(), have.ravel(), strict=True):
        assert element is None or amount_in(element, env) == wanted


def _listed(known: KnownValues, op: PdOp) -> list[Any]:
    elements = known.elements(op.results[0])
    assert elements is not None
    return list(elements)


def test_sizes_read_off_a_tensor_are_known() -> None:
    """Sizes read from a tensor are known: an empty analysis would have the property above, too."""
    block = Block(arg_types=FEEDS)
    x, known = block.args[0], KnownValues()
    shape = ShapeOf.make(x)
    last = Slice.make(shape, axes=(0,), starts=(-1,), ends=(3,))
    length = Slice.make(shape, axes=(0,), starts=(1,), ends=(2,))
    more = ops.Scale.make(length, scale=2.0, bias=1.0)
    wide = ops.Cast.make(ops.Multiply.make(more, last), dtype="int64")
    n, t = size_of(x, 0), size_of(x, 1)
    assert _listed(known, shape) == [n, t, 4]
    assert _listed(known, wide) == [t * 8 + 4]


def test_sizes_of_what_repeats_looks_up_and_reduces() -> None:
    """Open sizes are known through ops that random chains seldom apply to them."""
    block = Block(arg_types=FEEDS)
    x, known = block.args[0], KnownValues()
    n, t = size_of(x, 0), size_of(x, 1)
    wanted: dict[PdOp, tuple[Amount, ...]] = {
        Tile.make(x, repeat_times=(2, 3, 1)): (n * 2, t * 3, 4),
        Tile.make(x, repeat_times=(5, 1, 1, 1)): (5, n, t, 4),
        RepeatInterleave.make(x, repeats=3, axis=-2): (n, t * 3, 4),
        Mean.make(x, axis=(-1,), keepdim=True): (n, t, 1),
        Mean.make(x, axis=(0,)): (t, 4),
        TriangleOf.make(x): (n, t, 4),
        Gather.make(x, block.insert_arg(tensor((UNKNOWN,), "int32"), 2), axis=1): (
            n,
            size_of(block.args[2], 0),
            4,
        ),
    }
    wanted |= {
        ReshapeLike.make(x, x, shape=(0, -1, 2)): (n, t * 2, 2),
        ReshapeLike.make(x, x, shape=(2, 0, 2)): (2, t, 2),
    }
    for op, sizes in wanted.items():
        known.see(op)
        assert known.sizes(op.results[0]) == sizes, op


def test_sums() -> None:
    """Sums of products of sizes are equal when they are equal for all sizes."""
    value = Block(arg_types=FEEDS).args[0]
    n, t = size_of(value, 0), size_of(value, 1)
    assert (n + t) * (n - t) == n * n - t * t
    assert n - n == 0
    assert 1 - n + n == 1
    assert quotient(product((n, t, 6)), t * 2) == n * 3
    assert quotient(n * 3, 2) is None
    assert quotient(n, t) is None
    assert quotient(n, 0) is None
    assert is_at_least(n + 1, 1)
    assert not is_at_least(n, 1)
    assert not is_at_least(n - t, 0)


def test_sizes_that_broadcast() -> None:
    """Broadcast sizes do not depend on the order, or on a repeated broadcast."""
    value = Block(arg_types=FEEDS).args[0]
    n, t = size_of(value, 0), size_of(value, 1)
    together = broadcast((n, t))
    assert together not in (n, t)
    assert together == broadcast((1, t, together, n))
    assert broadcast((n, n, 1)) == n
    assert broadcast((n, 4)) == 4
    assert broadcast((1, 1)) == 1
    assert is_at_least(together, 0)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float16", "bfloat16"])
def test_numbers_are_rounded_as_by_the_program(dtype: str) -> None:
    """Constants are rounded as the program rounds them, even next to an unknown element."""
    block = Block(arg_types=[tensor((1,), dtype)])
    a = AssignValue.make(shape=(2,), values=(250.0, 3.0), dtype=dtype)
    b = AssignValue.make(shape=(2,), values=(13.0, 7.0), dtype=dtype)
    plain = ops.Multiply.make(a, b)
    mixed = ops.Multiply.make(*(Concat.make([x, block.args[0]]) for x in (a, b)))
    wanted = evaluate_ops([a, b, plain], {})[plain.results[0]]
    known = KnownValues()
    assert np.array_equal(known.array(plain.results[0]), wanted)  # pyright: ignore[reportArgumentType]
    assert _listed(known, mixed) == [*wanted, None]


def test_a_choice_next_to_an_unknown_element() -> None:
    """The chosen numbers keep their dtype, which is not that of the condition."""
    block = Block(arg_types=[tensor((1,), "int64")])
    four = AssignValue.make(shape=(1,), values=(4.0,), dtype="int64")
    sizes = Concat.make([block.args[0], four])
    is_four = ops.Equal.make(sizes, four)
    chosen = ops.Where.make(is_four, ops.Scale.make(sizes, scale=2.0), sizes)
    assert _listed(KnownValues(), chosen) == [None, 8]


def test_numbers_that_a_dtype_does_not_hold() -> None:
    """Constants are converted as in every tier of a program: the low bits stay."""
    numbers = AssignValue.make(
        shape=(6,), values=(300.9, -1.5, 7e4, 3e9, -math.inf, math.nan), dtype="float64"
    )
    wanted = {
        "uint8": (44, 255, 112, 0, 0, 0),
        "int16": (300, -1, 4464, 0, 0, 0),
        "int32": (300, -1, 70000, *[-(2**31)] * 3),
        "int64": (300, -1, 70000, 3 * 10**9, *[-(2**63)] * 2),
    }
    for dtype, found in wanted.items():
        cast = ops.Cast.make(numbers.results[0], dtype=dtype)
        assert known_numbers(cast.results[0]) == found
