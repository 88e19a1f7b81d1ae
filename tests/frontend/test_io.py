"""Saving and loading: round trips, files' contents, bad arguments, and crashes while saving."""

from __future__ import annotations

import io
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static, vision
from graphopt.errors import (
    FormatError,
    MissingModelError,
    ProgramError,
    ScopeError,
    UnsupportedError,
)
from graphopt.frontend import framework_io
from graphopt.ir.formats import read_pickle, read_program, write_program
from graphopt.ir.translate.inference import inference_program

X = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")


class Net:
    """A classifier with batch norm and dropout, trained by momentum, and its executor."""

    def __init__(self) -> None:
        self.main, self.startup = static.Program(), static.Program()
        with static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            self.x = static.data("x", [None, 3], "float32")
            hidden = static.nn.batch_norm(static.nn.fc(self.x, 5, activation="relu"))
            hidden = paddle.nn.functional.dropout(hidden, 0.5)
            self.out = paddle.nn.functional.softmax(static.nn.fc(hidden, 2))
            self.loss = paddle.mean(paddle.square(self.out))
            paddle.optimizer.Momentum(0.1, 0.9).minimize(self.loss)
        self.exe = static.Executor(paddle.CPUPlace())
        self.exe.run(self.startup)

    def step(self) -> Any:
        return self.exe.run(self.main, feed={"x": X}, fetch_list=[self.loss])[0]

    def predict(self) -> Any:
        program = self.main.clone(for_test=True)
        return self.exe.run(program, feed={"x": X}, fetch_list=[self.out], use_prune=True)[0]

    def state(self) -> dict[str, Any]:
        scope = static.global_scope()
        names = [v.name for v in self.main.list_vars() if v.persistable]
        slots = {name: scope.find_var(name) for name in names}
        return {name: slot.numpy() for name, slot in slots.items() if slot is not None}


@pytest.fixture
def net():
    with static.scope_guard(static.Scope()):
        yield Net()


def test_inference_model_round_trip(net: Net, tmp_path: Path):
    net.step()
    expected = net.predict()
    prefix = str(tmp_path / "deep" / "m")
    static.save_inference_model(prefix, [net.x], [net.out], net.exe, program=net.main)
    with static.scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(prefix, net.exe)
        assert feeds == ["x"]
        found = net.exe.run(program, feed={"x": X}, fetch_list=fetches)[0]
    np.testing.assert_array_equal(found, expected)
    assert sorted(os.listdir(tmp_path / "deep")) == ["m.pdiparams", "m.pdmodel"]
    with pytest.raises(MissingModelError, match=r"without its suffix: '.*/deep/m'"):
        static.load_inference_model(f"{prefix}.pdmodel", net.exe)
    (tmp_path / "other.onnx").write_bytes(b"\x08\x08")
    with pytest.raises(MissingModelError, match=r"import_model\('.*other\.onnx'\) also"):
        static.load_inference_model(str(tmp_path / "other.onnx"), net.exe)
    with pytest.raises(ValueError, match="should be the path of the files"):
        static.load_inference_model("", net.exe)


def test_inference_model_holds_only_inference(net: Net, tmp_path: Path):
    prefix = str(tmp_path / "m")
    before = len(net.main.global_block().ops)
    static.save_inference_model(prefix, [net.x], [net.out], net.exe, program=net.main)
    assert len(net.main.global_block().ops) == before
    program = static.load_inference_model(prefix, net.exe)[0]
    types = [op.type for op in program.global_block().ops]
    assert types[0] == "feed" and types[-1] == "fetch"
    assert not {"pd_grad", "momentum", "mean"} & set(types)
    assert all(op.attrs["is_test"] for op in program.global_block().ops if "is_test" in op.attrs)
    stored = [v.name for v in program.list_vars() if v.persistable]
    assert not any("velocity" in name or "learning_rate" in name for name in stored)


@pytest.mark.exhaustive
def test_a_parameter_may_be_an_output(net: Net, tmp_path: Path):
    """The output is the parameter's value, without another step of training."""
    weight = net.main.all_parameters()[0]
    net.step()
    prefix = str(tmp_path / "m")
    static.save_inference_model(prefix, [net.x], [weight, net.out], None, program=net.main)
    program, _, fetches = static.load_inference_model(prefix, None)
    (found, _) = net.exe.run(program, feed={"x": X}, fetch_list=fetches)
    np.testing.assert_array_equal(found, net.state()[weight.name])


def test_a_derivative_cannot_be_an_output(net: Net, tmp_path: Path):
    gradient = net.main.global_block().var(net.main.all_parameters()[0].grad_name)
    with pytest.raises(UnsupportedError, match="derivative"):
        static.save_inference_model(
            str(tmp_path / "m"), [net.x], [gradient], None, program=net.main
        )


def test_feeds_may_be_intermediate_values(net: Net, tmp_path: Path):
    hidden = next(op for op in net.main.global_block().ops if op.type == "relu").output("Out")[0]
    variable = net.main.global_block().var(hidden)
    static.save_inference_model(str(tmp_path / "m"), [variable], [net.out], None, program=net.main)
    program, feeds, _ = static.load_inference_model(str(tmp_path / "m"), None)
    assert feeds == [hidden]
    assert "relu" not in [op.type for op in program.global_block().ops]


# What Paddle's kernels want: a program, the operator that has to change, and what it looks like.
FORMS = {
    "where": (lambda x, i: paddle.where(x > 0, x, paddle.zeros([1])), "where", {}),
    "atan2": (lambda x, i: paddle.atan2(x, paddle.ones([3])), "atan2", {}),
    "split": (lambda x, i: paddle.split(x, [1, 2], axis=-1)[1], "split", {"axis": 1}),
    "amax": (lambda x, i: paddle.amax(x), "reduce_amax", {"dim": [0, 1]}),
    "slice": (
        lambda x, i: paddle.strided_slice(x, [1], [0], [3], [2]),
        "strided_slice",
        {"infer_flags": [1]},
    ),
    "backward slice": (lambda x, i: x[:, ::-1], "strided_slice", {"ends": [-1]}),
    "backward slice past the start": (
        lambda x, i: paddle.strided_slice(x, [1], [2], [-9], [-2]),
        "strided_slice",
        {"ends": [-1]},
    ),
    "backward slice with an end": (lambda x, i: x[:, 2:-3:-1], "strided_slice", {"ends": [-3]}),
    "backward set": (
        lambda x, i: static.setitem(x, (slice(None), slice(None, None, -2)), x[:, :2]),
        "set_value",
        {"ends": [-1]},
    ),
    "slice to a tensor": (
        lambda x, i: paddle.slice(x, [0, 1], [0, 0], paddle.to_tensor([4, 2])),
        "slice",
        {"infer_flags": [-1, -1]},
    ),
    "repeats": (lambda x, i: paddle.repeat_interleave(x, 2, 1), "repeat_interleave", {}),
    "histogram": (lambda x, i: paddle.histogram(x, 3, -2.0, 2.0), "histogram", {"min": -2}),
    "nanmedian": (lambda x, i: paddle.nanmedian(x, 1), "nanmedian", {}),
    "sizes": (
        lambda x, i: paddle.nn.functional.interpolate(
            x[None], size=paddle.to_tensor([5]), mode="linear", data_format="NCW"
        ),
        "linear_interp_v2",
        {},
    ),
    "put": (lambda x, i: paddle.put_along_axis(x, i, 9.0, -1), "put_along_axis", {"Axis": 1}),
    "arange": (lambda x, i: paddle.arange(1, 4, dtype="float32") + x, "range", {}),
    "clip": (lambda x, i: paddle.clip(paddle.cast(x, "float64"), 0.0), "clip", {"max": np.inf}),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", FORMS)
def test_operators_are_saved_as_paddle_wants_them(name: str, tmp_path: Path):
    build, kind, attrs = FORMS[name]
    exe, main = static.Executor(paddle.CPUPlace()), static.Program()
    with static.program_guard(main):
        x = static.data("x", [-1, 3], "float32")
        index = static.data("i", [4, 1], "int64")
        if name == "put":
            x = static.data("y", [4, 3], "float32")
        out = build(x, index)
    feed = {x.name: X, "i": np.array([[0], [2], [1], [0]])}
    (expected,) = exe.run(main, feed=feed, fetch_list=[out])
    feeds = [x, index] if name == "put" else [x]
    with pytest.warns(UserWarning, match="no variable"):
        static.save_inference_model(str(tmp_path / "m"), feeds, [out], exe, program=main)
    program, names, fetches = static.load_inference_model(str(tmp_path / "m"), exe)
    (found,) = exe.run(program, feed={n: feed[n] for n in names}, fetch_list=fetches)
    np.testing.assert_array_equal(found, expected)
    (op,) = [op for op in program.global_block().ops if op.type == kind]
    assert {name: op.attrs[name] for name in attrs} == attrs
    block = program.global_block()
    if kind in ("where", "atan2", "put_along_axis"):
        shapes = {block.var(n).shape for s, n in op.inputs.items() if s != "Input" for n in n}
        assert len(shapes) == 1
    if kind == "range":
        assert set(op.inputs) == {"Start", "End", "Step"}
        assert {block.var(n).dtype for names in op.inputs.values() for n in names} == {"float32"}
    if kind == "linear_interp_v2":
        assert block.var(op.input("OutSize")[0]).dtype == "int32"
    if kind == "repeat_interleave":
        assert set(op.inputs) == {"X"}
    if kind == "nanmedian":
        assert block.var(op.output("MedianIndex")[0]).shape == (-1, 2)


@pytest.mark.parametrize(("version", "expected"), [(2006002, [2, 1, 0]), (3000000, [])])
def test_ends_of_backward_slices(version: int, expected: list[int]):
    """An end of -1 means no end in files of Paddle 2, and the last element in others."""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [3], "float32")
        paddle.strided_slice(x, [0], [2], [-1], [-1])
    main.saved = {"version": {"version": version}}
    program = read_program(write_program(main))
    out = program.global_block().ops[-1].output_arg_names
    (found,) = static.Executor().run(program, {"x": np.arange(3, dtype="float32")}, out)
    np.testing.assert_array_equal(found, expected)


def test_ends_of_backward_slices_in_one_tensor():
    """With ends in a tensor, files of Paddle 2 have no ends as attributes."""
    main = static.Program()
    with static.program_guard(main):
        x, ends = static.data("x", [3], "float32"), static.data("ends", [1], "int32")
        out = main.global_block().create_var("out", dtype="float32")
        slots = {"Input": x, "EndsTensor": ends}
        attrs = {"axes": [0], "starts": [2], "ends": [], "strides": [-1]}
        main.global_block().append_op("strided_slice", slots, {"Out": out}, attrs)
    program = read_program(write_program(main))
    feed = {"x": np.arange(3, dtype="float32"), "ends": np.array([0], "int32")}
    (found,) = static.Executor().run(program, feed, ["out"])
    np.testing.assert_array_equal(found, [2, 1])


def test_a_backward_slice_without_elements_is_not_saved(tmp_path: Path):
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [3], "float32")
        out = paddle.strided_slice(x, [0], [2], [-1], [-1])
    with pytest.raises(UnsupportedError, match="has no elements"):
        static.save_inference_model(str(tmp_path / "m"), [x], [out], None, program=main)


def test_slots_that_paddle_asks_for(tmp_path: Path):
    """A branch has an input slot even without inputs; without mask, deformable_conv is v1."""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [1, 1, 3, 3], "float32")
        number = static.nn.cond(paddle.mean(x) > 0, lambda: paddle.ones([1]), lambda: x[0, 0, 0])
        offset = paddle.expand(x, [1, 18, 3, 3])
        deformed = vision.ops.deform_conv2d(x, offset, paddle.ones([1, 1, 3, 3]), padding=1)
        pads = paddle.to_tensor([0, 0, 0, 0, 0, 0], "int32")
        padded = main.global_block().create_var("padded", dtype="float32")
        slots = {"X": deformed[None], "Paddings": pads}
        main.global_block().append_op("pad3d", slots, {"Out": padded}, {})
        out = padded[0] + paddle.sum(number)
    read = read_program(write_program(inference_program(main, ["x"], [out.name])))
    (branch, *_) = [op for op in read.global_block().ops if op.type == "conditional_block"]
    assert branch.inputs["Input"] == []
    with pytest.warns(UserWarning, match="no variable"):
        static.save_inference_model(str(tmp_path / "m"), [x], [out], None, program=main)
    program, *_ = static.load_inference_model(str(tmp_path / "m"), None)
    found = {op.type: op for op in program.global_block().ops}
    assert found["pad3d"].attrs["paddings"] == [0] * 6
    assert "deformable_conv_v1" in found and "Mask" not in found["deformable_conv_v1"].inputs
    (branch, *_) = [op for op in program.global_block().ops if op.type == "conditional_block"]
    assert branch.inputs["Input"] == []


def test_fractions_of_histograms_are_not_saved(tmp_path: Path):
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [3], "float32")
        out = paddle.histogram(x, 3, -0.5, 2.0)
    with pytest.raises(UnsupportedError, match="only integer bounds"):
        static.save_inference_model(str(tmp_path / "m"), [x], [out], None, program=main)


def test_bad_inference_models(net: Net, tmp_path: Path):
    prefix = str(tmp_path / "m")
    with static.program_guard(net.main):
        unused = static.data("unused", [2], "float32")
    with pytest.raises(ValueError, match="'unused' doesn't exist in pruned"):
        static.save_inference_model(prefix, [net.x, unused], [net.out], None, program=net.main)
    with pytest.raises(ValueError, match="need the data variable 'x'"):
        static.save_inference_model(prefix, [], [net.out], None, program=net.main)
    with pytest.raises(ValueError, match="should be a Variable"):
        static.save_inference_model(prefix, ["x"], [net.out], None, program=net.main)
    with pytest.raises(ValueError, match="found the directory"):
        static.save_inference_model(prefix + "/", [net.x], [net.out], None, program=net.main)
    with pytest.raises(ValueError, match="doesn't support argument 'foo'"):
        static.load_inference_model(prefix, None, foo=1)
    with pytest.raises(FileNotFoundError):
        static.load_inference_model(prefix, None)
    with static.scope_guard(static.Scope()), pytest.raises(ScopeError, match="startup_program"):
        static.save_inference_model(prefix, [net.x], [net.out], None, program=net.main)
    assert os.listdir(tmp_path) == []


MODELS = Path(__file__).parents[1] / "data" / "models"


@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.parametrize("name", ["infer_loop_if", "infer_static_attr_types", "infer_resnet18"])
def test_models_of_paddle_can_be_saved_again(name: str, tmp_path: Path):
    """Models with blocks, and with variables as attributes, can be saved again."""
    found = static.load_inference_model(str(MODELS / name / "model"), None)
    program, feeds, fetches = found
    inputs = [program.global_block().var(feed) for feed in feeds]
    static.save_inference_model(str(tmp_path / "m"), inputs, fetches, None, program=program)
    again, feeds_again, _ = static.load_inference_model(str(tmp_path / "m"), None)
    assert feeds_again == feeds and again.num_blocks == program.num_blocks
    before, after = ([op.type for b in p.blocks for op in b.ops] for p in (program, again))
    assert [t for t in after if t != "scale"] == [t for t in before if t != "scale"]


def test_blocks_that_nothing_runs_are_left_out(tmp_path: Path):
    program, feeds, fetches = static.load_inference_model(
        str(MODELS / "infer_loop_if" / "model"), None
    )
    block = program.global_block()
    inputs = [block.var(feed) for feed in feeds]
    with_loop = static.normalize_program(program, inputs, fetches[1:])
    assert with_loop.num_blocks == 2  # the loop, without the two branches after it
    (loop,) = [op for op in with_loop.global_block().ops if op.type == "while"]
    assert loop.attrs["sub_block"] == 1
    branches = [op for op in block.ops if op.type == "conditional_block"]
    target = block.var(branches[1].output("Out")[0])
    second = static.normalize_program(program, [*inputs, block.var("tmp_7")], [target])
    assert second.num_blocks == 3  # the loop and the second branch, which was block 3
    (branch,) = [op for op in second.global_block().ops if op.type == "conditional_block"]
    assert branch.attrs["sub_block"] == 2
    assert "tmp_9" in second.block(2).vars and second.block(2).idx == 2
    assert static.deserialize_program(write_program(second)).num_blocks == 3


def test_bytes_round_trip(net: Net, tmp_path: Path):
    expected = net.predict()
    program_bytes = static.serialize_program([net.x], [net.out], program=net.main)
    params = static.serialize_persistables([net.x], [net.out], net.exe, program=net.main)
    assert params is not None
    static.save_to_file(str(tmp_path / "p"), program_bytes)
    assert static.load_from_file(str(tmp_path / "p")) == program_bytes
    with static.scope_guard(static.Scope()):
        program = static.deserialize_program(program_bytes)
        static.deserialize_persistables(program, params, net.exe)
        (found,) = net.exe.run(
            program, feed={"x": X}, fetch_list=["save_infer_model/scale_0.tmp_0"]
        )
        with pytest.raises(FormatError):
            static.deserialize_persistables(program, params[:-1], net.exe)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_save_and_load_continue_training(net: Net, tmp_path: Path, protocol: int):
    prefix = str(tmp_path / "m")
    net.step()
    static.save(net.main, prefix, protocol)
    saved = net.state()
    net.step()
    assert any(not np.array_equal(saved[n], v) for n, v in net.state().items())
    static.load(net.main, prefix + ".pdparams", net.exe)
    for name, value in net.state().items():
        np.testing.assert_array_equal(value, saved[name], name)
    assert set(static.load_program_state(prefix)) == set(saved)
    program = static.deserialize_program((tmp_path / "m.pdmodel").read_bytes())
    operators = [(op.type, op.inputs, op.outputs) for op in program.global_block().ops]
    assert operators == [(o.type, o.inputs, o.outputs) for o in net.main.global_block().ops]


def test_files_are_pickles_of_plain_arrays(net: Net, tmp_path: Path):
    static.save(net.main, str(tmp_path / "m"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2, for its older names
        parameters = pickle.loads((tmp_path / "m.pdparams").read_bytes())
    assert set(parameters) == {p.name for p in net.main.all_parameters()}
    for name, value in parameters.items():
        np.testing.assert_array_equal(value, net.state()[name])


def test_set_program_state(net: Net):
    name = net.main.all_parameters()[0].name
    shape = net.main.all_parameters()[0].shape
    with pytest.warns(UserWarning, match="nobody"):
        static.set_program_state(net.main, {name: np.ones(shape, "float32"), "nobody": X})
    np.testing.assert_array_equal(net.state()[name], np.ones(shape))
    for wrong in (np.ones((9, 9), "float32"), np.ones(shape, "float64")):
        with pytest.raises(ValueError, match=name):
            static.set_program_state(net.main, {name: wrong})


def test_loading_checks_every_value_before_setting_any(net: Net, tmp_path: Path):
    static.save(net.main, str(tmp_path / "m"))
    state = framework_io.load(str(tmp_path / "m.pdparams"))
    last = sorted(state)[-1]
    before = net.state()
    framework_io.save(
        {n: np.zeros_like(v) for n, v in state.items() if n != last}, str(tmp_path / "m.pdparams")
    )
    with pytest.raises(FormatError, match=f"Can not find \\[{last}\\]"):
        static.load(net.main, str(tmp_path / "m"))
    for name, value in net.state().items():
        np.testing.assert_array_equal(value, before[name])


def test_save_values(net: Net, tmp_path: Path):
    value = {
        "array": X,
        "list": [1, -(2**40), 2.5, None, True, "text", (np.arange(3), {})],
        "half": np.ones(2, ml_dtypes.bfloat16),
        3: "number as key",
    }
    path = str(tmp_path / "folder" / "v")
    framework_io.save(value, path)
    found = framework_io.load(path)
    assert list(found) == list(value) and found[3] == value[3]
    np.testing.assert_array_equal(found["array"], X)
    assert found["array"].flags.writeable
    assert found["list"][:6] == value["list"][:6]
    np.testing.assert_array_equal(found["list"][6][0], np.arange(3))
    assert found["half"].dtype == np.uint16  # as Paddle stores it
    buffer = io.BytesIO()
    framework_io.save(value["list"][:6], buffer)
    buffer.seek(0)
    assert framework_io.load(buffer) == value["list"][:6]


def test_save_state_of_a_layer(tmp_path: Path):
    with static.scope_guard(static.Scope()), static.program_guard(static.Program()):
        layer = paddle.nn.Linear(3, 2)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(static.default_startup_program())
        path = str(tmp_path / "l.pdparams")
        framework_io.save(layer.state_dict(), path)
        state = framework_io.load(path)
        assert set(state) == {"weight", "bias"} and state["weight"].shape == (3, 2)
        names = framework_io.load(path, keep_name_table=True)["StructuredToParameterName@@"]
        assert names == {"weight": layer.weight.name, "bias": layer.bias.name}
        layer.set_state_dict({"weight": state["weight"] * 2, "bias": state["bias"]})
        framework_io.save(layer.weight, path)
        np.testing.assert_array_equal(framework_io.load(path), state["weight"] * 2)
        framework_io.save(layer.weight, path, use_binary_format=True)
        np.testing.assert_array_equal(framework_io.load(path), state["weight"] * 2)
        framework_io.save(static.default_main_program(), path)
        assert isinstance(framework_io.load(path), static.Program)


def test_save_refuses_what_cannot_be_loaded(tmp_path: Path):
    path = str(tmp_path / "v")
    with pytest.raises(ProgramError, match=r"\['a'\]\[1\]: a object is not supported"):
        framework_io.save({"a": [1, object()]}, path)
    with pytest.raises(ValueError, match="protocol=5"):
        framework_io.save({}, path, protocol=5)
    with pytest.raises(ValueError, match="not supported"):
        framework_io.save({}, path, foo=1)
    with pytest.raises(ValueError, match="filename is empty"):
        framework_io.save({}, str(tmp_path) + "/")
    with pytest.raises(ValueError, match="not exists"):
        framework_io.load(path)
    assert os.listdir(tmp_path) == []


def test_a_crash_while_saving_keeps_the_old_files(
    net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    prefix = str(tmp_path / "m")
    static.save(net.main, prefix)
    before = {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    net.step()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        static.save(net.main, prefix)
    with pytest.raises(OSError, match="No space"):
        framework_io.save({"a": X}, prefix + ".pdparams")
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == before


def test_saving_writes_through_links(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "v")
    framework_io.save([1], str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert framework_io.load(str(tmp_path / "real" / "v")) == [1]


def test_big_arrays_are_split_as_paddle_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(framework_io, "_BIG_BYTES", 16)
    path = str(tmp_path / "v")
    framework_io.save({"w": X, "b": np.arange(3.0)[:2]}, path, protocol=2)
    raw = read_pickle(Path(path).read_bytes())
    assert {"w@@.0", "w@@.1", "w@@.2", "b", "UnpackBigParamInfor@@"} == set(raw)
    np.testing.assert_array_equal(framework_io.load(path)["w"], X)
