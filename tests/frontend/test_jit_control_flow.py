"""Traced functions compute what Python computes with the same functions on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import jit
from graphopt.errors import UnsupportedError

Array = np.ndarray[Any, Any]


pytestmark = pytest.mark.usefixtures("fresh_state")


def branches(x: Any) -> Any:
    y = x + 1
    if x.sum() > 3:
        y = x * 2
    elif x.sum() < 0:
        y = -x
        unused = "text"  # noqa: F841
    else:
        pass
    return y


def early_returns(x: Any) -> Any:
    if x.sum() > 3:
        if x.max() > 5:
            return x * 2
        x = x + 1
    if x.min() < 0:
        return x - 1
    return x


def numbers(x: Any) -> Any:
    count, scale = 0, 1.0
    if x.sum() > 0:
        count, scale = 3, 0.5
    return x * scale, count


def connectives(x: Any) -> Any:
    a, b = x.sum() > 0, x.max() < 2
    both = 1 if a and b else 0
    either = 1 if a or b else 0
    neither = 1 if not (a or b) else 0
    chain = 1 if 0 < x.sum() <= 3 else 0
    mixed = 1 if True and a and not False else 0
    return both, either, neither, chain, mixed


def while_with_jumps(x: Any) -> Any:
    i, total = 0, x * 0
    while i < x.sum():
        i += 1
        if i == 2:
            continue
        if i == 5:
            break
        total = total + x * float(i)
    else:
        total = total - 100
    return total, i


def loop_in_loop(x: Any) -> Any:
    total, i = x * 0, 0
    while i < x.max():
        j = 0
        while j < x.min():
            total = total + 1
            j += 1
        i += 1
    return total


def return_from_loops(x: Any) -> Any:
    i = 0
    while i < 4:
        for j in range(3):
            if x.sum() * i > 6:
                return x + i, j
        i += 1
    return x, -1


def python_loop_with_break(x: Any) -> Any:
    total = x * 0
    for i, factor in enumerate([1.0, 2.0, 3.0]):
        if total.sum() > 4:
            break
        total = total + x * factor + i
    else:
        total = total * 10
    return total


def plain_python(x: Any, items: Any = (3, 1, 2)) -> Any:
    seen: list[int] = []
    for item in items:
        if item == 1:
            continue
        seen.append(item)
    names = {"a": 1}
    names["b"] = len(seen)
    try:
        first = seen[7]
    except IndexError as error:
        first = len(str(error)) and 0
    with np.errstate(all="ignore"):
        if first is not None and names.get("b"):
            return x * sum(seen) + names["b"]
    return x


def containers(x: Any) -> Any:
    state = {"x": x, "both": [x, x + 1]}
    if x.sum() > 0:
        state["x"] = x * 3
        state["both"][1] = x
    return state["x"], state["both"]


def closures(x: Any) -> Any:
    factor = 2.0

    def scaled(y: Any, *, by: float = factor) -> Any:
        nonlocal factor
        factor = 3.0
        if y.sum() > 0:
            return y * by
        return y

    made = scaled(x)
    return made * factor, [value * factor for value in (made, x)]


FUNCTIONS = [
    branches,
    early_returns,
    numbers,
    connectives,
    while_with_jumps,
    loop_in_loop,
    return_from_loops,
    python_loop_with_break,
    plain_python,
    containers,
    closures,
]
INPUTS = [[1.0, 2.0], [0.5, 0.25], [6.0, -1.0], [-3.0, 1.0], [4.0, 3.0], [0.0, 0.0]]


def leaves(value: Any) -> list[Array]:
    """List the numbers in nested results."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [np.asarray(value)]


@pytest.mark.every(3)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_as_python(function: Callable[..., Any]) -> None:
    """A traced function gives NumPy's results, whichever path each input takes."""
    traced = jit.to_static(function)
    for values in INPUTS:
        x = np.array(values, "float32")
        found, expected = leaves(traced(x)), leaves(function(x))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_one_program_for_all_ways() -> None:
    """Branches and loops are in the program, which is traced once."""
    traced = jit.to_static(while_with_jumps)
    for values in INPUTS:
        traced(np.array(values, "float32"))
    program = traced.main_program
    assert traced.concrete_program is traced.get_concrete_program(np.zeros(2, "float32"))
    assert "while" in {op.type for op in program.global_block().ops}


def test_ranges_and_rows() -> None:
    """`for` iterates over ranges with tensors, rows of unknown number, and `enumerate`."""

    @jit.to_static(input_spec=[paddle.static.InputSpec([None, 2]), paddle.static.InputSpec([])])
    def function(x: Any, n: Any) -> Any:
        total, last = x.sum() * 0, x.sum() * 0
        for i in range(1, int(n), 2):
            total = total + float(i)
        for row in x:
            last = row.sum()
            if last > 5:
                break
        weighted = last * 0
        for i, row in enumerate(x, 1):
            weighted = weighted + row.sum() * float(i)
        return total, last, weighted, len(x), x.reshape([x.shape[0], -1])[0]

    for rows, n in ((1, 2), (3, 6), (4, 0)):
        x = np.arange(rows * 2, dtype="float32").reshape(rows, 2)
        sums = x.sum(1)
        last = next((s for s in sums if s > 5), sums[-1])
        weighted = sum((i + 1) * s for i, s in enumerate(sums))
        found = function(x, np.array(n, "float32"))
        expected = [sum(range(1, n, 2)), last, weighted, rows]
        np.testing.assert_allclose([float(v) for v in found[:4]], expected)
        np.testing.assert_array_equal(found[4], x[0])


def test_items_and_assertions() -> None:
    """`x[i] = v`, `x[i] += v` and `assert` work on tensors."""

    @jit.to_static
    def function(x: Any) -> Any:
        y = x * 1
        y[0] = 7
        y[1:] += x[:1]
        assert y.sum() > 0, "positive"
        return y

    np.testing.assert_array_equal(function(np.array([1.0, 2.0, 3.0], "float32")), [7, 3, 4])
    with pytest.raises(Exception, match=r"(?i)assert"):
        function(np.array([-90.0, 2.0, 3.0], "float32"))


def test_arrays_in_loops() -> None:

    @jit.to_static
    def function(x: Any) -> Any:
        rows = paddle.tensor.create_array("float32")
        i = paddle.zeros([1], "int64")
        while i < x.sum():
            paddle.tensor.array_write(x * i.astype("float32"), i, rows)
            i += 1
        return paddle.fluid.layers.tensor_array_to_tensor(rows, axis=0, use_stack=True)[0]

    x = np.ones(3, "float32")
    np.testing.assert_array_equal(function(x), np.outer([0, 1, 2], x))


def test_a_list_grows_in_a_loop() -> None:
    """A list that grows in a loop is an array, as in Paddle, to join, index and measure."""

    @jit.to_static
    def function(x: Any) -> Any:
        rows, i = [x - 1], paddle.zeros([], "float32")
        while i < x.sum():
            rows.append(x * i)
            i = i + 1
        return paddle.stack(rows), paddle.concat(rows), rows[1], rows[-1], len(rows)

    x = np.ones(3, "float32")
    wanted = np.outer([0, 0, 1, 2], x)
    stacked, joined, second, last, count = function(x)
    np.testing.assert_array_equal(stacked, wanted)
    np.testing.assert_array_equal(joined, wanted.reshape(-1))
    np.testing.assert_array_equal(second, wanted[1])
    np.testing.assert_array_equal(last, wanted[3])
    assert int(count) == 4


def test_only_arrays_have_append() -> None:
    with pytest.raises(TypeError, match="is a tensor and no array"):
        jit.to_static(lambda x: x.append(x))(np.ones(3, "float32"))


def one_branch(x: Any) -> Any:
    if x.sum() > 0:
        y = x + 1
    return y


def other_dtype(x: Any) -> Any:
    if x.sum() > 0:
        y, _ = x, 1
    else:
        y = x.astype("int64")
    return y


def no_return(x: Any) -> Any:
    if x.sum() > 0:
        return x


def changing_list(x: Any) -> Any:
    rows, i = [x], 0
    while i < x.sum():
        rows = [x + i, *rows]
        i += 1
    return rows


def texts(x: Any) -> Any:
    name = "a"
    if x.sum() > 0:
        name = "b"
    return x if name == "a" else x + 1


def several_elements(x: Any) -> Any:
    if x > 0:
        return x + 1
    return x


def never_ending(x: Any) -> Any:
    while x.sum() > 0:
        pass
    return x


def value_needed(x: Any) -> Any:
    return x * float(x.sum().numpy())


def comprehension(x: Any) -> Any:
    return [x for _ in range(x.sum().astype("int64"))]


def makes_parameters(x: Any) -> Any:
    return paddle.nn.Linear(2, 2)(x)


@pytest.mark.parametrize(
    ("function", "line", "words"),
    [
        (one_branch, 3, "'y' has a value in only one branch of an `if`; set a value before"),
        (other_dtype, 5, r"'y' is float32 \[2\] in one branch .* int64 \[2\] .*; cast"),
        (no_return, 0, "returned value.*None"),
        (changing_list, 3, "'rows' is a list that changes .* only grow by append"),
        (texts, 4, "'name' differs in the branches of an `if` over a tensor: 'b' or 'a'"),
        (several_elements, 1, r"must have one element, .*shape \[2\]; reduce .* paddle.any"),
        (never_ending, 1, "would never end: no variable"),
        (value_needed, 1, "has no value while a function is traced"),
        (comprehension, 1, r"not a comprehension; write the loop as a `for` statement"),
        (makes_parameters, 0, "creates the parameters linear_0.w_0, .*create layers in __init__"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused(function: Any, line: int, words: str) -> None:
    """The error explains what a program cannot follow, at the user's line."""
    with pytest.raises(UnsupportedError, match=words) as caught:
        jit.to_static(function)(np.ones(2, "float32"))
    if line:
        expected = function.__code__.co_firstlineno + line
        assert f"{__file__}:{expected}: " in str(caught.value)


def test_an_error_in_a_branch() -> None:
    """A note says that the branch is traced whatever the condition will be."""

    @jit.to_static
    def function(x: Any) -> Any:
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    with pytest.raises(ValueError, match="negative") as caught:
        function(np.ones(2, "float32"))
    assert "to check a tensor when the program runs, use `assert`" in caught.value.__notes__[0]


def test_truth_in_code_that_is_not_converted() -> None:
    """Python's own `if`, in a function that is not converted, cannot use a tensor's truth."""

    @jit.not_to_static
    def inner(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(UnsupportedError, match="Python needs the truth of"):
        jit.to_static(lambda_free(inner))(np.ones(2, "float32"))


def lambda_free(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another."""

    def function(x: Any) -> Any:
        return inner(x) * 2

    return function


def test_int_of_a_tensor_is_int32() -> None:
    """The int of a tensor is int32, as in Paddle, so it can be added to int32 indices."""

    @jit.to_static
    def function(x: Any) -> Any:
        return int(x.sum())

    assert np.asarray(function(np.ones(3, "float32"))).dtype == np.int32


def test_the_shape_of_what_grew_in_a_loop() -> None:
    """The shape is the run's, not that of one iteration."""

    @jit.to_static
    def function(x: Any) -> Any:
        grown, i = paddle.zeros([1, 1]), x.sum() * 0
        while i < 3:
            grown = paddle.concat([grown, paddle.ones([1, 1])], 1)
            i = i + 1
        return x.reshape(grown.shape)

    x = np.arange(4.0).astype("float32")
    np.testing.assert_array_equal(np.asarray(function(x)), x[None])


def test_a_list_that_grows_in_one_branch() -> None:
    """The list becomes a tensor array, and has the elements of the branch that was taken."""

    @jit.to_static
    def function(x: Any) -> Any:
        rows = [x]
        if x.sum() > 0:
            rows.append(x * 2)
        if x.sum() > 5:
            rows.append(x * 3)
        return paddle.concat(rows)

    for number, factors in ((-1.0, [1]), (1.0, [1, 2]), (9.0, [1, 2, 3])):
        x = np.full(2, number, "float32")
        expected = np.concatenate([x * factor for factor in factors])
        np.testing.assert_array_equal(np.asarray(function(x)), expected)


def test_a_list_that_ends_early() -> None:
    """A loop over numbers that a tensor breaks leaves the rows up to there: greedy decoding."""

    @jit.to_static
    def function(x: Any) -> Any:
        rows = []
        for n in range(1, 5):
            rows.append(x * n)
            if x.sum() * n > 10:
                break
        return paddle.stack(rows, 1)

    for number, count in ((1.0, 4), (3.0, 2), (20.0, 1)):
        x = np.full(2, number, "float32")
        expected = np.stack([x * n for n in range(1, count + 1)], 1)
        np.testing.assert_array_equal(np.asarray(function(x)), expected)
