"""Paddle's operators, one row each in `operators.txt`: slots, attributes, defaults, names.

A row is a line and the indented lines after it. It begins with the operator type, its input and its
output slots; a slot with `*` holds several variables, a slot with `?` may be empty. Columns follow,
each after a `|`:

    attrs NAME:KIND=DEFAULT ...     known to Paddle 2.6.2, or to the release that `only` names;
                                    without a kind, to another release alone
    old NAME=ATTR ...               names of attributes in Paddle 1.8
    pd OP (SLOTS) PROPERTY=ATTR ... the op of the dialect, with the slots of its operands and
                                    results where they differ from the row, and renamed attributes
    tensors SLOT=PROPERTY ...       slots whose tensors give properties; the first non-empty counts
    pir NAME (SIGNATURE) NAME=ATTR  the operator in PIR, with the operands and results there, and
                                    attributes that PIR renamed
    grad NAME (SIGNATURE)           the gradient operator of PIR of that name; `X>XShape` is the
                                    operand X where Paddle 2 has the shape of X instead
    derivative zero                 the derivative is zero everywhere,
    derivative linear               or the operator itself computes it; it needs only the shapes
                                    of inputs, as with `shape`, or, with `piecewise`, the piece
                                    of a line that they are on
    constant SLOT ...               inputs such as labels and weights that have no gradient in
                                    Paddle, though the derivative exists
    forgets lengths                 the results have the rows of the first input, but no sequences
    version N                       the version in Paddle 2.6.2, if not 0
    only RELEASE                    where Paddle 2.6.2 lacks it: 1.8, 3, or graphopt

In a signature of PIR `axis=AxisTensor` is an operand that becomes the attribute `axis` if it is a
constant, and else goes to the slot `AxisTensor`; without a slot the attribute then names the
variable. `-` is an operand or result without a slot.

`tests/ir/record_operators.py` records slots, attributes and defaults from an installed Paddle.
"""

from __future__ import annotations

from graphopt.ir.operators.rows import (
    OperatorAttribute,
    OperatorRow,
    OperatorSignature,
    operators,
    row_of,
)

__all__ = ["OperatorAttribute", "OperatorRow", "OperatorSignature", "operators", "row_of"]
