"""Loop variables that take each other's values: each iteration reads only the one before.

Paddle 2.6 writes one loop variable after the other; Paddle 3 and Python take all values first.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import fluid, jit, nn, static
from graphopt_tests.example_counts import examples
from graphopt_tests.frontend.programs import fresh, run, start

while_loop = static.nn.while_loop
X = np.array([1.0, -0.5])
NAMES = "abcd"


pytestmark = pytest.mark.usefixtures("fresh_state")


# Any body ----------------------------------------------------------------------------------------

VALUE = st.one_of(
    st.sampled_from(NAMES),
    st.builds("{} * {}".format, st.sampled_from(NAMES), st.sampled_from((0.5, -1.5))),
    st.builds("{} + 0.5 * {}".format, st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.builds("0.5 * {} * {}".format, st.sampled_from(NAMES), st.sampled_from(NAMES)),
)
ONE = st.builds("{} = {}".format, st.sampled_from(NAMES), VALUE)
TWO = st.builds(
    lambda names, values: f"{', '.join(names)} = {', '.join(values)}",
    st.permutations(NAMES).map(lambda names: names[:2]),
    st.lists(VALUE, min_size=2, max_size=2),
)
ROTATED = st.permutations(NAMES).map(lambda names: f"{', '.join(NAMES)} = {', '.join(names)}")
BODY = st.lists(st.one_of(ONE, TWO, ROTATED), min_size=1, max_size=4)
FIRST = st.lists(st.sampled_from(("x", "y", "x * 2", "x * 0")), min_size=4, max_size=4)
LOOPS = ("while i < n:", "for i in range(n):")
_number = count()


def _function(lines: list[str], **names: Any) -> Callable[..., Any]:
    """Compile the function `f` of a source text that tracing can read."""
    source, file = "\n".join(lines) + "\n", f"loop_{next(_number)}.py"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    exec(compile(source, file, "exec"), names)  # tracing needs functions with a text
    return names["f"]


def _whole(first: list[str], loop: str, body: list[str]) -> Callable[..., Any]:
    """Build a function with the body in a Python loop."""
    counted = [] if loop.startswith("for") else ["i = i + 1"]
    return _function(
        [
            "def f(x, y, i, n):",
            *(f"    {name} = {value}" for name, value in zip(NAMES, first, strict=True)),
            f"    {loop}",
            *(f"        {line}" for line in [*body, *counted]),
            f"    return {', '.join(NAMES)}",
        ]
    )


def _check(outs: Any, x: Any, plain: Callable[..., Any], trips: int) -> None:
    """Check values and gradient against Python, whose derivative comes from a complex step."""
    weights = [0.5, -1.0, 2.0, 0.25]
    total = paddle.add_n([paddle.sum(v) * w for v, w in zip(outs, weights, strict=True)])
    gradient = static.gradients([total], [x])[0]
    fetches = [*outs, *([] if gradient is None else [gradient])]
    found = run(fetches, x=X, n=np.array(trips))
    step, y = 1e-30j, np.array([0.75, 2.0])
    for value, want in zip(found, plain(X, y, 0, trips), strict=False):
        np.testing.assert_allclose(value, want, rtol=1e-12)
    moved = [plain(X + step * np.eye(2)[at], y, 0, trips) for at in range(2)]
    wanted = [
        sum(w * np.imag(np.sum(v)) / 1e-30 for v, w in zip(each, weights, strict=True))
        for each in moved
    ]
    got = found[4] if gradient is not None else np.zeros(2)
    np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def _feeds() -> tuple[Any, Any, Any, Any]:
    x, n = static.data("x", [2], "float64"), static.data("n", [], "int64")
    x.stop_gradient = False
    y = paddle.to_tensor(np.array([0.75, 2.0]))
    y.stop_gradient = False
    return x, y, paddle.full([], 0, "int64"), n


@pytest.mark.exhaustive
@settings(max_examples=examples(9), deadline=None, suppress_health_check=list(HealthCheck))
@given(first=FIRST, body=BODY, trips=st.integers(0, 4))
def test_any_body_of_while_loop(first: list[str], body: list[str], trips: int) -> None:
    """Copies, permutations and sums of variables act as in Python, and so does the gradient."""
    step = _function(
        [
            f"def f({', '.join(NAMES)}):",
            *(f"    {line}" for line in body),
            f"    return [{', '.join(NAMES)}]",
        ]
    )
    with fresh():
        x, y, i, n = _feeds()
        made = [eval(value, {"x": x, "y": y}) for value in first]
        _, *outs = while_loop(lambda i, *_: i < n, lambda i, *v: [i + 1, *step(*v)], [i, *made])
        _check(outs, x, _whole(first, LOOPS[0], body), trips)


@pytest.mark.exhaustive
@settings(max_examples=examples(9), deadline=None, suppress_health_check=list(HealthCheck))
@given(first=FIRST, loop=st.sampled_from(LOOPS), body=BODY, trips=st.integers(0, 4))
def test_any_body_of_a_traced_loop(
    first: list[str], loop: str, body: list[str], trips: int
) -> None:
    """A traced Python loop does so, too, even if several names start as one tensor."""
    whole = _whole(first, loop, body)
    with fresh():
        x, y, i, n = _feeds()
        _check(jit.to_static(whole)(x, y, i, n), x, whole, trips)


# One at a time -----------------------------------------------------------------------------------


def one(value: float) -> Any:
    return paddle.full([1], value, "float32")


@pytest.mark.parametrize("loop", [while_loop, fluid.layers.while_loop])
def test_a_swap(loop: Any) -> None:
    """Both kinds of loop can swap variables, including one that writes its arguments."""
    i = paddle.zeros([1], "int64")
    made = loop(lambda i, *_: i < 3, lambda i, a, b: [i + 1, b, a], [i, one(1), one(2)])
    assert [float(v[0]) for v in run(made[1:])] == [2, 1]


def test_a_value_that_is_kept_needs_no_copy() -> None:
    """Only a value that is overwritten before its last read is copied."""
    main = static.default_main_program()
    i = paddle.zeros([1], "int64")
    while_loop(lambda i, *_: i < 3, lambda i, a, b: [i + 1, a + b, b], [i, one(1), one(2)])
    assert [op.type for op in main.block(1).ops].count("assign") == 4
    while_loop(lambda i, *_: i < 3, lambda i, a, b: [i + 1, a + b, a], [i, one(1), one(2)])
    assert [op.type for op in main.block(2).ops].count("assign") == 5


def test_arrays_are_swapped() -> None:
    """A body may return its arrays in another order, as in Paddle 3."""
    i = paddle.zeros([1], "int64")
    values = [one(value) * 1 for value in (1, 2)]
    for value in values:
        value.stop_gradient = False
    arrays = [paddle.tensor.array_write(value, i) for value in values]
    _, *made = while_loop(lambda i, *_: i < 3, lambda i, a, b: [i + 1, b, a], [i, *arrays])
    ends = [paddle.tensor.array_read(array, i) for array in made]
    gradients = static.gradients([ends[0] * ends[0] + ends[1]], values)
    assert [float(v[0]) for v in run([*ends, *gradients])] == [2, 1, 1, 4]


def test_a_condition_that_is_a_loop_variable() -> None:
    """The next condition uses the new values, even if they are old values swapped."""
    p, q = paddle.full([1], True), paddle.full([1], False)
    i = paddle.zeros([1], "int64")
    i, *made = while_loop(lambda i, p, q: p, lambda i, p, q: [i + 1, q, p], [i, p, q])
    assert [bool(v[0]) for v in run(made)] == [False, True]


def numbers_one_after_the_other(x: Any) -> Any:
    a = b = c = d = e = f = g = 0
    while x.sum() < 50:
        a = b
        b = c
        c = d
        d = e
        e = f
        f = g
        g = g + 1
        x = x * 2
    return a, b, c, d, e, f, g


def structures(x: Any) -> Any:
    pair, both = (x, x, x), {"previous": x, "current": x}
    while pair[0].sum() < 50:
        pair = (pair[0] * 2, pair[0], pair[1])
        both["previous"] = both["current"]
        both["current"] = both["current"] * 3
    return (*pair, both["previous"], both["current"])


def numbers_that_become_tensors(x: Any) -> Any:
    total, last = 0.0, x
    for i in range(x.sum().astype("int64")):
        total = total + last
        last = total * 0.5 + i
    return total, last


@pytest.mark.parametrize(
    "function", [numbers_one_after_the_other, structures, numbers_that_become_tensors]
)
def test_traced_loops(function: Any) -> None:
    x = np.array([5.0], "float32")

    class Plain(np.ndarray):
        def astype(self, dtype: Any) -> Any:
            return int(self)

    wanted = function(x.view(Plain))
    made = jit.to_static(function)(static.data("x", [1], "float32"))
    found = iter(run([v for v in made if isinstance(v, static.Variable)], x=x))
    for one_made, want in zip(made, wanted, strict=True):
        value = next(found) if isinstance(one_made, static.Variable) else one_made
        np.testing.assert_allclose(np.ravel(value), want)


def sums(x: Any, n: Any) -> Any:
    zeros, number, made = paddle.zeros([2], "float64"), 0.0, x * 0
    for _ in range(n):
        zeros, number, made = zeros + x * x, number + x, made + x
    return zeros + number + made


def test_a_sum_that_starts_as_a_constant_has_a_gradient() -> None:
    """A traced loop's sum has a gradient; in `while_loop` it has none, as in Paddle 2.6 and 3."""
    x, _, _, n = _feeds()
    (gradient,) = static.gradients([jit.to_static(sums)(x, n)], [x])
    np.testing.assert_allclose(run([gradient], x=X, n=np.array(3))[0], 3 * (2 * X + 2))
    i, zeros = paddle.full([], 0, "int64"), paddle.zeros([2], "float64")
    total = while_loop(lambda i, s: i < n, lambda i, s: [i + 1, s + x], [i, zeros])[1]
    assert static.gradients([total], [x]) == [None]


# Whatever else writes several names from several values -----------------------------------------


def test_branches_that_swap() -> None:
    """Results of cond, case and switch_case are new variables."""
    a, b, flag = one(1) * 1, one(2) * 1, static.data("flag", [1], "bool")
    swapped = [
        static.nn.cond(flag, lambda: [b, a], lambda: [a, b]),
        static.nn.case([(flag, lambda: [b, a])], lambda: [a, b]),
        static.nn.switch_case(paddle.cast(flag, "int32"), [lambda: [a, b], lambda: [b, a]]),
    ]
    outs = [v for pair in swapped for v in pair]
    for holds, wanted in ((True, [2, 1]), (False, [1, 2])):
        found = run(outs, flag=np.array([holds]))
        assert [float(v[0]) for v in found] == wanted * 3


def test_memories_of_static_rnn_take_each_others_values() -> None:
    """The next step reads the memories as they were in this step."""
    steps = static.data("steps", [3, 1], "float32")
    first = one(1), one(2)
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(steps)
        a, b = (rnn.memory(init=value) for value in first)
        rnn.update_memory(a, b)
        rnn.update_memory(b, a)
        rnn.step_output(a + 0 * word)
        rnn.step_output(b + 0 * word)
    found = run(rnn(), steps=np.zeros((3, 1), "float32"))
    assert [v.ravel().tolist() for v in found] == [[1, 2, 1], [2, 1, 2]]


def test_memories_of_dynamic_rnn_take_each_others_values() -> None:
    rows = static.data("rows", [-1, 1], "float32", lod_level=1)
    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(rows)
        a, b = rnn.memory(shape=[1], value=1.0), rnn.memory(shape=[1], value=2.0)
        rnn.update_memory(a, b)
        rnn.update_memory(b, a)
        rnn.output(a + 0 * word, b + 0 * word)
    values = fluid.create_lod_tensor(np.zeros((5, 1), "float32"), [[3, 2]], fluid.CPUPlace())
    found = static.Executor().run(
        static.default_main_program(), {"rows": values}, list(rnn()), return_numpy=False
    )
    assert [np.ravel(v).tolist() for v in found] == [[1, 2, 1, 1, 2], [2, 1, 2, 2, 1]]


def test_rows_of_if_else_take_each_others_values() -> None:
    a, b = static.data("a", [-1, 1], "float32"), static.data("b", [-1, 1], "float32")
    branches = fluid.layers.IfElse(a > b)
    with branches.true_block():
        branches.output(branches.input(b), branches.input(a))
    with branches.false_block():
        branches.output(branches.input(a), branches.input(b))
    rows = np.array([[3, 1, 5], [2, 4, 5]], "float32")[..., None]
    found = run(branches(), a=rows[0], b=rows[1])
    assert [v.ravel().tolist() for v in found] == [[2, 1, 5], [3, 4, 5]]


class Alternating(nn.decode.Decoder):
    """A decoder whose flags, input and state swap in each step."""

    def initialize(self, inits: Any) -> Any:
        flags = paddle.zeros([2, 1], "bool")
        return {"flags": paddle.ones([2, 1], "bool"), "a": one(1)}, one(2), flags

    def step(self, time: Any, inputs: Any, states: Any, **_: Any) -> Any:
        following = {"flags": paddle.zeros([2, 1], "bool"), "a": states}
        return inputs["a"] + 0, inputs["a"], following, inputs["flags"]

    @property
    def tracks_own_finished(self) -> bool:
        return True


def test_a_decoder_that_gives_what_it_was_given() -> None:
    """All that a step returns, flags included, has the previous step's values."""
    made, states, *_ = nn.dynamic_decode(Alternating(), max_step_num=4, return_length=True)
    found = run([made, states])
    assert (found[0].ravel().tolist(), found[1].ravel().tolist()) == ([1.0], [1.0])


def test_a_switch_decides_before_it_writes() -> None:
    """A case may write a value that a later case's condition reads."""
    x = static.data("x", [1], "float32")
    y, z = x + 0, one(0) + 0
    with fluid.layers.Switch() as switch:
        with switch.case(y < 1):
            paddle.assign(one(5), y)
        with switch.case(y < 10):
            paddle.assign(one(7), z)
    for value, wanted in ((0, (5, 0)), (3, (3, 7)), (30, (30, 0))):
        found = run([y, z], x=np.array([value], "float32"))
        assert tuple(float(v[0]) for v in found) == wanted


def test_parameters_that_are_exchanged() -> None:
    """Parameters can be exchanged through a temporary, as restoring programs do."""
    names = ["a", "b"]
    for value, name in enumerate(names):
        attr = paddle.ParamAttr(name, paddle.nn.initializer.Constant(float(value)))
        static.create_parameter([1], "float32", attr=attr)
    a, b = (static.default_main_program().global_block().var(name) for name in names)
    kept = paddle.assign(a)
    paddle.assign(b, a)
    paddle.assign(kept, b)
    start()
    for wanted in ([1, 0], [0, 1]):
        assert [float(v[0]) for v in run([a, b])] == wanted


def test_what_starts_without_a_gradient_has_none_in_the_loop() -> None:
    """A variable that stops gradients at the start has none, as in Paddle 2.6.2 and 3.3.1."""
    x, y = static.data("x", [2], "float64"), static.data("y", [2], "float64")
    x.stop_gradient = False
    body = lambda i, x, y: [i + 1, x * 3.0, y + x]  # noqa: E731
    found = []
    for stops in (True, False):
        y.stop_gradient = stops
        outs = while_loop(lambda i, *_: i < 2, body, [paddle.full([], 0, "int64"), x, y])
        found += static.gradients([paddle.add_n(outs[1:])], [x])
    np.testing.assert_array_equal(run(found, x=X, y=X), [[9.0, 9.0], [13.0, 13.0]])
