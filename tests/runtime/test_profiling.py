"""The time of a step by op: each moment has one owner, and the program does not change."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.main import main as command
from graphopt.errors import UnsupportedError
from graphopt.models import import_model
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.profiling import peak
from graphopt.runtime.profiling.instructions import InstructionOps, Instructions
from graphopt.runtime.profiling.memory import Memory, memory_of, rows_that_fit
from graphopt.runtime.profiling.peak import ProductForm
from graphopt.runtime.profiling.profile import Profile
from graphopt.runtime.profiling.recording import InstructionSpan, record
from graphopt.runtime.profiling.run import IDLE, spread_time

FEED = {"x": np.ones((64, 32), "float32"), "y": np.zeros((64, 1), "int64")}
SCRIPT = """
import numpy as np
import paddle
from paddle import static

paddle.enable_static()
x = static.data("x", [None, 3], "float32")
loss = paddle.mean(paddle.tanh(static.nn.fc(x, 4)))
paddle.optimizer.SGD(0.1).minimize(loss)
exe = static.Executor()
exe.run(static.default_startup_program())
for _ in range(2):
    exe.run(feed={"x": np.ones((5, 3), "float32")}, fetch_list=[loss])
"""
HLO = """HloModule jit_replica, is_scheduled=true

%fused (p: f32[8,4]) -> f32[8,4] {
  %p = f32[8,4] parameter(0)
  %n = f32[8,4] negate(%p), metadata={op_name="jit(replica)/pd.scale#3/neg"}
  ROOT %t = f32[8,4] tanh(%n), metadata={op_name="jit(replica)/pd.tanh#4/jit(f)/tanh"}
}

%body (s: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %s = (s32[], f32[8,4]) parameter(0)
  %x = f32[8,4] get-tuple-element(%s), index=1
  %w = f32[4,6] constant({...})
  ROOT %d = f32[8,6] dot(%x, %w), lhs_contracting_dims={1}, metadata={op_name="pd.matmul_grad#2"}
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %a = f32[8,4] parameter(0), metadata={op_name="fed[0]"}
  %loop = (s32[], f32[8,4]) while(%a), body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %f = f32[8,4] fusion(%a), kind=kLoop, calls=%fused
  %copy.2 = f32[8,4] copy(%a)
  %g = f32[8,4] negate(%copy.2), metadata={op_name="jit(replica)/pd.tanh#4/neg"}
  ROOT %copy.1 = f32[8,4] copy(%d)
}
"""


def test_instructions_are_shared_by_their_ops() -> None:
    """A fusion is shared by elements, a copy belongs to its source, a loop to its inner ops."""
    found = Instructions.of(HLO)
    assert found.shares("f") == {InstructionOps(3, False): 0.5, InstructionOps(4, False): 0.5}
    assert found.shares("d") == {InstructionOps(2, True): 1.0}
    assert found.shares("copy.1") == {InstructionOps(2, True): 1.0}
    assert found.shares("copy.2") == {InstructionOps(4, False): 1.0}
    assert found.shares("nowhere") == {}
    product = ProductForm("dot", "f32")
    assert found.flops() == {InstructionOps(2, True): {product: 5 * 2 * 8 * 6 * 4}}
    assert found.is_control("loop") and not found.is_control("f")


def test_products_with_padding_are_no_operations() -> None:
    """A 3 by 3 filter on a 2 by 2 image meets 4 elements at each place, not 9."""
    labels = "dim_labels=b01f_01io->b01f"
    apart = "size=3x3 stride=2x2 pad=3_3x3_3 lhs_dilate=2x2"
    text = f"""
ENTRY %main (x: f32[1,2,2,8]) -> f32[1,2,2,4] {{
  %x = f32[1,2,2,8] parameter(0)
  %w = f32[3,3,8,4] constant(0)
  ROOT %c = f32[1,2,2,4] convolution(%x, %w), window={{size=3x3 pad=1_1x1_1}}, {labels}
  %s = f32[1,3,3,4] convolution(%x, %w), window={{{apart}}}, {labels}
}}
"""
    found = Instructions.of(text)
    assert found.flops_alone("c") == 2 * (2 * 2 * 4) * 8 * 4
    # along an axis with a hole between its two elements the three places meet none, one and one
    assert found.flops_alone("s") == 2 * 4 * 8 * 2**2


def test_a_peak_is_not_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak is measured in the op's own form, or is an op's own speed if higher."""
    monkeypatch.setattr(peak, "peak_flops", lambda form: 100.0)
    one, other = ProductForm("dot", "f32"), ProductForm("convolution", "f32")
    work = [(Counter({one: 50}), 1.0), (Counter({other: 300}), 2.0)]
    found = peak.peaks(work)
    assert found == {one: 100.0, other: 150.0}
    assert [peak.seconds_at(flops, found) for flops, _ in work] == [0.5, 2.0]


def test_each_moment_is_given_away_once() -> None:
    """Concurrent instructions share their time; a loop gets the rest of its time."""
    step = InstructionSpan("step", 0.0, 10.0)
    spans = [
        InstructionSpan("a", -1, 4),
        InstructionSpan("b", 2, 6),
        InstructionSpan("loop", 1, 9),
        InstructionSpan("none", 3, 3),
    ]
    found = spread_time([step], spans, lambda name: name == "loop")
    assert found == {"a": 3.0, "b": 3.0, "loop": 3.0, IDLE: 1.0}
    assert spread_time([], spans, lambda name: False) == {}


@pytest.fixture(scope="module")
def profile() -> Iterator[tuple[Profile, Any, Any]]:
    """Profile a network that trains, with its parameter before and after."""
    paddle.enable_static()
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x, y = static.data("x", [None, 32], "float32"), static.data("y", [None, 1], "int64")
        hidden = static.nn.fc(x, 64, activation="relu", weight_attr="profiled.w")
        loss = paddle.nn.functional.cross_entropy(static.nn.fc(hidden, 10), y)
        paddle.optimizer.Adam(0.01).minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        slot = static.global_scope().find_var("profiled.w")
        before = np.array(slot.get_tensor())
        made = static.CompiledProgram(main).profile(FEED, [loss], steps=3)
        yield made, before, np.array(slot.get_tensor())


@pytest.mark.exhaustive
def test_all_of_a_step_is_told(profile: tuple[Profile, Any, Any]) -> None:
    """Ops, the rest and idle time add up to a step; nearly all instructions have an op."""
    found, _, _ = profile
    times = sum(row.seconds for row in found.rows)
    assert times + found.idle + found.other == pytest.approx(found.seconds)
    assert found.attributed == pytest.approx(times / found.seconds)
    assert found.other < 0.05 * (found.seconds - found.idle)
    assert list(found.peaks) == ["product of float32"] and found.peaks["product of float32"] > 0
    assert all(row.at_peak <= 1.001 * row.seconds for row in found.rows)
    assert "; peak of a product of float32: " in found.page().text().replace("\n  ", " ")
    assert found.seconds > 0 and found.steps == 3


@pytest.mark.exhaustive
def test_rows_are_ops_with_lines(profile: tuple[Profile, Any, Any]) -> None:
    """Forward and gradient are separate; each grouping has all of the time."""
    found, _, _ = profile
    rows = {(row.op, row.variable): row for row in found.rows}
    names = {op for op, _ in rows}
    assert {"pd.matmul", "pd.cross_entropy_with_softmax", "pd.adam"} <= names
    product = max((row for row in found.rows if row.op == "pd.matmul"), key=lambda row: row.flops)
    # forward, and the gradient of the weight: there is none of the feed
    assert product.flops == 2 * (2 * 64 * 32 * 64)
    assert product.forward > 0 and product.gradient > 0
    assert "test_profiling.py:" in product.line
    for by in ("line", "kind"):
        summed = found.table(by)
        assert sum(row.seconds for row in summed) == pytest.approx(
            sum(row.seconds for row in found.rows)
        )
        assert len(summed) < len(found.rows)
    with pytest.raises(ValueError, match="one of op, line, kind, found 'ops'"):
        found.table("ops")  # pyright: ignore[reportArgumentType]


def test_nothing_is_trained(profile: tuple[Profile, Any, Any]) -> None:
    """The profiled steps work on copies."""
    _, before, after = profile
    np.testing.assert_array_equal(before, after)


def test_it_shows_itself(profile: tuple[Profile, Any, Any]) -> None:
    """A profile is shown as text, as a notebook's table, and as data."""
    found, _, _ = profile
    assert "belong to ops" in str(found) and "pd.matmul" in str(found)
    assert "feeds, fetches" in str(found)
    assert "<table>" in found._repr_html_()
    assert "others" in found.page_by("op", 2).text()
    by_line = found.page_by("line").text()
    assert re.search(r"^line +ms ", by_line, re.MULTILINE)
    assert re.search(r"^feeds, fetches, executor +\d", by_line, re.MULTILINE)
    data = json.loads(json.dumps(found.to_json()))
    assert data["schema"] == 2 and len(data["ops"]) == len(found.rows)


def test_files_for_viewers(profile: tuple[Profile, Any, Any], tmp_path: Path) -> None:
    """Speedscope's weights sum to a step; Perfetto's events have names and do not overlap."""
    found, _, _ = profile
    found.speedscope(tmp_path / "a.json")
    found.perfetto(tmp_path / "b.json")
    data = json.loads((tmp_path / "a.json").read_text())
    (one,) = data["profiles"]
    assert one["type"] == "sampled" and len(one["samples"]) == len(one["weights"])
    assert sum(one["weights"]) == pytest.approx(found.seconds)
    frames = data["shared"]["frames"]
    assert all(0 <= number < len(frames) for sample in one["samples"] for number in sample)
    events = json.loads((tmp_path / "b.json").read_text())["traceEvents"]
    assert any(event["name"].startswith("pd.matmul") for event in events)
    ends: dict[int, float] = {}
    for event in events:
        assert event["ph"] == "X" and event["dur"] >= 0
        assert event["ts"] >= ends.get(event["tid"], 0) - 1e-6
        ends[event["tid"]] = event["ts"] + event["dur"]


def test_a_step_that_raises_ends_the_recording() -> None:
    """After a failed step, the next recording starts."""

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(fail, 1)
    with pytest.raises(UnsupportedError, match="no events of XLA's instructions"):
        record(lambda: None, 1)
    jitted = jax.jit(lambda x: x + 1)
    jitted(1.0)
    assert record(lambda: jitted(1.0).block_until_ready(), 2).steps


def test_what_cannot_be_profiled() -> None:
    """Zero steps and a startup program are refused."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        static.nn.fc(static.nn.fc(static.data("x", [None, 3], "float32"), 3), 3)
        with pytest.raises(ValueError, match="1 or more, found 0"):
            static.CompiledProgram(main).profile({"x": np.ones((1, 3), "float32")}, steps=0)
        with pytest.raises(UnsupportedError, match="startup program"):
            static.CompiledProgram(startup).profile({}, [])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script is run, and its training program is profiled; files are written."""
    script, data = tmp_path / "train.py", tmp_path / "profile.json"
    script.write_text(SCRIPT)
    # the script builds its program in the default one
    with static.program_guard(static.Program(), static.Program()):
        assert command(["profile", str(script), "--steps", "2", "--json", str(data)]) == 0
    said = capsys.readouterr().out
    assert "a step takes" in said and "pd.tanh" in said and "train.py:8" in said
    assert json.loads(data.read_text())["steps"] == 2
    assert command(["profile", str(tmp_path / "a.mlir")]) == 1
    assert "not text of the IR" in capsys.readouterr().err


def saved(folder: Path) -> Path:
    """Save a network of two layers."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 100], "float32")
        out = static.nn.fc(static.nn.fc(x, 1000, activation="tanh"), 10)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(folder / "net"), [x], [out], exe, program=main)
    return folder / "net"


def test_memory_of_a_step(tmp_path: Path) -> None:
    """State and feeds are exact; the live bytes at the peak are the wide layer's."""
    model = import_model(saved(tmp_path))
    names = tuple(model.feed_names), tuple(model.fetch_names)
    compilation = Compilation(model.program, *names, None, (paddle.CPUPlace(),))
    found = memory_of(compilation, {"x": (64, 100)})
    assert found.state == 4 * (100 * 1000 + 1000 + 1000 * 10 + 10)
    assert found.feeds == 4 * 64 * 100
    assert found.peak >= found.state + found.feeds + 4 * 64 * 1000
    assert found.peak <= found.state + found.feeds + 4 * 64 * 3000
    assert found.held[0].bytes >= 4 * 64 * 1000
    assert "alive at that time, by op" in str(found)


def test_rows_that_fit() -> None:
    """The rows are extrapolated linearly from two batches; one row cannot be halved."""
    asked: list[int] = []

    def measure(rows: int) -> Memory:
        asked.append(rows)
        return Memory(10, 0, 10 + 3 * rows, ())

    assert rows_that_fit(measure, 32, 40) == 10
    assert asked == [16, 32]
    assert rows_that_fit(measure, 32, 5) == 0
    assert (rows_that_fit(measure, 1, 13), rows_that_fit(measure, 1, 12)) == (1, 0)


def test_the_command_says_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 1 when the batch does not fit; a size that fits is named."""
    path = str(saved(tmp_path))
    assert command(["info", path, "--fits", "8GB", "--dim", "8"]) == 0
    assert "the step fits into 8.0 GB" in capsys.readouterr().out
    assert command(["info", path, "--fits", "700 kB", "--dim", "64"]) == 1
    said = capsys.readouterr().out
    (rows,) = re.findall(r"about --dim (\d+) fits", said)
    assert 8 < int(rows) < 64
    assert command(["info", path, "--fits", f"{700}kB", "--dim", rows]) == 0
    assert command(["info", path, "--fits", "much"]) == 1
    assert "such as 8GB or 512MB, found 'much'" in capsys.readouterr().err
