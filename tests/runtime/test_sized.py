"""Programs compiled for the fed sizes, and for fed numbers that decide sizes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.passes.engine.fusion import Applied, Declined
from graphopt.runtime.disk import known, summaries
from graphopt.runtime.settings.flags import TIER
from graphopt.runtime.steps import xla_forms
from graphopt.runtime.steps.executable import Executables
from graphopt.runtime.steps.run_hook import watching

SIZES = ((2, 6), (2, 6), (3, 9), (1, 40), (3, 9))


@pytest.fixture(autouse=True)
def _full() -> None:
    paddle.set_flags({TIER: "full"})


def images(batch: int, side: int) -> np.ndarray:
    return np.random.default_rng(side).random((batch, 8, side, side)).astype("float32")


def classifier(shape: list[int | None], *, trains: bool) -> Any:
    """Build a net with convolutions, pools and batch norms; return programs and a fetch."""
    with paddle.utils.unique_name.guard():
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x = static.data("x", shape, "float32")
            h = static.nn.conv2d(x, 64, 3, padding=1, act="relu")
            h = static.nn.batch_norm(static.nn.conv2d(h, 64, 3, padding=1), is_test=not trains)
            h = paddle.nn.functional.adaptive_avg_pool2d(paddle.nn.functional.relu(h), 1)
            out = paddle.mean(static.nn.fc(h, 3), axis=-1)
            if trains:
                out = paddle.mean(paddle.square(out - 1.0))
                paddle.optimizer.Momentum(0.05, 0.9).minimize(out)
        return main, startup, out


def results(shape: Any, sizes: Any, *, trains: bool) -> tuple[list[Any], list[Any]]:
    """Run images of some sizes; return the results and the compiled programs.

    `shape` maps a size to the declared shape.
    """
    found: list[Any] = []
    seen: list[Any] = []
    exe = static.Executor(paddle.CPUPlace())
    programs: dict[Any, Any] = {}
    with static.scope_guard(static.Scope()), watching(lambda compiled, *_: seen.append(compiled)):
        for size in sizes:
            declared = tuple(shape(size))
            if declared not in programs:
                programs[declared] = classifier(list(declared), trains=trains)
                if len(programs) == 1:
                    paddle.seed(7)
                    exe.run(programs[declared][1])
            main, _, out = programs[declared]
            found.append(exe.run(main, {"x": images(*size)}, [out])[0])
    return found, [compiled for compiled in seen if compiled.plan.feeds]


def algorithms(compiled: Any) -> list[str]:
    """List the algorithms of the convolutions."""
    ops = compiled.module.walk()
    return [op.attr("algorithm") for op in ops if op.name == "pd.conv2d"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("trains", [False, True])
def test_open_sizes_are_as_declared_ones(trains: bool) -> None:
    """Open sizes give the same bits and algorithms; no pass declines for an unknown size."""
    declared, wanted = results(lambda s: [s[0], 8, s[1], s[1]], SIZES, trains=trains)
    found, modules = results(lambda _: [None, 8, None, None], SIZES, trains=trains)
    for have, want in zip(found, declared, strict=True):
        np.testing.assert_array_equal(have, want)
    assert list(map(algorithms, modules)) == list(map(algorithms, wanted))
    assert len(set(map(str, map(algorithms, modules)))) > 1, "sizes matter here"
    for compiled in modules:
        reasons = {o.reason.name for o in compiled.report.outcomes if isinstance(o, Declined)}
        assert not {"unknown-size", "size-unknown"} & reasons


def test_what_needs_no_sizes_is_compiled_once() -> None:
    with paddle.utils.unique_name.guard():
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x = static.data("x", [None, 8], "float32")
            out = static.nn.fc(x, 4, activation="relu")
    seen: list[Any] = []
    exe = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()), watching(lambda compiled, *_: seen.append(compiled)):
        exe.run(startup)
        for rows in (2, 3):
            exe.run(main, {"x": np.ones((rows, 8), "float32")}, [out])
    assert len({id(compiled) for compiled in seen if compiled.plan.feeds}) == 1


def test_a_chain_of_matrices() -> None:
    """The cheapest order of products depends on the fed rows."""
    with paddle.utils.unique_name.guard():
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x, y = (static.data(name, [None, None], "float32") for name in "xy")
            out = paddle.matmul(paddle.matmul(x, y), static.data("z", [None, 1], "float32"))
    seen: list[Any] = []
    exe = static.Executor(paddle.CPUPlace())
    one = np.ones((40, 40), "float32")
    with watching(lambda compiled, *_: seen.append(compiled)):
        (found,) = exe.run(main, {"x": one, "y": one, "z": one[:, :1]}, [out])
    np.testing.assert_array_equal(found, np.full((40, 1), 1600.0))
    outcomes = seen[-1].report.outcomes
    assert any(isinstance(o, Applied) and o.rule == "reassociate-matmul" for o in outcomes)


@pytest.mark.exhaustive
def test_sizes_share_prepared_weights() -> None:
    """Sizes with the same algorithms share transposed and folded weights."""
    scope = static.Scope()
    exe = static.Executor(paddle.CPUPlace())
    main, startup, out = classifier([None, 8, None, None], trains=False)
    with static.scope_guard(scope):
        exe.run(startup)
        for size in ((1, 6), (2, 6), (3, 6), (2, 7)):
            exe.run(main, {"x": images(*size)}, [out])
    assert len(scope.prepared) == 1


@pytest.mark.exhaustive
def test_a_later_process_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size has its summary and its executable on disk."""
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    monkeypatch.setattr(summaries, "our_directory", lambda: tmp_path)
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)
    shape, sizes = (lambda _: [None, 8, None, None]), ((2, 6), (3, 9))
    before, _ = results(shape, sizes, trains=False)

    compile_program = summaries.compile_program

    def fail(compilation: Any) -> Any:
        assert not compilation.feeds, "a known program is compiled"
        return compile_program(compilation)

    monkeypatch.setattr(summaries, "compile_program", fail)
    found, _ = results(shape, sizes, trains=False)
    np.testing.assert_array_equal(np.concatenate(found), np.concatenate(before))


@pytest.mark.exhaustive
def test_forms_take_over_between_runs() -> None:
    """NumPy with open sizes hands over to XLA with known ones, whose state has other layouts."""
    paddle.set_flags({TIER: "auto"})
    want, _ = results(lambda s: [s[0], 8, s[1], s[1]], SIZES[:1], trains=False)
    main, startup, out = classifier([None, 8, None, None], trains=False)
    exe = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        paddle.seed(7)
        exe.run(startup)
        for _ in range(400):
            found = exe.run(main, {"x": images(*SIZES[0])}, [out])[0]
            np.testing.assert_allclose(found, want[0], rtol=1e-4, atol=1e-5)
            if any(text.startswith("full") for text in exe.stats.get("tiers", ())):
                return
            time.sleep(0.02)
    raise AssertionError("the full form has not come")


@pytest.mark.exhaustive
def test_a_report_is_of_the_sizes_that_were_fed() -> None:
    main, startup, out = classifier([None, 8, None, None], trains=False)
    program = static.CompiledProgram(main)
    exe = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        exe.run(startup)
        exe.run(program, {"x": images(2, 6)}, [out])
        exe.run(program, {"x": images(1, 40)}, [out])
    first, second = program.explanations()
    assert first.applied("choose-convolution") == second.applied("choose-convolution") == 1
    assert "unknown-size" not in program.explain("all")
    assert "im2col" in program.text().split("\n\n")[0]


def by_numbers(*, trains: bool) -> Any:
    """Build a program in which a fed number decides a shape and a repetition."""
    with paddle.utils.unique_name.guard():
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x = static.data("x", [None, 12], "float32")
            n = static.data("n", [1], "int64")
            h = paddle.reshape(static.nn.fc(x, 12, bias_attr=False), [-1, n, 4])
            out = paddle.mean(paddle.square(paddle.tile(h, [1, 1, n * 2])), axis=[0, 2])
            if trains:
                paddle.optimizer.SGD(0.1).minimize(paddle.sum(out))
        return main, startup, out


def run_numbers(numbers: list[int], *, trains: bool, binds: bool) -> tuple[list[Any], Any]:
    """Run fed numbers, as constants if it `binds`, else op by op; return results and statistics."""
    main, startup, out = by_numbers(trains=trains)
    exe = static.Executor(paddle.CPUPlace())
    found: list[Any] = []
    with static.scope_guard(static.Scope()), pytest.MonkeyPatch.context() as patch:
        if not binds:
            patch.setattr(Executables, "_for_numbers", lambda *_: None)
        paddle.seed(3)
        exe.run(startup)
        for number in numbers:
            feed = {"x": images(1, 3)[0, :, 0].repeat(4, 1), "n": np.array([number])}
            found.append(exe.run(main, feed, [out])[0])
    return found, exe.stats


@pytest.mark.exhaustive
@pytest.mark.parametrize("trains", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_numbers_that_decide_sizes(trains: bool) -> None:
    """The first number, and repeated ones, are constants, without a run op by op."""
    numbers = [3, 3, 1, 3, 1, 1, 3]
    want, stats = run_numbers(numbers, trains=trains, binds=False)
    assert stats["op_by_op"] == 1
    found, stats = run_numbers(numbers, trains=trains, binds=True)
    for have, wanted in zip(found, want, strict=True):
        np.testing.assert_allclose(have, wanted, rtol=1e-5)
    assert stats["compiled_shapes"] == 4  # the startup program, 3 and 1, and 1 op by op
    assert stats["op_by_op"] == 1
    assert run_numbers([3, 3], trains=trains, binds=True)[1]["op_by_op"] == 0


@pytest.mark.exhaustive
def test_numbers_that_change_in_each_run() -> None:
    """All but the first number run op by op: a compiled program would not be used again."""
    _, stats = run_numbers([1, 2, 3, 4, 6, 12], trains=True, binds=True)
    assert stats["compiled_shapes"] == 3


def test_numbers_that_nothing_can_have() -> None:
    """The error is that of a run op by op, and names the operator."""
    with pytest.raises(Exception, match="reshape"):
        run_numbers([5], trains=False, binds=True)
