"""Fetched arrays of one element as numbers, and the caller's random state."""

from __future__ import annotations

import copy
import io
import math
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.feeds.fetch import SingleValue, to_numpy

ONE = to_numpy(np.array([1.5], np.float32))


def test_one_element_is_a_number() -> None:
    """float, int, % and math work as before NumPy 2.4; index and format are refused as then."""
    for value in (ONE, to_numpy(np.array([[1.5]])), ONE[None][0]):
        assert (float(value), int(value), complex(value)) == (1.5, 1, 1.5 + 0j)
        assert f"{math.sqrt(value):.2f} %f %d" % (value, value) == "1.22 1.500000 1"
        assert isinstance(value, np.ndarray)
    with pytest.raises(TypeError, match="format"):
        f"{ONE:.2f}"
    with pytest.raises(TypeError, match="integer"):
        _ = [0, 1][to_numpy(np.array([1]))]  # type: ignore[call-overload]


def test_means_over_steps_are_numbers_too() -> None:
    """Results computed from a fetch and numbers convert, too."""
    total = 0.0
    for _ in range(4):
        total += ONE
    assert "%.3f" % (total / 4) == "1.500"
    assert float(np.sqrt(ONE * ONE)) == 1.5
    assert type(ONE.mean()) is type(np.mean([ONE, ONE])) is type(ONE[0]) is np.float32


def test_beside_arrays_it_is_an_array() -> None:
    """With other arrays it gives plain arrays; pickles, files and text are a plain array's."""
    plain = np.array([1.5], np.float32)
    made = [ONE + plain, plain + ONE, np.array(ONE), np.stack([ONE, ONE]), np.asarray(ONE)]
    made += [pickle.loads(pickle.dumps(ONE)), ONE + np.ones(3), np.concatenate([ONE, ONE])]
    file = io.BytesIO()
    np.save(file, ONE)
    file.seek(0)
    assert {type(array) for array in (*made, np.load(file))} == {np.ndarray}
    assert repr([ONE]) == repr([plain]) and str(copy.deepcopy(ONE)) == str(plain)
    with pytest.raises(TypeError, match=r"0-dimensional|size-1|length-1"):
        float(ONE.repeat(2))
    assert type(to_numpy(np.zeros(2))) is type(to_numpy(np.float32(1))) is np.ndarray


def test_a_fetch_is_a_number_and_a_feed() -> None:
    """A fetch of a plain program or of replicas is a number, and can be fed."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 1])
        out = x * 2.0
    executor = static.Executor(paddle.CPUPlace())
    (found,) = executor.run(main, {"x": np.ones((1, 1), np.float32)}, [out])
    text = "cost %f"
    assert text % found == "cost 2.000000"
    (again,) = executor.run(main, {"x": found}, [out])
    assert type(again) is SingleValue and float(again) == 4.0
    two = static.CompiledProgram(main).with_data_parallel(places=[paddle.CPUPlace()] * 2)
    feed = {"x": np.ones((2, 1), np.float32)}
    values = executor.run(two, feed, [out], return_merged=False)
    assert [float(value) for value in values[0]] == [2.0, 2.0]


@pytest.mark.exhaustive
def test_the_first_run_draws_no_number_of_the_caller() -> None:
    """Importing JAX does not advance NumPy's and Python's global generators."""
    code = """
        import random, sys
        import numpy as np
        random.seed(0); np.random.seed(0)
        state, numpy_state = random.getstate(), np.random.get_state()[1:3]
        import graphopt as paddle
        from graphopt import static
        x = static.data("x", [2])
        assert "jax" not in sys.modules
        static.Executor(paddle.CPUPlace()).run(feed={"x": np.ones(2, "f")}, fetch_list=[x * 2])
        assert "jax" in sys.modules and state == random.getstate()
        assert all(np.array_equal(a, b) for a, b in zip(numpy_state, np.random.get_state()[1:3]))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_rows_of_one_element_print_as_numbers() -> None:
    """Outputs of shape [N, 1] format as numbers row by row; other rows stay plain."""
    found = to_numpy(np.array([[1.5], [2.5]], "float32"))
    for rows, expected in ((found, ["1.5", "2.5"]), (found * 2, ["3.0", "5.0"])):
        assert [format % row for format, row in zip(["%.1f"] * 2, rows, strict=True)] == expected
    with pytest.raises(TypeError):
        float(found)
    assert type(to_numpy(np.zeros([2, 3]))) is type(to_numpy(np.zeros([2]))) is np.ndarray
