"""Errors of branches and loops; Print and Assert in a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import CheckError, ProgramError
from graphopt.tensor.blocks import Switch
from graphopt_tests.frontend.differences import X, count, data
from graphopt_tests.frontend.programs import fresh, run, start

cond, while_loop = static.nn.cond, static.nn.while_loop


# Errors ----------------------------------------------------------------------------------------

WRONG: dict[str, tuple[type[Exception], Callable[[Any, Any], Any]]] = {
    r"'pred' must be a Variable, found bool": (
        TypeError,
        lambda x, p: cond(True, lambda: x, lambda: x),  # type: ignore[arg-type]
    ),
    r"'pred' must be a bool Variable of one element, but 'tmp_\d' is bool of shape \[2, 3\]": (
        TypeError,
        lambda x, p: cond(x > 0, lambda: x, lambda: x),
    ),
    "The true_fn in cond must be callable, but received Variable": (
        TypeError,
        lambda x, p: cond(p, x, lambda: x),
    ),
    "true_fn returns None while false_fn returns 'x'": (
        ProgramError,
        lambda x, p: cond(p, None, lambda: x),
    ),
    "they return 1 and 2 values": (
        ProgramError,
        lambda x, p: cond(p, lambda: [x], lambda: [x, x]),
    ),
    r"they return dicts with the keys \['a'\] and \['b'\] at \[0\]": (
        ProgramError,
        lambda x, p: cond(p, lambda: [{"a": x}], lambda: [{"b": x}]),
    ),
    "true_fn returns 1 where false_fn returns 2.5; return numbers of one type": (
        TypeError,
        lambda x, p: cond(p, lambda: 1, lambda: 2.5),
    ),
    "true_fn returns 'text'": (
        TypeError,
        lambda x, p: cond(p, lambda: "text", lambda: x),
    ),
    "'pred_fn_pairs' must be a list or tuple": (TypeError, lambda x, p: static.nn.case(p)),
    "must be a tuple of two": (TypeError, lambda x, p: static.nn.case([p])),
    "must be unique, but '1' appears": (
        ValueError,
        lambda x, p: static.nn.switch_case(count(1), [(1, lambda: x), (1, lambda: x)]),
    ),
    "must be a Variable of uint8, int32 or int64": (
        TypeError,
        lambda x, p: static.nn.switch_case(p, [lambda: x]),
    ),
    "loop_vars in while_loop should not be empty": (
        ValueError,
        lambda x, p: while_loop(lambda: p, list, []),
    ),
    "same arity .length and structure. as loop_vars, but they are 2 and 1 values": (
        ValueError,
        lambda x, p: while_loop(lambda y: p, lambda y: [y, y], [x * 1]),
    ),
    "for the loop variable .*float64.*; cast it": (
        ProgramError,
        lambda x, p: while_loop(lambda y: p, lambda y: [paddle.cast(y, "float32")], [x * 1]),
    ),
    "'the result of cond' must be a bool Variable": (
        TypeError,
        lambda x, p: while_loop(lambda y: paddle.sum(y), lambda y: [y], [x * 1]),
    ),
    "which is not a Variable; make it one": (
        ProgramError,
        lambda x, p: while_loop(lambda i, y: p, lambda i, y: [x, y], [0, x * 1]),
    ),
    "there should be at least one condition": (ValueError, lambda x, p: _only_default()),
}


def _only_default() -> None:
    with Switch() as switch, switch.default():
        pass


@pytest.mark.parametrize("message", WRONG)
def test_errors(message: str) -> None:
    """Errors are raised when the program is built, name both sides, and leave no block."""
    error, build = WRONG[message]
    with fresh() as (main, _):
        x = data()
        holds = paddle.sum(x) > 0
        with pytest.raises(error, match=message):
            build(x, holds)
        assert main.current_block_idx == 0
        np.testing.assert_allclose(run([x * 2], x=X)[0], 2 * X)


# Printing and checking -------------------------------------------------------------------------


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    """Print writes the tensor, then its gradient, in Paddle's form; `first_n` limits the count."""
    with fresh():
        x = data(dtype="float32")
        shown = static.Print(x, message="here", summarize=2, first_n=1)
        plain = static.Print(
            paddle.sum(x) > 0,
            print_tensor_name=False,
            print_tensor_lod=False,
            print_tensor_layout=False,
            print_phase="forward",
        )
        outs = [plain, *static.gradients([shown * shown], [x])]
        executor = static.Executor(paddle.CPUPlace())
        for _ in range(2):
            executor.run(feed={"x": X.astype("float32")}, fetch_list=outs)
    out = capfd.readouterr().out
    flag = "  - place: Place(cpu)\n  - shape: []\n  - dtype: bool\n  - data: [1]\n"
    assert out.count(flag) == 2
    value = (
        "Variable: x\n  - message: here\n  - lod: {}\n  - place: Place(cpu)\n  - shape: [2, 3]\n"
        "  - layout: NCHW\n  - dtype: float32\n  - data: [0.5 -1]\n"
    )
    assert out.count(value) == 1
    assert out.count("Variable: print_0.tmp_0@GRAD\n") == 1
    assert "data: [1 -2]" in out


def test_print_in_branches(capfd: pytest.CaptureFixture[str]) -> None:
    """Only the branch that runs prints."""
    with fresh():
        x = data()
        one, two = (lambda m=m: static.Print(x, message=m) for m in ("yes", "no"))
        run([cond(paddle.sum(x) > 0, one, two)], x=X)
    out = capfd.readouterr().out
    assert "message: yes" in out and "message: no" not in out


ASSERTED = r"must be true.*test_control_flow_errors.py:\d+\)(.|\n)*Variable: x(.|\n)*\[-0\.5 1\]"


def test_assert() -> None:
    """A failed condition stops the run, shows the data, and leaves the state unchanged."""
    with fresh():
        x = data(dtype="float32")
        total = static.create_global_var([1], 0.0, "float32", persistable=True, name="total")
        static.nn.control_flow.Assert(paddle.sum(x) > 0, [x], summarize=2)
        paddle.assign(total + paddle.sum(x), total)
        start()
        run([total], x=X.astype("float32"))
        with pytest.raises(CheckError, match=ASSERTED):
            run([total], x=-X.astype("float32"))
        (after,) = run([total], x=X.astype("float32"))
    np.testing.assert_allclose(after, 2 * X.sum(), rtol=1e-6)
