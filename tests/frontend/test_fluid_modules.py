"""The modules of paddle.fluid.layers, from which scripts import layers by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from graphopt import fluid, framework
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.test_fluid import fresh

# one layer or more of each module of 1.8.5; some are in another file here, or refused
HELD = {
    "control_flow": "While DynamicRNN StaticRNN Print less_than case",
    "detection": "prior_box ssd_loss multiclass_nms yolov3_loss",
    "io": "data read_file py_reader double_buffer load",
    "loss": "cross_entropy warpctc nce hsigmoid edit_distance",
    "metric_op": "accuracy auc",
    "nn": "fc conv3d cos_sim group_norm smooth_l1 interpolate linear_chain_crf bmm py_func hash",
    "ops": "exp cumsum softshrink",
    "rnn": "LSTMCell rnn dynamic_lstm BeamSearchDecoder beam_search",
    "sequence_lod": "sequence_pool sequence_mask sequence_pad",
    "tensor": "concat arange triu range create_array",
}


@pytest.mark.parametrize("module", HELD)
def test_a_module_has_its_layers(module: str) -> None:
    """Each module has functions of fluid.layers."""
    found = import_module(f"graphopt.fluid.layers.{module}")
    for name in HELD[module].split():
        assert getattr(found, name).__name__ == getattr(fluid.layers, name).__name__
    with pytest.raises(AttributeError, match="no_layer"):
        _ = found.no_layer


def test_star_imports_take_layers_only() -> None:
    names: dict[str, Any] = {}
    exec("from graphopt.fluid.layers import *", names)
    assert {"fc", "StaticRNN", "While", "cond", "py_func", "auc", "ssd_loss"} <= names.keys()
    assert not {"nn", "ops", "io", "Any", "publish", "elsewhere"} & names.keys()


def test_names_around_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with fresh() as main:
        x = fluid.data("x", [None, 2], lod_level=1)
        other = fluid.Program()
        clone = fluid.io._clone_var_in_block_(other.global_block(), x)
        fluid.core.save_op_compatible_info(main.desc)
    assert (clone.name, clone.shape, clone.lod_level) == ("x", (-1, 2), 1)
    assert clone.persistable and clone.block is other.global_block()
    fluid.install_check.run_check()
    assert "works well" in capsys.readouterr().out
    assert fluid.core_avx is import_module("graphopt.fluid.core_avx") is fluid.core


def test_the_graph_of_quantisation_refuses_at_a_call() -> None:
    with pytest.raises(UnsupportedError, match=r"IrGraph.*saved quantised models"):
        fluid.framework.IrGraph(None, for_test=True)
    assert framework.IrGraph is fluid.framework.IrGraph  # PaddleSlim imports it there


@pytest.mark.parametrize(
    ("optimizer", "batch", "most"),
    [
        (None, 1, 2.178515625),
        (None, 32, 69.1796875),
        (fluid.optimizer.SGD, 1, 7.850390625),
        (fluid.optimizer.SGD, 32, 141.319921875),
        (fluid.optimizer.Adam, 32, 144.877734375),
    ],
)
def test_the_memory_that_a_program_may_need(optimizer: Any, batch: int, most: float) -> None:
    """The estimates are those of Paddle 1.8.5, which has a few more variables."""
    layers = fluid.layers
    with fresh():
        x, y = layers.data("x", [1, 8, 8]), layers.data("y", [1], dtype="int64")
        hidden = layers.pool2d(layers.conv2d(x, 4, 3, act="relu"), 2, pool_stride=2)
        shares = layers.fc(hidden, 10, act="softmax")
        loss = layers.mean(layers.cross_entropy(shares, y))
        layers.accuracy(shares, y)
        if optimizer is not None:
            optimizer(0.1).minimize(loss)
        program = fluid.default_main_program()
        low, high, unit = fluid.contrib.memory_usage(program, batch)
    assert unit == "KB" and high == pytest.approx(most, 0.003)
    assert low / 1.05 == pytest.approx(high / 1.1)


def test_memory_is_of_a_program_with_at_most_one_open_size() -> None:
    usage = fluid.contrib.memory_usage
    with pytest.raises(TypeError, match="requires Program"):
        usage(3, 1)
    with pytest.raises(ValueError, match="need to be positive"):
        usage(fluid.Program(), 0)
    with fresh(), pytest.raises(ValueError, match="more than one negative"):
        fluid.layers.scale(fluid.data("x", [None, None]), 2.0)
        usage(fluid.default_main_program(), 4)
