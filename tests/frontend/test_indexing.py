"""`x[...]` and `setitem` give NumPy's results, and gradients reach the indexed elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import graphopt as paddle
from graphopt import fluid
from graphopt.errors import ProgramError
from graphopt.ir.program import Variable
from graphopt_tests.frontend import programs
from graphopt_tests.frontend.programs import fresh

X = np.arange(120, dtype="float32").reshape(2, 3, 4, 5) + 1


class Fed:
    """An array that is fed, and so is a Variable in the index."""

    def __init__(self, value: Any) -> None:
        self.array = np.asarray(value)


def _variable(part: Any, feed: dict[str, Any]) -> Any:
    if isinstance(part, Fed):
        name = f"index{len(feed)}"
        feed[name] = part.array
        return paddle.static.data(name, part.array.shape, str(part.array.dtype))
    if isinstance(part, slice):
        bounds = (part.start, part.stop, part.step)
        return slice(*(_variable(bound, feed) for bound in bounds))
    return part


def _number(part: Any) -> Any:
    if isinstance(part, Fed):
        return part.array
    if isinstance(part, slice):
        return slice(*(_number(bound) for bound in (part.start, part.stop, part.step)))
    return part


def run(build: Any, feed: dict[str, Any]) -> list[Any]:
    """Build a new program, and fetch the results of `build(x, feed)`."""
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", X.shape, "float32")
        x.stop_gradient = False
        fetches = build(x, feed)
    return paddle.static.Executor(paddle.CPUPlace()).run(
        main, feed={"x": X, **feed}, fetch_list=fetches
    )


INDICES = [
    (slice(None, None, -1),),
    (0, slice(None, None, 2)),
    (..., slice(3, 0, -2)),
    (None, slice(1, None), None, 0),
    ([0, -1],),
    (slice(None), [0, 2], slice(None), [1, 1]),
    (slice(None), [[0, 1], [1, 2]]),
    (slice(None), slice(1), [0, 1], [1, 2]),
    ([True, False],),
    (slice(None), np.array([True, False, True])),
    (X[:, :, 0, 0] > 30,),
    (slice(5, 2),),
    (range(2), np.array([2, 1])),
    (Fed([1, 0]),),
    (slice(None), Fed([[0], [2]])),
    (Fed(X > 50),),
    (slice(None), Fed(X[0, :, :, 0] > 30)),
    (slice(None), Fed(1), slice(Fed(1), Fed(3))),
    (slice(None), Fed(-1)),
    (Fed(-1), slice(1, None)),
    (1, slice(Fed(0), 2), Fed(-1)),
    (Fed(0), Fed(-1), 1, Fed(-2)),
    (slice(None), slice(2, 0, Fed(-1))),
    (slice(None), Fed([2, 0]), Fed([1, 3])),
]


@pytest.mark.every(3)
@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_as_numpy(index: tuple[Any, ...]) -> None:
    def build(x: Any, feed: dict[str, Any]) -> list[Any]:
        part = x[tuple(_variable(item, feed) for item in index)]
        return [part, *paddle.static.gradients([paddle.sum(part * part)], [x])]

    part, gradient = run(build, {})
    place = tuple(_number(item) for item in index)
    np.testing.assert_array_equal(part, X[place])
    wanted = np.zeros_like(X)
    np.add.at(wanted, place, 2 * X[place])
    np.testing.assert_allclose(gradient, wanted)


@pytest.mark.exhaustive
@given(nps.basic_indices(X.shape, allow_newaxis=True, allow_ellipsis=True))
def test_basic_indices(index: Any) -> None:
    (part,) = run(lambda x, feed: [x[index]], {})
    np.testing.assert_array_equal(part, X[index])


@pytest.mark.exhaustive
@given(st.data())
def test_integer_arrays(data: st.DataObject) -> None:
    """Arrays index some leading axes, and their shapes broadcast."""
    index = data.draw(nps.integer_array_indices(X.shape[: data.draw(st.integers(1, 4))]))
    (part,) = run(lambda x, feed: [x[index]], {})
    np.testing.assert_array_equal(part, X[index])


@pytest.mark.parametrize(
    "value", [7.0, np.float32(2), np.arange(5)], ids=["float", "number", "row"]
)
@pytest.mark.parametrize(
    "index",
    [
        (0,),
        (slice(None), 1),
        (..., slice(None)),
        (slice(None), slice(None, None, 2), -1),
        (0, 1, 2),
    ],
    ids=range(5),
)
def test_setitem(index: tuple[Any, ...], value: Any) -> None:
    changed, gradient = run(
        lambda x, feed: [
            made := paddle.static.setitem(x, index, value),
            *paddle.static.gradients([paddle.sum(made)], [x]),
        ],
        {},
    )
    wanted, kept = X.copy(), np.ones_like(X)
    wanted[index], kept[index] = value, 0
    np.testing.assert_array_equal(changed, wanted)
    np.testing.assert_array_equal(gradient, kept)


@pytest.mark.parametrize("mask", [X > 50, X[:, :, 0, 0] > 30], ids=["elements", "rows"])
def test_setitem_by_mask(mask: Any) -> None:
    def build(x: Any, feed: dict[str, Any]) -> list[Any]:
        return [paddle.static.setitem(x, _variable(Fed(mask), feed), -1.0)]

    wanted = X.copy()
    wanted[mask] = -1
    np.testing.assert_array_equal(run(build, {})[0], wanted)


SMALL = np.zeros((2, 2), "float32")
DIAGONAL = np.eye(2, dtype=bool)


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        (DIAGONAL, [7, 8]),
        (DIAGONAL, [7]),
        (np.array([False, True]), [7, 8]),
        (np.array([True, True]), [[1, 2], [3, 4]]),
    ],
    ids=["each", "one", "row", "rows"],
)
def test_setitem_of_values_by_mask(mask: Any, value: Any) -> None:
    """Values fill the chosen elements in order, even if they could broadcast against x."""
    x, given = SMALL.copy(), np.array(value, "float32")
    with fresh():
        names = [
            paddle.static.data(n, a.shape, str(a.dtype))
            for n, a in (("x", x), ("m", mask), ("v", given))
        ]
        (changed,) = programs.run([paddle.static.setitem(*names)], x=x, m=mask, v=given)
    x[mask] = given
    np.testing.assert_array_equal(changed, x)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_by_mask(accumulate: bool) -> None:
    """A mask stands for its indices, which pair with those of another index."""
    x, value = np.arange(6, dtype="float32").reshape(3, 2), np.array([10, 20], "float32")
    rows, columns = np.array([True, False, True]), np.array([1, 0])
    with fresh():
        data = [
            paddle.static.data(n, a.shape, str(a.dtype))
            for n, a in (("x", x), ("r", rows), ("c", columns), ("v", value))
        ]
        data[0].stop_gradient = data[3].stop_gradient = False
        made = paddle.index_put(data[0], data[1:3], data[3], accumulate)
        wrt = paddle.static.gradients([made * made], [data[0], data[3]])
        changed, *gradients = programs.run([made, *wrt], x=x, r=rows, c=columns, v=value)
    wanted = x.copy()
    wanted[rows, columns] = value + (x[rows, columns] if accumulate else 0)
    np.testing.assert_array_equal(changed, wanted)
    np.testing.assert_array_equal(gradients[1], 2 * wanted[rows, columns])
    kept = np.ones_like(x)
    kept[rows, columns] = accumulate
    np.testing.assert_array_equal(gradients[0], 2 * wanted * kept)


WITH_NEW_AXES = [
    ((None, 1), (1, 4, 5)),
    ((1, None, slice(1, 3)), (1, 2, 4, 5)),
    ((slice(None), None, 1), (2, 1, 4, 1)),
    ((0, slice(None), None, 1), (5,)),
    (([0, 1], None), (2, 1, 3, 4, 5)),
    ((True,), (4, 5)),
    ((False,), ()),
]


@pytest.mark.parametrize(("index", "shape"), WITH_NEW_AXES, ids=range(len(WITH_NEW_AXES)))
def test_setitem_with_new_axes(index: Any, shape: tuple[int, ...]) -> None:
    value = -np.arange(1, 1 + np.prod(shape, dtype=int), dtype="float32").reshape(shape)
    (changed,) = run(lambda x, feed: [paddle.static.setitem(x, index, value)], {})
    wanted = X.copy()
    wanted[index] = value
    np.testing.assert_array_equal(changed, wanted)


def test_setitem_of_a_complex_number() -> None:
    with fresh():
        x = paddle.ones([2], "complex64")
        (changed,) = programs.run([paddle.static.setitem(x, 0, 2 + 3j)])
    np.testing.assert_array_equal(changed, np.array([2 + 3j, 1], "complex64"))


def test_a_value_is_1_at_new_axes() -> None:
    with pytest.raises(IndexError, match=r"\[2, 3, 4, 5\] should have 1"):
        run(lambda x, feed: [paddle.static.setitem(x, (None, 0), np.ones((2, 3, 4, 5)))], {})


@pytest.mark.parametrize(
    ("nones", "dropped", "shape"),
    [((0,), (0,), (1, 3)), ((1,), (0,), (1, 3)), ((1,), (), (2, 1, 3)), ((2,), (0,), (3, 1))],
)
def test_new_axes_in_saved_programs(nones: Any, dropped: Any, shape: tuple[int, ...]) -> None:
    """Paddle saves the positions of None in the index, counting axes that integers drop."""
    x, value = np.zeros((2, 3), "float32"), np.arange(np.prod(shape, dtype=int)).reshape(shape)
    attrs = {"axes": [0], "starts": [0], "ends": [1 if dropped else 2], "steps": [1]}
    attrs |= {"decrease_axes": list(dropped), "none_axes": list(nones)}
    attrs |= {"fp32_values": value.ravel().tolist(), "shape": list(shape)}
    with fresh():
        data = paddle.static.data("x", x.shape, "float32")
        out = data.block.create_var("out")
        data.block.append_op("set_value", {"Input": data}, {"Out": out}, attrs)
        (changed,) = programs.run([out], x=x)
    np.testing.assert_array_equal(changed.ravel()[: value.size], value.ravel())


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        ((0, 0, 0, 0, 0), IndexError, "too many indices"),
        ((2,), IndexError, "out of range for axis 0 of size 2"),
        ((..., 0, ...), IndexError, "single Ellipsis"),
        (("a",), IndexError, "found str"),
        (([0.5],), IndexError, "must hold integers or bools"),
        (([True, False, True],), IndexError, "has size 3 where axis 0"),
        ((slice(None, None, 0),), ValueError, "must not be 0"),
        ((slice(None, None, Fed(1)),), TypeError, "needs a start and a stop"),
        ((slice(0.5),), TypeError, "must be integers"),
    ],
)
def test_errors(index: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        run(lambda x, feed: [x[tuple(_variable(item, feed) for item in index)]], {})


def test_no_assignment() -> None:
    def build(x: Any, feed: dict[str, Any]) -> list[Any]:
        x[0] = 1.0
        return [x]

    with pytest.raises(RuntimeError, match="setitem"):
        run(build, {})


Y = np.arange(24, dtype="float32").reshape(4, 3, 2)


def early(index: Any, shape: tuple[int, ...] = Y.shape) -> tuple[tuple[int, ...], Any]:
    """Return the declared shape and the value of an index in a program of paddle.fluid.

    A list of one number stands for a Variable [1].
    """

    def part(item: Any) -> Any:
        if isinstance(item, list):
            return fluid.layers.fill_constant([1], "int32", item[0])
        return slice(part(item.start), part(item.stop)) if isinstance(item, slice) else item

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", list(shape))
        found: Variable = x[tuple(map(part, index))]
        feed = {"x": Y.reshape(-1)[: np.prod(shape)].reshape(shape)}
        (value,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[found])
        return found.shape, value


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        ((1, 2, 1), Y[1, 2, 1:2]),
        (([1],), Y[1]),
        (([-1],), Y[-1]),
        (([1], 0), Y[1, 0]),
        (([1], slice(1, None)), Y[1, 1:]),
        ((slice(None), [1]), Y[:, 1]),
        ((slice(None), 1, [1]), Y[:, 1, 1]),
        ((slice(1, 3), [1]), Y[1:3, 1]),
        (([1], [1], [1]), Y[1, 1, 1:2]),
        ((slice([1], [3]),), Y[1:3]),
    ],
    ids=range(10),
)
def test_numbers_drop_their_axes_in_programs_of_fluid(index: Any, wanted: Any) -> None:
    """Numbers and Variables [1] drop their axes, and one element is [1], as in Paddle 1.8.5."""
    shape, value = early(index)
    np.testing.assert_array_equal(value, wanted)
    assert shape in (wanted.shape, (-1, *wanted.shape[1:]))


def test_an_element_of_a_vector_is_one_row_in_programs_of_fluid() -> None:
    for index in (1, [1]):
        shape, value = early((index,), (5,))
        assert (shape, value.tolist()) == ((1,), [1.0])
    with pytest.raises(ProgramError, match=r"index 1 is out of range for axis 0 of size 1.*slice"):
        early(([1],), (1, 3))
