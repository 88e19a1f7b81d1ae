"""`graphopt.import_model`: every form of a saved model, its interface, and errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, FormatError, UnsafeError
from graphopt.ir.formats import read_program, write_program
from graphopt.ir.formats.find import find_parameters
from graphopt.ir.program import Operator
from graphopt.models.model import read_model
from graphopt_tests import model_files

MODELS = model_files.MODELS
LENET = MODELS / "infer_lenet"


@pytest.fixture(autouse=True)
def _fresh_state() -> Iterator[None]:
    with (
        static.scope_guard(static.Scope()),
        static.program_guard(static.Program(), static.Program()),
        paddle.utils.unique_name.guard(),
    ):
        yield


def arrays(file: Path) -> dict[str, Any]:
    with np.load(file) as loaded:
        return {name: loaded[name] for name in loaded.files}


X = arrays(LENET / "inputs.npz")["x"]
SCORES = arrays(LENET / "outputs.npz")["out0"]


def check_lenet(model: paddle.ImportedModel) -> None:
    (scores,) = model.run({"x": X})
    np.testing.assert_allclose(scores, SCORES, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("path", ["model", "model.pdmodel", "model.pdiparams", "."])
def test_every_way_to_name_a_model(path: str, tmp_path: Path) -> None:
    """A model has a prefix, a file, a parameter file, or a folder of one model as its path."""
    for file in LENET.glob("model.pd*"):
        shutil.copy(file, tmp_path)
    model = paddle.import_model(tmp_path / path)
    assert (model.feed_names, len(model.fetch_names), len(model.parameters)) == (["x"], 1, 10)
    assert model.path == tmp_path / "model.pdmodel"
    check_lenet(model)


@pytest.mark.parametrize("name", ["fluid18_mnist_conv", "fluid18_word2vec_combined"])
def test_folders_of_fluid(name: str) -> None:
    """`__model__` is read with one file per variable, and with one for all."""
    model = paddle.import_model(MODELS / name / "model")
    found = model.run(arrays(MODELS / name / "inputs.npz"))
    expected = arrays(MODELS / name / "outputs.npz")["out0"]
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def test_the_executor_runs_it_too() -> None:
    """The parameters are in the global scope, too; the model has a scope of its own."""
    model = paddle.import_model(LENET / "model")
    feed, exe = {"x": X}, static.Executor(paddle.CPUPlace())
    (scores,) = exe.run(model.program, feed=feed, fetch_list=model.fetch_names)
    np.testing.assert_allclose(scores, SCORES, rtol=1e-4, atol=1e-5)
    for name in model.parameters:
        slot = static.global_scope().find_var(name)
        assert slot is not None
        slot.put(np.zeros_like(slot.numpy()))
    check_lenet(model)


def test_two_models_with_the_same_names(tmp_path: Path) -> None:
    """Each model keeps its own parameters."""
    first = paddle.import_model(LENET / "model")
    other = {name: array * 0 for name, array in first.parameters.items()}
    second = paddle.import_model(LENET / "model", other)
    check_lenet(first)
    assert not second.run([X])[0].any()


def test_parameters_are_read_only_and_in_order() -> None:
    parameters = paddle.import_model(LENET / "model").parameters
    assert list(parameters) == sorted(parameters)
    with pytest.raises(ValueError, match="read-only"):
        next(iter(parameters.values()))[...] = 0


@pytest.mark.parametrize("suffix", [".npz", ".pdparams", ".safetensors", "mapping", "folder"])
def test_parameters_from_elsewhere(suffix: str, tmp_path: Path) -> None:
    """The content decides the format: the files here have no suffix."""
    model = paddle.import_model(LENET / "model")
    params: Any = tmp_path / "weights"
    if suffix == ".npz":
        model.export(params, "npz")
    elif suffix == ".pdparams":
        paddle.save(dict(model.parameters), str(params))
    elif suffix == ".safetensors":
        pytest.importorskip("safetensors")
        model.export(params, "safetensors")
    elif suffix == "mapping":
        params = dict(model.parameters)
    else:
        from graphopt.ir.formats import SavedTensor, write_folder

        params.mkdir()
        write_folder(params, {n: SavedTensor(a, ()) for n, a in model.parameters.items()})
    check_lenet(paddle.import_model(LENET / "model.pdmodel", params))


def test_a_state_dict_of_layers(tmp_path: Path) -> None:
    """Paddle saves layers' own names, with a table of their variables."""
    parameters = paddle.import_model(LENET / "model").parameters
    state: dict[str, Any] = {f"layer.{n}": array for n, array in parameters.items()}
    state["StructuredToParameterName@@"] = {f"layer.{n}": n for n in parameters}
    paddle.save(state, str(tmp_path / "layers.pdparams"))
    check_lenet(paddle.import_model(LENET / "model", tmp_path / "layers.pdparams"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.pop("conv2d_0.w_0"), "none for 1 of them: 'conv2d_0.w_0'"),
        (lambda p: p.update(other=np.zeros(1)), "not stored variables of the program: 'other'"),
        (lambda p: p.update({"conv2d_0.w_0": np.zeros(3)}), r"'conv2d_0.w_0': expected float32 \["),
        (
            lambda p: p.update({"conv2d_0.w_0": p["conv2d_0.w_0"].astype("float64")}),
            "found float64",
        ),
        (lambda p: p.update({"conv2d_0.w_0": "text"}), "expected an array, found a str"),
    ],
)
def test_wrong_parameters(change: Any, message: str) -> None:
    """A one-line error names the parameter and the fault; the scope stays unchanged."""
    params = dict(paddle.import_model(LENET / "model").parameters)
    change(params)
    with (
        static.scope_guard(static.Scope()),
        pytest.raises(FormatError, match=message) as raised,
    ):
        try:
            paddle.import_model(LENET / "model", params)
        finally:
            assert static.global_scope().find_var("conv2d_0.b_0") is None
    assert "\n" not in str(raised.value)


def test_bfloat16_in_numpy_files(tmp_path: Path) -> None:
    """bfloat16 is stored as two bytes without a type; the program gives the type."""
    x = static.data("x", [2, 3], "bfloat16")
    weight = static.create_parameter([3], "bfloat16", name="w")
    out = paddle.multiply(x, weight)
    static.Executor(paddle.CPUPlace()).run(static.default_startup_program())
    static.save_inference_model(str(tmp_path / "m"), [x], [out], None)
    model = paddle.import_model(tmp_path / "m")
    model.export(tmp_path / "w.npz")
    assert arrays(tmp_path / "w.npz")["w"].dtype == np.uint16
    again = paddle.import_model(tmp_path / "m", tmp_path / "w.npz")
    assert again.parameters["w"].dtype.name == "bfloat16"
    assert again.parameters["w"].tobytes() == model.parameters["w"].tobytes()


def test_a_hostile_pickle_runs_nothing(tmp_path: Path) -> None:
    import pickle

    class Planted:
        def __reduce__(self) -> Any:
            return (tmp_path.joinpath("ran").touch, ())

    (tmp_path / "p").write_bytes(pickle.dumps({"w": Planted()}, protocol=4))
    with pytest.raises(UnsafeError):
        paddle.import_model(LENET / "model", tmp_path / "p")
    assert not (tmp_path / "ran").exists()


def test_paths_that_mean_no_model(tmp_path: Path) -> None:
    """The error lists the paths that were tried, and the files that exist."""
    with pytest.raises(FileNotFoundError, match=r"looked for .*none, .*none\.pdmodel"):
        paddle.import_model(tmp_path / "none")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"the folder has 'notes\.json'"):
        paddle.import_model(tmp_path)
    for name in ("a", "b"):
        shutil.copy(LENET / "model.pdmodel", tmp_path / f"{name}.pdmodel")
    with pytest.raises(ValueError, match=r"holds 2 models; give the path of one: .*a, .*b"):
        paddle.import_model(tmp_path)
    with pytest.raises(FormatError, match=r"parameter file next to the program .* 10 stored"):
        paddle.import_model(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match=r"no parameters at elsewhere, nor at .*elsewhere$"):
        paddle.import_model(tmp_path / "a", "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"no parameters at [^,]*elsewhere$"):
        paddle.import_model(tmp_path / "a", tmp_path / "elsewhere")
    for suffix in (".pdmodel", ".json"):
        (tmp_path / f"empty{suffix}").write_bytes(b"")
        with pytest.raises(
            FormatError,
            match=rf"empty\{suffix}: byte 0: the file is empty, expected a program; copy",
        ):
            paddle.import_model(tmp_path / f"empty{suffix}")


def test_other_outputs() -> None:
    """Any variable of the program can be fetched, even with optimizations."""
    model = paddle.import_model(LENET / "model")
    block = model.program.global_block()
    inner = next(op.output("Out")[0] for op in block.ops if op.type == "relu")
    plain = model.run([X], fetch=[inner])
    optimized = model.run([X], static.BuildStrategy(), fetch=[block.var(inner)])
    assert plain[0].min() == 0 and plain[0].ndim == 4
    np.testing.assert_array_equal(plain[0], optimized[0])


def test_inputs_are_checked() -> None:
    model = paddle.import_model(LENET / "model")
    with pytest.raises(FeedError, match="no value for the inputs 'x'"):
        model.run({})
    with pytest.raises(FeedError, match="no inputs are called 'X'; the model's inputs are 'x'"):
        model.run({"X": X})
    with pytest.raises(FeedError, match="no inputs are called 'y'; the model's inputs are 'x'"):
        model.run({"x": X, "y": X})
    with pytest.raises(FeedError, match=r"expected 1 input \(x\), found 2"):
        model.run([X, X])
    with pytest.raises(FeedError, match="found a ndarray"):
        model.run(X)


@pytest.mark.exhaustive
def test_optimized() -> None:
    """The report needs no run; a strategy's program is compiled once."""
    model = paddle.import_model(MODELS / "infer_resnet18" / "model")
    strategy = static.BuildStrategy()
    strategy.fuse_bn_act_ops = True
    assert "fuse_bn_act_ops" in model.explain(strategy)
    assert "pd.fused_batch_norm_act" in str(
        model.module(strategy, portable=True).body.block.first_op
    )
    inputs = arrays(MODELS / "infer_resnet18" / "inputs.npz")
    expected = arrays(MODELS / "infer_resnet18" / "outputs.npz")["out0"]
    for _ in range(2):
        found = model.run(inputs, strategy)
        np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    program = model.optimize(strategy)
    found = static.Executor(paddle.CPUPlace()).run(program, inputs, model.fetch_names)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def trained(folder: Path, *, accuracy: bool = False) -> Path:
    """Save a training program, and return its prefix."""
    x, y = static.data("x", [None, 4], "float32"), static.data("y", [None, 1], "int64")
    scores = static.nn.fc(x, 3)
    if accuracy:
        static.accuracy(paddle.nn.functional.softmax(scores), y)
    loss = paddle.mean(paddle.nn.functional.cross_entropy(scores, y))
    paddle.optimizer.Momentum(0.5, 0.9).minimize(loss)
    static.Executor(paddle.CPUPlace()).run(static.default_startup_program())
    static.save(static.default_main_program(), str(folder / "step"))
    return folder / "step"


@pytest.mark.filterwarnings("ignore:no variable in your model")
def test_an_inference_model_that_computes_a_derivative(tmp_path: Path) -> None:
    """Paddle writes gradient operators between those that name the feeds and the fetches."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 3])
        y = paddle.tanh(x)
        static.save_inference_model(str(tmp_path / "m"), [x], [y], static.Executor(), program=main)
    program = paddle.import_model(tmp_path / "m").program
    block = program.global_block()
    seed = f"{y.name}@GRAD"
    for name in (seed, "x@GRAD"):
        block.create_var(name=name, shape=[-1, 3], dtype="float32")
    added = [
        ("fill_any_like", {"X": [y.name]}, {"Out": [seed]}, {"value": 1.0, "dtype": -1}),
        ("tanh_grad", {"Out": [y.name], "Out@GRAD": [seed]}, {"X@GRAD": ["x@GRAD"]}, {}),
    ]
    *before, scale, fetch = block.ops
    scale.inputs["X"], scale.saved = ["x@GRAD"], None
    block.ops[:] = [*before, *(Operator(block, *each) for each in added), scale, fetch]
    (tmp_path / "m.pdmodel").write_bytes(write_program(program))
    model = paddle.import_model(tmp_path / "m")
    for rows in (2, 3):
        numbers = np.linspace(-1, 1, 3 * rows, dtype="float32").reshape(rows, 3)
        (found,) = model.run([numbers])
        np.testing.assert_allclose(found, 1 - np.tanh(numbers) ** 2, rtol=1e-5)


def test_a_training_program(tmp_path: Path) -> None:
    """`.pdparams` and `.pdopt` are read; runs train, only in the model's scope."""
    model = paddle.import_model(trained(tmp_path, accuracy=True))
    assert model.feed_names == ["x", "y"]
    assert model.fetch_names[0].startswith("mean_") and model.fetch_names[1].startswith("accuracy")
    assert any("velocity" in name for name in model.parameters)
    rows = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
    feed = {"x": rows, "y": (rows[:, :1] > 0).astype("int64")}
    losses = [float(model.run(feed)[0]) for _ in range(5)]
    assert losses[-1] < losses[0]
    weight = model.scope.find_var("fc_0.w_0")
    assert weight is not None
    assert not np.array_equal(weight.numpy(), model.parameters["fc_0.w_0"])
    again = paddle.import_model(tmp_path / "step.pdmodel")
    assert float(again.run(feed)[0]) == losses[0]


def recorded_trainings() -> list[tuple[str, Path, list[str], set[str]]]:
    """List Paddle's training programs with their losses and inputs."""
    found: list[tuple[str, Path, list[str], set[str]]] = []
    for case in model_files.cases():
        about = model_files.meta(case)
        if about.get("kind") != "training":
            continue
        with np.load(case / "inputs.npz") as inputs:
            names = {name.partition("/")[2] for name in inputs.files if name.startswith("s0/")}
        if (case / "main.program").exists():
            found.append((case.name, case / "main.program", [about["loss_var"]], names))
        for artifact in about.get("artifacts", ()):
            file = case / "pdmodel" / "main.pdmodel"
            if artifact["format"] == "pdmodel" and file.exists():
                fetches = artifact["fetches"]
                wanted = [fetches[name] for name in ("loss", "acc") if name in fetches]
                found.append((case.name, file, wanted, names))
    return found


@pytest.mark.parametrize(
    ("file", "fetches", "feeds"),
    [pytest.param(*rest, id=name) for name, *rest in recorded_trainings()],
)
def test_the_interface_of_paddles_training_programs(
    file: Path, fetches: list[str], feeds: set[str]
) -> None:
    """Feeds are the data variables; fetches are the loss, then the accuracy."""
    model = paddle.import_model(file)
    assert set(model.feed_names) == feeds
    assert model.fetch_names[: len(fetches)] == fetches


def test_a_bare_startup_program() -> None:
    """A startup program has no feeds, fetches or parameters."""
    model = paddle.import_model(MODELS / "train_mlp_sgd" / "pdmodel" / "startup.pdmodel")
    assert (model.feed_names, model.fetch_names, model.parameters) == ([], [], {})
    assert model.run() == []


@pytest.mark.parametrize(
    ("folder", "file"), [("infer_lenet", "model"), ("fluid18_mnist_conv", "model")]
)
def test_a_program_is_decoded_once(folder: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is decoded once, with parameters in one file or in one file each."""
    decoded: list[str] = []

    def counted(data: bytes, source: str, limits: Any) -> Any:
        decoded.append(source)
        return read_program(data, source, limits)

    monkeypatch.setattr("graphopt.ir.formats.model.read_program", counted)
    read_model(MODELS / folder / file)
    assert len(decoded) == 1


def test_a_program_that_is_replaced_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save between reading program and parameters gives the new program and parameters."""
    for file in LENET.glob("model.pd*"):
        shutil.copy(file, tmp_path)
    new, seen = MODELS / "infer_bert_mini", []

    def find(program: Path) -> list[Path]:
        if not seen:
            for file in new.glob("model.pd*"):
                shutil.copy(file, tmp_path)
        seen.append(program)
        return find_parameters(program)

    monkeypatch.setattr("graphopt.models.model.find_parameters", find)
    model = read_model(tmp_path / "model")
    assert len(seen) == 2
    assert model.fetch_names == read_model(new / "model").fetch_names
