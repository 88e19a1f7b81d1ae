"""Wrong rewrites, each with a program where it is wrong: bugs that compilers have had.

tests/test_validation.py wants all of them to be found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.op import PdOp
from graphopt.ir.ops.activation import Gelu, LeakyRelu, Relu, Softmax
from graphopt.ir.ops.conv import Conv2d
from graphopt.ir.ops.creation import Full
from graphopt.ir.ops.linear import Matmul
from graphopt.ir.ops.math import (
    Abs,
    Add,
    Cast,
    Fmax,
    Multiply,
    Scale,
    Sqrt,
    Subtract,
    Where,
)
from graphopt.ir.ops.norm import LayerNorm
from graphopt.ir.ops.random import Dropout
from graphopt.ir.ops.reduce import Mean
from graphopt.ir.ops.shape import Reshape, StopGradient, Transpose
from graphopt.ir.ops.transformer import FusedDotProductAttention
from graphopt.passes.fusion import (
    Fusion,
    FusionPass,
    Match,
    Node,
    Outcome,
    Value,
)
from graphopt.passes.numerics import Numerics
from graphopt.passes.rewrite import Log, RewritePass, replace

# what one op is replaced by: a value, or a new op
Build = Callable[[PdOp], SSAValue | PdOp | None]


@dataclass(frozen=True)
class Wrong(RewritePass):
    """A rewrite of every op of one kind."""

    name = "wrong"
    numerics = Numerics.BIT_EXACT
    kind: type[PdOp]
    build: Build

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = Log(self.name, self.numerics)
        for op in [op for op in module.walk() if isinstance(op, self.kind)]:
            found = self.build(op)
            if found is None or not log.allow(op):
                continue
            log.applied(op)
            if isinstance(found, PdOp):
                assert op.parent is not None
                op.parent.insert_op_before(found, op)
                found = found.results[0]
            replace(op, {op.results[0]: found}, log)
        return log.outcomes


class Reordering(Wrong):
    """One that claims to change no more than the order of operations."""

    numerics = Numerics.REASSOCIATING


def before(op: PdOp, new: PdOp) -> SSAValue:
    """Put a new op in front of `op`; its first result."""
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    return new.results[0]


def attrs_with(op: PdOp, **changed: Any) -> dict[str, Any]:
    return {**op.attr_values(), **changed}


def same_but(**changed: Any) -> Build:
    """The same op with other properties."""
    return lambda op: type(op).make(
        *(list(group) or None for group in op.operand_groups()), **attrs_with(op, **changed)
    )


def operand(op: PdOp) -> SSAValue:
    return op.operands[0]


def zeros(op: PdOp) -> PdOp:
    return Full.make(shape=[2, 3], value=0.0)


def producer(op: PdOp, position: int = 0) -> PdOp:
    owner = op.operands[position].owner
    assert isinstance(owner, PdOp)
    return owner


def scale_without_bias(op: PdOp) -> SSAValue | PdOp | None:
    """scale(scale(x)) as one scale, whatever their biases are."""
    inner = op.operands[0].owner
    if not isinstance(inner, Scale):
        return None
    return Scale.make(inner.operands[0], scale=op.attr("scale") * inner.attr("scale"))


def regrouped(op: PdOp) -> SSAValue | PdOp | None:
    """(a + b) + c as a + (b + c)."""
    inner = op.operands[0].owner
    if not isinstance(inner, Add):
        return None
    return Add.make(inner.operands[0], before(op, Add.make(inner.operands[1], op.operands[1])))


def down_the_rows(op: PdOp) -> SSAValue | PdOp | None:
    """[M, 1] + [N] as a product with an epilogue that gives [M, 1]."""
    return Add.make(op.operands[0], before(op, Reshape.make(op.operands[1], shape=[3, 1])))


def in_one_cast(op: PdOp) -> SSAValue | PdOp | None:
    return producer(op).operands[0] if isinstance(op.operands[0].owner, Cast) else None


F23 = "tensor<2x3xf32>"
X = f'%x: {F23} {{pd.feed = "x"}}'
Y = f'%y: {F23} {{pd.feed = "y"}}'
Z = f'%z: {F23} {{pd.feed = "z"}}'


def program(arguments: str, result: str, *lines: str) -> str:
    """A module that computes `%out` of this type."""
    body = "\n    ".join(lines)
    return f"""builtin.module {{
  func.func @main({arguments}) -> ({result} {{pd.fetch = "out"}}) {{
    {body}
    func.return %out : {result}
  }}
}}"""


def unary(line: str, result: str = F23) -> str:
    return program(X, result, line)


CASES: dict[str, tuple[str, RewritePass]] = {
    "x - x as zeros": (
        unary(f"%out = pd.subtract(%x, %x) : ({F23}, {F23}) -> {F23}"),
        Wrong(Subtract, zeros),
    ),
    "x * 0 as zeros": (
        program(
            X,
            F23,
            f"%n = pd.full() {{shape = [2, 3], value = 0.0}} : () -> {F23}",
            f"%out = pd.multiply(%x, %n) : ({F23}, {F23}) -> {F23}",
        ),
        Wrong(Multiply, zeros),
    ),
    "x + 0 as x": (
        program(
            X,
            F23,
            f"%n = pd.full() {{shape = [2, 3], value = 0.0}} : () -> {F23}",
            f"%out = pd.add(%x, %n) : ({F23}, {F23}) -> {F23}",
        ),
        Wrong(Add, operand),
    ),
    "sqrt of a square as the absolute value": (
        program(
            X,
            F23,
            f"%s = pd.square(%x) : {F23}",
            f"%a = pd.abs(%s) : {F23}",
            f"%out = pd.sqrt(%a) : {F23}",
        ),
        Wrong(Sqrt, lambda op: Abs.make(producer(producer(op)).operands[0])),
    ),
    "two scales as one, without their bias": (
        program(
            X,
            F23,
            f"%s = pd.scale(%x) {{bias = 1.0, scale = 2.0}} : {F23}",
            f"%out = pd.scale(%s) {{scale = 2.0}} : {F23}",
        ),
        Wrong(Scale, scale_without_bias),
    ),
    "sums in another order, claimed to be bit-exact": (
        program(
            f"{X}, {Y}, {Z}",
            F23,
            f"%s = pd.add(%x, %y) : ({F23}, {F23}) -> {F23}",
            f"%out = pd.add(%s, %z) : ({F23}, {F23}) -> {F23}",
        ),
        Wrong(Add, regrouped),
    ),
    "epilogue on [M, 1] + [N]": (
        program(
            '%x: tensor<3x2xf32> {pd.feed = "x"}, %w: tensor<2x1xf32> {pd.feed = "w"}, '
            '%b: tensor<3xf32> {pd.feed = "b"}',
            "tensor<3x3xf32>",
            "%p = pd.matmul(%x, %w) : (tensor<3x2xf32>, tensor<2x1xf32>) -> tensor<3x1xf32>",
            "%out = pd.add(%p, %b) : (tensor<3x1xf32>, tensor<3xf32>) -> tensor<3x3xf32>",
        ),
        Wrong(Add, down_the_rows),
    ),
    "softmax over the wrong axis": (
        unary(f"%out = pd.softmax(%x) : {F23}"),
        Reordering(Softmax, same_but(axis=0)),
    ),
    "layer_norm whose epsilon is lost": (
        program(
            X,
            F23,
            f"%out, %m, %v = pd.layer_norm(%x) {{epsilon = 0.01}} : "
            f"({F23}) -> ({F23}, tensor<2xf32>, tensor<2xf32>)",
        ),
        Reordering(LayerNorm, same_but(epsilon=1e-5)),
    ),
    "fmax with zero as relu, which keeps nan": (
        program(
            X,
            F23,
            f"%n = pd.full() {{shape = [2, 3], value = 0.0}} : () -> {F23}",
            f"%out = pd.fmax(%x, %n) : ({F23}, {F23}) -> {F23}",
        ),
        Reordering(Fmax, lambda op: Relu.make(op.operands[0])),
    ),
    "dropout in inference whose factor is lost": (
        unary(f"%out = pd.dropout(%x) {{is_test = true, p = 0.25}} : {F23}"),
        Reordering(Dropout, operand),
    ),
    "mean over the wrong dimension": (
        program(
            '%x: tensor<3x3xf32> {pd.feed = "x"}',
            "tensor<3xf32>",
            "%out = pd.mean(%x) {axis = [0]} : (tensor<3x3xf32>) -> tensor<3xf32>",
        ),
        Reordering(Mean, same_but(axis=(1,))),
    ),
    "product whose transposition is lost": (
        program(
            '%x: tensor<3x3xf32> {pd.feed = "x"}, %w: tensor<3x3xf32> {pd.feed = "w"}',
            "tensor<3x3xf32>",
            "%out = pd.matmul(%x, %w) {transpose_y = true} : "
            "(tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>",
        ),
        Reordering(Matmul, same_but(transpose_y=False)),
    ),
    "convolution whose padding is lost": (
        program(
            '%x: tensor<1x1x4x4xf32> {pd.feed = "x"}, %w: tensor<1x1x3x3xf32> {pd.feed = "w"}',
            "tensor<1x1x4x4xf32>",
            "%out = pd.conv2d(%x, %w) {paddings = [0, 2, 0, 2]} : "
            "(tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32>",
        ),
        Reordering(Conv2d, same_but(paddings=(1, 1))),
    ),
    "gelu by the other formula": (
        unary(f"%out = pd.gelu(%x) : {F23}"),
        Reordering(Gelu, same_but(approximate=True)),
    ),
    "leaky_relu with the default slope": (
        unary(f"%out = pd.leaky_relu(%x) {{negative_slope = 0.01}} : {F23}"),
        Reordering(LeakyRelu, lambda op: LeakyRelu.make(op.operands[0])),
    ),
    "where with its branches exchanged": (
        program(
            f'%c: tensor<2x3xi1> {{pd.feed = "c"}}, {X}, {Y}',
            F23,
            f"%out = pd.where(%c, %x, %y) : (tensor<2x3xi1>, {F23}, {F23}) -> {F23}",
        ),
        Reordering(Where, lambda op: Where.make(op.operands[0], op.operands[2], op.operands[1])),
    ),
    "a cast to a half type and back as nothing": (
        program(
            X,
            F23,
            f"%h = pd.cast(%x) {{dtype = bf16}} : ({F23}) -> tensor<2x3xbf16>",
            f"%out = pd.cast(%h) {{dtype = f32}} : (tensor<2x3xbf16>) -> {F23}",
        ),
        Wrong(Cast, in_one_cast),
    ),
    "a stopped gradient as a copy": (
        f"""builtin.module {{
  func.func @main({X}) -> ({F23} {{pd.fetch = "g"}}) {{
    %s = pd.stop_gradient(%x) : {F23}
    %y = pd.multiply(%x, %s) : ({F23}, {F23}) -> {F23}
    %one = pd.full_like(%y) {{value = 1.0}} : {F23}
    %g = pd.grad(of = [%y], wrt = [%x], cotangents = [%one]) : ({F23}, {F23}, {F23}) -> {F23}
    func.return %g : {F23}
  }}
}}""",
        Wrong(StopGradient, operand),
    ),
}


# Fusions --------------------------------------------------------------------------------------


class AlphaLost(Fusion):
    """alpha * (A B + bias) as alpha * A B + bias."""

    x, w, bias = Value(), Value(), Value()
    matmul = Node(Matmul, x, w)
    add = Node(Add, matmul, bias)
    root = scale = Node(Scale, add)

    def build(self, match: Match) -> PdOp:
        product = Matmul.make(match.value(self.x), match.value(self.w))
        factor = match[self.scale].attr("scale")
        scaled = before(match.root, Scale.make(before(match.root, product), scale=factor))
        return Add.make(scaled, match.value(self.bias))


class AnyKey(Fusion):
    """softmax(q k') v as attention, whatever permutation k' is of k."""

    q, k, v = Value(), Value(), Value()
    turned = Node(Transpose, k)
    scores = Node(Matmul, q, turned)
    weights = Node(Softmax, scores)
    root = Node(Matmul, weights, v)

    def build(self, match: Match) -> PdOp:
        return FusedDotProductAttention.make(
            match.value(self.q), match.value(self.k), match.value(self.v)
        )


@dataclass(frozen=True)
class WrongFusions(FusionPass):
    """Both of them."""

    name = "wrong-fusions"
    RULES: ClassVar[tuple[Fusion, ...]] = (AlphaLost(), AnyKey())
    numerics = Numerics.REASSOCIATING


FUSED_CASES = {
    "alpha is lost on the bias": program(
        '%x: tensor<?x3xf32> {pd.feed = "x"}, %w: tensor<3x2xf32> {pd.state = "w"}, '
        '%b: tensor<2xf32> {pd.state = "b"}',
        "tensor<?x2xf32>",
        "%p = pd.matmul(%x, %w) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>",
        "%a = pd.add(%p, %b) : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>",
        "%out = pd.scale(%a) {scale = 0.5} : tensor<?x2xf32>",
    ),
    "the key is permuted": program(
        ", ".join(f'%{n}: tensor<2x2x3x4xf32> {{pd.feed = "{n}"}}' for n in "qkv"),
        "tensor<2x2x3x4xf32>",
        "%t = pd.transpose(%k) {perm = [1, 0, 3, 2]} : "
        "(tensor<2x2x3x4xf32>) -> tensor<2x2x4x3xf32>",
        "%s = pd.matmul(%q, %t) : (tensor<2x2x3x4xf32>, tensor<2x2x4x3xf32>) -> "
        "tensor<2x2x3x3xf32>",
        "%p = pd.softmax(%s) : tensor<2x2x3x3xf32>",
        "%out = pd.matmul(%p, %v) : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> "
        "tensor<2x2x3x4xf32>",
    ),
}
