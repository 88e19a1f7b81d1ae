"""Layers that wrap functions: signatures, texts, errors, and derived classes."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from typing import Any

import pytest

import graphopt as paddle
from graphopt import nn
from graphopt.errors import UnsupportedError
from graphopt.nn.layer import of_functions
from graphopt_tests.frontend.programs import fresh

MADE = [
    name
    for name, value in vars(of_functions).items()
    if isinstance(value, type)
    and issubclass(value, of_functions.FunctionLayer)
    and "forward" in vars(value)
]


@pytest.mark.parametrize("name", MADE)
def test_help_shows_a_layer(name: str) -> None:
    """Help shows the docstring, and the function's arguments with their defaults."""
    layer: Any = getattr(nn, name)
    assert layer is getattr(of_functions, name)
    shown = pydoc.plain(pydoc.render_doc(layer))
    assert f"(paddle.nn.{name})." in shown
    assert f"__init__(self{', ' if inspect.signature(layer).parameters else ''}" in shown
    assert "forward(self, " in shown
    for parameter in inspect.signature(layer).parameters.values():
        assert parameter.name in shown


def test_arguments_are_those_of_the_function() -> None:
    """Arguments have the function's order and defaults, unless a row overrides them."""
    found = [(p.name, p.default) for p in inspect.signature(nn.AvgPool2D).parameters.values()]
    own = inspect.signature(nn.functional.avg_pool2d).parameters.values()
    assert found == [(p.name, p.default) for p in own if p.name != "x"]
    assert list(inspect.signature(nn.Dropout).parameters) == ["p", "axis", "mode", "name"]
    assert list(inspect.signature(nn.Unfold).parameters)[1:3] == ["dilations", "paddings"]
    assert inspect.signature(nn.Flatten).parameters["start_axis"].default == 1
    assert list(inspect.signature(nn.CTCLoss.forward).parameters)[-1] == "norm_by_times"


def test_wrong_arguments_name_the_layer() -> None:
    with pytest.raises(TypeError, match=r"MaxPool2D\(\): missing a required argument: 'kernel_s"):
        nn.MaxPool2D()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"ELU\(\): got an unexpected keyword argument 'beta'"):
        nn.ELU(beta=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"'weight_decy'; did you mean 'weight_decay'\?"):
        paddle.optimizer.Adam(weight_decy=1)  # pyright: ignore[reportCallIssue]
    with fresh(), pytest.raises(TypeError, match="'axes'; did you mean 'axis'"):
        paddle.mean(paddle.static.data("x", [2]), axes=0)  # pyright: ignore[reportCallIssue]
    with fresh(), pytest.raises(UnsupportedError, match=r"'rellu' .*; did you mean 'relu'"):
        paddle.static.nn.fc(paddle.static.data("x", [2, 3]), 2, activation="rellu")
    with pytest.raises(ValueError, match="reduction"):
        nn.NLLLoss(reduction="all")
    with pytest.raises(ValueError, match="'margin' should be in"):
        nn.CosineEmbeddingLoss(margin=2)


class Pool(nn.MaxPool2D):
    """A derived layer, as a script defines it."""

    def __init__(self) -> None:
        super().__init__(3, stride=2)

    def forward(self, x: Any) -> Any:
        return nn.functional.max_pool2d(x, self.ksize, self.stride)


def test_layers_of_users_derive_from_them() -> None:
    with fresh():
        x = paddle.static.data("x", [1, 1, 8, 8])
        assert Pool()(x).shape == (1, 1, 3, 3)
        assert nn.Dropout(0.2)(input=x).shape == x.shape
        assert nn.BCEWithLogitsLoss()(logit=x, label=x).shape == ()
        layer = nn.LPPool2D(2.0, 2)
        assert repr(layer).startswith("LPPool2D(norm_type=2.0, kernel_size=2, ")
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert repr(twin) == repr(layer)


def test_attributes_are_what_a_call_uses() -> None:
    """A call uses the current attributes; a loss's weight is not a parameter of it."""
    with fresh():
        x = paddle.static.data("x", [1, 1, 8, 8])
        pool = nn.MaxPool2D(2)
        pool.ksize, pool.stride = 4, 4
        assert pool(x).shape == (1, 1, 2, 2)
        drop = nn.Dropout(0.5)
        drop.p = 0.25
        assert drop(x).shape == x.shape
        assert x.block.ops[-1].attr("dropout_prob") == 0.25
        weight = paddle.create_parameter([3], "float32")
        loss = nn.CrossEntropyLoss(weight=weight)
        assert loss.weight is weight and loss.reduction == "mean" and not loss.parameters()
