"""Layers that scripts of 1.8 define themselves, with numbers and names of 1.8.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.fluid.executor import _fetch_var
from graphopt.fluid.framework import Parameter, _get_var, convert_np_dtype_to_dtype_
from graphopt.fluid.layer_helper import LayerHelper
from graphopt.fluid.layers import utils
from graphopt.fluid.layers.learning_rate_scheduler import _decay_step_counter
from graphopt.fluid.wrapped_decorator import signature_safe_contextmanager
from graphopt_tests.frontend.test_fluid import fresh, run

constant = fluid.initializer.Constant


def dense(
    input: Any,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """Build a layer as scripts do, with LayerHelper."""
    helper = LayerHelper("dense", **locals())
    dtype = helper.input_dtype()
    products: list[Any] = []
    for x, attr in helper.iter_inputs_and_params():
        weight = helper.create_parameter(attr=attr, shape=[x.shape[1], size], dtype=dtype)
        product = helper.create_variable_for_type_inference(dtype)
        helper.append_op(type="mul", inputs={"X": x, "Y": weight}, outputs={"Out": product})
        products.append(product)
    total = helper.create_variable_for_type_inference(dtype)
    helper.append_op(type="sum", inputs={"X": products}, outputs={"Out": total})
    return helper.append_activation(helper.append_bias_op(total, dim_start=1))


def test_a_layer_of_a_script() -> None:
    with fresh() as main:
        a, b = fluid.data("a", [None, 3]), fluid.data("b", [None, 2])
        attrs = [fluid.ParamAttr(initializer=constant(0.5)), fluid.ParamAttr("w", constant(-0.25))]
        bias = fluid.ParamAttr(initializer=constant(0.1))
        first = dense([a, b], 4, param_attr=attrs, bias_attr=bias, act="tanh")
        second = dense(a, 2, bias_attr=False, name="mine", param_attr=constant(1.0))
        feed = {"a": np.arange(6, dtype="float32").reshape(2, 3) / 10, "b": np.ones([2, 2])}
        values = run(first, second, a=feed["a"], b=feed["b"].astype("float32"))
        names = [p.name for p in main.all_parameters()]
        assert isinstance(_get_var("w"), Parameter)
        np.testing.assert_array_equal(_fetch_var("w"), np.full([2, 4], -0.25, "float32"))
        with pytest.raises(AssertionError, match="Cannot find nowhere in scope"):
            _fetch_var("nowhere")
    assert names == ["dense_0.w_0", "w", "dense_0.b_0", "mine.w_0"]
    assert (first.name, second.name, first.shape) == ("dense_0.tmp_4", "mine.tmp_1", (-1, 4))
    np.testing.assert_allclose(values[0][:, 0], [-0.24491866, 0.19737531], rtol=1e-6)
    np.testing.assert_allclose(values[1][:, 0], [0.3, 1.2], rtol=1e-6)


def test_variables_of_a_layer() -> None:
    with fresh():
        helper = LayerHelper("counter")
        options = {"dtype": "float32", "shape": [1], "persistable": True}
        count, is_new = helper.create_or_get_global_variable("count", **options)
        helper.set_variable_initializer(count, constant(7.0))
        assert is_new
        assert helper.create_or_get_global_variable("count", **options) == (count, False)
        assert [v.item() for v in run(count, _decay_step_counter())] == [7.0, 0.0]
        assert helper.create_parameter(False, [2], "float32") is None
        with pytest.raises(TypeError, match="a parameter of int64 has no initializer"):
            helper.create_parameter(None, [2], "int64")
        with pytest.raises(TypeError, match="'act' must be a str, found NoneType"):
            helper.is_instance("act", str)
        with pytest.raises(ValueError, match="takes one 'input'"):
            helper.input()


def test_nested_structures() -> None:
    tree = {"b": [1, (2, 3)], "a": 4}
    assert utils.flatten(tree) == [4, 1, 2, 3]
    assert utils.pack_sequence_as(tree, [1, 2, 3, 4]) == {"b": [2, (3, 4)], "a": 1}
    doubled = utils.map_structure(lambda x, y: x + y, tree, tree)
    assert doubled == {"b": [2, (4, 6)], "a": 8}
    assert utils.convert_to_list(3, 2, "k") == [3, 3]
    assert utils.convert_to_list((3, 4), 2, "k") == [3, 4]
    assert [utils.is_sequence(x) for x in ("ab", (1,), {}, 1)] == [False, True, True, False]
    utils.assert_same_structure([1, (2,)], [3, (4,)])
    utils.assert_same_structure([1], (1,), check_types=False)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: utils.convert_to_list([1], 2, "k"), ValueError),
        (lambda: utils.convert_to_list(1.5, 2, "k"), ValueError),
        (lambda: utils.convert_to_list(["a", 1], 2, "k"), ValueError),
        (lambda: utils.assert_same_structure([1], (1,)), TypeError),
        (lambda: utils.assert_same_structure([1], [1, 2]), ValueError),
        (lambda: utils.pack_sequence_as([1], [1, 2]), ValueError),
        (lambda: utils.pack_sequence_as([1], 3), TypeError),
    ],
)
def test_structures_that_do_not_fit(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_decorated_functions_keep_their_names() -> None:
    @signature_safe_contextmanager
    def guard(value: int) -> Any:
        yield value

    assert guard.__name__ == "guard"
    with guard(3) as found:
        assert found == 3


def test_element_types() -> None:
    assert convert_np_dtype_to_dtype_(np.float32) == "float32"
    assert convert_np_dtype_to_dtype_("int64") == fluid.core.VarDesc.VarType.INT64
    assert fluid.framework.dtype_is_floating("float64")
    assert fluid.framework.grad_var_name("x") == "x@GRAD"


def test_operators_of_variables() -> None:
    with fresh():
        x = fluid.data("x", [2])
        doubled = fluid.layers.scale(x, 2.0)
        assert x.op is None
        assert doubled.op is doubled.block.ops[-1]
        fluid.layers.assign(x, doubled)
        assert doubled.op is not None
        assert doubled.op.type == "assign"
        names = fluid.core.op_proto_and_checker_maker
        assert doubled.op.attr(names.kOpRoleAttrName()) == names.OpRole.Forward


def test_attributes_of_parameters() -> None:
    to_attr = fluid.ParamAttr._to_attr
    assert to_attr(None).name is None
    assert [attr.name for attr in to_attr(["a", fluid.ParamAttr("b")])] == ["a", "b"]
    assert to_attr(False) is False
    with pytest.raises(TypeError):
        to_attr(3)
