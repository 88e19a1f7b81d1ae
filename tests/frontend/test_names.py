"""Automatic names, parameters and their initial values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh, run, start, types

nn = paddle.nn


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[("float", "float64"), ("int", "int64"), ("double", "float64"), ("half", "float16")],
        *[("uint16", "bfloat16"), (np.uint16, "bfloat16"), (float, "float64"), ("bool", "bool")],
    ],
)
def test_dtypes_have_the_names_of_numpy(name: Any, dtype: str) -> None:
    """dtypes have NumPy's names; uint16 is bfloat16, as in Paddle."""
    with fresh():
        assert static.data("x", [2], name).dtype == dtype
        assert paddle.cast(paddle.ones([2]), name).dtype == dtype
        with pytest.raises(TypeError, match="element type"):
            static.data("y", [2], "real")


def test_static_layers_name_their_parameters_as_paddle() -> None:
    """Names and shapes are those of Paddle 2.6.2, in the order of creation."""
    with fresh() as (main, _):
        x = static.data("x", [None, 4], "float32")
        image = static.data("img", [None, 1, 6, 6], "float32")
        static.nn.fc(static.nn.fc(x, 3), 2, bias_attr=False)
        static.nn.batch_norm(static.nn.conv2d(image, 2, 3))
        static.nn.embedding(static.data("i", [None, 1], "int64"), [5, 2])
        static.nn.layer_norm(x)
        static.create_parameter([2], "float32")
        names = [(p.name, list(p.shape)) for p in main.all_parameters()]
    assert names == [
        ("fc_0.w_0", [4, 3]),
        ("fc_0.b_0", [3]),
        ("fc_1.w_0", [3, 2]),
        ("conv2d_0.w_0", [2, 1, 3, 3]),
        ("conv2d_0.b_0", [2]),
        ("batch_norm_0.w_0", [2]),
        ("batch_norm_0.b_0", [2]),
        ("batch_norm_0.w_1", [2]),
        ("batch_norm_0.w_2", [2]),
        ("embedding_0.w_0", [5, 2]),
        ("layer_norm_0.w_0", [4]),
        ("layer_norm_0.b_0", [4]),
        ("create_parameter_0.w_0", [2]),
    ]


def test_layer_classes_name_their_parameters_as_paddle() -> None:
    """Names and shapes are those of Paddle 3.3.1."""
    with fresh():
        layers = [
            nn.Linear(2, 3),
            nn.Linear(3, 3, bias_attr=False),
            nn.Conv2D(1, 2, 3),
            nn.Conv1D(1, 2, 3),
            nn.BatchNorm2D(2),
            nn.BatchNorm1D(2),
            nn.BatchNorm(2),
            nn.LayerNorm(3),
            nn.Embedding(4, 2),
            nn.MultiHeadAttention(4, 2),
        ]
        names = [(k, p.name) for layer in layers for k, p in layer.state_dict().items()]
    assert names[:17] == [
        ("weight", "linear_0.w_0"),
        ("bias", "linear_0.b_0"),
        ("weight", "linear_1.w_0"),
        ("weight", "conv2d_0.w_0"),
        ("bias", "conv2d_0.b_0"),
        ("weight", "conv1d_0.w_0"),
        ("bias", "conv1d_0.b_0"),
        ("weight", "batch_norm2d_0.w_0"),
        ("bias", "batch_norm2d_0.b_0"),
        ("_mean", "batch_norm2d_0.w_1"),
        ("_variance", "batch_norm2d_0.w_2"),
        ("weight", "batch_norm1d_0.w_0"),
        ("bias", "batch_norm1d_0.b_0"),
        ("_mean", "batch_norm1d_0.w_1"),
        ("_variance", "batch_norm1d_0.w_2"),
        ("weight", "batch_norm_0.w_0"),
        ("bias", "batch_norm_0.b_0"),
    ]
    assert ("q_proj.weight", "linear_2.w_0") in names
    assert ("out_proj.bias", "linear_5.b_0") in names


def test_temporaries_are_named_after_their_layer() -> None:
    """A function gives `relu_0.tmp_0`, an operator symbol `tmp_0`, and `name` its own prefix."""
    with fresh():
        x = static.data("x", [2], "float32")
        made = [nn.functional.relu(x), paddle.mean(x), x + x, paddle.tanh(x, name="mine")]
        assert [v.name for v in made] == [
            "relu_0.tmp_0",
            "mean_0.tmp_0",
            "tmp_0",
            "mine.tmp_0",
        ]
        assert static.nn.fc(x.reshape([1, 2]), 3, activation="relu").name == "fc_0.tmp_2"


def test_initial_values() -> None:
    """Initializers have Paddle's operators and constants."""
    with fresh() as (_, startup):
        static.nn.fc(static.data("x", [None, 4], "float32"), 8)
        static.nn.conv2d(static.data("i", [None, 3, 6, 6], "float32"), 2, 3)
        ops = startup.global_block().ops
    assert types(startup) == ["uniform_random", "fill_constant", "gaussian_random", "fill_constant"]
    assert ops[0].attr("max") == pytest.approx((6 / 12) ** 0.5)
    assert ops[0].attr("min") == -ops[0].attr("max")
    assert ops[2].attr("std") == pytest.approx((2 / 27) ** 0.5)


def test_program_seed_is_copied_when_an_operator_is_made() -> None:
    """A later seed changes nothing; equal seeds give equal parameters."""
    with fresh() as (main, startup):
        startup.random_seed = main.random_seed = 5
        x = static.data("x", [None, 4], "float32")
        static.nn.fc(x, 3, bias_attr=False)
        static.nn.fc(x, 3, bias_attr=False)
        nn.functional.dropout(x)
        startup.random_seed = main.random_seed = 6
        seeds = [op.attr("seed") for op in startup.global_block().ops]
        assert [*seeds, main.global_block().ops[-1].attr("seed")] == [5, 5, 5]
        start()
        first, second = run(
            [main.all_parameters()[0], main.all_parameters()[1]], x=np.ones((1, 4), "float32")
        )
    assert np.array_equal(first, second)


def test_a_name_shares_a_parameter() -> None:
    """Layers with one name share one parameter, initialized once; shapes must agree."""
    with fresh() as (main, startup):
        x = static.data("x", [None, 4], "float32")
        static.nn.fc(x, 3, weight_attr="shared", bias_attr=False)
        static.nn.fc(x, 3, weight_attr=paddle.ParamAttr("shared"), bias_attr=False)
        assert len(main.all_parameters()) == 1
        assert types(startup) == ["uniform_random"]
        with pytest.raises(ProgramError, match="'shared' exists with shape"):
            static.nn.fc(x, 5, weight_attr="shared")


def test_global_initializer_yields_to_the_parameter_attribute() -> None:
    """The global initializer replaces a layer's default, but not a ParamAttr's."""
    constant = nn.initializer.Constant
    nn.initializer.set_global_initializer(constant(2.0), constant(3.0))
    try:
        with fresh() as (_, startup):
            x = static.data("x", [None, 1], "float32")
            static.nn.fc(x, 1)
            static.nn.fc(x, 1, weight_attr=constant(4.0), bias_attr=False)
            values = [op.attr("value") for op in startup.global_block().ops]
    finally:
        nn.initializer.set_global_initializer(None)
    assert values == [2.0, 3.0, 4.0]


def test_data_refuses_another_variable_of_its_name() -> None:
    """Declaring an input again returns the variable; another type is an error."""
    with fresh():
        x = static.data("x", [None, 4], "float32")
        assert static.data("x", [-1, 4]) is x
        with pytest.raises(ValueError, match="another variable 'x'"):
            static.data("x", [None, 5], "float32")
        with pytest.raises(TypeError, match="'name' must be a str"):
            static.data(3, [1])  # type: ignore[arg-type]


def test_name_scope_and_device_are_noted_on_operators() -> None:
    """`op_namescope` nests, `op_device` is the guard's; both end with their block."""
    with fresh() as (main, _):
        x = static.data("x", [2], "float32")
        with static.name_scope("outer"), static.name_scope("inner"), static.device_guard("gpu:0"):
            paddle.tanh(x)
        paddle.tanh(x)
        first, second = main.global_block().ops
    assert (first.attr("op_namescope"), first.attr("op_device")) == ("/outer/inner/", "gpu:0")
    assert (second.attr("op_namescope"), second.attr("op_device")) == ("/", "")
    with fresh() as (main, _):
        x = static.data("x", [2], "float32")
        for name in ("again", "again"):
            with static.name_scope(name):
                paddle.tanh(x)
        scopes = [op.attr("op_namescope") for op in main.global_block().ops]
    assert scopes == ["/again/", "/again_1/"]
    with pytest.raises(ValueError, match="device_guard"), static.device_guard("tpu"):
        pass


@pytest.mark.parametrize(
    "other", [{"shape": [3]}, {"dtype": "int64"}, {"lod_level": 1}, {"persistable": True}]
)
def test_a_name_is_taken_by_another_variable(other: dict[str, Any]) -> None:
    """A variable that differs in a stated fact is refused; otherwise it is the same one."""
    with fresh() as (main, _):
        block = main.global_block()
        made = block.create_var("x", [2, -1], "float32")
        assert block.create_var("x") is block.create_var("x", (2, -1), paddle.float32) is made
        (fact,) = other
        with pytest.raises(ValueError, match=f"'x' has been created before with {fact}"):
            block.create_var("x", **other)
