"""Losses over a tree of classes."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.recurrent import expect, fits
from graphopt.ir.dialect.types import UNKNOWN, Tensor, like, same_dtype, shape_of


@irdl_op_definition
class HsigmoidLoss(OpaqueOp):
    """The cost [n, 1] of the binary decisions on the way from the root of a tree to each label.

    x is [n, d]; every inner node has a row of w [nodes, d] and of the bias [nodes, 1]. The tree is
    the complete binary one over `num_classes`, or row i of `path` lists the nodes on the way of
    sample i (negative ones end it) and `code` the decisions there. Paddle: hierarchical_sigmoid.
    """

    name = "pd.hsigmoid_loss"
    x = operand_def(Tensor)
    w = operand_def(Tensor)
    label = operand_def(Tensor)
    path = opt_operand_def(Tensor)
    code = opt_operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    out = result_def(Tensor)
    pre_out = result_def(Tensor)
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
        if not fits(shape_of(label), [rows]) and not fits(shape_of(label), [rows, 1]):
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
            if not fits(shape_of(bias), [nodes]) and not fits(shape_of(bias), [nodes, 1]):
                raise ProgramError(f"the bias should be [{nodes}, 1], found {list(shape_of(bias))}")
        return like(x, shape=(rows, 1)), like(x, shape=(rows, length))
