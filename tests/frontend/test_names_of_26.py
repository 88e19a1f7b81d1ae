"""Calls as scripts of Paddle 2.6 write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.distributed.io import load_inference_model_distributed
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.programs import fresh, run, start


def test_a_parameter_by_its_shape_alone() -> None:
    with fresh() as (main, _):
        block, attr = main.global_block(), paddle.ParamAttr("w")
        made = block.create_parameter((3, 2), attr=attr, dtype="float32")
        other = block.create_parameter(name="v", shape=[3], dtype="float32")
        x = static.data("x", [None, 1], "int64")
        rows = paddle.nn.functional.embedding(x, made)
    assert (made.shape, rows.shape) == ((3, 2), (-1, 1, 2))
    assert made.name != "w"
    assert other.name == "v"


def test_a_schedule_without_parameters_has_its_variable() -> None:
    """The variable has the schedule's value in each run, as in Paddle 2.6.2."""
    schedule = paddle.optimizer.lr.StepDecay(0.5, 1, 0.1)
    with fresh():
        optimizer = paddle.optimizer.Adam(schedule)
        loss = paddle.mean(static.data("x", [2]))
        with pytest.warns(UserWarning, match="nothing to update"):
            optimizer.minimize(loss)
        rate = optimizer._global_learning_rate()
        assert rate is not None
        start()
        first = run([rate], x=np.zeros(2, "float32"))
        schedule.step()
        second = run([rate], x=np.zeros(2, "float32"))
    np.testing.assert_allclose([first[0], second[0]], [0.5, 0.05], 1e-6)


def test_an_inference_model_of_trainers(tmp_path: Path) -> None:
    with fresh() as (main, _):
        x = static.data("x", [None, 2])
        out = static.nn.fc(x, 1)
        exe = start()
        paddle.fluid.io.save_inference_model(str(tmp_path), ["x"], [out], exe, main)
        _, feeds, fetches = load_inference_model_distributed(str(tmp_path), exe)
        with pytest.raises(UnsupportedError, match="'pserver_endpoints' is not supported"):
            load_inference_model_distributed(str(tmp_path), exe, pserver_endpoints=["a:1"])
    assert (feeds, len(fetches)) == (["x"], 1)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    """Errors are Paddle's, too: ValueError, RuntimeError and TypeError."""
    with fresh() as (main, _):
        exe = static.Executor()
        with pytest.raises(ValueError, match="no model: looked for"):
            load_inference_model_distributed(str(tmp_path / "none"), exe)
        w: Any = static.create_parameter([2], "float32", name="w")
        start()
        paddle.fluid.io.save_persistables(exe, str(tmp_path), main, "all")
        with pytest.raises(TypeError, match="'var_list' should hold Variables, found str"):
            static.load_program_state(str(tmp_path / "all"), ["w"])  # pyright: ignore[reportArgumentType]
        static.create_parameter([2], "float32", name="v")
        start()
        paddle.fluid.io.save_persistables(exe, str(tmp_path), main, "both")
        with pytest.raises(RuntimeError, match="expected the end after 1 tensors"):
            static.load_program_state(str(tmp_path / "both"), [w])
        w.desc.set_shape([3])
        with pytest.raises(RuntimeError, match=r"expected float32 \[3\] as the program declares"):
            static.load(main, str(tmp_path / "all"), exe, [w])


def test_what_has_no_meaning() -> None:
    with pytest.raises(NotImplementedError, match=r"LRScheduler has no get_lr\(\)"):
        paddle.optimizer.lr.LRScheduler()
    with fresh(), pytest.raises(TypeError, match="'dtype' should not be complex128"):
        static.create_global_var([1], 2.0, np.complex128)


def test_steps_of_an_optimizer_one_by_one() -> None:
    """The clip that is set, and regularizers, apply to pairs of a script."""
    with fresh() as (main, _):
        attr = paddle.ParamAttr("w", regularizer=paddle.regularizer.L2Decay(0.5))
        w = static.create_parameter([2], "float32", attr=attr)
        pairs = static.append_backward(paddle.sum(w * w))
        clip: Any = paddle.nn.clip  # pyright: ignore[reportAttributeAccessIssue]
        clip.set_gradient_clip(paddle.nn.ClipGradByValue(0.5))
        clipped = clip.append_gradient_clip_ops(pairs)
        before = len(main.global_block().ops)
        decayed = paddle.optimizer.Adam().append_regularization_ops(clipped)
    assert [op.type for op in main.global_block().ops[before:]] == ["scale", "sum"]
    assert decayed[0][0] is w


def test_names_in_bytes_and_scopes() -> None:
    with fresh() as (main, _):
        block = main.global_block()
        block.create_var("x", [2], "float32")
        block._rename_var(b"x", b"y")
        assert "y" in block.vars
        with pytest.raises(TypeError, match="'scope' must be a Scope, found str"):
            block.var("y").get_value("scope")
    assert paddle.inference.get_trt_compile_version() == (0, 0, 0)
    assert paddle.inference.get_trt_runtime_version() == (0, 0, 0)
