"""Calls as scripts of Paddle 3 write them in static mode."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.fluid.backward import _find_no_grad_vars, _find_op_path_
from graphopt.framework.io_utils import get_value, set_value
from graphopt.inference.predictor import Tensor
from graphopt.ir.formats.tensor_stream import read_tensor
from graphopt.runtime.executor import Executor
from graphopt.runtime.state.slots import SelectedRows
from graphopt_tests.frontend.programs import fresh, run, start


def test_errors_of_dynamic_mode_are_assertions_too() -> None:
    with fresh():
        paddle.disable_static()
        try:
            with pytest.raises(AssertionError, match="no dynamic mode"):
                static.data("x", [2])
        finally:
            paddle.enable_static()


def test_parts_of_a_dataset_by_fractions() -> None:
    """Sizes are rounded down, and the remainder goes to the subsets in turn, as in Paddle."""
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        parts = paddle.io.random_split(range(5), [0.3, 0.0, 0.7])  # type: ignore[arg-type]
    assert [len(part) for part in parts] == [2, 0, 3]
    assert sorted(value for part in parts for value in part) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        paddle.io.random_split(range(5), [-0.2, 1.2])  # type: ignore[arg-type]


def test_an_executor_prunes_a_program_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pruning method may be replaced; it runs once for the same feeds and fetches."""
    pruned: list[tuple[object, ...]] = []
    original = Executor._prune_program

    def noted(self: Executor, program: static.Program, *rest: object) -> static.Program:
        pruned.append(rest)
        return original(self, program, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Executor, "_prune_program", noted)
    with fresh() as (main, _):
        x, y = static.data("x", [2]), static.data("y", [2])
        twice, _other = x * 2.0, y * 3.0
        exe, feed = static.Executor(), {"x": np.ones(2, "float32")}
        found = [exe.run(main, feed, [twice], use_prune=True)[0] for _ in range(2)]
    np.testing.assert_array_equal(found, [[2.0, 2.0]] * 2)
    assert pruned == [(("x",), (twice.name,), ())]


def test_texts_of_programs() -> None:
    with fresh() as (main, _):
        w = static.create_parameter([2], "float32", attr=paddle.ParamAttr("w"))
        loss = paddle.sum(w)
    assert len(main.to_string(True, with_details=True)) > len(main.to_string(True))
    assert "trainable=True" in w.to_string(with_details=True)
    for each in (main, main.global_block(), w, loss, main.global_block().ops[0]):
        assert each._to_readable_code() == str(each)


def test_what_one_program_notes_for_another() -> None:
    with fresh() as (main, _):
        x = static.data("x", [2])
        static.create_parameter([2], "float32", attr=paddle.ParamAttr("w"))
        other: Any = static.Program()
        block = other.global_block()
        block.create_var("w", [2], "float32")
        block.create_var("x", [2], "float32")
        other._copy_param_info_from(main)
        other._copy_dist_param_info_from(main)
        other._copy_data_info_from(main)
        for name in ("param", "dist_param", "data"):
            with pytest.raises(TypeError, match="copies from a Program"):
                getattr(other, f"_copy_{name}_info_from")("program")
    assert [parameter.name for parameter in other.all_parameters()] == ["w"]
    assert (block.var("x").is_data, x.is_data) == (True, True)
    assert other._get_desc() == other.desc


def test_the_operators_on_a_path() -> None:
    with fresh() as (main, _):
        x = static.data("x", [2])
        x.stop_gradient = False
        loss = paddle.sum(paddle.tanh(x * 2.0))
        paddle.exp(x)
        block = main.global_block()
        path = _find_op_path_(block, [loss], [], None)
        blocked = {"x"}
        assert _find_op_path_(block, [loss], [x], blocked) == path
    assert [op.type for op in path] == ["scale", "tanh", "reduce_sum"]
    assert _find_no_grad_vars(block, path, [loss], blocked) == set()


def test_gradients_with_optimizer() -> None:
    """SGD steps w by the derivative of sum(3 w), which is 3."""
    with fresh() as (main, _):
        w = static.create_parameter([2], "float32", attr=paddle.ParamAttr("w"))
        loss = paddle.sum(w * 3.0)
        mode: Any = paddle.autograd
        updates, pairs = mode.backward_mode.gradients_with_optimizer(
            main, paddle.optimizer.SGD(0.5)
        )
        start()
        (before,) = run([loss])
        after = np.asarray(w.get_value())
    assert [op.type for op in updates] == ["sgd"]
    assert [(source.name, gradient.shape) for source, gradient in pairs] == [("w", (2,))]
    np.testing.assert_allclose(after.sum() * 3.0, before - 2 * 3.0 * 1.5, 1e-5)


def test_names_that_a_block_takes_from_outside() -> None:
    with fresh() as (main, _):
        a, b = paddle.zeros([1]), paddle.ones([1])
        static.nn.cond(a < b, lambda: a + b, lambda: a)
        read, written = paddle.utils.get_inputs_outputs_in_block(main.block(1))
    assert read == {a.name, b.name}
    assert written.isdisjoint(main.block(1).vars)


def test_bytes_of_whole_programs() -> None:
    from graphopt.static import io

    with fresh() as (main, _):
        static.create_parameter([2], "float32", attr=paddle.ParamAttr("w"))
        exe = start()
        stored = io._serialize_persistables(main, exe)
        again = static.deserialize_program(io._serialize_program(main))
        with pytest.warns(UserWarning, match="no variable in your model"):
            assert io._serialize_persistables(static.Program(), exe) is None
        with pytest.raises(TypeError, match="expected type is Program"):
            io._get_valid_program(0)
    assert stored is not None
    assert "w" in again.global_block().vars


def test_a_predictor_takes_a_lod_tensor() -> None:
    handle = Tensor("x")
    handle.share_external_data(
        paddle.fluid.create_lod_tensor(np.ones((3, 1), "float32"), [[1, 2]], paddle.CPUPlace())
    )
    assert (handle.shape(), handle.lod()) == ([3, 1], [[0, 1, 3]])


def test_a_truncated_normal_between_bounds() -> None:
    """The bounds limit the numbers, not their deviations from the mean."""
    kind = paddle.nn.initializer.TruncatedNormal
    with fresh() as (_, startup):
        narrow = static.create_parameter(
            [1000], "float32", attr=paddle.ParamAttr("w", initializer=kind(5.0, 2.0, a=4.0, b=6.0))
        )
        start()
        drawn = np.asarray(narrow.get_value())
        text = startup.desc.serialize_to_string()
    assert (drawn.min() >= 4, drawn.max() <= 6, abs(drawn.mean() - 5) < 0.1) == (True,) * 3
    op = static.Program.parse_from_string(text).global_block().ops[0]
    assert (op.attr("a"), op.attr("b")) == (4.0, 6.0)
    with pytest.raises(ValueError, match="'a' must be below 'b'"):
        kind(a=1.0, b=1.0)
    with pytest.raises(TypeError, match="give the bounds by keyword"):
        kind(0.0, 1.0, -1.0)  # type: ignore[arg-type]


def test_values_one_after_the_other_in_a_buffer() -> None:
    """Each `load` reads one value, and leaves the buffer at the next."""
    buffer = BytesIO()
    paddle.save(np.arange(3), buffer)
    paddle.save({"w": np.ones(2)}, buffer)
    buffer.seek(0)
    np.testing.assert_array_equal(paddle.load(buffer), [0, 1, 2])
    np.testing.assert_array_equal(paddle.load(buffer)["w"], [1, 1])
    assert buffer.read() == b""


def test_selected_rows_and_sequences_in_files(tmp_path: Path) -> None:
    rows = SelectedRows([0, 4], 10)
    with pytest.raises(ValueError, match="have no values yet"):
        paddle.save(rows, str(tmp_path / "rows"), use_binary_format=True)
    rows.get_tensor().set(np.arange(6, dtype="float32").reshape(2, 3))
    paddle.save(rows, str(tmp_path / "rows"), use_binary_format=True)
    again = paddle.load(str(tmp_path / "rows"))
    assert (again.rows(), again.height()) == ([0, 4], 10)
    np.testing.assert_array_equal(again.get_tensor().numpy(), rows.get_tensor().numpy())
    words = paddle.fluid.create_lod_tensor(np.ones((3, 1), "float32"), [[1, 2]], paddle.CPUPlace())
    paddle.save(words, str(tmp_path / "words"), use_binary_format=True)
    tensor, _ = read_tensor((tmp_path / "words").read_bytes())
    assert [list(level) for level in tensor.lod] == [[0, 1, 3]]


def test_persistable_values_by_functions() -> None:
    with fresh():
        w = static.create_parameter([2], "float32")
        start()
        set_value(w, np.full(2, 3.0, "float32"))
        np.testing.assert_array_equal(np.asarray(get_value(w)), [3.0, 3.0])
    assert paddle.optimizer.Momentum(0.1).type == "momentum"


def test_modules_of_paddle_3() -> None:
    import importlib

    assert importlib.import_module("graphopt.jit.api").to_static is paddle.jit.to_static
    translated = importlib.import_module("graphopt.jit.translated_layer")
    assert translated.INFER_PARAMS_INFO_SUFFIX == ".pdiparams.info"
