"""In-place functions and `x[i] = v`: in traces they write, in programs a warning says otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import jit, nn, static
from graphopt.errors import UnsupportedError
from graphopt.nn import functional
from graphopt_tests.example_counts import share
from graphopt_tests.frontend.programs import run, start

X = np.array([1.0, 2.0], "float32")


pytestmark = pytest.mark.usefixtures("fresh_state")


def floats(*values: Any) -> Any:
    return np.array(values, "float32")


def ints(*values: int) -> Any:
    return np.array(values, "int64")


def flags(*values: bool) -> Any:
    return np.array(values, "bool")


UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh digamma elu erf erfinv exp expm1 floor frac
    hardtanh i0 leaky_relu lgamma log log10 log1p log2 logit nan_to_num neg reciprocal relu round
    rsqrt sigmoid sin sinh softmax sqrt square tan tanh thresholded_relu tril triu trunc
"""
ARITHMETIC = "add sub subtract multiply divide floor_divide floor_mod mod remainder hypot"
COMPARISONS = "equal not_equal greater_equal greater_than less_equal less_than"
OF_BITS = "bitwise_and bitwise_or bitwise_xor gcd lcm"
# Paddle says these names
OTHERS = {"sub": "subtract", "floor_mod": "remainder", "mod": "remainder"}
SQUARE = floats([0.25, 0.5], [0.75, 0.125])
# the arguments of each function; the first is written, of `where` the second
SAMPLES: dict[str, tuple[Any, ...]] = {
    **{name: (SQUARE + (name == "acosh"),) for name in UNARY.split()},
    **{name: (floats(5, 7), floats(2, 4)) for name in ARITHMETIC.split()},
    **{name: (ints(12, 7), ints(8, 5)) for name in OF_BITS.split()},
    **{name: (X, floats(2, 2)) for name in COMPARISONS.split()},
    "logical_and": (flags(True, False), flags(True, True)),
    "logical_or": (flags(True, False), flags(True, True)),
    "logical_xor": (flags(True, False), flags(True, True)),
    "addmm": (SQUARE, SQUARE, SQUARE),
    "bitwise_not": (ints(1, 2),),
    "cast": (X, "int32"),
    "clip": (X, 0.0, 1.5),
    "cumprod": (X, 0),
    "cumsum": (X,),
    "flatten": (SQUARE,),
    "index_add": (X, ints(0, 0), 0, X),
    "index_fill": (X, ints(1), 0, 9.0),
    "index_put": (X, (ints(1),), floats(5)),
    "ldexp": (X, ints(1, 2)),
    "lerp": (X, SQUARE[0], SQUARE[1]),
    "logical_not": (flags(True, False),),
    "masked_fill": (X, flags(True, False), 7.0),
    "multigammaln": (X + 1, 2),
    "polygamma": (X, 1),
    "pow": (X, 2.0),
    "put_along_axis": (X, ints(1), floats(9), 0),
    "renorm": (SQUARE, 1.0, 0, 1.0),
    "reshape": (X, [2, 1]),
    "scale": (X, 3.0),
    "scatter": (X, ints(1), floats(7)),
    "squeeze": (X[None], 0),
    "t": (SQUARE[:1],),
    "transpose": (SQUARE[:1], [1, 0]),
    "unsqueeze": (X, 0),
    "where": (flags(True, False), X, -X),
}


def names_of(owner: Any) -> set[str]:
    """Collect the public names of in-place functions."""
    names = [name for name in dir(owner) if name.endswith("_") and not name.startswith("_")]
    return {name for name in names if name != "bool_" and callable(getattr(owner, name))}


def function_of(name: str) -> Any:
    """Find the function of this name in paddle, in nn.functional, or as a method."""
    owners = (paddle, functional, static.Variable)
    return next(getattr(owner, name) for owner in owners if hasattr(owner, name))


def as_tensor(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(as_tensor, value))
    return paddle.to_tensor(value).clone() if isinstance(value, np.ndarray) else value


def test_all_names_have_a_sample() -> None:
    """Every in-place function has a sample."""
    names = names_of(paddle) | names_of(functional) | names_of(static.Variable)
    assert {f"{name}_" for name in SAMPLES} == names


@pytest.mark.exhaustive
def test_each_writes_in_a_trace() -> None:
    """Every name of the tensor sees the new values, shape and dtype."""

    def everything() -> Any:
        pairs = []
        for name, given in share(SAMPLES.items()):
            expected = function_of(name)(*map(as_tensor, given))
            own = list(map(as_tensor, given))
            written = own[1 if name == "where" else 0]
            result = function_of(f"{name}_")(*own)
            pairs.append((name, result is written, expected, written))
        return pairs

    for name, same, expected, written in jit.to_static(everything)():
        assert same, name
        assert written.dtype == expected.dtype, name
        np.testing.assert_array_equal(written.numpy(), expected.numpy(), name)


def test_each_warns_in_a_program() -> None:
    """The function makes a new variable, and warns in Paddle's words at the script's line."""
    for name, given in SAMPLES.items():
        own = list(map(as_tensor, given))
        called = OTHERS.get(name, name)
        words = rf"^In static graph mode, {called}_\(\) is the same as {called}\(\) and does not"
        with pytest.warns(UserWarning, match=words) as caught:
            made = function_of(f"{name}_")(*own)
        assert caught[0].filename == __file__
        assert all(made is not value for value in own)


def changed(x: Any) -> None:
    x.add_(x)
    x[0] = 5.0


def aliases(x: Any) -> Any:
    y = x * 1.0
    z = y
    changed(y)
    return z, (lambda v: v)(y)


def in_a_branch(x: Any) -> Any:
    y = x * 1.0
    if x.sum() > 0:
        y.add_(y)
        y[0] = 5.0
    else:
        y.zeros = None
    return y


def in_loops(x: Any) -> Any:
    y, total = x * 1.0, paddle.zeros([1])
    while y.sum() < 20:
        y.add_(y)
    for row in range(len(x)):
        total[0] += y[row]
    return y, total


def retyped(x: Any) -> Any:
    other = x
    x.reshape_([2, 1])
    other.cast_("int32")
    return x, x.unsqueeze_(0)


def masks(x: Any) -> Any:
    y = x * 1.0
    y[y > 1.5] = 0.0
    return y


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (aliases, ([5, 4], [5, 4])),
        (in_a_branch, ([5, 4],)),
        (in_loops, ([8, 16], [24])),
        (retyped, ([[[1], [2]]], [[[1], [2]]])),
        (masks, ([1, 0],)),
    ],
)
def test_a_tensor_has_one_value(function: Any, expected: Any) -> None:
    """All names of a tensor see one value, in functions, branches and loops."""
    got = jit.to_static(function)(X)
    got = got if isinstance(got, tuple) else (got,)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


def test_a_view_is_a_copy() -> None:
    """Results of `reshape` and of an index keep their values, as in Paddle's traces."""

    def views(x: Any) -> Any:
        y = x * 1.0
        flat, rest = paddle.flatten(y), y[1:]
        y[1] = 99.0
        return flat, rest, y

    flat, rest, y = (value.tolist() for value in jit.to_static(views)(X))
    assert (flat, rest, y) == ([1, 2], [2], [1, 99])


def test_gradients_go_through_writes() -> None:
    """Written values have gradients, and so do constants that a trained value is written to."""

    class Net(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            ones = nn.initializer.Constant(1.0)
            self.w = self.create_parameter([2], default_initializer=ones)

        def forward(self, x: Any) -> Any:
            rows = paddle.zeros([3])
            rows[1:] = self.w * x
            rows.multiply_(rows)
            return rows.sum()

    net = jit.to_static(Net())
    x = static.data("x", [2])
    (gradient,) = static.gradients(net(x), [net.w])
    start()
    np.testing.assert_array_equal(run([gradient], x=X)[0], 2 * X * X)


def test_refused() -> None:
    """A change of a kept variable's type, and a result that broadcasting enlarges, are refused."""

    def in_branch(x: Any) -> Any:
        y = x * 1.0
        if x.sum() > 0:
            y.reshape_([2, 1])
        return y

    def grows(x: Any) -> Any:
        y = x[:1]
        y.add_(x)
        return y

    with pytest.raises(UnsupportedError, match=r"test_in_place.py:\d+: reshape_\(\) would change"):
        jit.to_static(in_branch)(X)
    with pytest.raises(ValueError, match=r"output \[2\] is different from that of inplace tensor"):
        jit.to_static(grows)(X)
    x = static.data("x", [2])
    with pytest.raises(UnsupportedError, match="shape of a feed cannot change"):
        jit.to_static(retyped)(x)
    assert x.shape == (2,)
