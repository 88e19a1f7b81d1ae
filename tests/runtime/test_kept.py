"""The executors' caches: programs as long as they are in use, few shapes, and joint fetches."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.steps.executable import MAX_SHAPES
from graphopt.runtime.steps.kept import (
    MOST_COMPILED,
    NEW_PROGRAM,
    OTHER_FETCHES,
    KeptPrograms,
)
from graphopt.runtime.steps.measures import fetchable
from graphopt_tests.storms import held

FEED = {"x": np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)}


@pytest.fixture(scope="module", autouse=True)
def _static() -> Any:
    paddle.enable_static()


@pytest.fixture(scope="module", autouse=True)
def _a_small_heap() -> None:
    """Freeze the objects of earlier tests, as these tests collect garbage many times."""
    gc.collect()
    gc.freeze()


def deep(layers: int = 8) -> tuple[static.Program, list[str]]:
    """Build a chain of activations, and return the names of its variables."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        names = []
        for number in range(layers):
            x = (paddle.tanh if number % 2 else paddle.exp)(paddle.scale(x, 0.5))
            names.append(x.name)
        names.append(paddle.mean(x).name)
    return main, names


def fetch(exe: Any, program: Any, *names: str) -> list[Any]:
    return exe.run(program, feed=FEED, fetch_list=list(names), scope=static.Scope())


def variables(program: static.Program) -> list[str]:
    """List all results of a program's operators."""
    return [name for op in program.global_block().ops for name in op.output_arg_names]


@pytest.mark.exhaustive
def test_many_fetches_compile_a_few_times() -> None:
    """Fetching each variable in turn gives the right numbers from a few compilations."""
    main, _ = deep(15)
    exe, names = static.Executor(paddle.CPUPlace()), variables(main)
    assert len(names) == 31
    wanted = dict(zip(names, fetch(static.Executor(paddle.CPUPlace()), main, *names), strict=True))
    for name in [names[-1], *names]:
        (found,) = fetch(exe, main, name)
        np.testing.assert_allclose(found, wanted[name], rtol=1e-6, err_msg=name)
    reasons = exe.stats["reasons"]
    assert reasons[NEW_PROGRAM] == 1
    assert reasons[OTHER_FETCHES] <= 6
    assert exe.stats["runs"] == 32


def test_fetches_in_any_order_and_twice() -> None:
    """A compiled set returns its fetches in any order and number."""
    main, names = deep(3)
    exe = static.Executor(paddle.CPUPlace())
    first, second = names[0], names[1]
    a, b = fetch(exe, main, first, second)
    found = fetch(exe, main, second, first, second)
    for value, wanted in zip(found, (b, a, b), strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert exe.stats["reasons"] == {NEW_PROGRAM: 1}


def test_the_first_fetches_stay_alone() -> None:
    """Occasional fetches do not slow the fetches of a training loop."""
    main, names = deep(4)
    exe = static.Executor(paddle.CPUPlace())
    for name in (names[-1], names[0], names[1], names[-1]):
        fetch(exe, main, name)
    sets = [compiled.compilation.fetches for compiled in exe._runner.all_compiled()]
    assert sets[0] == (names[-1],)
    assert sets[1] == (names[-1], names[0])
    assert set(sets[2]) > {names[-1], names[0], names[1]}


def test_data_parallel_fetches_together() -> None:
    """Programs on several devices share compilations of fetches, too."""
    main, _names = deep(6)
    feed = {"x": np.ones((4, 4), "float32")}
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    program = static.CompiledProgram(main).with_data_parallel(places=static.cpu_places(2))
    found = [exe.run(program, feed=feed, fetch_list=[n], scope=scope)[0] for n in variables(main)]
    assert program.stats["reasons"][OTHER_FETCHES] <= 4
    wanted = exe.run(main, feed=feed, fetch_list=variables(main), scope=scope)
    for value, alone in zip(found[:-1], wanted[:-1], strict=True):
        np.testing.assert_allclose(value, alone, rtol=1e-6)


def goes(is_gone: Callable[[], bool]) -> bool:
    """Collect garbage until `is_gone`; False after 5 s.

    The collector does nothing while another thread collects; a leak would last.
    """
    end = time.monotonic() + 5
    while time.monotonic() < end:
        gc.collect()
        if is_gone():
            return True
        time.sleep(0.01)
    return False


def test_dropped_programs_go() -> None:
    """The compiled forms of a program are released with it, also after pruning."""
    exe = static.Executor(paddle.CPUPlace())
    main, names = deep(2)
    fetch(exe, main, names[0])
    exe.run(main, feed=FEED, fetch_list=[names[1]], use_prune=True, scope=static.Scope())
    assert exe.stats["compiled_programs"] == 2
    alive = weakref.ref(main)
    made = [weakref.ref(compiled) for compiled in exe._runner.all_compiled()]
    del main
    # the program, and of what was made of it only the pruned one
    assert goes(lambda: alive() is None)
    assert goes(lambda: exe.stats["compiled_programs"] == 0)
    assert goes(lambda: not any(ref() for ref in made))


def test_what_is_kept_is_bounded() -> None:
    """The least recently used program is dropped, and compiled again on demand."""
    kept, main = KeptPrograms(most=2), static.Program()
    made: list[Any] = []

    def find(number: int) -> Any:
        def make(names: tuple[str, ...]) -> Any:
            made.append(number)
            return SimpleNamespace(reason=NEW_PROGRAM)

        return kept.find(main, number, ("loss",), 1, make)[0]

    one, two = find(1), find(2)
    assert find(1) is one
    find(3)
    assert find(1) is one and len(kept.all()) == 2
    assert find(2) is not two
    assert made == [1, 2, 3, 2]
    assert MOST_COMPILED >= 16


@pytest.mark.exhaustive
def test_a_long_process_stays_small() -> None:
    """In a short run of tests/storms/held.py, dropped programs go, and fetches share."""
    found = held.programs(3)
    assert found.alive <= 1, found
    found = held.fetches(8)
    assert found.alive <= 5, found


def test_evicted_shapes_are_released() -> None:
    """A program that runs on many shapes keeps only the last ones."""
    main, names = deep(1)
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    runner = exe._runner
    feeds = [{"x": np.ones((rows, 4), "float32")} for rows in (1, 2)]
    exe.run(main, feed=feeds[0], fetch_list=[names[0]], scope=scope)
    (executables,) = runner._kept.all()
    first = weakref.ref(executables.all()[0])
    for number in range(MAX_SHAPES):
        executables.find(number, 1, even=True)
    assert goes(lambda: first() is None), list(map(type, gc.get_referrers(first())))
    exe.run(main, feed=feeds[0], fetch_list=[names[0]], scope=scope)
    assert len(executables.all()) == MAX_SHAPES


def test_a_set_that_cannot_be_compiled() -> None:
    """If a guessed set of fetches does not compile, the run still succeeds."""
    from graphopt.errors import FetchError

    main, names = deep(4)
    kept = KeptPrograms()

    def make(fetches: tuple[str, ...]) -> Any:
        if len(fetches) > 2:
            raise FetchError("cannot be fetched")
        return SimpleNamespace(reason=NEW_PROGRAM, fetches=fetches)

    for name in names:
        found, served = kept.find(main, (), (name,), 1, make)
        assert found.fetches == served and name in served


def test_what_may_be_fetched_besides() -> None:
    """Further fetches are later variables, no state, within a bound of memory."""
    main, names = deep(3)
    assert next(iter(fetchable(main, (names[0],), 3))) in variables(main)
    assert set(fetchable(main, (names[0],), 3)) == set(variables(main))
    assert list(fetchable(main, (names[0],), 1 << 30)) == [names[-1]], "one number has room"
    assert KeptPrograms().serving((1, 1, ()), ("a",)) is None
