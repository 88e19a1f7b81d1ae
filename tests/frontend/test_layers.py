"""Layer classes: attributes, state, hooks and containers."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt_tests.frontend.programs import fresh, run, start, types


class Net(nn.Layer):
    """A layer with sub-layers of every kind, one of them used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.blocks = nn.LayerList([nn.Linear(3, 3, bias_attr=False) for _ in range(2)])
        self.extra = nn.ParameterList([self.create_parameter([3])])
        self.tied = self.first
        self.register_buffer("offset", paddle.zeros([3]), persistable=False)

    def forward(self, x: Any) -> Any:
        for block in [self.first, *self.blocks, self.tied]:
            x = paddle.tanh(block(x))
        return x * self.extra[0] + self.offset


def test_parameters_and_state() -> None:
    """Each parameter is listed once; the state has shared ones by every name, and saved buffers."""
    with fresh():
        net = Net()
        names = [name for name, _ in net.named_parameters()]
        state = list(net.state_dict())
    assert names == ["first.weight", "first.bias", "blocks.0.weight", "blocks.1.weight", "extra.0"]
    assert state == [*names, "tied.weight", "tied.bias"]
    assert [name for name, _ in net.named_buffers()] == ["offset"]
    assert [name for name, _ in net.named_sublayers()] == [
        "first",
        "blocks",
        "blocks.0",
        "blocks.1",
        "extra",
    ]


def test_set_state_dict_writes_the_scope() -> None:
    """The next run uses the values; missing and unknown names are reported, shapes checked."""
    with fresh():
        layer = nn.Linear(2, 1)
        out = layer(static.data("x", [None, 2], "float32"))
        start()
        missing, unexpected = layer.set_state_dict({"weight": [[2.0], [3.0]], "other": 1})
        assert (missing, unexpected) == (["bias"], ["other"])
        assert run([out], x=np.ones((1, 2), "float32"))[0].tolist() == [[5.0]]
        with pytest.raises(ValueError, match=r"linear_0.w_0.*\[2, 1\]"):
            layer.set_state_dict({"weight": [1.0, 2.0]})


def test_a_custom_layer_trains() -> None:
    """Gradients of tied layers add up, and the loss falls."""
    with fresh():
        net = Net()
        loss = paddle.mean(paddle.square(net(static.data("x", [None, 3], "float32"))))
        paddle.optimizer.SGD(0.1, parameters=net.parameters()).minimize(loss)
        start()
        x = np.random.default_rng(0).standard_normal((8, 3)).astype("float32")
        losses = [run([loss], x=x)[0].item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)


def test_eval_reaches_all_layers() -> None:
    """The mode decides the form of dropout and batch normalization."""
    with fresh() as (main, _):
        net = nn.Sequential(nn.BatchNorm1D(3), ("drop", nn.Dropout(0.5)))
        x = static.data("x", [None, 3], "float32")
        net(x)
        net.eval()
        net(x)
        tests = [op.attr("is_test") for op in main.global_block().ops]
        modes = [layer.training for layer in net.sublayers(include_self=True)]
    assert tests == [False, False, True, True]
    assert not any(modes)


def test_attributes_move_between_kinds() -> None:
    """Assigning replaces any attribute of the name, and deleting removes it."""
    with fresh():
        layer = nn.Layer()
        layer.part = 3
        layer.part = nn.ReLU()
        assert [name for name, _ in layer.named_children()] == ["part"]
        layer.part = layer.create_parameter([2])
        assert (list(layer.state_dict()), list(layer.children())) == (["part"], [])
        layer.part = None
        assert layer.parameters() == []
        del layer.part
        with pytest.raises(AttributeError, match="'Layer' object has no attribute 'part'"):
            _ = layer.part
        assert layer.create_parameter([2], attr=False) is None


def test_hooks() -> None:
    """Hooks may replace inputs and outputs, until they are removed."""
    with fresh() as (main, _):
        layer, x = nn.ReLU(), static.data("x", [2], "float32")
        before = layer.register_forward_pre_hook(lambda _, inputs: paddle.tanh(inputs[0]))
        after = layer.register_forward_post_hook(lambda _, inputs, output: paddle.exp(output))
        layer(x)
        before.remove()
        after.remove()
        layer(x)
    assert types(main) == ["tanh", "relu", "exp", "relu"]


def test_containers() -> None:
    """Containers can be indexed, sliced, extended and named."""
    with fresh():
        linear, relu, tanh = nn.Linear(2, 2), nn.ReLU(), nn.Tanh()
        sequence = nn.Sequential(linear, ("act", relu))
        assert (sequence[0], sequence["act"], sequence[-1], len(sequence)) == (
            linear,
            relu,
            relu,
            2,
        )
        assert list(sequence[:1]) == [linear]
        layers = nn.LayerList([linear])
        layers.append(tanh)
        layers.insert(1, relu)
        assert list(layers) == [linear, relu, tanh]
        assert [name for name, _ in layers.named_children()] == ["0", "1", "2"]
        del layers[0]
        assert list(layers) == [relu, tanh]
        with pytest.raises(IndexError, match="out of range"):
            _ = layers[2]
        named = nn.LayerDict({"act": relu})
        named["lin"] = linear
        assert list(named) == ["act", "lin"]
        assert named.pop("act") is relu
        assert "act" not in named


def test_encoder_layers_have_parameters_of_their_own() -> None:
    """TransformerEncoder builds its other layers with the arguments of the first."""
    with fresh():
        first = nn.TransformerEncoderLayer(4, 2, 8, normalize_before=True)
        encoder = nn.TransformerEncoder(first, 3, nn.LayerNorm(4))
        assert encoder.layers[0] is first
        assert encoder.layers[2].normalize_before
        assert len(encoder.parameters()) == 3 * 16 + 2
        assert encoder(static.data("x", [None, 5, 4], "float32")).shape == (-1, 5, 4)


def test_activations_by_name() -> None:
    """An activation is any function of paddle.nn.functional, as in Paddle."""
    for layer in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer):
        assert layer(4, 2, 8, activation="silu").activation is nn.functional.silu
        with pytest.raises(ValueError, match="names no activation function: 'rulu'"):
            layer(4, 2, 8, activation="rulu")


def test_attention_extends_a_cache() -> None:
    """Attention step by step with a cache equals attention with a causal mask."""
    with fresh():
        attention = nn.MultiHeadAttention(4, 2)
        x = static.data("x", [1, 3, 4], "float32")
        mask = paddle.to_tensor(np.tril(np.ones((3, 3), bool)))
        whole = attention(x, attn_mask=mask)
        empty = paddle.zeros([1, 2, 0, 2])
        cache = attention.gen_cache(empty, empty)
        parts = []
        for step in range(3):
            part, cache = attention(x[:, step : step + 1], cache=cache)
            parts.append(part)
        start()
        value = np.random.default_rng(0).standard_normal((1, 3, 4)).astype("float32")
        once, stepwise = run([whole, paddle.concat(parts, axis=1)], x=value)
    np.testing.assert_allclose(once, stepwise, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [[], [3]])
def test_batch_norm_needs_channels(shape: list[int]) -> None:
    with fresh(), pytest.raises(ValueError, match="an axis of channels"):
        static.nn.batch_norm(static.data("x", shape, "float32"))


@pytest.mark.parametrize("name", ["Conv{}D", "Conv{}DTranspose", "BatchNorm{}D"])
def test_layers_of_each_rank(name: str) -> None:
    """Each rank has its own default format, and errors name the class."""
    for rank, data_format in enumerate(("NCL", "NCHW", "NCDHW"), 1):
        layer = getattr(nn, name.format(rank))
        assert signature(layer).parameters["data_format"].default == data_format
        with pytest.raises(TypeError, match=rf"^{name.format(rank)}\.__init__\(\) missing"):
            layer()
