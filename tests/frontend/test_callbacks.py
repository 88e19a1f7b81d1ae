"""py_func and Print: when they are called, their arguments, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.callables import register
from graphopt_tests.frontend.programs import fresh, run, start, weight


def declared(name: str, shape: list[int], dtype: str = "float32") -> Any:
    """Declare an output of py_func."""
    block = static.default_main_program().current_block()
    return block.create_var(name=name, shape=shape, dtype=dtype)


def test_forward_and_backward() -> None:
    """Each function is called once per run, and the gradient is the script's."""
    calls: list[str] = []

    def forward(x: Any, y: Any) -> Any:
        calls.append("forward")
        return np.tanh(x) + y, x * 2

    def backward(x: Any, out: Any, d_out: Any, d_twice: Any) -> Any:
        calls.append("backward")
        return d_out * (1 - np.tanh(x) ** 2) + 2 * d_twice, None

    with fresh():
        x = static.data("x", [-1, 2], "float32")
        x.stop_gradient = False
        y = paddle.scale(x, 0.5)
        outs = [declared("out", [-1, 2]), declared("twice", [-1, 2])]
        assert static.py_func(forward, [x, y], outs, backward, [y, outs[1]]) is outs
        loss = paddle.sum(outs[0] * 3.0 + outs[1])
        (grad,) = static.gradients(loss, x)
        given = np.array([[1, 2], [3, 4], [5, 6]], "float32")
        out, found = run([outs[0], grad], x=given)
    assert calls == ["forward", "backward"]
    np.testing.assert_allclose(out, np.tanh(given) + given / 2, rtol=1e-6)
    np.testing.assert_allclose(found, 3 * (1 - np.tanh(given) ** 2) + 2, rtol=1e-5)


def test_without_outputs() -> None:
    """A function without outputs is called, though no value depends on it."""
    seen: list[Any] = []
    with fresh():
        x = static.data("x", [2], "int64")
        static.py_func(lambda x: seen.append(x.tolist()), x, None)
        run([x], x=np.array([3, 4]))
    assert seen == [[3, 4]]


def test_all_bits_travel(capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """Numbers of 64 bits pass into the function and back, even on the threads of devices."""
    monkeypatch.setenv("CPU_NUM", "2")
    seen: list[Any] = []

    def function(ids: Any, x: Any) -> Any:
        seen.append((ids.dtype, x.dtype))
        return ids + 1, x * 2

    with fresh() as (main, _):
        ids, x = static.data("ids", [-1, 1], "int64"), static.data("x", [-1, 1], "float64")
        outs = [declared("next", [-1, 1], "int64"), declared("twice", [-1, 1], "float64")]
        static.py_func(function, [ids, x], outs)
        static.Print(ids)
        program = static.CompiledProgram(main).with_data_parallel()
        given = {"ids": np.full([2, 1], 2**40), "x": np.full([2, 1], 1 / 3)}
        found = static.Executor(paddle.CPUPlace()).run(program, feed=given, fetch_list=outs)
    assert set(seen) == {(np.dtype("int64"), np.dtype("float64"))}
    assert found[0].tolist() == [[2**40 + 1]] * 2
    assert found[1].tolist() == [[2 / 3]] * 2
    assert f"data: [{2**40}]" in capfd.readouterr().out


def test_no_gradient_without_backward_func() -> None:
    """Without backward_func no gradient flows, as in Paddle."""
    with fresh():
        w = weight("w", [1.0])
        out = declared("out", [1])
        static.py_func(lambda w: w, w, out)
        assert static.gradients(paddle.sum(out), w) == [None]


def test_wrong_functions() -> None:
    """A function's results must have the declared shapes and dtypes."""
    with fresh():
        x = static.data("x", [2], "float32")
        for name, result, text in (
            ("shape", np.zeros([3], "float32"), "returned \\[3\\]"),
            ("dtype", np.zeros([2], "complex64"), "complex64"),
            ("count", [np.zeros([2], "float32")] * 2, "returned 2 values"),
        ):
            out = declared(name, [2])
            static.py_func(lambda x, result=result: result, x, out)
            program = static.default_main_program()
            with pytest.raises(Exception, match=text):
                run([out], x=np.zeros([2], "float32"))
            program.global_block()._remove_op(0)


def test_wrong_arguments() -> None:
    """Wrong arguments raise when the program is built."""
    with fresh() as (main, _):
        x = static.data("x", [2], "float32")
        with pytest.raises(TypeError, match="func must be a Python function"):
            static.py_func(1, x, None)
        with pytest.raises(ValueError, match="not found in forward inputs and outputs"):
            static.py_func(abs, None, x, abs, static.data("y", [2], "float32"))
        with pytest.raises(ProgramError, match="shape and a dtype"):
            static.py_func(abs, x, main.global_block().create_var("untyped"))
        with pytest.raises(ProgramError, match="axis 1 of an output"):
            static.py_func(abs, x, declared("unknown", [2, -1]))
        out = declared("other", [2])
        attrs = {"forward_callable_id": register(abs) + 1000, "backward_callable_id": -1}
        main.global_block().append_op("py_func", {"X": x}, {"Out": out}, attrs)
        with pytest.raises(UnsupportedError, match="no Python function number"):
            run([out], x=np.zeros([2], "float32"))


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    """Print shows fields and elements, repeats as often as set, and prints the gradient."""
    with fresh():
        w = weight("w", [1.0, 2.5, 1e6])
        shown = static.Print(w, message="weights", summarize=2)
        quiet = static.Print(shown * 2, first_n=1, print_phase="forward", print_tensor_lod=False)
        paddle.optimizer.SGD(0.0).minimize(paddle.sum(quiet))
        start()
        executor = static.Executor(paddle.CPUPlace())  # counts how often each one prints
        for _ in range(2):
            executor.run(static.default_main_program())
    text = capfd.readouterr().out
    assert (
        "Variable: w\n  - message: weights\n  - lod: {}\n  - place: Place(cpu)\n  - shape: [3]\n"
        "  - layout: NCHW\n  - dtype: float32\n  - data: [1 2.5]\n"
    ) in text
    assert text.count("message: weights") == 4  # forward and backward, twice
    assert text.count("Variable: print_0.tmp_0@GRAD") == 2
    assert text.count("  - data: [2 5 2e+06]") == 1
    with pytest.raises(ValueError, match="print_phase"), fresh():
        static.Print(weight("w", [1.0]), print_phase="sideways")
