"""Parts of patterns that the fusions of Transformers share, each with its own `check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.known import constant
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Divide, Multiply, Scale
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of, show
from graphopt.passes.engine.fusion import Hole, Match, Node, Reason, Value, wrong_attr
from graphopt.passes.engine.inserting import Before


class LinearPart:
    """source @ weight, and an optional bias."""

    def __init__(self, name: str, source: Hole) -> None:
        self.weight = Value(name=f"{name}_weight")
        self.bias = Value("vector", name=f"{name}_bias")
        self.matmul = Node(Matmul, source, self.weight, name=f"{name}_matmul")
        self.add = Node(
            Add, self.matmul, self.bias, commutes=True, optional=True, name=f"{name}_add"
        )

    def check(self, match: Match) -> Reason | None:
        """Check that this is a linear layer with a matrix as its weight."""
        product = match[self.matmul]
        x, weight = product.operands
        if rank_of(x.type) < 2 or rank_of(weight.type) != 2:
            return Reason(
                "weight-not-matrix",
                f"`{self.weight.name}` should be 2-D and its input 2-D or more, found "
                f"{show(weight.type)} and {show(x.type)}",
                f"multiply by a 2-D weight in `{self.matmul.name}`",
            )
        if product.attr("transpose_x"):
            return wrong_attr("input-transposed", self.matmul, product, "transpose_x", False)
        columns, bias = self.columns(match), self.bias_in(match)
        if bias is not None and shape_of(bias.type) != (columns,):
            return Reason(
                "bias-not-vector",
                f"`{self.bias.name}` should be 1-D of length {columns}, found {show(bias.type)}",
                "reshape the bias to one number for each column",
            )
        return None

    def columns(self, match: Match) -> int:
        """Return the number of columns of the layer's result."""
        transposed = match[self.matmul].attr("transpose_y")
        return shape_of(match.value(self.weight).type)[0 if transposed else 1]

    def weight_in(self, match: Match, before: Before) -> SSAValue:
        """Return the weight as [in, out], transposed if it is not."""
        weight = match.value(self.weight)
        transposed = match[self.matmul].attr("transpose_y")
        return before(Transpose.make(weight, perm=(1, 0))) if transposed else weight

    def bias_in(self, match: Match) -> SSAValue | None:
        """Return the bias; None if it is missing."""
        return match.value(self.bias) if match.get(self.add) else None

    def out(self, match: Match) -> SSAValue:
        """Return the result of the layer."""
        return (match.get(self.add) or match[self.matmul]).results[0]


class ScaledPart:
    """x, or x multiplied or divided by a constant."""

    def __init__(self, name: str, x: Hole) -> None:
        factor, divisor = Value(name=f"{name}_factor"), Value(name=f"{name}_divisor")
        self.scale = Node(Scale, x, optional=True, name=name)
        self.multiply = Node(Multiply, self.scale, factor, commutes=True, optional=True, name=name)
        self.top = Node(Divide, self.multiply, divisor, optional=True, name=name)
        self.factors = ((self.multiply, factor), (self.top, divisor))

    def check(self, match: Match) -> Reason | None:
        """Check that this is a multiplication by a constant."""
        scale = match.get(self.scale)
        if scale is not None and scale.attr("bias") != 0:
            return wrong_attr("scale-with-bias", self.scale, scale, "bias", 0.0)
        for node, hole in self.factors:
            number = constant(match.value(hole)) if match.get(node) else 1.0
            if number is None or (number == 0 and node is self.top):
                return Reason(
                    "scale-not-constant",
                    f"`{node.name}` should scale by one constant number, found "
                    f"{show(match.value(hole).type)}",
                    "scale by a constant number",
                )
        return None

    def factor(self, match: Match) -> float:
        """Compute the factor of x."""
        scale = match.get(self.scale)
        result = 1.0 if scale is None else float(scale.attr("scale"))
        for (node, hole), power in zip(self.factors, (1, -1), strict=True):
            if match.get(node):
                result *= (constant(match.value(hole)) or 0.0) ** power
        return result


def check_norm(norm: PdOp | None) -> Reason | None:
    """Check that a layer norm, if present, is over the last axis alone."""
    if norm is None:
        return None
    assert isinstance(norm, LayerNorm)
    last = rank_of(norm.x.type) - 1
    if norm.attr("begin_norm_axis") != last:
        return Reason(
            "norm-axis",
            f"`norm` has begin_norm_axis = {norm.attr('begin_norm_axis')}, not {last}, the last "
            "axis",
            f"set begin_norm_axis of `norm` to {last}",
        )
    return None


def check_residual(match: Match, residual: Node, x: Value, branch: SSAValue) -> Reason | None:
    """Check that the operands of a residual add, if present, have one shape."""
    if match.get(residual) is None:
        return None
    a, b = shape_of(match.value(x).type), shape_of(branch.type)
    same = len(a) == len(b) and all(m == n or UNKNOWN in (m, n) for m, n in zip(a, b, strict=True))
    if same:
        return None
    return Reason(
        "broadcast",
        f"`{x.name}` should have the shape {list(b)} of the branch, found {list(a)}",
        f"expand `{x.name}` to the shape of the branch",
    )


def check_dropouts(match: Match, *nodes: Node) -> Reason | None:
    """Check that all dropouts agree on `is_test`, of which the fused op has only one."""
    modes = {node.name: op.attr("is_test") for node in nodes if (op := match.get(node)) is not None}
    if len(set(modes.values())) < 2:
        return None
    found = ", ".join(f"`{name}` has is_test = {mode}" for name, mode in modes.items())
    return Reason("dropout-modes-differ", found, "give both dropouts the same is_test")


def dropout_attrs(dropout: PdOp | None, rate: str, implementation: str) -> Mapping[str, Any]:
    """Return the rate and mode of a dropout under these names; empty without a dropout."""
    if dropout is None:
        return {}
    return {rate: dropout.attr("p"), implementation: dropout.attr("mode")}


def draw_attrs(match: Match, *nodes: Node) -> Mapping[str, Any]:
    """Collect the properties of the dropouts' random draws, which stay the same."""
    attrs: dict[str, Any] = {}
    for node, prefix in zip(nodes, ("", "other_"), strict=False):
        dropout = match.get(node)
        if dropout is not None:
            assert isinstance(dropout, Dropout)
            attrs[f"{prefix}seed"] = dropout.attr("seed")
            attrs[f"{prefix}rng_id"] = dropout.attr("rng_id")
            attrs["is_test"] = dropout.attr("is_test")
    return attrs


def norm_attrs(norm: PdOp | None, where: str) -> Mapping[str, Any]:
    """Return the place and epsilon of a layer norm; empty without a norm."""
    return {} if norm is None else {"norm": where, "epsilon": norm.attr("epsilon")}


def norm_vectors(norm: PdOp | None) -> tuple[SSAValue | None, SSAValue | None]:
    """Return the scale and bias of a layer norm; None for each that is absent."""
    if norm is None:
        return None, None
    _, scale, bias = (group[0] if group else None for group in norm.operand_groups())
    return scale, bias
