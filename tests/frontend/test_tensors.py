"""Variables in expressions: operators, indexing, dtypes, and errors that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt_tests.frontend.programs import fresh, run, types

F = paddle.nn.functional


def test_numbers_become_one_scale() -> None:
    """+ - * / with a number, on either side, and unary minus are one scale."""
    value = np.array([1.0, -2.0, 4.0], "float32")
    with fresh() as (main, _):
        x = static.data("x", [3], "float32")
        made = [x + 1, 1 + x, x - 2, 2 - x, x * 3, 3 * x, x / 4, -x]
        assert types(main) == ["scale"] * 8
        got = run([*made, 8 / x, x**2, 2**x], x=value)
    want = [value + 1, value + 1, value - 2, 2 - value, value * 3, value * 3, value / 4, -value]
    for array, expected in zip(got, [*want, 8 / value, value**2, 2**value], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-6)


def test_dtypes_of_operators() -> None:
    """Numbers keep a float tensor's dtype; ints divide to float32; mixed kinds are refused."""
    with fresh():
        f32, f64 = static.data("f", [2], "float32"), static.data("d", [2], "float64")
        i32, i64 = static.data("i", [2], "int32"), static.data("l", [2], "int64")
        flag = static.data("b", [2], "bool")
        dtypes = [
            (f32 + 1.5, "float32"),
            (f64 + 1, "float64"),
            (i64 + 1, "int64"),
            (i64 + 1.5, "float32"),
            (i64 / 2, "float32"),
            (i64 / i64, "float32"),
            (i32 * i64, "int64"),
            (f32 * f64, "float64"),
            (f32 * i64, "float32"),
            (f32 > i64, "bool"),
            (f32 - flag, "float32"),
            (flag + 1, "bool"),
            (f32 > 1, "bool"),
            (i64 == 1, "bool"),
            (f32 + np.array([1.0, 2.0], "float32"), "float32"),
            (np.array([1.0, 2.0], "float32") * f32, "float32"),
        ]
        assert [made.dtype for made, _ in dtypes] == [name for _, name in dtypes]
        with pytest.raises(ProgramError, match="'l' and 'f' have the dtypes int64 and float32"):
            _ = i64 + f32
        with pytest.raises(TypeError, match="unsupported operand"):
            _ = f32 + "1"


def test_places_of_a_variable() -> None:
    """`cpu` and `cuda` pass values and gradients; `_set_error_clip` is accepted."""
    with fresh():
        x = static.data("x", [2], "float32")
        x.stop_gradient = False
        x._set_error_clip(None)
        made = x.cpu() + x.cuda(0)
        got = run([made, *static.gradients(made, x)], x=np.array([1.0, 2.0], "float32"))
    np.testing.assert_array_equal(got, [[2, 4], [2, 2]])


def test_operators_stand_in_the_program_of_their_variable() -> None:
    """Operators go to their variable's program, as in Paddle; layers go to the default one."""
    with fresh() as (main, _):
        x = static.data("x", [2], "float32")
    with fresh() as (other, _):
        made = [x + x, 2 * x, -x, x.astype("int64"), x @ x]
        assert types(main) == ["elementwise_add", "scale", "scale", "cast", "matmul_v2"]
        assert types(other) == [] and all(v.block.program is main for v in made)


INDICES: list[Any] = [
    1,
    -1,
    slice(1, None),
    slice(None, -1),
    slice(-2, 100),
    (0, 1),
    (slice(None), 2),
    (Ellipsis, 0),
    (1, Ellipsis, slice(1, 2)),
    None,
    (slice(1, 3), None, 0),
    Ellipsis,
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index: Any) -> None:
    """Integers, slices, None and Ellipsis index as in NumPy, with right static shapes."""
    value = np.arange(24, dtype="float32").reshape(4, 3, 2)
    with fresh():
        part = static.data("x", [4, 3, 2], "float32")[index]
        (got,) = run([part * 1], x=value)
    assert part.shape == value[index].shape
    assert np.array_equal(got, value[index])


def test_indexing_open_dimensions() -> None:
    """Rows of unknown number can be indexed by first, last, range and list."""
    value = np.arange(8, dtype="float32").reshape(4, 2)
    with fresh():
        x = static.data("x", [None, 2], "float32")
        rows = paddle.to_tensor(np.array([3, 0, 3]))
        parts = [x[0], x[-1], x[1:], x[:-1], x[rows]]
        assert [part.shape for part in parts] == [(2,), (2,), (-1, 2), (-1, 2), (3, 2)]
        got = run(parts, x=value)
    want = [value[0], value[-1], value[1:], value[:-1], value[[3, 0, 3]]]
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_indexing_errors() -> None:
    """An index out of range, or too many of them, are errors."""
    with fresh():
        x = static.data("x", [4, 2], "float32")
        with pytest.raises(IndexError, match="index 4 is out of range for axis 0 of size 4"):
            _ = x[4]
        with pytest.raises(IndexError, match="too many indices"):
            _ = x[0, 0, 0]


def test_a_variable_is_not_a_value() -> None:
    """float(), numpy() and open iteration raise errors that explain themselves."""
    with fresh():
        x = static.data("x", [None, 2], "float32")
        with pytest.raises(TypeError, match="fetch it"):
            x.numpy()
        with pytest.raises(TypeError, match="fetch it"):
            np.asarray(x)
        with pytest.raises(TypeError, match="cannot iterate"):
            iter(x)
        assert len([*paddle.zeros([3, 2])]) == 3
        assert x in [x]
        assert {x: 1}[x] == 1


@pytest.mark.filterwarnings("error")
def test_every_variable_is_true() -> None:
    """`if x`, `not x` and `x in [y]` work as in Paddle's static mode; a condition warns."""
    with fresh():
        x, y = static.data("x", [None, 2]), static.data("y", [None, 2])
        assert (x or None) is x
        assert (not x) is False
        assert x in [y]
        for made in (x > 0, static.data("c", [1], "bool")):
            with pytest.warns(UserWarning, match=rf"truth of '{made.name}'.*paddle\.where") as told:
                assert made
            assert told[0].filename == __file__


def test_data_refuses_what_is_no_size() -> None:
    """A dimension below -1 or beyond 64 bits is refused, and so is a name in use."""
    with fresh():
        for dim in (-2, 2**63, 2**70):
            with pytest.raises(ValueError, match=f"'x' cannot have a dimension of {dim}"):
                static.data("x", [2, dim])
        static.data("x", [2])
        with pytest.raises(ValueError, match="start a new Program"):
            static.data("x", [3])


def test_float_bounds_of_integers() -> None:
    """Float bounds give float32, as in Paddle 3.3.1; integer bounds keep integers."""
    with fresh():
        x = paddle.to_tensor(np.array([1, -2, 3, 7]))
        found = run([paddle.clip(x, 0.5, 2.5), x.clip(max=2.5), paddle.clip(x, 0, 2)])
    assert [each.dtype.name for each in found] == ["float32", "float32", "int64"]
    wanted = [[1, 0.5, 2.5, 2.5], [1, -2, 2.5, 2.5], [1, 0, 2, 2]]
    assert [each.tolist() for each in found] == wanted


def test_blocks_of_sizes_in_part_from_a_run() -> None:
    """Known sizes stay known; a block that reaches outside is refused, as in Paddle 1.8.5."""
    array = np.arange(60, dtype="float32").reshape(3, 4, 5)
    with fresh():
        x, size = static.data("x", [None, 4, 5]), static.data("n", [1], "int32")
        block = paddle.crop(x, [2, size, 3], [0, size, 1])
        rest = paddle.crop(x, [-1, size, -1], [1, 0, 0])
        assert (block.shape, rest.shape) == ((2, -1, 3), (-1, -1, -1))
        outside = paddle.crop(x, [2, 2, 2], [2, 0, 0])
        feed = {"x": array, "n": np.array([2], "int32")}
        found = run([block, rest], **feed)
        with pytest.raises(ProgramError, match=r"block \[2, 2, 2\] at \[2, 0, 0\] of \[3, 4, 5\]"):
            run([outside], **feed)
        where = r"\[2, 3, 3\].* outside axis 1; choose .*%crop_tensor.*pd.crop.*test_tensors.py:"
        with pytest.raises(ProgramError, match=where):
            run([block], x=array, n=np.array([3], "int32"))
    np.testing.assert_array_equal(found[0], array[:2, 2:4, 1:4])
    np.testing.assert_array_equal(found[1], array[1:, :2])


@pytest.mark.parametrize(
    ("sizes", "offsets", "message"),
    [
        ([-1, 2], [-1, 0], "reaches outside axis 0"),
        ([-1, 2], [4, 0], "reaches outside axis 0"),
        ([1, -2], [0, 0], "found -2 in 'shape'"),
        ([0, 2], [0, 0], "found 0 in 'shape'"),
    ],
)
def test_blocks_that_a_run_refuses(sizes: list[int], offsets: list[int], message: str) -> None:
    """Negative offsets and sizes of 0 are refused in the run, as in Paddle 1.8.5."""
    with fresh():
        x = static.data("x", [None, 2])
        block = paddle.crop(x, static.data("s", [2], "int32"), static.data("o", [2], "int32"))
        feed = {"s": np.array(sizes, "int32"), "o": np.array(offsets, "int32")}
        with pytest.raises(ProgramError, match=message):
            run([block], x=np.zeros((3, 2), "float32"), **feed)


@pytest.mark.exhaustive
def test_bounds_that_are_variables() -> None:
    """clip, crop and pad take numbers that a run decides, as in Paddle 2.6.2."""
    with fresh():
        low, size = static.data("low", [1]), static.data("size", [2], "int32")
        x = paddle.to_tensor(np.arange(6, dtype="float32").reshape(2, 3))
        image, amounts = paddle.reshape(x, [1, 1, 2, 3]), static.data("pad", [4], "int32")
        pads = [
            paddle.nn.functional.pad(image, amounts, mode)
            for mode in ("constant", "reflect", "replicate", "circular")
        ]
        outs = [
            paddle.clip(x, low, 4.0),
            x.clip(max=low),
            paddle.crop(x, size, [0, paddle.full([1], 1, "int32")]),
            paddle.crop(x, [size[1:2], -1], size * 0 + 1),
        ]
        feed = {"low": [2], "size": [-1, 1], "pad": [1, 2, 0, 1]}
        found = run(
            [*outs, *pads],
            **{n: np.array(v, "float32" if n == "low" else "int32") for n, v in feed.items()},
        )
        with pytest.raises(TypeError, match="floating-point or int32"):
            paddle.clip(x, paddle.full([1], 1, "int64"))
        with pytest.raises(ValueError, match="4 numbers for"):
            paddle.nn.functional.pad(image, size)
    array = np.arange(6, dtype="float32").reshape(2, 3)
    wanted = [array.clip(2, 4), array.clip(max=2), array[:, 1:2], array[1:, 1:]]
    widths = ((0, 0), (0, 0), (0, 1), (1, 2))
    wanted += [
        np.pad(array[None, None], widths, mode)  # type: ignore[call-overload]
        for mode in ("constant", "reflect", "edge", "wrap")
    ]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_dtype_of_a_range() -> None:
    """Whole bounds, int32 included, give int64; others give the default dtype."""
    with fresh():
        small, wide = static.data("i", [1], "int32"), static.data("x", [1], "float64")
        assert paddle.arange(small, 6).dtype == paddle.int64
        assert paddle.arange(small, wide).dtype == paddle.float32
        assert paddle.arange(0, 6, wide, "float64").dtype == paddle.float64


def test_methods_are_the_functions() -> None:
    """`x.f(...)` is `paddle.f(x, ...)`."""
    with fresh():
        x = static.data("x", [2, 3], "float32")
        assert x.reshape([3, 2]).shape == x.T.shape == x.t().shape == (3, 2)
        assert (x.astype("int64").dtype, x.mean().shape, x.ndim, x.dim()) == ("int64", (), 2, 2)
        x.stop_gradient = False
        assert x.detach().stop_gradient
        assert not x.clone().stop_gradient
        assert (x @ x.T).shape == (2, 2)
        assert (x > 0).where(x, 0.0).shape == (2, 3)
        assert ((x > 0) & ~(x > 1)).dtype == "bool"


def test_constants() -> None:
    """full, to_tensor and assign choose Paddle's dtypes; large integers keep their digits."""
    with fresh():
        made = [
            (paddle.full([2], 3), "float32"),
            (paddle.full([], 2**40, "int64"), "int64"),
            (paddle.to_tensor([1, 2]), "int64"),
            (paddle.to_tensor([1.0]), "float32"),
            (paddle.to_tensor(np.ones(2)), "float64"),
            (paddle.assign(True), "bool"),
            (paddle.ones_like(static.data("x", [None, 2], "float32")), "float32"),
        ]
        assert [v.dtype for v, _ in made] == [name for _, name in made]
        got = run([v for v, _ in made], x=np.zeros((3, 2), "float32"))
    assert got[1] == 2**40
    assert got[6].tolist() == [[1, 1]] * 3


def test_default_dtype() -> None:
    """The default dtype applies to new floats and parameters."""
    paddle.set_default_dtype("float64")
    try:
        with fresh():
            made = [paddle.ones([2]), paddle.rand([2]), paddle.to_tensor([1.5])]
            assert {v.dtype for v in made} == {"float64"}
            assert static.data("x", [1]).dtype == paddle.get_default_dtype() == "float64"
    finally:
        paddle.set_default_dtype("float32")
    with pytest.raises(TypeError, match="set_default_dtype only supports"):
        paddle.set_default_dtype("int32")


def test_mode() -> None:
    """Dynamic mode has only plain functions; an error says so when a variable is made."""
    paddle.enable_static()
    assert not paddle.in_dynamic_mode()
    paddle.disable_static()
    try:
        assert paddle.in_dynamic_mode()
        assert paddle.nn.initializer.calculate_gain("linear") == 1
        with pytest.raises(UnsupportedError, match="no dynamic mode"):
            static.data("x", [2], "float32")
        assert paddle.tril(paddle.ones([2, 2])).numpy().tolist() == [[1, 0], [1, 1]]
    finally:
        paddle.enable_static()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: paddle.tanh([1.0]), TypeError, "'x' must be a Variable of .*, found list"),
        (lambda x: paddle.add(x, 1.0), TypeError, "'y' must be a Variable"),
        (lambda x: paddle.concat(1), TypeError, "concat.*'x'"),
        (lambda x: paddle.concat([x, 1]), TypeError, r"'x\[1\]' must be a Variable"),
        (lambda x: paddle.sum(x, axis="0"), TypeError, "sum.*'axis' must be an int"),
        (lambda x: paddle.sum(x, axis=[0, "1"]), TypeError, r"sum.*'axis\[1\]' must be an int"),
        (lambda x: paddle.zeros([2, "n"]), TypeError, r"'shape\[1\]' must be an int"),
        (lambda x: paddle.sum(x, axis=5), ProgramError, "axis 5 is out of range"),
        (lambda x: paddle.sum(x, keepdim=1), TypeError, "'keepdim' must be a bool"),
        (lambda x: paddle.reshape(x, [x, 2]), TypeError, r"'shape\[0\]' must be an int32"),
        (lambda x: paddle.reshape(x, [5, 5]), ProgramError, "test_tensors.py"),
        (lambda x: paddle.cast(x, "float3"), TypeError, "cast.*'dtype'"),
        (lambda x: paddle.full([2], "1"), TypeError, "'fill_value' must be a number"),
        (lambda x: paddle.matmul(x, x), ProgramError, "contracts dimensions"),
        (lambda x: paddle.bmm(x, x), ValueError, "should be 3-D"),
        (lambda x: paddle.where(x > 0, x), ValueError, "both or neither"),
        (lambda x: F.dropout(x, 1.5), ValueError, "p argument should between 0 and 1"),
        (lambda x: F.dropout(x, mode="x"), ValueError, "'mode' should be one of"),
        (lambda x: F.mse_loss(x, x, "avg"), ValueError, "'reduction' should be one of"),
        (lambda x: F.softmax(x, axis=4), ProgramError, "out of range"),
        (lambda x: F.max_pool2d(x, 2, padding=[1, 2, 3]), ValueError, "'padding' should have"),
        (lambda x: F.conv2d(x, x, data_format="CHW"), ValueError, "'data_format'"),
        (lambda x: F.layer_norm(x, [7]), ValueError, "'normalized_shape'"),
        (lambda x: static.nn.fc(x, 2, activation=3), TypeError, "activation must be a str"),
        (lambda x: static.nn.fc(x, 2, activation="rule"), UnsupportedError, "'rule'"),
        (lambda x: static.nn.fc(x, 2, weight_attr=1), TypeError, "ParamAttr"),
        (lambda x: paddle.ParamAttr(initializer=1), TypeError, "'initializer'"),
        (lambda x: paddle.tanh(x, name=3), TypeError, "'name' must be a str"),
        (lambda x: paddle.set_device("abacus"), ValueError, "set_device"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], text: str) -> None:
    """The error has Paddle's class, and names the function and its wrong argument."""
    with fresh(), pytest.raises(error, match=text):
        call(static.data("x", [2, 3], "float32"))


def test_integers_that_a_float_does_not_hold_are_exact() -> None:
    """A constant is never rounded silently."""
    program = static.Program()
    with static.program_guard(program):
        exact = paddle.full([1], 2**60 + 1, "int64")
    (found,) = static.Executor().run(program, fetch_list=[exact])
    assert found.tolist() == [2**60 + 1]
