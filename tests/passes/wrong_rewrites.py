"""Wrong rewrites, each with a program that shows the fault: bugs that compilers have had.

tests/passes/test_validation.py checks that all of them are found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Gelu, LeakyRelu, Relu, Softmax
from graphopt.ir.dialect.ops.conv import Conv2d
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Abs,
    Add,
    Cast,
    Clip,
    Maximum,
    Multiply,
    Scale,
    Sqrt,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.ops.shape import Reshape, StopGradient, Transpose
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Outcome, Value
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, replace

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
        log = RewriteLog(self.name, self.numerics)
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
    """A rewrite that claims to change only the order of operations."""

    numerics = Numerics.REASSOCIATING


def before(op: PdOp, new: PdOp) -> SSAValue:
    """Insert a new op before `op`; return its first result."""
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    return new.results[0]


def attrs_with(op: PdOp, **changed: Any) -> dict[str, Any]:
    return {**op.attr_values(), **changed}


def same_but(**changed: Any) -> Build:
    """Copy the op with other properties."""
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
    """Rewrite scale(scale(x)) to one scale, whatever their biases are."""
    inner = op.operands[0].owner
    if not isinstance(inner, Scale):
        return None
    return Scale.make(inner.operands[0], scale=op.attr("scale") * inner.attr("scale"))


def regrouped(op: PdOp) -> SSAValue | PdOp | None:
    """Rewrite (a + b) + c to a + (b + c)."""
    inner = op.operands[0].owner
    if not isinstance(inner, Add):
        return None
    return Add.make(inner.operands[0], before(op, Add.make(inner.operands[1], op.operands[1])))


def down_the_rows(op: PdOp) -> SSAValue | PdOp | None:
    """Rewrite [M, 1] + [N] to a product with an epilogue that gives [M, 1]."""
    return Add.make(op.operands[0], before(op, Reshape.make(op.operands[1], shape=[3, 1])))


def in_one_cast(op: PdOp) -> SSAValue | PdOp | None:
    return producer(op).operands[0] if isinstance(op.operands[0].owner, Cast) else None


F23 = "tensor<2x3xf32>"
X = f'%x: {F23} {{pd.feed = "x"}}'
Y = f'%y: {F23} {{pd.feed = "y"}}'
Z = f'%z: {F23} {{pd.feed = "z"}}'


def program(arguments: str, result: str, *lines: str) -> str:
    """Format a module that computes `%out` of this type."""
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
            f"%out, %m, %v = pd.layer_norm(%x) {{epsilon = 0.001}} : "
            f"({F23}) -> ({F23}, tensor<2xf32>, tensor<2xf32>)",
        ),
        Reordering(LayerNorm, same_but(epsilon=1e-5)),
    ),
    "maximum with zero as relu, which drops nan": (
        program(
            X,
            F23,
            f"%n = pd.full() {{shape = [2, 3], value = 0.0}} : () -> {F23}",
            f"%out = pd.maximum(%x, %n) : ({F23}, {F23}) -> {F23}",
        ),
        Reordering(Maximum, lambda op: Relu.make(op.operands[0])),
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


def with_zero(shape: str) -> str:
    """Format x + 0 for this shape."""
    kind = f"tensor<{shape}xf32>"
    dims = shape.replace("x", ", ")
    return program(
        f'%x: {kind} {{pd.feed = "x"}}',
        kind,
        f"%n = pd.full() {{shape = [{dims}], value = 0.0}} : () -> {kind}",
        f"%out = pd.add(%x, %n) : ({kind}, {kind}) -> {kind}",
    )


def trained(line: str, kind: str = F23) -> str:
    """Format the gradient of one op with respect to its operand."""
    return f"""builtin.module {{
  func.func @main(%x: {kind} {{pd.feed = "x"}}) -> ({kind} {{pd.fetch = "g"}}) {{
    {line}
    %one = pd.full_like(%y) {{value = 1.0}} : {kind}
    %g = pd.grad(of = [%y], wrt = [%x], cotangents = [%one]) : ({kind}, {kind}, {kind}) -> {kind}
    func.return %g : {kind}
  }}
}}"""


def half_of_sum(op: PdOp) -> PdOp:
    """Rewrite relu(x) to (x + |x|) / 2, whose derivative at zero is a half."""
    x = op.operands[0]
    total = before(op, Add.make(x, before(op, Abs.make(x))))
    return Scale.make(total, scale=0.5)


def clipped(limit: float) -> Build:
    """Rewrite 2 x to 2 x clipped at a limit."""
    return lambda op: Clip.make(before(op, op.clone()), min=-limit, max=limit)


def larger(op: PdOp) -> PdOp:
    """Rewrite leaky_relu(x) to max(x, a x), which is right for a < 1."""
    x = op.operands[0]
    return Maximum.make(x, before(op, Scale.make(x, scale=op.attr("negative_slope"))))


def only_if_large(op: PdOp) -> PdOp | None:
    """Rewrite x + y to x - y for more than 64 elements."""
    if math.prod(shape_of(op.operands[0].type)) <= 64:
        return None
    return Subtract.make(op.operands[0], op.operands[1])


DOUBLED = unary(f"%out = pd.scale(%x) {{scale = 2.0}} : {F23}")
NORM = program(
    X,
    F23,
    f"%out, %m, %v = pd.layer_norm(%x) {{epsilon = 0.00001}} : "
    f"({F23}) -> ({F23}, tensor<2xf32>, tensor<2xf32>)",
)
F99 = "tensor<9x9xf32>"
CASES |= {
    # the numbers of a few shapes, when drawn by chance, hold no zero of either sign
    **{
        f"x + 0 as x, of shape {shape}": (with_zero(shape), Wrong(Add, operand))
        for shape in ("1x1", "1x2", "2x1", "1x16", "2x8", "8x2", "4x4")
    },
    "relu by the absolute value, differentiated": (
        trained(f"%y = pd.relu(%x) : {F23}"),
        Reordering(Relu, half_of_sum),
    ),
    "relu of one element by the absolute value, differentiated": (
        trained("%y = pd.relu(%x) : tensor<1xf32>", "tensor<1xf32>"),
        Reordering(Relu, half_of_sum),
    ),
    "2 x up to 60": (DOUBLED, Reordering(Scale, clipped(60.0))),
    "2 x up to 10,000": (DOUBLED, Reordering(Scale, clipped(1e4))),
    "2 x up to 1,000,000": (DOUBLED, Reordering(Scale, clipped(1e6))),
    "2 x up to the largest number, claimed to be bit-exact": (
        DOUBLED,
        Wrong(Scale, clipped(3.4028234663852886e38)),
    ),
    "layer_norm with twice the epsilon": (NORM, Reordering(LayerNorm, same_but(epsilon=2e-5))),
    "layer_norm with a larger epsilon": (NORM, Reordering(LayerNorm, same_but(epsilon=1e-3))),
    "leaky_relu with a steep slope as a maximum": (
        unary(f"%out = pd.leaky_relu(%x) {{negative_slope = 1.5}} : {F23}"),
        Reordering(LeakyRelu, larger),
    ),
    "a factor that is a little off": (DOUBLED, Reordering(Scale, same_but(scale=2.00003))),
    "a bias that is lost": (
        program(
            f'{X}, %b: tensor<3xf32> {{pd.feed = "b"}}',
            F23,
            f"%out = pd.add(%x, %b) : ({F23}, tensor<3xf32>) -> {F23}",
        ),
        Reordering(Add, operand),
    ),
    "add of large values as subtract": (
        program(
            f'%x: {F99} {{pd.feed = "x"}}, %y: {F99} {{pd.feed = "y"}}',
            F99,
            f"%out = pd.add(%x, %y) : ({F99}, {F99}) -> {F99}",
        ),
        Reordering(Add, only_if_large),
    ),
}


# Passes that do not say what they do ----------------------------------------------------------


@dataclass(frozen=True)
class InPlace(RewritePass):
    """Changes an op in place, and reports no rewrite."""

    name = "in-place"
    numerics = Numerics.REASSOCIATING
    kind: type[PdOp]
    alter: Callable[[PdOp], object]

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        for op in list(module.walk()):
            if isinstance(op, self.kind):
                self.alter(op)
        return []


class Silent(ModulePass):
    """Changes an op in place, in a pass that cannot report, and claims no numerics class."""

    name = "silent"

    def __init__(self, inner: InPlace) -> None:
        self.inner = inner

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.inner.rewrite(op)


@dataclass(frozen=True)
class OneOfTwo(RewritePass):
    """Reports a right rewrite, and also makes a wrong one."""

    name = "one-of-two"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in [op for op in module.walk() if isinstance(op, Scale)]:
            if log.allow(op):
                log.applied(op)
                replace(op, {op.results[0]: before(op, op.clone())}, log)
        for op in module.walk():
            if isinstance(op, Subtract):
                turned(op)
        return log.outcomes


@dataclass(frozen=True)
class Meddling(RewritePass):
    """Changes another op before a rewrite that is itself wrong."""

    name = "meddling"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        scales = [op for op in module.walk() if isinstance(op, Scale)]
        for op in [op for op in module.walk() if isinstance(op, Softmax)]:
            for scale in scales:
                scale.properties |= encode_attrs(Scale, {"scale": 3.0})
                before(op, Abs.make(scale.operands[0]))
            if log.allow(op):
                log.applied(op)
                other = type(op).make(op.operands[0], axis=0)
                replace(op, {op.results[0]: before(op, other)}, log)
        return log.outcomes


def with_attrs(**attrs: Any) -> Callable[[PdOp], object]:
    return lambda op: op.properties.update(encode_attrs(type(op), attrs))


def turned(op: PdOp) -> None:
    """Rewrite x - y to y - x."""
    op.operands = list(op.operands)[::-1]


def drop(op: PdOp) -> None:
    """Replace the results of an op by its operand, and erase it."""
    for result in op.results:
        result.replace_all_uses_with(op.operands[0])
    op.detach()
    op.erase()


SOFT = unary(f"%out = pd.softmax(%x) : {F23}")
DIFFERENCE = program(f"{X}, {Y}", F23, f"%out = pd.subtract(%x, %y) : ({F23}, {F23}) -> {F23}")
SILENT_CASES: dict[str, tuple[str, ModulePass]] = {
    "a factor": (DOUBLED, InPlace(Scale, with_attrs(scale=3.0))),
    "an axis": (SOFT, InPlace(Softmax, with_attrs(axis=0))),
    "operands": (DIFFERENCE, InPlace(Subtract, turned)),
    "an op that goes": (unary(f"%out = pd.relu(%x) : {F23}"), InPlace(Relu, drop)),
    "a factor, by a pass that claims nothing": (
        DOUBLED,
        Silent(InPlace(Scale, with_attrs(scale=3.0))),
    ),
    "another op, without a log": (
        unary(f"%out = pd.relu(%x) : {F23}"),
        InPlace(
            Relu, lambda op: replace(op, {op.results[0]: before(op, Abs.make(op.operands[0]))})
        ),
    ),
    "a print": (
        program(
            X,
            F23,
            f'pd.print(%x) {{message = "x", variable = "x"}} : ({F23}) -> ()',
            f"%out = pd.relu(%x) : {F23}",
        ),
        InPlace(BY_NAME["pd.print"], drop),
    ),
    "what a gradient is taken of": (
        trained(f"%z = pd.relu(%x) : {F23}\n    %y = pd.exp(%x) : {F23}"),
        InPlace(Grad, lambda op: op.operands.__setitem__(0, op.operands[1])),
    ),
    "one of two": (
        program(
            f"{X}, {Y}",
            F23,
            f"%s = pd.scale(%x) {{scale = 2.0}} : {F23}",
            f"%out = pd.subtract(%s, %y) : ({F23}, {F23}) -> {F23}",
        ),
        OneOfTwo(),
    ),
    "another op before a rewrite that is refused": (
        program(
            X,
            F23,
            f"%s = pd.scale(%x) {{scale = 2.0}} : {F23}",
            f"%out = pd.softmax(%s) : {F23}",
        ),
        Meddling(),
    ),
}


# Fusions --------------------------------------------------------------------------------------


class AlphaLost(Fusion):
    """Rewrites alpha * (A B + bias) to alpha * A B + bias."""

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
    """Rewrites softmax(q k') v to attention, whatever transpose of k the operand k' is."""

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
    """Both wrong fusions."""

    name = "wrong-fusions"
    RULES: ClassVar[tuple[Fusion, ...]] = (AlphaLost(), AnyKey())
    numerics = Numerics.REASSOCIATING


@dataclass(frozen=True)
class AnyKeys(FusionPass):
    """Only the second wrong fusion."""

    name = "any-keys"
    RULES: ClassVar[tuple[Fusion, ...]] = (AnyKey(),)
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
# here AnyKey is right
RIGHT_KEY = FUSED_CASES["the key is permuted"].replace("[1, 0, 3, 2]", "[0, 1, 3, 2]")
