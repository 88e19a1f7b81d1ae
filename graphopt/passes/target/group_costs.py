"""The cost model of fusion groups, as data: the kinds of ops in groups, and what decides.

Costs are counted in bytes: one unit of work is the time in which a byte is read and written once.
Each figure has the measurement or the reason that it comes from. Times are CPU times of XLA 0.10 on
one core for 16 MB of float32, the least of 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation, conv, fused, linear, loss, math, norm, pool, shape
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.math import Cast, Scale
from graphopt.ir.dialect.ops.rearrange import ExpandAs
from graphopt.ir.dialect.ops.reduce import Mean, Sum
from graphopt.ir.dialect.traits import Elementwise, Linear, Movement, Reduction, Shown, keeps_order
from graphopt.passes.target.recompute_activations import size_of


@dataclass(frozen=True)
class GroupKind:
    """Ops that groups treat alike.

    `work` is the work to compute one byte again, of the larger of operands and results; None means
    that a derivative never computes the op again. `always` marks the kinds that
    `enable_auto_fusion` groups as well.
    """

    name: str
    holds: Callable[[PdOp], bool]
    work: float | None
    source: str
    always: bool = False


def _of(*classes: type[PdOp]) -> Callable[[PdOp], bool]:
    return lambda op: isinstance(op, classes)


def _has_no_hidden_parts(op: PdOp) -> bool:
    """False for a linear layer whose derivative needs the product inside of it."""
    return not isinstance(op, fused.FusedGemmEpilogue) or op.attr("activation") == "none"


_CHEAP = (activation.Relu, activation.Relu6, math.Add, math.Subtract, math.Multiply, Scale, Cast)
_POWERS = (math.Pow, math.ElementwisePow)
_PRODUCTS = (linear.Matmul, fused.FusedGemmEpilogue, conv.Conv2dBase)

KINDS: tuple[GroupKind, ...] = (
    GroupKind("constant", _of(Full), 0.0, "it reads nothing", always=True),
    GroupKind("view", keeps_order, 0.0, "XLA bitcasts: no instruction", always=True),
    GroupKind("broadcast", _of(shape.Expand, ExpandAs), 0.0, "XLA reads it in the next loop",
         always=True),
    GroupKind("arithmetic", _of(*_CHEAP), 1.0, "relu 0.93 of a copy, x * 2 is one: 0.87 ms",
         always=True),
    GroupKind("power", _of(*_POWERS), 17.0, "|x| ** 1.7: 17.2 copies", always=True),
    GroupKind("function", lambda op: op.has_trait(Elementwise) and not op.has_trait(Shown), 5.0,
         "gelu by erf 4.7 copies, tanh 1.9, exp 2.0, log 2.5", always=True),
    GroupKind("reduction", lambda op: op.has_trait(Reduction), 1.0,
         "sums over the last axis 0.76, over all but the channels 0.65 copies"),
    GroupKind("softmax", _of(activation.SoftmaxBase), 3.3, "3.2 copies"),
    GroupKind("loss", _of(loss.CrossEntropyWithSoftmax), 3.3, "as softmax"),
    GroupKind("norm", _of(norm.LayerNorm, norm.GroupNorm, norm.BatchNormBase), 4.7,
         "layer norm 2.4, batch norm in training 4.7 copies"),
    GroupKind("transposition", _of(shape.Transpose), 2.5,
         "of inner axes 1.5 copies, with the last axis 2.5"),
    GroupKind("movement", lambda op: op.has_trait(Movement), 1.0, "a copy"),
    GroupKind("lookup", _of(Embedding), None, "its derivative needs the ids alone"),
    GroupKind("window", _of(pool.PoolBase), None, "nine reads for each result of 3 by 3"),
    GroupKind("product", lambda op: isinstance(op, _PRODUCTS) and _has_no_hidden_parts(op), None,
         "2 n multiplications for each byte of a product of n by n"),
)  # fmt: skip

LEAST_GAIN = 64 * 1024
"""The bytes that a group must save: 12 us of copying at 5 GB/s, more than a loop costs to start.

Ops of a smaller group stay separate, which is faster to compile.
"""

MOST_OPS = 64
"""The most ops in a group.

A policy, not a measurement: the time to compile a fused loop grows with its length.
"""

WORK_FOR_A_BYTE = 0.1
"""The kept bytes that are worth repeating one unit of work.

A policy, not a measurement: memory is the aim, and the backward pass reads the operands of a kept
value in any case.
"""

REPEATED_BY_XLA = 2
"""The elementwise ops in a row that XLA itself recomputes instead of keeping their results.

Temporary bytes of training steps on a CPU: layers of `h + tanh(a) * sigmoid(b)` keep neither
activation, while 24 functions in a row keep 17 results.
"""

NEED_NO_OPERANDS = (Mean, Sum, Cast, Scale, shape.Expand, ExpandAs)


def kind_of(op: PdOp) -> GroupKind | None:
    """Return the kind of an op; None for an op that no group has in it."""
    return next((kind for kind in KINDS if kind.holds(op)), None)


def work_of(op: PdOp, kind: GroupKind) -> int | None:
    """Compute the price of computing an op again, in bytes kept; None where that is never done."""
    if kind.work is None:
        return None
    size = max(size_of(value) for value in (*op.operands, *op.results))
    return int(size * kind.work * WORK_FOR_A_BYTE)


def needs_operands(op: PdOp) -> bool:
    """True when the derivative of an op reads its operands."""
    simple = isinstance(op, NEED_NO_OPERANDS) or op.has_trait(Linear) or op.has_trait(Movement)
    return not simple
