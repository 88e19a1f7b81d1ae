"""Losses, over classes and over a tree of them."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp, PureOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.sequence.recurrent import expect
from graphopt.ir.dialect.traits import Elementwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    agree,
    dtype_of,
    like,
    normalize_axis,
    same_dtype,
    same_shape,
    shape_of,
)


@irdl_op_definition
class CrossEntropyWithSoftmax(OpaqueOp):
    """Softmax along an axis and its cross entropy with the labels.

    Hard labels are numbers with a 1 at the class axis (or without that axis); soft ones are
    distributions shaped like the logits. Paddle: softmax_with_cross_entropy.
    """

    name = "pd.cross_entropy_with_softmax"
    logits = operand_def(TENSOR)
    label = operand_def(TENSOR)
    softmax = result_def(TENSOR)
    loss = result_def(TENSOR)
    axis = integer(-1)
    soft_label = flag(False)
    use_softmax = flag(True)
    ignore_index = integer(-100)

    @staticmethod
    def infer(logits: Tensor, label: Tensor, axis: int, soft_label: bool) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(logits))
        at = normalize_axis(axis, len(shape))
        loss = [*shape[:at], 1, *shape[at + 1 :]]
        if soft_label:
            same_dtype(logits, label)
            wanted = (shape,)
        else:
            check_integer("label", label)
            wanted = (loss, [*shape[:at], *shape[at + 1 :]])
        have = shape_of(label)
        if not any(agree(have, other) for other in wanted):
            raise ProgramError(
                f"the label {list(have)} does not fit logits {shape} on axis {at}; "
                f"expected {' or '.join(map(str, wanted))}"
            )
        return logits, like(logits, shape=loss)


@irdl_op_definition
class BinaryCrossEntropy(PureOp):
    """The cross entropy of probabilities with labels from 0 to 1. Paddle: bce_loss."""

    name = "pd.bce_loss"
    traits = traits_def(Elementwise())
    x = operand_def(TENSOR)
    label = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, label: Tensor) -> Tensor:
        same_dtype(x, label)
        return like(x, shape=same_shape(x, label))


@irdl_op_definition
class SigmoidCrossEntropy(OpaqueOp):
    """The cross entropy of sigmoid(x) with labels from 0 to 1; 0 where ignored.

    `normalize` divides by the number of labels that count.
    Paddle: sigmoid_cross_entropy_with_logits.
    """

    name = "pd.sigmoid_cross_entropy_with_logits"
    x = operand_def(TENSOR)
    label = operand_def(TENSOR)
    out = result_def(TENSOR)
    normalize = flag(False)
    ignore_index = integer(-100)

    @staticmethod
    def infer(x: Tensor, label: Tensor) -> Tensor:
        same_dtype(x, label)
        return like(x, shape=same_shape(x, label))


@irdl_op_definition
class HuberLoss(PureOp):
    """Half the square of y - x, or delta times its size less delta / 2 when that is larger.

    Paddle: huber_loss.
    """

    name = "pd.huber_loss"
    traits = traits_def(Elementwise())
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    out = result_def(TENSOR)
    residual = result_def(TENSOR)
    delta = number(1.0)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        same_dtype(x, y)
        out = like(x, shape=same_shape(x, y))
        return out, out


REDUCTIONS = ("mean", "sum", "none")


@irdl_op_definition
class KldivLoss(OpaqueOp):
    """target * (log(target) - x), 0 where the target is not above 0. Paddle: kldiv_loss.

    With `log_target` the operand is the logarithm of the target.
    """

    name = "pd.kldiv_loss"
    x = operand_def(TENSOR)
    target = operand_def(TENSOR)
    out = result_def(TENSOR)
    reduction = string("mean", of=(*REDUCTIONS, "batchmean"))
    log_target = flag(False)

    @staticmethod
    def infer(x: Tensor, target: Tensor, reduction: str) -> Tensor:
        same_dtype(x, target)
        same_shape(x, target)
        if reduction not in (*REDUCTIONS, "batchmean"):
            raise ProgramError(f"unknown reduction '{reduction}'")
        return x if reduction == "none" else like(x, shape=())


@irdl_op_definition
class NllLoss(OpaqueOp):
    """The negated log-probability of each label, times its class's weight. Paddle: nll_loss.

    x is [n, c, ...] and the label [n, ...]. The mean divides by the total weight, which is the
    second result; ignored labels weigh nothing.
    """

    name = "pd.nll_loss"
    x = operand_def(TENSOR)
    label = operand_def(TENSOR)
    weight = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    total_weight = result_def(TENSOR)
    ignore_index = integer(-100)
    reduction = string("mean", of=REDUCTIONS)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor, label: Tensor, weight: Tensor | None, reduction: str
    ) -> tuple[Tensor, Tensor]:
        check_integer("label", label)
        shape = shape_of(x)
        want = [*shape[:1], *shape[2:]]
        if len(shape) < 2 or not agree(shape_of(label), want):
            raise ProgramError(
                f"nll_loss of {list(shape)} needs labels of shape {want}, "
                f"found {list(shape_of(label))}"
            )
        if weight is not None and not agree(shape_of(weight), [shape[1]]):
            raise ProgramError(f"nll_loss needs a weight for each of {shape[1]} classes")
        if reduction not in REDUCTIONS:
            raise ProgramError(f"unknown reduction '{reduction}'")
        total = like(x, shape=(), dtype=dtype_of(x))
        return like(x, shape=want if reduction == "none" else ()), total


@irdl_op_definition
class HsigmoidLoss(OpaqueOp):
    """The cost [n, 1] of the binary decisions on the way from the root of a tree to each label.

    x is [n, d]; every inner node has a row of w [nodes, d] and of the bias [nodes, 1]. The tree is
    the complete binary one over `num_classes`, or row i of `path` lists the nodes on the way of
    sample i (negative ones end it) and `code` the decisions there. Paddle: hierarchical_sigmoid.
    """

    name = "pd.hsigmoid_loss"
    x = operand_def(TENSOR)
    w = operand_def(TENSOR)
    label = operand_def(TENSOR)
    path = opt_operand_def(TENSOR)
    code = opt_operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    pre_out = result_def(TENSOR)
    num_classes = integer(2)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        w: Tensor,
        label: Tensor,
        path: Tensor | None,
        code: Tensor | None,
        bias: Tensor | None,
        num_classes: int,
    ) -> tuple[Tensor, Tensor]:
        same_dtype(x, w, *([] if bias is None else [bias]))
        expect("x [n, d] of hsigmoid_loss", x, [UNKNOWN, UNKNOWN])
        rows, width = shape_of(x)
        check_integer("label", label)
        if not agree(shape_of(label), [rows]) and not agree(shape_of(label), [rows, 1]):
            raise ProgramError(f"the label should be [{rows}, 1], found {list(shape_of(label))}")
        if (path is None) != (code is None):
            raise ProgramError("hsigmoid_loss needs both a path table and path codes, or neither")
        if path is None or code is None:
            if num_classes < 2:
                raise ProgramError(f"hsigmoid_loss needs 2 classes or more, found {num_classes}")
            nodes, length = num_classes - 1, (num_classes - 1).bit_length()
        else:
            check_integer("path", path)
            check_integer("code", code)
            expect("the path table [n, length]", path, [rows, UNKNOWN])
            expect("the path codes [n, length]", code, shape_of(path))
            nodes, length = UNKNOWN, shape_of(path)[1]
        expect("w [nodes, d] of hsigmoid_loss", w, [nodes, width])
        if bias is not None:
            nodes = shape_of(w)[0]
            if not agree(shape_of(bias), [nodes]) and not agree(shape_of(bias), [nodes, 1]):
                raise ProgramError(f"the bias should be [{nodes}, 1], found {list(shape_of(bias))}")
        return like(x, shape=(rows, 1)), like(x, shape=(rows, length))
