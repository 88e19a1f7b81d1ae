"""Classification metrics that are a few ops here."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.known import known_numbers
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.index import OneHot
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Divide,
    Equal,
    GreaterThan,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.metric import Auc
from graphopt.ir.dialect.ops.reduce import Mean, Sum
from graphopt.ir.dialect.ops.shape import Concat, Slice, Stack
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.properties import row_attrs
from graphopt.ir.translate.operators.registry import translates


@translates("auc")
def auc(emit: Emitter) -> Written:
    """Translate auc; Paddle 3 always writes weights of the instances, which must all be 1."""
    emit.only_constants_besides(*emit.row.inputs, "InsTagWeight")
    weight = emit.optional("InsTagWeight")
    if weight is not None and set(known_numbers(weight) or (0.0,)) != {1.0}:
        raise UnsupportedError(
            "operator auc does not support 'ins_tag_weight'; leave the input out"
        )
    operands = [emit.input(slot) for slot in emit.row.inputs]
    made = emit.all(Auc, *operands, **row_attrs(emit.op, emit.row))
    return emit.results(**dict(zip(emit.row.outputs, made, strict=True)))


@translates("precision_recall")
def precision_recall(emit: Emitter) -> Written:
    """Emit precision, recall and F1 of a batch and of all so far: macro, then micro averages.

    The state has, for each class, the weights of the true and false positives, then of the true and
    false negatives.
    """
    emit.only("MaxProbs", "Indices", "Labels", "Weights", "StatesInfo")
    count = emit.attr("class_number")
    if count < 1:
        raise ProgramError(f"precision_recall needs 'class_number' of 1 or more, found {count}")
    dtype = dtype_of(emit.input("MaxProbs").type)
    found, wanted = (
        emit.reshape(emit(Cast, emit.input(slot), dtype="int64"), -1)
        for slot in ("Indices", "Labels")
    )
    weights = emit.optional("Weights")
    if weights is None:
        weights = emit(FullLike, emit(Cast, found, dtype=dtype), value=1.0)
    weights = emit.reshape(weights, -1, 1)
    is_found, is_wanted = (
        emit(Multiply, emit(Cast, emit(OneHot, numbers, depth=count), dtype=dtype), weights)
        for numbers in (found, wanted)
    )
    same = emit.reshape(emit(Cast, emit(Equal, found, wanted), dtype=dtype), -1, 1)
    right = emit(Sum, emit(Multiply, is_found, same), axis=(0,))
    false = emit(Subtract, emit(Sum, is_found, axis=(0,)), right)
    missed = emit(Subtract, emit(Sum, is_wanted, axis=(0,)), right)
    counted = emit(Add, emit(Add, right, false), missed)
    rest = emit(Subtract, emit(Sum, weights), counted)
    state = emit(Stack, [right, false, rest, missed], axis=1)
    batch, earlier = _averages(emit, state), emit.optional("StatesInfo")
    if earlier is not None:
        if shape_of(earlier.type) != (count, 4):
            raise ProgramError(
                f"precision_recall of {count} classes needs 'StatesInfo' [{count}, 4], found "
                f"{list(shape_of(earlier.type))}"
            )
        state = emit(Add, state, emit(Cast, earlier, dtype=dtype))
    return emit.results(
        BatchMetrics=batch,
        AccumMetrics=batch if earlier is None else _averages(emit, state),
        AccumStatesInfo=state,
    )


def _averages(emit: Emitter, state: SSAValue) -> SSAValue:
    """Emit six numbers: the means over classes, then the numbers of all classes together."""
    columns = [emit(Slice, state, axes=(1,), starts=(at,), ends=(at + 1,)) for at in (0, 1, 3)]
    totals = [emit.reshape(emit(Sum, column), 1) for column in columns]
    numbers: list[SSAValue] = []
    for right, false, missed in (columns, totals):
        shares = [_share(emit, right, other) for other in (false, missed)]
        precision, recall = (emit.reshape(emit(Mean, share), 1) for share in shares)
        product = emit.scale(emit(Multiply, precision, recall), 2.0)
        # if both are 0, so are the product and the quotient
        both = emit(Add, precision, recall)
        numbers += [precision, recall, emit(Divide, product, _or_one(emit, both))]
    return emit(Cast, emit(Concat, numbers, axis=0), dtype="float64")


def _or_one(emit: Emitter, x: SSAValue) -> SSAValue:
    """Replace the zeros of x by 1."""
    none = emit(FullLike, x, value=0.0)
    return emit(Where, emit(GreaterThan, x, none), x, emit(FullLike, x, value=1.0))


def _share(emit: Emitter, right: SSAValue, other: SSAValue) -> SSAValue:
    """Emit right / (right + other), and 1 where both are 0."""
    total = emit(Add, right, other)
    one, none = emit(FullLike, total, value=1.0), emit(FullLike, total, value=0.0)
    share = emit(Divide, right, _or_one(emit, total))
    return emit(Where, emit(GreaterThan, total, none), share, one)
