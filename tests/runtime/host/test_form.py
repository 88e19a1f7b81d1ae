"""Inference steps in the host form: their choice, their successor, and their early end."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops.conv import Conv2d
from graphopt.nn import functional as F
from graphopt.reference.registry import Unsupported
from graphopt.runtime.compile import compiled as compiled_program
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk import known, seen, summaries
from graphopt.runtime.host import body, form
from graphopt.runtime.host.rules import QUICK
from graphopt.runtime.runners import runner
from graphopt.runtime.settings.flags import TIER
from graphopt.runtime.steps import forms, policy, xla_forms
from graphopt.runtime.steps.executable import Executable
from graphopt.runtime.steps.xla_forms import XlaForms
from graphopt_tests.runtime.nets import Net, build, close

Array = np.ndarray[Any, Any]
WAITS = "host: a second run has the full form compiled"


@pytest.fixture(autouse=True)
def _first(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let programs of any size begin in the host form, and run background work at once."""
    monkeypatch.setattr(policy, "TINY", 0)
    monkeypatch.setattr(forms, "submit", lambda work: work.work())
    monkeypatch.setattr(compiled_program, "SECONDS", 60.0)
    monkeypatch.setattr(policy, "PATIENCE", 0.0)
    paddle.set_flags({TIER: "auto"})
    yield
    paddle.set_flags({TIER: "full"})


def infer() -> Net:
    """Build a convolution, a norm and a product, for feeds of any batch and height."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 3, None, 8], "float32")
        hidden = F.relu(static.nn.batch_norm(static.nn.conv2d(x, 4, 3, padding=1), is_test=True))
        pooled = F.adaptive_avg_pool2d(F.dropout(hidden, 0.5, training=False), 1)
        return paddle.mean(pooled), static.nn.fc(pooled, 5, activation="softmax")

    return build(make).start()


def feed(rows: int = 2, height: int = 6) -> dict[str, Array]:
    return {"x": np.random.default_rng(rows).normal(size=(rows, 3, height, 8)).astype("float32")}


def form_of(net: Net) -> str:
    return list(net.executor.stats["tiers"])[-1]


def in_full(net: Net, **sizes: int) -> list[Any]:
    """Run the full form, and return its fetches."""
    paddle.set_flags({TIER: "full"})
    executor = static.Executor(paddle.CPUPlace())
    found = executor.run(net.main, feed=feed(**sizes), fetch_list=[net.out, net.loss])
    paddle.set_flags({TIER: "auto"})
    return found


def test_the_full_form_follows() -> None:
    """Two runs by NumPy are followed by XLA, with the same numbers."""
    net = infer()
    wanted, forms = in_full(net), list[str]()
    for _ in range(3):
        for found, want in zip(net.run(feed(), (net.out, net.loss)), wanted, strict=True):
            close(found, want)
        forms.append(form_of(net))
    assert forms[0] == WAITS
    assert forms[2].startswith("full: from run 3 on")


def test_a_cheap_step_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy continues while its runs together took less than half of a compilation."""
    monkeypatch.setattr(policy, "PATIENCE", 0.5)
    net = infer()
    for _ in range(3):
        net.run(feed(), net.out)
    assert form_of(net) == "host: a later run has the full form compiled"


@pytest.mark.exhaustive
def test_new_sizes_compile_nothing() -> None:
    net = infer()
    for height in (5, 6, 7):
        found = net.run(feed(height=height), net.out)[0]
        close(found, in_full(net, height=height)[0])
    assert net.executor.stats["tiers"][WAITS] == 3


def test_state_that_a_script_sets_counts() -> None:
    net = infer()
    before = net.run(feed(), net.out)[0]
    (weight,) = (p for p in net.main.all_parameters() if list(p.shape) == [4, 5])
    found = static.global_scope().find_var(weight.name)
    assert found is not None
    found.get_tensor().set(np.zeros((4, 5), "float32"), paddle.CPUPlace())
    after = net.run(feed(height=7), net.out)[0]
    close(after, np.full((2, 5), 0.2, "float32"))
    assert np.abs(before - after).max() > 1e-3


def test_state_of_unknown_size() -> None:
    """The full form is compiled for the sizes of the scope's state."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        block = static.default_main_program().global_block()
        rows = block.create_var(name="rows", shape=[-1, 4], dtype="float32", persistable=True)
        return x, paddle.matmul(x, rows, transpose_y=True)

    net, x = build(make), np.ones((2, 4), "float32")
    static.global_scope().var("rows").get_tensor().set(np.ones((3, 4), "float32"))
    for _ in range(3):
        np.testing.assert_array_equal(net.run({"x": x}, net.out)[0], np.full((2, 3), 4.0))
    assert form_of(net).startswith("full: from run 3 on")


def test_only_the_host_form() -> None:
    """The flag selects the host form in every run, also in training."""
    paddle.set_flags({TIER: "host"})
    net = infer()
    for _ in range(3):
        net.run(feed(), net.out)
    assert form_of(net) == "host: it was requested"

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        loss = paddle.mean(static.nn.fc(x, 2))
        paddle.optimizer.SGD(0.1).minimize(loss)
        return loss, loss

    training = build(make).start()
    training.run({"x": np.ones((2, 4), "float32")}, training.loss)
    assert form_of(training) == "host: it was requested"


def test_what_numpy_cannot_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a rule refuses at run time, the same run continues with a compiled step."""

    net = infer()
    wanted = in_full(net)
    refuse_convolutions(monkeypatch)
    close(net.run(feed(), net.out)[0], wanted[0])
    assert form_of(net) == "fast: a second run has the full form compiled"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the forms that XLA compiles from here on, without the disk cache."""
    names, make = list[str](), XlaForms.make

    def noting(self: XlaForms, name: str) -> Any:
        names.append(name)
        return make(self, name)

    monkeypatch.setattr(known, "use_cache", lambda: None)
    monkeypatch.setattr(XlaForms, "make", noting)
    return names


def refuse_convolutions(
    monkeypatch: pytest.MonkeyPatch, runs: int = 0, before: Callable[[], object] = list
) -> None:
    """Let NumPy's convolution refuse after so many runs; call `before` each time."""
    left = [runs]

    def refuse(**attrs: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            return call_rule(QUICK[Conv2d], attrs)
        before()
        raise Unsupported("pd.conv2d")

    monkeypatch.setattr(body, "QUICK", {**QUICK, Conv2d: refuse})


@pytest.mark.parametrize("takes_long", [True, False])
def test_the_full_form_follows_a_failure(
    monkeypatch: pytest.MonkeyPatch, compiled: list[str], takes_long: bool
) -> None:
    """The full form is compiled although no run in NumPy ends."""
    monkeypatch.setattr(policy, "PATIENCE", 0.5)
    if takes_long:
        monkeypatch.setattr(compiled_program, "SECONDS", 0.0)
        monkeypatch.setattr(compiled_program, "PER_OP", 1e-9)
    else:
        refuse_convolutions(monkeypatch)
    net = infer()
    for _ in range(3):
        net.run(feed(), net.out)
    assert form_of(net).startswith("full: from run 3 on")
    assert compiled == ["fast", "full"]


def test_a_failure_when_the_full_form_is_there(
    monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    """If the full form is ready when NumPy fails, no other form is compiled."""
    works: list[Any] = []
    monkeypatch.setattr(forms, "submit", works.append)
    refuse_convolutions(monkeypatch, 1, lambda: works and works.pop().work())
    net = infer()
    for _ in range(2):
        net.run(feed(), net.out)
    assert compiled == ["full"]
    assert form_of(net).startswith("full: from run 3 on")


def test_a_failure_when_the_full_form_is_on_disk(
    monkeypatch: pytest.MonkeyPatch, compiled: list[str], tmp_path: Path
) -> None:
    """If another process stored the full form, a failure loads it."""
    monkeypatch.setattr(policy, "PATIENCE", 0.5)
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    monkeypatch.setattr(known, "most_bytes", lambda: 1 << 24)
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)
    refuse_convolutions(monkeypatch, 1)
    net = infer()
    net.run(feed(), (net.out, net.loss))
    in_full(net)
    assert compiled == ["full"]
    net.run(feed(), (net.out, net.loss))
    assert compiled == ["full"]
    assert form_of(net) == "full: it was on disk"


def test_threads_that_fail_at_once(monkeypatch: pytest.MonkeyPatch, compiled: list[str]) -> None:
    """Of two threads that fail at once, one compiles, and both run its form."""
    monkeypatch.setattr(forms, "submit", lambda _: None)
    both = threading.Barrier(2, timeout=20)
    refuse_convolutions(monkeypatch, 1, both.wait)
    net = infer()
    net.run(feed(), net.out)
    in_two_threads(net)
    assert compiled == ["fast"]


def test_threads_that_begin_at_once(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that begin a new size at once compile one form."""
    net, both, begin = infer(), threading.Barrier(2, timeout=20), Executable.make_ready
    net.run(feed(height=7), net.out)
    paddle.set_flags({TIER: "full"})

    def meet(self: Executable, *given: Any) -> None:
        both.wait()
        begin(self, *given)

    monkeypatch.setattr(Executable, "make_ready", meet)
    in_two_threads(net)
    assert compiled == ["full"]


def test_nobody_waits_for_what_another_one_compiles(
    monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    """While a thread compiles the quick form, others run the full form that is ready."""
    works: list[Any] = []
    monkeypatch.setattr(forms, "submit", works.append)
    refuse_convolutions(monkeypatch, 1)
    begun, full_is_there, make = threading.Event(), threading.Event(), XlaForms.make

    def slowly(self: XlaForms, name: str) -> Any:
        if name == "fast":
            begun.set()
            assert full_is_there.wait(20)
        return make(self, name)

    monkeypatch.setattr(XlaForms, "make", slowly)
    net = infer()
    net.run(feed(), net.out)
    with ThreadPoolExecutor(2) as pool:
        scope = static.global_scope()
        first = pool.submit(net.run, feed(), net.out, scope=scope)
        assert begun.wait(20)
        other = pool.submit(net.run, feed(), net.out, scope=scope)
        time.sleep(0.1)  # it waits for the form that the first one compiles
        works.pop().work()
        close(other.result(20)[0], in_full(net)[0])
        full_is_there.set()
        first.result()
    assert form_of(net).startswith("full: from run ")


def test_threads_that_begin_a_program_at_once(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passes of the program run once, and its step is compiled once."""
    programs, make = list[str](), runner.executables_of

    def slowly(*given: Any) -> Any:
        programs.append(given[-1])
        time.sleep(0.1)
        return make(*given)

    net = infer()
    paddle.set_flags({TIER: "full"})
    monkeypatch.setattr(runner, "executables_of", slowly)
    in_two_threads(net)
    assert programs == ["new program"]
    assert compiled == ["full"]


def in_two_threads(net: Net) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(net.run, feed(), net.out, scope=static.global_scope()) for _ in "ab"]
        for run in runs:
            run.result()


def test_a_child_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked child lacks its parent's thread, and submits the work again."""
    submitted: list[Any] = []
    monkeypatch.setattr(forms, "submit", submitted.append)
    net = infer()
    for _ in range(3):
        net.run(feed(), net.out)
    assert len(submitted) == 1
    monkeypatch.setattr(forms.os, "getpid", lambda: -1)
    net.run(feed(), net.out)
    assert len(submitted) == 2
    assert form_of(net) == "host: the full form is being compiled"


def test_what_runs_where_the_host_form_was_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    paddle.set_flags({TIER: "host"})
    refuse_convolutions(monkeypatch)
    net = infer()
    net.run(feed(), net.out)
    assert form_of(net) == "fast: NumPy does not compute it"


class _Late(TimeoutError):
    """The exception of a script's handler after a time limit."""


def _by_a_handler(error: type[Exception]) -> None:
    """Raise an exception from a signal handler here."""

    def handler(*_: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


def _by_a_thread(error: type[Exception]) -> None:
    """Raise an exception here as another thread does to end a run."""
    thread = ctypes.c_ulong(threading.get_ident())
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(error))
    for _ in range(1000):
        pass


@pytest.mark.every(3)
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals of POSIX")
@pytest.mark.parametrize("error", [_Late, TimeoutError, ValueError, RuntimeError])
@pytest.mark.parametrize("raises", [_by_a_handler, _by_a_thread])
def test_what_interrupts_a_run(
    monkeypatch: pytest.MonkeyPatch, raises: Any, error: type[Exception]
) -> None:
    """An asynchronous exception of any type reaches the caller, and the form stays."""
    left = [error]

    def interrupted(**attrs: Any) -> Any:
        if left:
            raises(left.pop())
        return call_rule(QUICK[Conv2d], attrs)

    net = infer()
    wanted = in_full(net)
    monkeypatch.setattr(body, "QUICK", {**QUICK, Conv2d: interrupted})
    with pytest.raises(error):
        net.run(feed(), net.out)
    assert form_of(net) == WAITS
    close(net.run(feed(), net.out)[0], wanted[0])


@pytest.mark.parametrize("place", ["condition", "body", "between"])
def test_what_interrupts_a_loop(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """An exception between ops of a loop leaves the next run right."""
    left = [_Late]

    def interrupting(function: Any) -> Any:
        def instead(*args: Any, **kwargs: Any) -> Any:
            if left:
                raise left.pop()
            return function(*args, **kwargs)

        return instead

    def make() -> Any:
        start = static.data("x", [1], "float32")
        last = static.nn.while_loop(lambda i: paddle.all(i < 9.0), lambda i: [i * 2.0], [start])
        return last[0], last[0]

    net = build(make).start()
    given = {"x": np.ones(1, "float32")}
    net.run(given, net.out)
    name = {"condition": "_holds", "body": "_iteration", "between": "thread_time"}[place]
    where: Any = time if place == "between" else body
    monkeypatch.setattr(where, name, interrupting(getattr(where, name)))
    with pytest.raises(_Late):
        net.run(given, net.out)
    assert net.run(given, net.out)[0] == 16


def test_a_run_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a run that took too long, larger feeds are compiled at once."""
    monkeypatch.setattr(compiled_program, "SECONDS", -1.0)
    net = infer()
    close(net.run(feed(), net.out)[0], in_full(net)[0])
    assert form_of(net) == "fast: a second run has the full form compiled"
    monkeypatch.setattr(compiled_program, "SECONDS", 60.0)
    net.run(feed(height=7), net.out)
    assert form_of(net) == "full: it is small, and compiles quickly"
    net.run(feed(height=5), net.out)
    assert form_of(net) == WAITS


def test_bits_that_shall_repeat() -> None:
    paddle.set_flags({"FLAGS_cpu_deterministic": True})
    try:
        net = infer()
        net.run(feed(), net.out)
        assert form_of(net) == "full: a flag requests the same bits in every run"
    finally:
        paddle.set_flags({"FLAGS_cpu_deterministic": False})


def test_sizes_that_depend_on_data() -> None:
    """A slice with a data-dependent end runs op by op when XLA takes over."""

    def make() -> tuple[Any, Any]:
        x, end = static.data("x", [None, 4], "float32"), static.data("end", [1], "int32")
        return x, paddle.slice(x * 2.0, [1], [0], [end])

    net = build(make)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    for end in (3, 2, 1):
        (found,) = net.run({"x": x, "end": np.array([end], "int32")}, net.out)
        np.testing.assert_array_equal(found, 2 * x[:, :end])


@pytest.mark.parametrize(
    ("gain", "said"),
    [(0.0, "host: op by op, XLA takes "), (np.inf, "op by op: XLA takes ")],
)
def test_a_size_of_the_data(monkeypatch: pytest.MonkeyPatch, gain: float, said: str) -> None:
    """NumPy continues, or XLA takes over op by op, as their times decide."""
    monkeypatch.setattr(policy, "GAIN_BY_OP", gain)

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None], "float32")
        return x, paddle.masked_select(x, x > 1.0) * 2.0

    net = build(make)
    for factor in (1, 2, 3, 4):
        x = np.arange(4, dtype="float32") * factor
        np.testing.assert_array_equal(net.run({"x": x}, net.out)[0], x[x > 1] * 2)
    assert form_of(net).startswith(said)


def test_a_wrong_feed_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA reports a wrong feed, and NumPy computes the next run."""
    monkeypatch.setattr(policy, "PATIENCE", 0.5)

    def make() -> tuple[Any, Any]:
        x, times = static.data("x", [None], "float32"), static.data("times", [None], "int64")
        return x, paddle.repeat_interleave(x, times)

    net, x = build(make), np.ones(2, "float32")
    with pytest.raises(ValueError, match="repeats must not be negative"):
        net.run({"x": x, "times": np.array([-1, 2])}, net.out)
    assert net.run({"x": x, "times": np.array([1, 2])}, net.out)[0].shape == (3,)
    assert form_of(net).startswith("host: ")


def growing() -> Net:
    """Build a loop whose tensor gains a row in each step."""

    def make() -> tuple[Any, Any]:
        count = static.data("count", [1], "int64")
        step, rows = paddle.full([1], 0, "int64"), static.data("rows", [1, None], "float32")
        _, rows = static.nn.while_loop(
            lambda i, _: i < count,
            lambda i, rows: [i + 1, paddle.concat([rows, rows[-1:] * 2.0 + 1.0])],
            [step, rows],
        )
        return rows, rows

    return build(make)


@pytest.mark.parametrize(("seconds", "tier"), [(60.0, "auto"), (-1.0, "auto"), (-1.0, "host")])
def test_a_loop_of_growing_tensors(
    monkeypatch: pytest.MonkeyPatch, seconds: float, tier: str
) -> None:
    """NumPy computes loops of growing tensors, however long they take."""
    monkeypatch.setattr(compiled_program, "SECONDS", seconds)
    paddle.set_flags({TIER: tier})
    net = growing()
    for count in (3, 3, 3, 5):
        given = {"count": np.array([count]), "rows": np.ones((1, 2), "float32")}
        (found,) = net.run(given, net.out)
        wanted = np.repeat(2.0 ** np.arange(1, count + 2)[:, None] - 1, 2, 1)
        np.testing.assert_array_equal(found, wanted)
    said = "it was requested" if tier == "host" else "sizes change in a loop"
    assert form_of(net).startswith(f"host: {said}")


@pytest.mark.exhaustive
def test_threads_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step by NumPy does not lock the state: two threads run one at once."""
    both = threading.Barrier(2, timeout=20)

    def meet(**attrs: Any) -> Any:
        both.wait()
        return call_rule(QUICK[Conv2d], attrs)

    net = infer()
    wanted = in_full(net)[0]
    monkeypatch.setattr(body, "QUICK", {**QUICK, Conv2d: meet})
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(net.run, feed(), net.out, scope=static.global_scope()) for _ in "ab"]
        for run in runs:
            close(run.result()[0], wanted)


def test_sizes_that_other_processes_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A size is compiled after its runs in all processes took as long as compiling.

    No program is parsed once all sizes are on disk, and none to find that a size is not there.
    """
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    for module in (seen, summaries):
        monkeypatch.setattr(module, "our_directory", lambda: tmp_path)
    for module in (known, seen, summaries):
        monkeypatch.setattr(module, "most_bytes", lambda: 1 << 20)
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)
    compile_program, parsed = summaries.compile_program, list[Any]()

    def noted(compilation: Any) -> Any:
        parsed.append(compilation)
        return compile_program(compilation)

    monkeypatch.setattr(summaries, "compile_program", noted)
    # each run takes a second of NumPy, and compiling pays after two and a half
    monkeypatch.setattr(Compiled, "price", 2.5 / forms.PAID)
    spent = property(lambda _: 1.0, lambda *_: None)
    monkeypatch.setattr(form.HostForm, "spent", spent, raising=False)
    net, names, counts = infer(), list[list[str]](), list[int]()
    for _ in range(5):
        net.executor = static.Executor(paddle.CPUPlace())
        parsed.clear()
        found = list[str]()
        for height in (6, 7):
            net.run(feed(height=height), net.out)
            found.append(form_of(net).partition(" from run ")[0])
        names.append(found)
        counts.append(len(parsed))
    compiled, loaded = "full:", "full: it was on disk"
    assert names[:2] == [[WAITS] * 2] * 2
    assert names[2:] == [[compiled, WAITS], [loaded, compiled], [loaded] * 2]
    assert counts[0] == 1, "nothing was compiled for its sizes yet"
    assert counts[-1] == 0


def test_a_process_that_began_in_numpy_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It imports JAX for sizes on disk after NumPy took as long as the import."""
    net = infer()
    monkeypatch.setattr(seen, "our_directory", lambda: tmp_path)
    monkeypatch.setattr(forms, "sys", SimpleNamespace(modules={"xdsl": None}))
    monkeypatch.setattr(forms, "was_compiled", lambda _: True)
    monkeypatch.setattr(Compiled, "is_new", property(lambda _: False, lambda *_: None))
    asked = list[Any]()
    monkeypatch.setattr(forms.Forms, "_load", lambda *given: asked.append(given) or False)
    spent = property(lambda _: 0.3, lambda *_: None)
    monkeypatch.setattr(form.HostForm, "spent", spent, raising=False)
    counts = list[int]()
    for height in (6, 7, 8):
        net.run(feed(height=height), net.out)
        counts.append(len(asked))
    assert counts == [0, 0, 1]


def test_less_than_a_hundredth_of_compiling_is_not_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes whose runs take a thousandth of compiling are neither noted nor compiled."""
    for module in (seen, summaries):
        monkeypatch.setattr(module, "our_directory", lambda: tmp_path)
    monkeypatch.setattr(Compiled, "price", 1e6)
    net = infer()
    for _ in "abc":
        net.executor = static.Executor(paddle.CPUPlace())
        net.run(feed(height=6), net.out)
        assert form_of(net) == WAITS
    assert not (tmp_path / seen.FOLDER).exists()


def test_sizes_share_what_numpy_computes_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new size reuses the rules, and has its own time limit."""
    made, own_body = list[Any](), form.Body

    def noted(*given: Any) -> Any:
        made.append(given)
        return own_body(*given)

    monkeypatch.setattr(form, "Body", noted)
    net = infer()
    for height in (5, 6, 7):
        net.run(feed(height=height), net.out)
    executables = [e for each in net.executor._runner._kept.all() for e in each.all()]
    forms = [e.forms._ready["host"].step for e in executables if "host" in e.forms._ready]
    assert len(made) == 1 and len({id(each) for each in forms}) == 3
    assert all(0 < each.spent < sum(each.spent for each in forms) for each in forms)
