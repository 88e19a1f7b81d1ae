"""What interrupts leave behind: the state of a whole step, and nothing that no longer works."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import CallbackError
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.executable import Executable
from graphopt_tests.storms.run import storm


@pytest.mark.parametrize("kind", ["plain", "stacked", "pmap"])
def test_no_interrupt_loses_state(kind: str) -> None:
    """A few of the many that `make storms` sends."""
    lost, text = storm(kind, "interrupt", 10)
    assert lost == 0, text


def training(function: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
    """A program whose steps add 1 to `w`, and its loss."""
    x = static.data("x", [None, 1])
    if function is not None:
        out = static.default_main_program().global_block().create_var("out", [-1, 1], "float32")
        x = static.py_func(function, x, out)
    zero = paddle.nn.initializer.Constant(0.0)
    w = paddle.create_parameter([1], "float32", name="w", default_initializer=zero)
    loss = paddle.mean(x * w)
    paddle.optimizer.SGD(-1.0).minimize(loss)
    return static.default_main_program(), loss


def steps_done() -> int:
    """The value of `w`."""
    return int(np.array(static.global_scope().find_var("w").get_tensor())[0])


@pytest.fixture
def programs() -> Any:
    """New default programs."""
    with static.program_guard(static.Program(), static.Program()):
        yield


FEED = {"x": np.ones((2, 1), "float32")}


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("kind", ["plain", "devices", "pmap", "steps"])
def test_a_raising_callback(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step stores nothing, and the error names op, variable and line, with its cause."""
    monkeypatch.setenv("CPU_NUM", "2")
    mistake = ValueError("no such file")
    raises: list[BaseException] = []

    def function(x: Any) -> Any:
        if raises:
            raise raises[0]
        return x

    main, loss = training(function)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    execution = static.ExecutionStrategy()
    execution.mapper = "pmap" if kind == "pmap" else "auto"
    execution.num_iteration_per_run = each = 2 if kind == "steps" else 1
    program: Any = main
    if kind != "plain":
        program = static.CompiledProgram(main).with_data_parallel(
            loss.name, exec_strategy=execution
        )
    exe.run(program, feed=FEED, fetch_list=[loss])
    raises.append(mistake)
    with pytest.raises(
        CallbackError, match=r"py_func of 'out' \(made at .*test_inter.*:\d"
    ) as told:
        exe.run(program, feed=FEED, fetch_list=[loss])
    assert told.value.__cause__ is mistake
    assert steps_done() == each
    raises[0] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        exe.run(program, feed=FEED)
    raises.clear()
    exe.run(program, feed=FEED, fetch_list=[loss])
    assert steps_done() == 2 * each


@pytest.mark.usefixtures("programs")
def test_closed_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print calls Python, too: an output that is closed ends a step and loses nothing."""
    main, loss = training()
    static.Print(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())

    def closed(*_: Any, **__: Any) -> None:
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr("builtins.print", closed)
        with pytest.raises(CallbackError, match=r"pd\.print .*BrokenPipeError"):
            exe.run(main, feed=FEED)
    assert steps_done() == 0
    exe.run(main, feed=FEED)
    assert steps_done() == 1


@pytest.mark.usefixtures("programs")
def test_an_interrupted_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run compiles again."""
    main, loss = training()
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Executable, "_first_form", interrupted)
        with pytest.raises(KeyboardInterrupt):
            exe.run(main, feed=FEED)
    exe.run(main, feed=FEED, fetch_list=[loss])
    assert steps_done() == 1


@pytest.mark.usefixtures("programs")
def test_threads_share_a_scope() -> None:
    """No step of theirs is lost, and who reads sees whole values; `close` of one ends no other."""
    main, loss = training()
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    exe.run(main, feed=FEED, fetch_list=[loss])
    test = main.clone(for_test=True)
    scope, wrong = static.global_scope(), []

    def work(program: Any) -> None:
        mine = static.Executor(paddle.CPUPlace())
        try:
            for _ in range(50):
                mine.run(program, feed=FEED, fetch_list=[loss.name], scope=scope)
                assert scope.find_var("w").get_tensor().numpy().shape == (1,)
        except Exception as error:
            wrong.append(error)
        mine.close()

    threads = [threading.Thread(target=work, args=(p,)) for p in (main, main, test)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    exe.run(main, feed=FEED)
    assert steps_done() == 102


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals of POSIX")
def test_handlers_wait() -> None:
    """All that came are called at the end of the outer block, and stay installed."""
    called: list[int] = []

    def note(number: int, _: Any) -> None:
        called.append(number)
        raise TimeoutError(number)

    numbers, interrupts = (signal.SIGALRM, signal.SIGUSR1), signal.getsignal(signal.SIGINT)
    before = [signal.signal(number, note) for number in numbers]
    try:
        with pytest.raises(TimeoutError), Uninterrupted():
            with Uninterrupted():
                for number in (*numbers, *numbers):
                    signal.raise_signal(number)
            assert not called
        assert sorted(called) == sorted(numbers)
        assert [signal.getsignal(number) for number in numbers] == [note, note]
        assert signal.getsignal(signal.SIGINT) is interrupts
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("known", [False, True])
def test_an_interrupted_first_call(monkeypatch: pytest.MonkeyPatch, *, known: bool) -> None:
    """It is done and stored: the first call of a function, and the first with feeds of a kind."""
    main, loss = training()
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    feed: dict[str, Any] = FEED
    if known:
        exe.run(main, feed=FEED, fetch_list=[loss])
        feed = {"x": jax.numpy.ones((2, 1), "float32")}
    call, thread = jax.stages.Compiled.call, ctypes.c_ulong(threading.get_ident())

    def interrupting(*args: Any, **kwargs: Any) -> Any:
        what = ctypes.py_object(KeyboardInterrupt)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, what)
        return call(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(jax.stages.Compiled, "call", staticmethod(interrupting))
        with pytest.raises(KeyboardInterrupt):
            exe.run(main, feed=feed, fetch_list=[loss])
    assert steps_done() == 1 + known
    exe.run(main, feed=feed, fetch_list=[loss])
    assert steps_done() == 2 + known
