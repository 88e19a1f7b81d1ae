"""Attributes of appended operators: 1.8's names, Paddle's defaults, and errors for unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import graphopt
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.fluid import CPUPlace, Executor, Program, program_guard

Array = np.ndarray[Any, Any]
GRID = np.arange(12.0).reshape(3, 4)


def run(
    type: str, inputs: Mapping[str, Array], attrs: Mapping[str, Any], slot: str = "Out"
) -> Array:
    """Append one operator, and return its result."""
    graphopt.enable_static()
    program = Program()
    with program_guard(program, Program()):
        block = program.global_block()
        slots = {
            name: [block.create_var(name=name, shape=array.shape, dtype=str(array.dtype))]
            for name, array in inputs.items()
        }
        result = block.create_var(name="result", dtype="float64")
        block.append_op(type=type, inputs=slots, outputs={slot: [result]}, attrs=dict(attrs))
        return Executor(CPUPlace()).run(program, feed=dict(inputs), fetch_list=[result])[0]


@pytest.mark.parametrize(
    ("type", "slot", "attrs", "expected"),
    [
        ("roll", "X", {"shifts": [1], "dims": [0]}, np.roll(GRID, 1, 0)),
        ("flip", "X", {"dims": [0]}, GRID[::-1]),
        ("trace", "Input", {"dim1": 1, "dim2": 0, "offset": 1}, np.trace(GRID.T, 1)),
    ],
)
def test_names_of_1_8(type: str, slot: str, attrs: dict[str, Any], expected: Array) -> None:
    """Attributes may have the names of Paddle 1.8."""
    np.testing.assert_array_equal(run(type, {slot: GRID}, attrs), expected)


@pytest.mark.parametrize(
    ("type", "attrs", "expected"),
    [
        ("reduce_sum", {}, GRID.sum(0)),
        ("reduce_max", {"reduce_all": True}, GRID.max()),
        ("logsumexp", {}, np.log(np.exp(GRID).sum(0))),
        ("tril_triu", {}, np.triu(GRID)),
        ("increment", {}, GRID + 1),
        ("relu6", {"threshold": 3.0}, GRID.clip(0, 3)),
    ],
)
def test_what_is_not_said(type: str, attrs: dict[str, Any], expected: Array) -> None:
    """An absent attribute has Paddle's default."""
    np.testing.assert_allclose(run(type, {"X": GRID}, attrs), expected, rtol=1e-12)


SMALL = np.zeros((1, 2, 2, 2), "float32")
ADAMW = {
    "Param": np.ones(2, "float32"),
    **dict.fromkeys(("Grad", "Moment1", "Moment2"), np.zeros(2, "float32")),
    "LearningRate": np.array([0.1], "float32"),
    "Beta1Pow": np.array([0.9], "float32"),
    "Beta2Pow": np.array([0.999], "float32"),
}


def _quantised(x: object) -> dict[str, Array]:
    scale, zero = np.array([127.0, 254.0], "float32"), np.zeros(2, "float32")
    return {"X": np.array(x, "float32"), "Scale": scale, "ZeroPoint": zero}


@pytest.mark.parametrize(
    ("type", "inputs", "slots", "attrs", "expected"),
    [
        (
            *("prior_box", {"Input": SMALL, "Image": SMALL}, ("Boxes", "Variances")),
            {"min_sizes": [1.0], "aspect_ratios": [1.0], "variances": [0.1, 0.1, 0.2, 0.2]},
            [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]],
        ),
        (
            *("prior_box", {"Input": SMALL, "Image": SMALL}, ("Boxes", "Variances")),
            {"min_sizes": [8.0], "aspect_ratios": [4.0], "variances": [0.1, 0.1, 0.2, 0.2]},
            [[0.0, 0, 1, 1]] * 12,
        ),
        (
            *("adamw", ADAMW, ("ParamOut", "Moment1Out", "Moment2Out")),
            *({"coeff": 0.5}, [[1.0, 1.0]]),
        ),
        (
            *("fused_elemwise_add_activation", {"X": GRID, "Y": GRID}, ("Out",)),
            *({"functor_list": ["elementwise_add", "scale"]}, GRID),
        ),
        (
            *("quantize_linear", _quantised([[0.5, 1.5, 200], [5, -300, 3]]), ("Y",)),
            *({"bit_length": 8}, [[0, 2, 127], [2, -128, 2]]),
        ),
        (
            *("dequantize_linear", _quantised([[0.0, 1, 2], [3, 4, 5]]), ("Y",)),
            *({"bit_length": 8}, [[0, 1, 2], [6, 8, 10]]),
        ),
    ],
)
def test_what_is_not_said_of_boxes_updates_and_quantising(
    type: str, inputs: Any, slots: tuple[str, ...], attrs: dict[str, Any], expected: Any
) -> None:
    """Operators without an attribute give the values of Paddle 2.6.2."""
    found = run(type, inputs, attrs, slots[0])
    np.testing.assert_allclose(found.reshape(np.shape(expected)), expected, atol=1e-6)


def test_comparisons_align_from_an_axis() -> None:
    """The axis is the position of y's first dimension in x, as for arithmetic."""
    column = np.array([1.0, 5.0, 20.0])
    found = run("less_than", {"X": GRID, "Y": column}, {"axis": 0})
    np.testing.assert_array_equal(found, np.less(GRID, column[:, None]))


def test_an_unknown_attribute_is_refused() -> None:
    """An unknown attribute may be a typo, so the error suggests the nearest name."""
    with pytest.raises(UnsupportedError, match=r"no attribute 'axes'.*did you mean 'axis'"):
        run("roll", {"X": GRID}, {"shifts": [1], "axes": [0]})


@pytest.mark.parametrize(("type", "near"), [("conv2dd", "conv2d"), ("elementwise_ad", "add")])
def test_an_unknown_type_has_a_nearest(type: str, near: str) -> None:
    with pytest.raises(UnsupportedError, match=f"no translation; did you mean '[a-z_]*{near}'"):
        run(type, {"X": GRID}, {})
    with pytest.raises(UnsupportedError, match=r"'zzz' has no translation \["):
        run("zzz", {"X": GRID}, {})


@pytest.mark.parametrize(
    ("type", "attrs", "near"),
    [
        ("partial_sum", {"start_indx": 1, "length": 2}, "start_index"),
        ("partial_concat", {"lenght": 1}, "length"),
        ("fill_diagonal", {"vlaue": 1.0}, "value"),
        ("add_position_encoding", {"alhpa": 1.0}, "alpha"),
    ],
)
def test_a_misspelt_attribute_is_refused(type: str, attrs: dict[str, Any], near: str) -> None:
    """A typo is refused even for operators that only a translation knows."""
    with pytest.raises(UnsupportedError, match=f"did you mean '{near}'"):
        run(type, {"X": np.ones((1, 2, 2, 2))[:, :, 0]}, attrs)


def test_an_attribute_that_paddle_requires_is_required() -> None:
    with pytest.raises(ProgramError, match="spp needs the attribute 'pyramid_height'"):
        run("spp", {"X": np.ones((1, 2, 4, 4))}, {"pyramid_heigth": 1, "pooling_type": "max"})


def test_an_attribute_like_no_other_is_ignored() -> None:
    """An attribute that resembles no known one is ignored, as in Paddle, with a warning."""
    with pytest.warns(UserWarning, match="no attribute 'gpu_id'"):
        found = run("roll", {"X": GRID}, {"shifts": [1], "axis": [0], "gpu_id": 3})
    np.testing.assert_array_equal(found, np.roll(GRID, 1, 0))


@pytest.mark.parametrize("inner", [4, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_by_heads(inner: int, transposed: bool) -> None:
    """Each head multiplies its columns of x by its rows, or its columns, of y."""
    x = np.arange(24.0).reshape(2, 3, 4)
    y = np.arange(2.0 * inner * 6).reshape(2, inner, 6)
    parts = np.split(y, 2, 1 if inner == 4 else 2)
    expected = np.concatenate([x[..., :2] @ parts[0], x[..., 2:] @ parts[1]], 2)
    inputs = {"X": x, "Y": y}
    if transposed:
        inputs = {name: value.swapaxes(1, 2).copy() for name, value in inputs.items()}
    attrs = {"head_number": 2, "transpose_X": transposed, "transpose_Y": transposed}
    np.testing.assert_array_equal(run("matmul", inputs, attrs), expected)


def test_a_known_attribute_without_translation_is_refused() -> None:
    """A known attribute without translation is refused, unless it has its usual value."""
    inputs = {"X": GRID, "Y": GRID}
    with pytest.raises(UnsupportedError, match="x_data_format = 'NHWC'"):
        run("elementwise_add", inputs, {"x_data_format": "NHWC"})
    run("elementwise_add", inputs, {"x_data_format": ""})


def test_types_are_numbers_too() -> None:
    """An attribute may be the number of a type: scripts write `int(VarType.FP32)`."""
    kind = graphopt.fluid.core.VarDesc.VarType
    attrs = {"in_dtype": int(kind.FP64), "out_dtype": int(kind.FP32)}
    assert attrs == {"in_dtype": 6, "out_dtype": 5}
    np.testing.assert_array_equal(run("cast", {"X": GRID}, attrs), GRID.astype("float32"))


def test_what_paddle_may_have_fused_into_an_operator() -> None:
    """Empty fusion attributes, which Paddle 2.3 writes on each matmul_v2, are ignored."""
    inputs = {"X": GRID, "Y": GRID.T.copy()}
    found = run("matmul_v2", inputs, {"fused_reshape_X": [], "fused_transpose_Y": []})
    np.testing.assert_allclose(found, GRID @ GRID.T)
    with pytest.raises(UnsupportedError, match="fused_transpose_Y"):
        run("matmul_v2", inputs, {"fused_transpose_Y": [1, 0]})


def test_hints_are_no_attributes_of_the_result() -> None:
    """Hints on Paddle's kernels, and notes of tools, do not change the result."""
    hints = {"use_mkldnn": True, "op_role": 0, "workspace_size_MB": 4, "out_threshold": 2.5}
    np.testing.assert_array_equal(
        run("roll", {"X": GRID}, {"shifts": [1], "axis": [0], **hints})[1], GRID[0]
    )


def test_rank_loss_goes_element_by_element() -> None:
    """Vectors and columns do not broadcast to matrices; the result has the label's shape."""
    label, left, right = (np.linspace(0, 1, 3) * k for k in (1, 2, 3))
    gap = left - right
    expected = np.log1p(np.exp(gap)) - label * gap
    found = run("rank_loss", {"Label": label, "Left": left[:, None], "Right": right}, {})
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_losses_that_do_not_broadcast() -> None:
    """A vector against a column is an error, not a matrix."""
    inputs = {"Predicted": GRID[0], "Labels": GRID[0][:, None]}
    with pytest.raises(ProgramError, match="one shape"):
        run("log_loss", inputs, {"epsilon": 1e-4}, slot="Loss")


def test_quantising_zeros_gives_zeros() -> None:
    """Zeros have the scale 0, and are not divided by it."""
    zeros = np.zeros(3)
    np.testing.assert_array_equal(run("fake_quantize_abs_max", {"X": zeros}, {}), zeros)


def test_dot_keeps_integers() -> None:
    """The inner product of int32 is int32."""
    ones = np.ones(3, np.int32)
    assert run("dot", {"X": ones, "Y": ones}, {}).dtype == np.int32


@pytest.mark.parametrize("top", [100, 448, 57344])
def test_quantising_to_a_largest_number(top: int) -> None:
    """`qmax` overrides the bits; a qmax of float8, whose steps differ, only dequantizes."""
    slots = {"Scale": np.array([2.0], "float32"), "ZeroPoint": np.array([0], "int32")}
    attrs = {"bit_length": 8, "quant_axis": -1, "qmin": -top, "qmax": top}
    x = np.array([1, 10, -5], "float32")
    more = {"is_test": True, "round_type": 0}
    if top == 100:
        found = run("quantize_linear", {"X": x, **slots}, attrs | more, slot="Y")
        np.testing.assert_array_equal(found, [top / 2, top, -top - 1])
    else:
        with pytest.raises(ProgramError, match="for float8, which is not supported"):
            run("quantize_linear", {"X": x, **slots}, attrs | more, slot="Y")
    found = run("dequantize_linear", {"X": x, **slots}, attrs, slot="Y")
    np.testing.assert_allclose(found, x * 2 / top, 1e-6)


@pytest.mark.parametrize(
    ("attrs", "number"),
    [({"value": 1.5}, 1.5), ({"value_float": 2.5, "value_int": 2}, 2.5), ({"value_int": 3}, 3)],
)
def test_any_number_fills_a_tensor(attrs: dict[str, float], number: float) -> None:
    """The number is the attribute `value`; Paddle 1.8 has one attribute for each kind."""
    np.testing.assert_array_equal(run("fill_any", {"X": GRID}, attrs), np.full_like(GRID, number))


@pytest.mark.parametrize(
    ("shape", "wanted"), [((4,), GRID.sum(0)), ((3, 1), GRID.sum(1, keepdims=True)), ((3, 4), GRID)]
)
def test_sums_in_the_shape_of_another_tensor(shape: tuple[int, ...], wanted: Array) -> None:
    found = run("reduce_as", {"x": GRID, "target": np.ones(shape)}, {}, slot="out")
    np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ProgramError, match="does not broadcast"):
        run("reduce_as", {"x": GRID, "target": np.ones(3)}, {}, slot="out")


def test_diagonals_of_a_number() -> None:
    """Columns count from the offset; with `wrap` a tall matrix has several diagonals."""
    tall = np.zeros((5, 2), "float32")
    found = run("fill_diagonal", {"X": tall}, {"value": 7.0, "wrap": True})
    np.testing.assert_array_equal(found, [[7, 0], [0, 7], [0, 0], [7, 0], [0, 7]])
    found = run("fill_diagonal", {"X": tall}, {"value": 7.0, "offset": 1})
    np.testing.assert_array_equal(found, [[0, 7], [0, 0], [0, 0], [0, 0], [0, 0]])
    found = run("fill_diagonal", {"X": np.zeros((2, 2, 2), "int64")}, {"value": 3.0})
    np.testing.assert_array_equal(found, [[[3, 0], [0, 0]], [[0, 0], [0, 3]]])


def test_diagonals_of_a_tensor() -> None:
    """Paddle saves y for a matrix as [1, n]."""
    y = np.array([[1, 2, 3]], "float32")
    found = run("fill_diagonal_tensor", {"X": np.zeros((3, 4), "float32"), "Y": y}, {"offset": 1})
    np.testing.assert_array_equal(found, np.diag([1, 2, 3, 0], 1)[:3, :4])
    x, y = np.zeros((2, 3, 2), "float32"), np.array([[1, 2], [3, 4], [5, 6]], "float32")
    found = run("fill_diagonal_tensor", {"X": x, "Y": y}, {"dim1": 0, "dim2": 2})
    np.testing.assert_array_equal(found, [[[1, 0], [3, 0], [5, 0]], [[0, 2], [0, 4], [0, 6]]])
    with pytest.raises(ProgramError, match="2 positions of the diagonal"):
        run("fill_diagonal_tensor", {"X": x, "Y": y[:, :1]}, {"dim1": 0, "dim2": 2})


@pytest.mark.parametrize(
    ("type", "inputs", "outputs", "message"),
    [
        ("relu", {"X": "x"}, {"Y": "x"}, "relu has no output 'Y'; its outputs are Out"),
        ("relu", {"X": "x"}, {"Out": ["x", "y"]}, "one Variable in the slot 'Out', found 2: x, y"),
        ("elementwise_add", {"X": ["x", "y"], "Y": "y"}, {"Out": "x"}, "slot 'X', found 2: x, y"),
        ("relu", ["x"], {"Out": "x"}, "slots are a dict from their names to Variables"),
        (3, {"X": "x"}, {"Out": "x"}, "the type of an operator is a str, found 3"),
    ],
)
def test_wrong_slots(type: Any, inputs: Any, outputs: Any, message: str) -> None:
    """An operator that would leave a variable as it is, or out, is refused, as in Paddle."""
    graphopt.enable_static()
    with program_guard(Program(), Program()):
        block = graphopt.static.default_main_program().global_block()
        for name in "xy":
            block.create_var(name=name, shape=[2], dtype="float32")
        with pytest.raises(ProgramError, match=message):
            block.append_op(type, inputs, outputs)
        assert not block.ops
