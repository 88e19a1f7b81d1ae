"""The examples and benchmarks run, and compute the right results."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from graphopt import static
from graphopt.frontend.script import run_script
from graphopt_tests.frontend.programs import fresh

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PADDLE = sorted(path.stem for path in (EXAMPLES / "paddle_docs").glob("*.py"))
SCRIPTS = sorted(path.name for path in (EXAMPLES / "scripts").glob("*.py"))
LONGER = (
    *("resnet_data_parallel.py", "char_lstm.py", "gan.py", "metrics_ema.py"),
    *("half_precision.py", "transformer_encoder.py", "wide_deep.py"),
    *("mnist_dataloader.py", "sequence_classification.py"),
)

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set fresh programs, scope and names, CPU_NUM, and NumPy's seed."""
    monkeypatch.setenv("CPU_NUM", "1")
    np.random.seed(0)
    with fresh():
        yield


def run(name: str) -> dict[str, Any]:
    """Run an example of Paddle's pages, and return its names."""
    return runpy.run_path(str(EXAMPLES / "paddle_docs" / f"{name}.py"))


def parameter(name: str) -> Array:
    """Return the value of a parameter after the example."""
    slot = static.global_scope().find_var(name)
    assert slot is not None
    return slot.numpy()


def mean_hidden(x: Array, *, rate: float = 0.0) -> float:
    """Compute mean(x @ w + b) for the first fc with ten columns, with its last SGD update undone.

    The gradient of that mean with respect to each w is mean(x) / 10, with respect to each b 1 / 10.
    """
    w = parameter("fc_0.w_0") + rate * x.mean() / 10
    b = parameter("fc_0.b_0") + rate / 10
    return float(np.mean(x @ w + b))


@pytest.mark.smoke
def test_compiled_program() -> None:
    """The loss is computed from the parameters before the update."""
    left = run("compiled_program")
    np.testing.assert_allclose(left["loss_data"], mean_hidden(left["x"], rate=0.01), rtol=1e-5)
    assert left["compiled_prog"].explain()


@pytest.mark.smoke
def test_compiled_program_data_parallel() -> None:
    """Testing uses the trained parameters; each device computes the loss of its half."""
    left = run("compiled_program_data_parallel")
    halves = np.split(left["test_data"], 2)
    np.testing.assert_allclose(left["loss_data"], [mean_hidden(x) for x in halves], rtol=1e-5)
    assert left["compiled_train_prog"].stats["devices"] == 2


def test_parallel_executor() -> None:
    """Both executors share the parameters, after one step."""
    left = run("parallel_executor")
    halves = np.split(left["x"], 2)
    np.testing.assert_allclose(left["loss_data"], [mean_hidden(x) for x in halves], rtol=1e-5)
    assert left["train_exe"].device_count == left["test_exe"].device_count == 2


def test_drop_local_exe_scopes() -> None:
    """The program still runs after its temporaries are dropped."""
    left = run("drop_local_exe_scopes")
    again = left["parallel_exe"].run(feed={"X": left["x"]}, fetch_list=[left["loss"].name])
    np.testing.assert_array_equal(left["loss_data"], again[0])


def test_build_strategy() -> None:
    """The program trains under this strategy, and explains the effect of its flags."""
    left = run("build_strategy")
    exe = static.Executor()
    exe.run(static.default_startup_program())
    x = np.random.random((10, 1)).astype("float32")
    (loss,) = exe.run(left["program"], feed={"x": x}, fetch_list=[left["loss"]])
    np.testing.assert_allclose(loss, mean_hidden(x, rate=0.01), rtol=1e-5)
    for flag in ("enable_inplace", "memory_optimize", "reduce_strategy"):
        assert flag in left["program"].explain()


@pytest.mark.smoke
def test_gradient_scale_customized() -> None:
    """The update uses the fed gradient of the loss."""
    left = run("gradient_scale_customized")
    loss, gradient = left["loss_data"]
    np.testing.assert_allclose(gradient, 0.01, rtol=1e-6)
    np.testing.assert_allclose(loss, mean_hidden(left["x"], rate=0.01 * 0.01), rtol=1e-5)


def test_execution_strategy() -> None:
    """The executor that the example makes can train."""
    left = run("execution_strategy")
    static.Executor().run(static.default_startup_program())
    x = np.random.random((8, 13)).astype("float32")
    y = np.random.random((8, 1)).astype("float32")
    loss = left["avg_loss"].name
    losses = [left["train_exe"].run([loss], feed={"x": x, "y": y})[0] for _ in range(5)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", [name for name in PADDLE if name.endswith("_properties")])
def test_properties(name: str) -> None:
    """Every flag of the page can be set."""
    assert run(name)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.exhaustive if n in LONGER else ()) for n in SCRIPTS],
)
def test_script(name: str) -> None:
    """A script that imports paddle runs unchanged; it asserts its own results."""
    assert run_script(EXAMPLES / "scripts" / name) == 0


def test_every_script_is_listed() -> None:
    """The table of the scripts names each of them once."""
    table = (EXAMPLES / "scripts" / "README.md").read_text("utf-8")
    assert sorted(re.findall(r"^\| \[(\w+\.py)\]", table, re.MULTILINE)) == SCRIPTS


@pytest.mark.exhaustive
def test_greedy_decoder() -> None:
    """The decoder spells every word that it learned, and stops at its end."""
    spelt = module_of(EXAMPLES / "greedy_decoder.py").main()
    assert len(spelt) == 4 and all(word == found for word, found in spelt.items())


def test_export_a_layer(capsys: pytest.CaptureFixture[str]) -> None:
    """The files take the same steps as the layer, and the flag fuses inside the loop."""
    traced, deployed = module_of(EXAMPLES / "export_a_layer.py").main()
    assert traced == deployed == [0, 2, 10]
    assert re.search(r"^fuse_gemm_epilogue +1 of 1 ", capsys.readouterr().out, re.MULTILINE)


def test_every_example_has_a_test() -> None:
    """A new example needs a function here, called as the file."""
    missing = [n for n in PADDLE if not n.endswith("_properties") and f"test_{n}" not in globals()]
    assert not missing


def module_of(script: Path) -> ModuleType:
    """Load a script as a module."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def digits() -> ModuleType:
    """Load the digits example as a module."""
    for package in ("matplotlib", "sklearn", "tqdm"):
        pytest.importorskip(package)
    return module_of(EXAMPLES / "digits" / "train.py")


@pytest.mark.exhaustive  # it is what `make demo` runs
def test_digits_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One epoch learns, every fusion fires, and the files are written."""
    assert digits().main(epochs=1, out=tmp_path) > 0.5
    told = capsys.readouterr().out
    for flag, count in {
        "fuse_gemm_epilogue": 2,
        "fuse_bn_add_act_ops": 1,
        "fuse_bn_act_ops": 2,
        "fuse_elewise_add_act_ops": 1,
    }.items():
        assert re.search(rf"^{flag} +{count} of ", told, re.MULTILINE), told
    assert (tmp_path / "training.png").stat().st_size > 10_000
    assert "pd.fused_gemm_epilogue" in (tmp_path / "test_fused_graph.mlir").read_text("utf-8")
    page = (tmp_path / "index.html").read_text("utf-8")
    files = {path.name for path in tmp_path.iterdir()} - {"index.html"}
    assert set(re.findall(r"href=([\w.]+)", page)) == files


@pytest.mark.slow
def test_digits_is_accurate_and_deterministic(tmp_path: Path) -> None:
    """Two runs reach more than 97 % and write the same files, byte by byte."""
    module = digits()
    results = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        with fresh():
            assert module.main(out=folder) > module.REQUIRED_ACCURACY
        results.append((folder / "training.png").read_bytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "network",
    [
        pytest.param("transformer", marks=pytest.mark.exhaustive),
        pytest.param("lstm", marks=pytest.mark.slow),
    ],
)
def test_many_lengths(network: str) -> None:
    """Buckets compile fewer programs for the same losses, which the example compares."""
    example = module_of(EXAMPLES / "many_lengths.py")
    exact, stats = example.compare(getattr(example, network), steps=5)
    assert stats["compiled_shapes"] < exact["compiled_shapes"]
    assert stats["exact"] == []


@pytest.fixture
def custom_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Install the example package, as far as entry points go."""
    import tomllib

    folder = EXAMPLES / "custom_pass"
    points = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"][
        "entry-points"
    ]
    (info := tmp_path / "custom_pass-0.1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: custom-pass\nVersion: 0.1.0\n")
    lines = [
        line
        for group, named in points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module("custom_pass")


@pytest.mark.exhaustive
def test_custom_pass(custom_pass: ModuleType) -> None:
    """The entry point is found, the pass fires from the command, and its own tests pass."""
    from graphopt.testing import check_pass
    from graphopt_tests.cli.test_opt import opt

    assert len((EXAMPLES / "custom_pass" / "custom_pass.py").read_text("utf-8").splitlines()) <= 60
    program = """
    func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}) -> (tensor<?x4xf32> {pd.fetch = "y"}) {
      %s = pd.sigmoid(%x) : tensor<?x4xf32>
      %y = pd.multiply(%s, %x) : tensor<?x4xf32>
      func.return %y : tensor<?x4xf32>
    }
    """
    status, out, err = opt("-p", "fuse-silu", "--explain", "--verify-each", stdin=program)
    assert (status, "pd.silu(%x)" in out, "pd.sigmoid" in out) == (0, True, False), err
    assert re.search(r"^fuse-silu +1 of 1 ", err, re.MULTILINE), err
    check_pass(custom_pass.FuseSilu, examples=10, must_fire=3)


def test_custom_pass_by_decorator(custom_pass: ModuleType) -> None:
    """register_pass needs no installation; names of built-in passes cannot be taken."""
    from graphopt.errors import PassError
    from graphopt.passes.table.registry import all_passes, register_pass

    class Mine(custom_pass.FuseSilu):
        name = "fuse-silu-of-a-test"

    class Taken(custom_pass.FuseSilu):
        name = "fuse-bn-act"

    assert register_pass(Mine) is Mine
    assert all_passes()["fuse-silu-of-a-test"]() is Mine
    assert register_pass(Mine) is Mine
    with pytest.raises(PassError, match="'fuse-bn-act' exists already"):
        register_pass(Taken)


def test_broken_entry_points_name_themselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error for an entry point that does not load, or is no pass, names its package."""
    from graphopt.errors import PassError
    from graphopt.passes.table.registry import all_passes

    (info := tmp_path / "broken-0.1.0.dist-info").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1.0\n")
    points = (
        "gone = no_such_module:Pass\nno-pass = json:JSONDecoder\nother = xdsl.passes:ModulePass"
    )
    (info / "entry_points.txt").write_text(f"[graphopt.passes]\n{points}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in (("gone", "does not load"), ("no-pass", "is not a subclass")):
        with pytest.raises(PassError, match=f"{name} = .* of broken {text}"):
            all_passes()[name]()
    info = info.rename(tmp_path / "broken-0.2.0.dist-info")
    (info / "entry_points.txt").write_text("[graphopt.passes]\ncse = json:JSONDecoder\n")
    with pytest.raises(PassError, match="takes the name of a built-in pass"):
        all_passes()


def ask(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    try:
        with urllib.request.urlopen(url, body, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.exhaustive
def test_a_model_is_served() -> None:
    """The server reports its health, returns outputs, and explains a wrong request."""
    serve = runpy.run_path(str(EXAMPLES / "serve" / "serve.py"))
    folder = ROOT / "tests" / "data" / "models" / "infer_lenet"
    inputs = dict(np.load(folder / "inputs.npz"))
    model = serve["Model"](str(folder), [inputs], at_once=2)
    handler = type("Handler", (serve["Handler"],), {"model": model, "log_message": lambda *_: None})
    server = serve["ThreadingHTTPServer"](("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert ask(f"{url}/health") == (503, b"warming up")
        model.warm_up()
        assert ask(f"{url}/health") == (200, b"ok")
        written = io.BytesIO()
        np.savez(written, **inputs)
        status, body = ask(f"{url}/run", written.getvalue())
        assert status == 200
        (found,) = np.load(io.BytesIO(body)).values()
        (expected,) = np.load(folder / "outputs.npz").values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        written = io.BytesIO()
        np.savez(written, y=inputs["x"])
        assert ask(f"{url}/run", written.getvalue()) == (400, b"missing inputs: x")
        assert ask(f"{url}/run", b"no arrays")[0] == 400
        assert ask(f"{url}/other")[0] == 404
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def instructions() -> list[list[str]]:
    """Split the instructions of the Dockerfile into words."""
    text = (EXAMPLES / "serve" / "Dockerfile").read_text("utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    return [line.split() for line in lines if line]


def test_the_container_has_what_it_starts() -> None:
    """The copied files match the comment, and the command uses copied or built files only."""
    copied = [word for verb, *words in instructions() if verb == "COPY" for word in words[:-1]]
    names = [name for name in copied if not name.startswith(("--from", "/app"))]
    assert names == ["graphopt-*.whl", "constraints.txt", "model", "serve.py", "inputs.npz"]
    assert (EXAMPLES / "serve" / "serve.py").exists()
    assert (ROOT / "constraints.txt").exists()
    made = {"/app/bin/python", "/app/model.graphopt", "/app/serve.py", "/app/inputs.npz"}
    started = next(" ".join(words) for verb, *words in instructions() if verb == "CMD")
    assert set(re.findall(r"/app/[\w./]+", started)) == made
    users = [words for verb, *words in instructions() if verb == "USER"]
    assert users == [["65534"]], "not as root"


@pytest.mark.slow
def test_the_container_is_built(tmp_path: Path) -> None:
    """The container builds, if a container tool works here."""
    tool = shutil.which("docker") or shutil.which("podman")
    if tool is None or subprocess.run([tool, "info"], capture_output=True).returncode:
        pytest.skip("no container tool here")
    build = [*("python", "-m", "build", "--wheel", "--no-isolation"), "--outdir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True)
    for path in (ROOT / "constraints.txt", *(EXAMPLES / "serve").glob("[!_]*")):
        shutil.copy(path, tmp_path)
    saved = ROOT / "tests" / "data" / "models" / "infer_lenet"
    shutil.copy(saved / "inputs.npz", tmp_path)
    shutil.copytree(saved, tmp_path / "model")
    sizes = "SIZES=x=1x1x28x28"
    command = [tool, "build", "--build-arg", sizes, "-t", "graphopt-serve-test", str(tmp_path)]
    subprocess.run(command, check=True)


@pytest.mark.slow
def test_training_under_ray(tmp_path: Path) -> None:
    """One of two workers is killed: Ray starts both again, and they continue."""
    pytest.importorskip("ray.train")
    pytest.importorskip("orbax.checkpoint")
    command = [sys.executable, str(EXAMPLES / "ray" / "train.py"), str(tmp_path)]
    done = subprocess.run(
        [*command, "--steps", "6", "--fail-at", "3"],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert "trainer 0 of 2 stops: trainer 1 ended without a message" in told
    assert "worker 0 of 2 goes on from step 2" in told
    assert "done: 6 steps" in told
