"""The shape of a variable equals tuples, as in Paddle up to 2.6, and lists, as in Paddle 3."""

from __future__ import annotations

import pickle
from operator import add

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh


def test_a_shape_equals_a_tuple_and_a_list() -> None:
    with fresh():
        shape = static.data("x", [None, 3], "float32").shape
        assert paddle.ones([]).shape == []
    assert shape == (-1, 3) and shape == [-1, 3]
    assert shape != (-1, 4) and shape != [-1, 4] and shape != [3] and shape != "x"
    listed = [-1, 3]
    assert listed == shape
    assert isinstance(shape, tuple) and {shape: 1}[(-1, 3)] == 1
    assert repr(shape) == "(-1, 3)" and pickle.loads(pickle.dumps(shape)) == [-1, 3]


def test_a_shape_is_joined_to_a_tuple_and_a_list() -> None:
    with fresh():
        shape = static.data("x", [2, 3, 4], "float32").shape
        assert paddle.ones(add(shape[:1], [5])).shape == [2, 5]
    assert add(shape[:2], [5]) == [2, 3, 5] and add([5], shape[1:]) == [5, 3, 4]
    assert add(shape[1:], (5,)) == (3, 4, 5) and add((5,), shape[1:]) == (5, 3, 4)
    assert shape[1:] == [3, 4] and shape[-1] == 4 and [*shape] == [2, 3, 4]
