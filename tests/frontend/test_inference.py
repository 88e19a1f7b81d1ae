"""Predictors of saved models (paddle.inference, and fluid.core of 1.8)."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from graphopt import fluid, inference, static
from graphopt.errors import DeviceError, FeedError
from graphopt.inference.config import QUERIES, WITHOUT_EFFECT
from graphopt.models.model import read_model
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.state.scope import Scope, global_scope, scope_guard
from graphopt_tests.model_files import MODELS

LENET = MODELS / "infer_lenet"
FILES = str(LENET / "model.pdmodel"), str(LENET / "model.pdiparams")


@pytest.fixture(scope="module")
def recorded() -> tuple[Any, Any]:
    """Load an input of the model, and Paddle's output for it."""
    return np.load(LENET / "inputs.npz")["x"], np.load(LENET / "outputs.npz")["out0"]


@pytest.fixture(scope="module")
def predictor() -> inference.Predictor:
    return inference.create_predictor(inference.Config(*FILES))


def test_handles(predictor: inference.Predictor, recorded: tuple[Any, Any]) -> None:
    """Arrays are copied in and out through handles."""
    x, expected = recorded
    assert predictor.get_input_names() == ["x"]
    handle = predictor.get_input_handle("x")
    handle.reshape(x.shape)
    assert handle.shape() == list(x.shape)
    given = x.copy()
    handle.copy_from_cpu(given)
    given[:] = 0  # the handle has a copy
    assert predictor.run() is True
    (name,) = predictor.get_output_names()
    output = predictor.get_output_handle(name)
    np.testing.assert_allclose(output.copy_to_cpu(), expected, rtol=1e-5, atol=1e-5)
    assert output.shape() == list(expected.shape)
    assert output.type() is inference.DataType.FLOAT32
    assert inference.get_num_bytes_of_data_type(output.type()) == 4


def test_arrays_and_clones(predictor: inference.Predictor, recorded: tuple[Any, Any]) -> None:
    """`run` takes arrays, too; clones and pools run in threads, on the same parameters."""
    x, expected = recorded
    found: dict[int, Any] = {}
    pool = inference.PredictorPool(inference.Config(*FILES), 2)

    def run(at: int, one: inference.Predictor) -> None:
        found[at] = one.run([x])[0]

    all_of_them = [predictor.clone(), pool.retrieve(0), pool.retrive(1)]
    threads = [Thread(target=run, args=pair) for pair in enumerate(all_of_them)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    for value in found.values():
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def test_parameters_stay_with_the_predictor() -> None:
    """A predictor leaves the global scope unchanged."""
    with scope_guard(Scope()):
        inference.create_predictor(inference.Config(*FILES))
        assert global_scope().find_var("conv2d_0.w_0") is None


@pytest.mark.parametrize("how", ["folder", "setters", "buffer"])
def test_ways_to_name_a_model(how: str, recorded: tuple[Any, Any], tmp_path: Path) -> None:
    """A model is given as a folder, as two files, or as their contents."""
    config = inference.Config()
    if how == "folder":
        for file in FILES:
            (tmp_path / Path(file).name).write_bytes(Path(file).read_bytes())
        config = inference.Config(str(tmp_path))
        assert config.model_dir() == str(tmp_path)
    elif how == "setters":
        config.set_prog_file(FILES[0])
        config.set_params_file(FILES[1])
    else:
        program, params = (Path(file).read_bytes() for file in FILES)
        config.set_model_buffer(program, len(program), params, len(params))
        assert config.model_from_memory()
    x, expected = recorded
    found = inference.create_predictor(config).run([x])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_settings_without_effect_say_so() -> None:
    """Every setting is accepted; `summary` says why each one that is set changes nothing."""
    config = inference.Config(*FILES)
    for name in WITHOUT_EFFECT:
        getattr(config, name)()
        assert f"| {WITHOUT_EFFECT[name][0]} " in config.summary()
    config.set_cpu_math_library_num_threads(4)
    config.switch_ir_optim(False)
    config.pass_builder().delete_pass("conv_bn_fuse_pass")
    assert config.cpu_math_library_num_threads() == 4
    assert config.ir_optim() is False
    lines = config.summary().splitlines()
    assert all("obeyed" in line or "no effect: " in line for line in lines[3:-1])
    for name in QUERIES:
        getattr(config, name)()
    with pytest.raises(AttributeError, match="Config has no setting 'enable_foo'"):
        config.enable_foo()


def test_errors(predictor: inference.Predictor) -> None:
    """Errors name wrong names, values that are no arrays, and missing devices."""
    with pytest.raises(FeedError, match="no input 'y'; it has x"):
        predictor.get_input_handle("y")
    with pytest.raises(FeedError, match="'x' has no value: copy_from_cpu"):
        predictor.clone().run()
    with pytest.raises(TypeError, match="only support numpy ndarray"):
        predictor.get_input_handle("x").copy_from_cpu("text")
    with pytest.raises(FeedError, match="the value of 'x' is not an array; give rows"):
        predictor.get_input_handle("x").copy_from_cpu([[1], [2, 3]])
    with pytest.raises(FeedError, match="the feed of 'x' is not an array: its rows have different"):
        predictor.run([[[1], [2, 3]]])
    config = inference.Config(*FILES)
    config.enable_use_gpu(100, 0)
    assert (config.use_gpu(), config.gpu_device_id()) == (True, 0)
    with pytest.raises(DeviceError):
        inference.create_predictor(config)


def test_predictors_of_1_8(recorded: tuple[Any, Any]) -> None:
    """PaddleTensors are taken by name or in order, and handles have their first names."""
    x, expected = recorded
    config = fluid.core.AnalysisConfig(*FILES)
    config.disable_gpu()
    config.switch_use_feed_fetch_ops(False)
    predictor = fluid.core.create_paddle_predictor(config)
    for name in ("x", ""):
        (output,) = predictor.run([fluid.core.PaddleTensor(x, name)])
        np.testing.assert_allclose(output.as_ndarray(), expected, rtol=1e-5, atol=1e-5)
    assert output.shape == list(expected.shape)
    assert output.dtype is fluid.core.PaddleDType.FLOAT32
    assert output.data.length() == expected.nbytes
    predictor.get_input_tensor("x").copy_from_cpu(x)
    assert predictor.zero_copy_run()
    again = predictor.get_output_tensor(predictor.get_output_names()[0]).copy_to_cpu()
    np.testing.assert_array_equal(again, output.as_ndarray())
    flat = fluid.core.PaddleTensor()
    flat.data = fluid.core.PaddleBuf([1.0, 2.0, 3.0, 4.0])
    flat.dtype = fluid.core.PaddleDType.INT32
    flat.shape = [2, 2]
    assert (flat.data.tolist(), flat.shape) == ([1, 2, 3, 4], [2, 2])


def test_a_config_of_attributes(recorded: tuple[Any, Any]) -> None:
    x, expected = recorded
    config = fluid.core.NativeConfig()
    config.prog_file, config.param_file = FILES
    (output,) = fluid.core.create_paddle_predictor(config).run([fluid.core.PaddleTensor(x)])
    np.testing.assert_allclose(output.as_ndarray(), expected, rtol=1e-5, atol=1e-5)
    config.use_gpu, config.device = True, 1
    assert config.config().place() == fluid.CUDAPlace(1)
    assert inference.Config.Precision is inference.PrecisionType


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", ["auto", pytest.param("off", marks=pytest.mark.exhaustive)])
def test_sizes_in_buckets(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third size on inputs are padded, and the results do not change."""
    monkeypatch.setenv("FLAGS_graphopt_buckets", setting)
    predictor = inference.create_predictor(inference.Config(*FILES))
    exact = read_model(FILES[0])
    for rows in (1, 2, 40, 39, 38, 2):
        images = np.random.default_rng(rows).normal(size=(rows, 1, 28, 28)).astype("float32")
        (found,) = predictor.run([images])
        (expected,) = exact.run([images])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    stats = predictor._executor.stats
    assert stats["compiled_shapes"] == (3 if setting == "auto" else 5)
    assert stats.get("rows", 0) == (40 + 39 + 38 if setting == "auto" else 0)


def test_feeds_without_rows_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty feed after several sizes is not padded."""
    monkeypatch.setenv("FLAGS_graphopt_buckets", "auto")
    predictor = inference.create_predictor(inference.Config(*FILES))
    for rows in (1, 2, 40, 0, 39, 0):
        (found,) = predictor.run([np.zeros((rows, 1, 28, 28), "float32")])
        assert found.shape == (rows, 10)
    assert not predictor._executor.stats["exact"]


def test_sizes_that_numpy_computes_run_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding sizes that NumPy computes would save no compilation."""
    monkeypatch.setenv("FLAGS_graphopt_tier", "auto")
    monkeypatch.setattr(Compiled, "price", 1e6)
    predictor = inference.create_predictor(inference.Config(*FILES))
    for rows in (1, 2, 3, 5, 3):
        predictor.run([np.zeros((rows, 1, 28, 28), "float32")])
    assert predictor._executor.stats["compiled_shapes"] == 4
    assert [*predictor._executor.stats["tiers"]] == ["host: a later run has the full form compiled"]
    assert "rows" not in predictor._executor.stats


@pytest.mark.exhaustive
def test_a_size_that_comes_often_has_its_own_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size is compiled once its padded runs have cost four compilations."""
    monkeypatch.setattr(Compiled, "price", 0.0)
    predictor = inference.create_predictor(inference.Config(*FILES))
    exact = read_model(FILES[0])
    for rows in (1, 2, 40, 39, 39, 39, 40):
        images = np.random.default_rng(rows).normal(size=(rows, 1, 28, 28)).astype("float32")
        (found,) = predictor.run([images])
        (expected,) = exact.run([images])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    stats = predictor._executor.stats
    assert (stats["rows"], stats["compiled_shapes"]) == (40 + 39 + 39 + 40, 4)


def test_a_model_without_parameters_needs_no_file_of_them(tmp_path: Path) -> None:
    """Config may name the missing parameter file, as for any other model."""
    path = str(tmp_path / "m")
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [None, 2], "float32")
        out = x * 2
    with pytest.warns(UserWarning, match="no variable"):
        static.save_inference_model(path, [x], [out], static.Executor(), program=main)
    Path(f"{path}.pdiparams").unlink(missing_ok=True)
    predictor = inference.create_predictor(inference.Config(f"{path}.pdmodel", f"{path}.pdiparams"))
    (found,) = predictor.run([np.ones((1, 2), "float32")])
    np.testing.assert_array_equal(found, [[2, 2]])
    missing = str(tmp_path / "missing.pdiparams")
    with pytest.raises(FileNotFoundError, match="no parameters at"):
        inference.create_predictor(
            inference.Config(str(MODELS / "infer_lenet" / "model.pdmodel"), missing)
        )


def test_a_variable_that_is_two_outputs(tmp_path: Path) -> None:
    """A variable that is two outputs counts twice, so that others keep their positions."""
    path = str(tmp_path / "m")
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [None, 2], "float32")
        out, other = x * 2, x + 1
    with pytest.warns(UserWarning, match="no variable"):
        static.save_inference_model(path, [x], [out, out, other], static.Executor(), program=main)
    predictor = inference.create_predictor(inference.Config(f"{path}.pdmodel", ""))
    assert len(predictor.get_output_names()) == 3
    found = predictor.run([np.ones((1, 2), "float32")])
    np.testing.assert_array_equal(np.concatenate(found), [[2, 2], [2, 2], [2, 2]])
    found = predictor.run([np.zeros((1, 2), "float32")])
    np.testing.assert_array_equal(np.concatenate(found), [[0, 0], [0, 0], [1, 1]])


def offsets(lengths: Any) -> list[int]:
    return [0, *np.cumsum(lengths).tolist()]


def test_results_have_the_lengths_of_their_sequences() -> None:
    """Results have Paddle's lengths; the file of 1.8 only says which variables have lengths."""
    case = MODELS / "fluid18_text_lod_conv"
    inputs, outputs = np.load(case / "inputs.npz"), np.load(case / "outputs.npz")
    words = fluid.core.PaddleTensor(inputs["words"])
    words.lod = [offsets(inputs["words@lens"])]
    config = fluid.core.AnalysisConfig(str(case / "model"))
    whole, by_word = fluid.core.create_paddle_predictor(config).run([words])
    assert whole.lod == []
    assert by_word.lod == [offsets(outputs["out1@lens"])]
    np.testing.assert_allclose(by_word.as_ndarray(), outputs["out1"], rtol=1e-4)


def _by_word() -> tuple[list[Any], Any]:
    words = fluid.data("words", [None, 1], "float32", lod_level=1)
    return [words], fluid.layers.sequence_softmax(words)


def _boxes() -> tuple[list[Any], Any]:
    boxes, scores = fluid.data("boxes", [None, 6, 4]), fluid.data("scores", [None, 3, 6])
    return [boxes, scores], fluid.layers.multiclass_nms(boxes, scores, 0.01, 10, 5, 0.3)


@pytest.mark.parametrize("build", [_by_word, _boxes])
def test_lengths_outlive_saving(build: Any, tmp_path: Path) -> None:
    """A saved model keeps lengths, fed or computed."""
    main, executor = fluid.Program(), fluid.Executor(fluid.CPUPlace())
    with fluid.program_guard(main):
        feeds, out = build()
    rng = np.random.default_rng(0)
    feed: dict[str, Any] = {
        v.name: rng.random([2 if size < 0 else size for size in v.shape], "float32") for v in feeds
    }
    if build is _by_word:
        feed = {"words": fluid.create_lod_tensor(rng.random((5, 1), "float32"), [[2, 3]])}
    (before,) = executor.run(main, feed, [out], return_numpy=False)
    with pytest.warns(UserWarning, match="no variable"):
        fluid.io.save_inference_model(str(tmp_path / "m"), [*feed], [out], executor, main)
    program, _, fetches = fluid.io.load_inference_model(str(tmp_path / "m"), executor)
    (after,) = executor.run(program, feed, fetches, return_numpy=False)
    assert len(before.lod()) == 1
    assert after.lod() == before.lod()
