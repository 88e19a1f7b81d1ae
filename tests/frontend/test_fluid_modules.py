"""The modules of paddle.fluid.layers, from which scripts import layers by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from graphopt import fluid
from graphopt.errors import UnsupportedError

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
    """They are the very functions of fluid.layers."""
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


def test_the_graph_of_quantisation_refuses_at_a_call() -> None:
    with pytest.raises(UnsupportedError, match=r"IrGraph.*saved quantised models"):
        fluid.framework.IrGraph(None, for_test=True)
