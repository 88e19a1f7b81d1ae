"""Inner products, distances and traces, whose results have at least one dimension.

The later forms of these functions (`paddle.dot` and the others) drop that dimension.
"""

from __future__ import annotations

from graphopt.fluid.common import vector
from graphopt.frontend import arguments
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign
from graphopt.tensor.distances import dist as _dist
from graphopt.tensor.linalg import addmm as _addmm
from graphopt.tensor.linalg import dot as _dot
from graphopt.tensor.logic import allclose as _allclose
from graphopt.tensor.manipulation import unsqueeze
from graphopt.tensor.ranges import trace as _trace


def addmm(
    input: Variable,
    x: Variable,
    y: Variable,
    alpha: float = 1.0,
    beta: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Compute beta * input + alpha * x @ y (layers.addmm); alpha comes first, unlike later."""
    return _addmm(input, x, y, beta, alpha, name)


@one_layer("allclose")
def allclose(
    input: Variable,
    other: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Test whether |input - other| <= atol + rtol * |other| everywhere, bool [1] (allclose)."""
    return vector(_allclose(input, other, rtol, atol, equal_nan, name))


@one_layer("dist")
def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """Compute the p-norm of x - y, whose shapes broadcast, of shape [1] (fluid.layers.dist)."""
    return vector(_dist(x, y, p))


@one_layer("dot")
def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the dot product of vectors [1], or of each pair of rows [n, 1] (fluid.layers.dot)."""
    return unsqueeze(_dot(x, y, name), [-1])


@one_layer("trace")
def trace(
    input: Variable,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Sum a diagonal of the matrices in two axes, [1] for one matrix (fluid.layers.trace).

    The sum is written to `out`, if set.
    """
    made = vector(_trace(input, offset, dim1, dim2, name))
    return made if out is None else assign(made, arguments.variable(out, "out", "trace"))
