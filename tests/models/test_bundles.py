"""Bundles: a model with its executables in one file, which is read whole or refused."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.main import main as command
from graphopt.errors import FormatError, LimitError, UnsupportedError
from graphopt.inference import Config, create_predictor
from graphopt.ir.dialect.ops.conv import Conv2d
from graphopt.ir.formats.limits import Limits
from graphopt.models import import_model
from graphopt.models.bundle import read, write
from graphopt.models.bundle.layout import MAGIC
from graphopt.models.bundle.sizes import ranges_of
from graphopt.models.bundle.write import check_pure, for_sizes
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.devices.machine import Machine

HEAD = len(MAGIC) + 40


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a text model of open length."""
    paddle.enable_static()
    folder = tmp_path_factory.mktemp("model")
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        ids = static.data("ids", [None, None], "int64")
        mask = static.data("mask", [None, None], "float32")
        rows = paddle.nn.Embedding(30, 6)(ids) * paddle.unsqueeze(mask, 2)
        out = static.nn.fc(paddle.mean(paddle.nn.functional.softmax(rows, axis=1), axis=1), 3)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(folder / "text"), [ids, mask], [out], exe, program=main)
    return folder / "text"


def bundle_of(model: Path, folder: Path, sizes: str, *options: str) -> Path:
    path = folder / "app.graphopt"
    assert command(["compile", str(model), "--sizes", sizes, "-o", str(path), *options]) == 0
    return path


@pytest.fixture(scope="module")
def exact(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a bundle for two sizes."""
    sizes = "ids=2x5,mask=2x5,ids=1x8,mask=1x8"
    return bundle_of(model, tmp_path_factory.mktemp("exact"), sizes)


@pytest.fixture(scope="module")
def ladder(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a bundle for a range of lengths."""
    folder = tmp_path_factory.mktemp("ladder")
    return bundle_of(model, folder, "ids=2x8..16,mask=2x8..16", "--padding", "0.5")


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Collect the compilations of XLA during a test."""
    events: list[str] = []
    is_on = True

    def note(event: str, *_: Any, **__: Any) -> None:
        if is_on and event.endswith("backend_compile_duration"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    yield events
    is_on = False


def feed(rows: int, length: int) -> dict[str, Any]:
    generator = np.random.default_rng(length)
    return {
        "ids": generator.integers(0, 30, (rows, length)),
        "mask": generator.integers(0, 2, (rows, length)).astype("float32"),
    }


@pytest.mark.exhaustive
def test_results_are_the_models_without_a_compilation(
    model: Path, exact: Path, compiled: list[str]
) -> None:
    """A bundle gives the model's results to the last bit; a size that it lacks is compiled."""
    mine = import_model(exact)
    found = {size: mine.run(feed(*size)) for size in ((2, 5), (1, 8))}
    assert compiled == []
    assert mine._executor().stats["reasons"] == {"from a bundle": 1}
    found[3, 4] = mine.run(feed(3, 4))
    assert compiled
    for size, values in found.items():
        for a, b in zip(values, import_model(model).run(feed(*size)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.exhaustive
def test_a_range_serves_every_size_in_it(model: Path, ladder: Path, compiled: list[str]) -> None:
    mine = import_model(ladder)
    found = {length: mine.run(feed(2, length)) for length in range(5, 17)}
    assert compiled == []
    theirs = import_model(model)
    for length in (5, 8, 11, 16):
        np.testing.assert_allclose(found[length][0], theirs.run(feed(2, length))[0], rtol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "sizes",
    [
        "x=2x8x6x6,x=3x8x6x6",
        pytest.param("x=2x8x6x6", marks=pytest.mark.exhaustive),
        pytest.param("x=2x8x6x6,x=1x8x40x40", marks=pytest.mark.exhaustive),
    ],
)
def test_executables_are_those_of_declared_sizes(
    tmp_path: Path, compiled: list[str], sizes: str
) -> None:
    """Convolutions are computed as for declared sizes, and all sizes share prepared weights."""
    with paddle.utils.unique_name.guard(), static.scope_guard(static.Scope()):
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            x = static.data("x", [None, 8, None, None], "float32")
            h = static.nn.conv2d(x, 64, 3, padding=1, act="relu")
            h = paddle.nn.functional.relu(static.nn.conv2d(h, 64, 3, padding=1))
            out = paddle.mean(h, axis=[2, 3])
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(tmp_path / "m"), [x], [out], exe, program=main)
    mine = import_model(bundle_of(tmp_path / "m", tmp_path, sizes))
    shapes = [tuple(map(int, each.removeprefix("x=").split("x"))) for each in sizes.split(",")]
    given = [{"x": np.random.default_rng(0).random(shape, dtype="float32")} for shape in shapes]
    compiled.clear()
    found = [mine.run(feed)[0] for feed in given]
    assert compiled == []
    for value, feed in zip(found, given, strict=True):
        (want,) = import_model(tmp_path / "m").run(feed)
        np.testing.assert_allclose(value, want, rtol=1e-4, atol=1e-6)
    program = import_model(tmp_path / "m").program
    place = paddle.CPUPlace()
    whole = compile_program(Compilation(program, ("x",), (out.name,), None, (place,)))
    (first, *_) = for_sizes(whole, given)
    convolutions = [op for op in first.module.walk() if isinstance(op, Conv2d)]
    assert [op.attr("algorithm") for op in convolutions] == ["", "im2col"]


@pytest.mark.exhaustive
def test_a_predictor_reads_it(exact: Path, ladder: Path, compiled: list[str]) -> None:
    for path, length in ((exact, 5), (ladder, 9)):
        predictor = create_predictor(Config(str(path)))
        given = feed(2, length)
        (found,) = predictor.run([given[name] for name in predictor.get_input_names()])
        assert compiled == []
        np.testing.assert_array_equal(found, import_model(path).run(given)[0])


@pytest.mark.parametrize("lacks", ["processor", "instructions", "compiler"])
def test_another_machine_compiles_the_stablehlo(
    exact: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    """On another machine the results are the same, and a warning gives the reason."""
    expected = import_model(exact).run(feed(2, 5))
    here = read.this_machine

    def other(device: Any) -> Machine:
        return here(device)._replace(**{lacks: frozenset() if lacks == "instructions" else "z80"})

    monkeypatch.setattr(read, "this_machine", other)
    if lacks == "instructions" and not here(jax.devices("cpu")[0]).instructions:
        pytest.skip("this system does not list the instructions of its processor")
    with pytest.warns(UserWarning, match=r"app\.graphopt: compiling the programs"):
        found = import_model(exact).run(feed(2, 5))
    np.testing.assert_array_equal(found[0], expected[0])


def test_executables_that_xla_refuses(exact: Path, tmp_path: Path) -> None:
    """If XLA refuses an executable, its StableHLO is compiled; if that too, the program."""
    whole, manifest = parts(exact)
    expected = import_model(exact).run(feed(2, 5))
    for entry in manifest["executables"]:
        entry["executable"] = manifest["program"]
    path = with_manifest(tmp_path, whole, manifest)
    with pytest.warns(UserWarning, match="compiling the programs of the bundle again"):
        np.testing.assert_array_equal(import_model(path).run(feed(2, 5))[0], expected[0])
    for entry in manifest["executables"]:
        entry["stablehlo"] = manifest["program"]
    path = with_manifest(tmp_path, whole, manifest)
    with (
        pytest.warns(UserWarning, match="compiling the programs of the bundle again"),
        pytest.warns(UserWarning, match="compiling the model again"),
    ):
        np.testing.assert_array_equal(import_model(path).run(feed(2, 5))[0], expected[0])


def test_a_changed_parameter_counts(exact: Path) -> None:
    """The executables read the state in the scope; values prepared from it are computed again."""
    mine = import_model(exact)
    before = mine.run(feed(2, 5))[0]
    for name, array in mine.parameters.items():
        mine.scope.var(name).put(np.array(array) * 2)
    after = mine.run(feed(2, 5))[0]
    np.testing.assert_allclose(after - before, after / 2, atol=0.5)
    assert not np.array_equal(after, before)


def test_other_fetches_are_compiled(exact: Path, compiled: list[str]) -> None:
    mine = import_model(exact)
    (name,) = mine.fetch_names
    ids = feed(2, 5)
    mine.run(ids, fetch=[name, name])
    assert compiled


# -- files that are not whole ----------------------------------------------------------------------


def parts(path: Path) -> tuple[bytes, dict[str, Any]]:
    """Split a bundle into the bytes after the manifest, and the manifest."""
    data = path.read_bytes()
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    return data[HEAD + size :], json.loads(data[HEAD : HEAD + size])


def with_manifest(folder: Path, rest: bytes, manifest: Any) -> Path:
    """Write a bundle with another manifest and a valid digest of it."""
    text = json.dumps(manifest).encode()
    path = folder / "changed.graphopt"
    digest = hashlib.sha256(text).digest()
    path.write_bytes(MAGIC + len(text).to_bytes(8, "little") + digest + text + rest)
    return path


def outcome(path: Path) -> Any:
    """Run a bundle; return its result, or None after a FormatError that names the file."""
    try:
        return import_model(path).run(feed(2, 5))[0]
    except FormatError as error:
        assert str(path) in str(error)
        return None


def test_a_file_that_was_cut_off(exact: Path, tmp_path: Path) -> None:
    data, path = exact.read_bytes(), tmp_path / "cut.graphopt"
    ends = [*range(0, HEAD + 4, 7), *range(HEAD, len(data), len(data) // 12), len(data) - 1]
    expected = outcome(exact)
    refused = 0
    for end in ends:
        path.write_bytes(data[:end])
        found = outcome(path)
        refused += found is None
        assert found is None or np.array_equal(found, expected)
    assert refused >= len(ends) - 2  # the last piece may not be needed


def test_a_byte_that_changed(exact: Path, tmp_path: Path) -> None:
    """A changed byte raises FormatError, unless this run does not read it."""
    data, path = exact.read_bytes(), tmp_path / "flipped.graphopt"
    expected = outcome(exact)
    places = [*range(0, HEAD, 5), *range(HEAD, len(data), len(data) // 25)]
    for at in places:
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        found = outcome(path)
        assert found is None or np.array_equal(found, expected)
        assert at >= HEAD or found is None


def test_a_manifest_without_a_record(exact: Path, tmp_path: Path) -> None:
    rest, whole = parts(exact)
    for key in whole:
        path = with_manifest(tmp_path, rest, {k: v for k, v in whole.items() if k != key})
        assert outcome(path) is None, key
    for manifest in (None, 7, [], "x"):
        assert outcome(with_manifest(tmp_path, rest, manifest)) is None
    entry = whole["program"]
    for changed in ({"size": 1 << 62}, {"at": 1 << 62}, {"size": "x"}):
        path = with_manifest(tmp_path, rest, whole | {"program": entry | changed})
        assert outcome(path) is None


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*compiling")
@pytest.mark.parametrize("kind", ["exact", "ladder"])
def test_a_manifest_of_wrong_records(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Whatever a record of the manifest is, a run gives a result or a FormatError."""
    rest, whole = parts(request.getfixturevalue(kind))
    for key in whole:
        for wrong in (None, 7, "x", [], {}, [[]], -1, {"at": -5, "size": 1, "sha256": ""}):
            outcome(with_manifest(tmp_path, rest, whole | {key: wrong}))


def test_parts_beyond_the_limits(exact: Path, tmp_path: Path) -> None:
    with pytest.raises(LimitError, match=r"app\.graphopt: the parameters"):
        read.read_bundle(exact, Limits(params_bytes=100))
    path = tmp_path / "large.graphopt"
    path.write_bytes(MAGIC + (1 << 40).to_bytes(8, "little") + bytes(32))
    with pytest.raises(LimitError, match="manifest"):
        import_model(path)


def test_info_describes_it(exact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["info", str(exact)]) == 0
    assert "ids" in capsys.readouterr().out


# -- the command -----------------------------------------------------------------------------------


def test_sizes_in_words() -> None:
    assert ranges_of(["x=1x3,y=2", "x=1x4..8"]) == [
        {"x": ((1, 1), (3, 3)), "y": ((2, 2),)},
        {"x": ((1, 1), (4, 8))},
    ]
    assert len(ranges_of(["x=1,x=2"])) == 2
    for wrong in ("1x3", "x=", "x=0", "x=3..2", "x=ax3", "x=1..2..3"):
        with pytest.raises(ValueError, match="--sizes"):
            ranges_of([wrong])


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("ids=2x5", "the inputs are ids, mask"),
        ("ids=2x5,mask=5", "'mask' should fit"),
        ("ids=2x4..9,mask=2x4..8", "axis 1"),
    ],
)
def test_sizes_that_do_not_fit(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sizes: str, words: str
) -> None:
    path = tmp_path / "app.graphopt"
    assert command(["compile", str(model), "--sizes", sizes, "-o", str(path)]) == 1
    assert words in capsys.readouterr().err
    assert not path.exists()


def test_values_of_parameters_that_xla_computes(tmp_path: Path) -> None:
    """NumPy has no rule for exp, so the bundle holds a program that prepares the weights once."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 3], "float32")
        out = paddle.matmul(x, paddle.exp(paddle.create_parameter([3, 3], "float32")))
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(tmp_path / "exp"), [x], [out], exe, program=main)
    rows = np.ones((2, 3), "float32")
    bundle = bundle_of(tmp_path / "exp", tmp_path, "x=2x3")
    _, manifest = parts(bundle)
    assert manifest["prepare"]["size"] > 0
    found, wanted = (import_model(path).run({"x": rows}) for path in (bundle, tmp_path / "exp"))
    np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.exhaustive
def test_a_bundle_that_calls_lapack(tmp_path: Path) -> None:
    """The process that runs a bundle registers LAPACK's functions, though it traces no call."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), static.scope_guard(static.Scope()):
        x = static.data("x", [None, 2, 2], "float32")
        ones = paddle.nn.initializer.Constant(1.0)
        scale = paddle.create_parameter([2, 2], "float32", default_initializer=ones)
        out = paddle.linalg.cholesky(x * scale)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        static.save_inference_model(str(tmp_path / "roots"), [x], [out], exe, program=main)
    bundle = bundle_of(tmp_path / "roots", tmp_path, "x=1x2x2")
    code = (
        "import numpy as np\n"
        "from graphopt.models import import_model\n"
        f"model = import_model({str(bundle)!r})\n"
        "print(model.run({'x': 4 * np.eye(2, dtype='float32')[None]})[0].sum())\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout.strip()) == (0, "4.0"), found.stderr


@pytest.mark.exhaustive
def test_a_bundle_needs_no_dialect(exact: Path) -> None:
    """A bundle runs without xDSL and without the passes."""
    code = (
        "import sys, numpy as np\n"
        "from graphopt.inference import Config, create_predictor\n"
        f"predictor = create_predictor(Config({str(exact)!r}))\n"
        "given = {'ids': np.zeros((2, 5), 'int64'), 'mask': np.ones((2, 5), 'float32')}\n"
        "for name, array in given.items():\n"
        "    predictor.get_input_handle(name).copy_from_cpu(array)\n"
        "predictor.run()\n"
        "print(*(m for m in sys.modules if m.partition('.')[0] == 'xdsl'))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not found.stdout.strip()


def test_a_program_that_trains_is_refused() -> None:
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        loss = paddle.mean(static.nn.fc(static.data("x", [None, 2], "float32"), 2))
        paddle.optimizer.SGD(0.1).minimize(loss)
    compilation = Compilation(main, ("x",), (loss.name,), None, (paddle.CPUPlace(),))
    with pytest.raises(UnsupportedError, match="updates variables"):
        check_pure(compile_program(compilation))


def test_a_folder_that_cannot_be_written_is_told_first(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that cannot be written is an error before anything is compiled."""
    monkeypatch.setattr(write.os, "access", lambda *_: False)
    monkeypatch.setattr(write, "_steps", lambda *_: pytest.fail("it compiles"))
    target = tmp_path / "m.graphopt"
    assert command(["compile", str(model), "--sizes", "ids=1x8,mask=1x8", "-o", str(target)]) == 1
    assert f"{target}: Permission denied" in capsys.readouterr().err
