"""Programs compiled by an earlier process run without a module, and never in place of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

import graphopt as paddle
from graphopt import nn, static
from graphopt.buckets import Buckets, powers_of_two
from graphopt.errors import ProgramError
from graphopt.ir.program import Program
from graphopt.ir.translate.operators import registry
from graphopt.nn import functional as F
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.devices.places import CPUPlace
from graphopt.runtime.disk import known, own_code, summaries
from graphopt.runtime.disk.program_key import key_of
from graphopt.runtime.disk.summaries import record_of
from graphopt.runtime.settings.flags import WITHOUT
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.steps import xla_forms
from graphopt_tests.runtime.nets import Net, build, strategy

X = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")


@pytest.fixture(autouse=True)
def _on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a new directory for each test, which stores quickly compiled programs, too."""
    monkeypatch.setattr(known, "use_cache", lambda: tmp_path)
    monkeypatch.setattr(summaries, "our_directory", lambda: tmp_path)
    for module in (known, summaries):
        monkeypatch.setattr(module, "most_bytes", lambda: 1 << 30)
    monkeypatch.setattr(xla_forms, "least_seconds", lambda: 0.0)


@pytest.fixture
def no_module(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes all further parsing fail."""

    def fail(compilation: Any) -> Any:
        raise AssertionError("a program was parsed")

    return lambda: monkeypatch.setattr(summaries, "compile_program", fail)


def files(folder: Path) -> list[Path]:
    return sorted((folder / summaries.FOLDER).iterdir())


def net(scale: float = 2.0) -> Net:
    """Build a network that trains, with dropout and an embedding."""

    def make() -> tuple[Any, Any]:
        x = static.data("x", [None, 4], "float32")
        ids = static.data("ids", [None], "int64")
        hidden = F.dropout(static.nn.fc(x, 8, activation="relu"), 0.5) * scale
        hidden = hidden + static.nn.embedding(ids, [6, 8])
        loss = paddle.mean(paddle.square(hidden))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, hidden

    with paddle.utils.unique_name.guard():
        return build(make)


def feed(rows: int = 5) -> dict[str, Any]:
    return {"x": X[:rows], "ids": np.arange(rows)}


def trained(scale: float = 2.0) -> list[Any]:
    """Train a new network for three steps in a new scope; return its losses."""
    with static.scope_guard(static.Scope()):
        paddle.seed(1)
        made = net(scale)
        return [made.run(feed(), made.loss)[0] for _ in range(3)]


def folded() -> Program:
    """Build an inference program with weights that are prepared separately."""
    main, startup = static.Program(), static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        x = static.data("x", [None, 3, 8, 8], "float32")
        y = static.nn.conv2d(x, 4, 3, bias_attr=False)
        static.nn.batch_norm(y, is_test=True, act="relu")
    static.Executor().run(startup)
    return main.clone(for_test=True)


@pytest.mark.exhaustive
def test_a_known_program_is_not_parsed(no_module: Callable[[], None], tmp_path: Path) -> None:
    """It trains to the same bits, and its feeds are checked as before."""
    wanted = trained()
    assert files(tmp_path)
    with static.scope_guard(static.Scope()):
        paddle.seed(1)
        made = net()
        no_module()
        found = [made.run(feed(), made.loss)[0] for _ in range(3)]
        np.testing.assert_array_equal(found, wanted)
        with pytest.raises(IndexError, match="'ids' was fed 6"):
            made.run({"x": X, "ids": np.arange(2, 7)}, made.loss)


def test_prepared_weights_of_a_known_program(no_module: Callable[[], None]) -> None:
    """They are computed from the scope's parameters, and again after a change."""
    image = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype("float32")
    with static.scope_guard(static.Scope()) as _, paddle.utils.unique_name.guard():
        main = folded()
        last = main.global_block().ops[-1].output("Out")[0]
        wanted = static.Executor().run(main, {"x": image}, [last])[0]
        no_module()
        executor = static.Executor()
        found = executor.run(main, {"x": image}, [last])[0]
        np.testing.assert_array_equal(found, wanted)
        weight = main.all_parameters()[0].name
        holder = static.global_scope().find_var(weight).get_tensor()
        holder.set(np.zeros_like(np.array(holder)), None)
        assert not np.array_equal(executor.run(main, {"x": image}, [last])[0], wanted)


def rolled() -> tuple[Any, Any]:
    """Run a program that padding rows would change; return fetches and statistics."""
    main = static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4], "float32")
        y = paddle.roll(x, 1, axis=0)
    executor = static.Executor(paddle.CPUPlace(), buckets=Buckets({"batch": powers_of_two(8)}))
    return executor.run(main, {"x": X}, [y]), executor.stats


def test_a_program_that_cannot_be_padded_is_not_tried_again(
    no_module: Callable[[], None], tmp_path: Path
) -> None:
    """A later process has the reason and runs the feeds unpadded."""
    (wanted,), before = rolled()
    assert len(files(tmp_path)) == 2, "the reason, and the program that runs"
    no_module()
    (found,), stats = rolled()
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(found, np.roll(X, 1, axis=0))
    assert stats["exact"] == before["exact"]
    assert stats["exact"][0].startswith("no-rule: pd.roll")


@pytest.mark.exhaustive
def test_another_size_is_compiled(tmp_path: Path) -> None:
    """Another size is compiled from the program, which is parsed then."""
    with static.scope_guard(static.Scope()):
        paddle.seed(1)
        made = net()
        wanted = [made.run(feed(rows), made.loss)[0] for rows in (5, 3)]
    trained()
    for file in (tmp_path / known.FOLDER).iterdir():
        file.unlink()
    with static.scope_guard(static.Scope()):
        paddle.seed(1)
        made = net()
        found = [made.run(feed(rows), made.loss)[0] for rows in (5, 3)]
    np.testing.assert_array_equal(found, wanted)


def test_a_program_that_changes_is_another_one() -> None:
    """A program that is changed after a run gives the new results."""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [None, 4], "float32")
        y = x * 2.0
    for factor in (2.0, 3.0):
        (scale,) = (op for op in main.global_block().ops if op.type == "scale")
        scale._set_attr("scale", factor)
        for _ in range(2):
            found = static.Executor().run(main, {"x": X}, [y])[0]
            np.testing.assert_allclose(found, X * factor, rtol=1e-6)


@pytest.mark.every(3)
@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_a_damaged_summary_is_made_again(
    tmp_path: Path, damage: bytes | None, no_module: Callable[[], None]
) -> None:
    wanted = trained()
    for file in files(tmp_path):
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(bytes(content) if damage is None else damage)
    np.testing.assert_array_equal(trained(), wanted)
    made = net()
    no_module()
    made.run(feed(), made.loss)


@pytest.mark.exhaustive
def test_a_summary_of_something_else_is_no_crash(tmp_path: Path) -> None:
    """A well-formed entry with other contents is ignored."""
    from graphopt.runtime.disk.entries import write_entry

    wanted = trained()
    for file in files(tmp_path):
        write_entry(file, b'{"plan": 3}', 1 << 30)
    np.testing.assert_array_equal(trained(), wanted)


def doubled(scale: float = 2.0, dtype: str = "float32", *, name: str = "x") -> Program:
    main = static.Program()
    with paddle.utils.unique_name.guard(), static.program_guard(main, static.Program()):
        _ = static.data(name, [None, 4], dtype) * scale
    return main


def key(program: Program, **options: Any) -> str | None:
    given: dict[str, Any] = {"feeds": ("x",), "fetches": ("tmp_0",), "places": (CPUPlace(),)}
    return key_of(Compilation(program, **{**given, **options}), "settings")


def written_by(release: int) -> Program:
    """Return the program as if it was loaded from a file of a release."""
    program = doubled()
    program.saved = {"version": {"version": release}}
    for op in program.global_block().ops:
        op.is_loaded = True
    return program


def test_keys_are_of_the_content() -> None:
    """Keys are equal for equal programs, and differ if the module would differ."""
    first = key(doubled())
    assert first is not None and first == key(doubled())
    others = [
        key(doubled(2.0000001)),
        key(doubled(dtype="float64")),
        key(doubled(name="y")),
        key(doubled(), feeds=()),
        key(doubled(), fetches=("x",)),
        key(doubled(), axes={"x": (("batch",), None)}),
        key(doubled(), strategy=BuildStrategy()),
        key(doubled(), strategy=strategy(fuse_bn_act_ops=True)),
        key(doubled(), data_parallel=True),
        key(doubled(), data_parallel=True, sample_weighted=True),
        key(written_by(1008005)),
        key(written_by(2006002)),
        key_of(Compilation(doubled(), ("x",), ("tmp_0",), None, (CPUPlace(),)), "others"),
    ]
    paddle.set_flags({WITHOUT: "dce"})
    try:
        others.append(key(doubled()))
    finally:
        paddle.set_flags({WITHOUT: ""})
    assert len({first, *others}) == 1 + len(others)
    assert key(doubled()) == first


def test_programs_without_a_key() -> None:
    """Foreign passes, graph files, several places, and opaque attributes have no key."""
    assert key(doubled(), strategy=BuildStrategy().with_passes((DeadCodeElimination(),))) is None
    assert key(doubled(), strategy=strategy(debug_graphviz_path="graph")) is None
    assert key(doubled(), strategy=strategy(num_trainers=2)) is None
    assert key(doubled(), places=()) is None
    assert key(doubled(), data_parallel=True, places=(CPUPlace(), CPUPlace())) is None
    program = doubled()
    program.global_block().ops[0].attrs["function"] = lambda: None
    assert key(program) is None


def test_a_summary_comes_back_from_its_text() -> None:
    """A summary survives its text, as far as a step needs it."""
    program = doubled()
    compiled = compile_program(Compilation(program, ("x",), ("tmp_0",), None, (CPUPlace(),)))
    text = json.dumps(record_of(compiled))
    again = summaries.Summarized(compiled.compilation, json.loads(text))
    assert json.dumps(record_of(again)) == text
    assert [port.name for port in again.plan.feeds] == ["x"]
    assert again.plan.feeds[0].shape == compiled.plan.feeds[0].shape


def options_of(*layers: Any, trains: bool = False) -> dict[str, Any]:
    """Return XLA's options for a chain of layers, now and in a later process."""
    program = Program()
    with static.program_guard(program, Program()), paddle.utils.unique_name.guard():
        out = static.data("x", [2, 4, 8, 8], "float32")
        for layer in layers:
            out = layer()(out)
        if trains:
            paddle.optimizer.SGD(0.1).minimize(paddle.mean(out))
    compiled = compile_program(Compilation(program, ("x",), (out.name,), None, (CPUPlace(),)))
    again = summaries.Summarized(compiled.compilation, json.loads(json.dumps(record_of(compiled))))
    options = compiled.options()
    assert options and again.options() == options
    return options


def test_xla_keeps_the_products_beside_convolutions() -> None:
    """XLA keeps up to two products for each convolution in inference, as YNNPACK is slower."""

    def filters() -> Any:
        return nn.Conv2D(4, 4, 3, padding=1, groups=4)

    def lines() -> Any:
        return nn.Linear(8, 8)

    option = "xla_cpu_experimental_ynn_fusion_type"
    assert options_of(filters, lines, lines)[option] == ""
    assert option not in options_of(filters, lines, lines, lines)
    assert option not in options_of(lines)
    assert option not in options_of(filters, trains=True)


def test_a_program_changed_meanwhile_is_refused() -> None:
    """No entry is stored under the key of the old program."""
    program = doubled()
    compilation = Compilation(program, ("x",), ("tmp_0",), None, (CPUPlace(),))
    summary = record_of(compile_program(compilation))
    made = summaries.Summarized(compilation, summary, "key")
    assert made.whole is not None and made.key is None  # "key" is not that of the content
    made = summaries.Summarized(compilation, summary, "key")
    program.touch()
    with pytest.raises(ProgramError, match="changed"):
        _ = made.whole


def test_translations_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With foreign translations, whose code is not in keys, no entry is stored."""
    assert own_code.rules_are_ours()
    monkeypatch.setitem(registry.TRANSLATIONS, "of_another", lambda emitter: None)
    assert not own_code.rules_are_ours()
