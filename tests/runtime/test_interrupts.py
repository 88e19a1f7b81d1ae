"""Interrupts leave the state of a whole step, and no broken part."""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import CallbackError
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.executable import Executable
from graphopt.runtime.steps.step_state import StepState
from graphopt_tests.storms.run import storm


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["plain", "stacked", "pmap"])
def test_no_interrupt_loses_state(kind: str) -> None:
    """No state is lost in a short version of `make storms`."""
    lost, text = storm(kind, "interrupt", 10)
    assert lost == 0, text


def training(function: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
    """Build a program whose steps add 1 to `w`; return it with its loss."""
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
    """Return the value of `w`."""
    return int(np.array(static.global_scope().find_var("w").get_tensor())[0])


@pytest.fixture
def programs() -> Any:
    """Set new default programs."""
    with static.program_guard(static.Program(), static.Program()):
        yield


FEED = {"x": np.ones((2, 1), "float32")}


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("kind", ["plain", "devices", "pmap", "steps"])
def test_a_raising_callback(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step stores no result, and the error names op, variable and line, with its cause."""
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
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals of POSIX")
def test_a_handler_in_a_callback() -> None:
    """An exception from a signal handler is not attributed to the function."""
    raises: list[BaseException] = []

    def handler(*_: Any) -> None:
        raise raises[0]

    def function(x: Any) -> Any:
        if raises:
            signal.raise_signal(signal.SIGALRM)
        return x

    main, loss = training(function)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    exe.run(main, feed=FEED, fetch_list=[loss])
    before = signal.signal(signal.SIGALRM, handler)
    try:
        raises.append(TimeoutError("time is up"))
        with pytest.raises(TimeoutError, match="time is up"):
            exe.run(main, feed=FEED)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert steps_done() == 1


@pytest.mark.usefixtures("programs")
def test_closed_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print calls Python, too: a closed output ends a step without losing state."""
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
    """After an interrupted compilation, the next run compiles again."""
    main, loss = training()
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Executable, "_only_form", interrupted)
        with pytest.raises(KeyboardInterrupt):
            exe.run(main, feed=FEED)
    exe.run(main, feed=FEED, fetch_list=[loss])
    assert steps_done() == 1


@pytest.mark.usefixtures("programs")
def test_threads_share_a_scope() -> None:
    """No step is lost, readers see whole values, and closing one executor ends no other."""
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
    """Deferred handlers all run at the end of the outer block, and stay installed."""
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
    """An interrupted first call, of a function or with new feeds, is completed and stored."""
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


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("more", [1, 3])
def test_more_interrupts_at_once(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Further interrupts before the results are stored lose no state either."""
    main, loss = training()
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    exe.run(main, feed=FEED, fetch_list=[loss])
    store, enter, left = StepState.store, Uninterrupted.__enter__, [KeyboardInterrupt] * more
    stored: list[Any] = []

    def interrupted(*args: Any) -> None:
        stored.append(args)
        if len(stored) == 1:
            raise KeyboardInterrupt
        store(*args)

    def entering(block: Uninterrupted) -> None:
        if left:
            raise left.pop()
        enter(block)

    with monkeypatch.context() as patched:
        patched.setattr(StepState, "store", interrupted)
        patched.setattr(Uninterrupted, "__enter__", entering)
        with pytest.raises(KeyboardInterrupt):
            exe.run(main, feed=FEED, fetch_list=[loss])
    assert not left and len(stored) > 1
    assert steps_done() == 2


class _Importing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a JAX whose import is interrupted in its middle."""

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of JAX."""
        return importlib.machinery.ModuleSpec(name, self) if name == "jax" else None

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, and interrupt it."""
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass
        module.__dict__.update(config=jax.config, is_whole=True)


def test_an_interrupted_import_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import is completed: importing jaxlib's C++ modules twice would end the process."""
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setattr(sys, "meta_path", [_Importing(), *sys.meta_path])
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    # a shell starts what runs in the background with interrupts ignored
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            import_jax()
    finally:
        signal.signal(signal.SIGINT, before)
    assert sys.modules["jax"].__dict__["is_whole"]


_AT_EACH_IMPORT = """
import sys, threading
import numpy as np
import graphopt as paddle
from graphopt import static

class Interrupting:
    seen = set()

    def find_spec(self, name, *_):
        of_main = threading.current_thread() is threading.main_thread()
        if of_main and name not in self.seen:
            self.seen.add(name)
            raise KeyboardInterrupt(name)

def patiently(function):
    while True:
        try:
            return function()
        except KeyboardInterrupt:
            pass

paddle.enable_static()
h = static.data("x", [None, 16], "float32")
for _ in range(12):
    h = paddle.tanh(static.nn.fc(h, 16))
loss = paddle.mean(h)
if "train" in sys.argv:
    paddle.optimizer.SGD(0.1).minimize(loss)
exe, feed = static.Executor(paddle.CPUPlace()), {"x": np.ones((4, 16), "float32")}
sys.meta_path.insert(0, Interrupting())
patiently(lambda: exe.run(static.default_startup_program()))
for _ in range(3):
    assert patiently(lambda: exe.run(feed=feed, fetch_list=[loss]))
print(len(Interrupting.seen))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["train", "infer"])
def test_an_interrupt_at_each_import_of_a_first_run(what: str) -> None:
    """The next run works, whichever import was interrupted."""
    command = [sys.executable, "-c", _AT_EACH_IMPORT, what]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr[-3000:]
    assert int(found.stdout) > 100
