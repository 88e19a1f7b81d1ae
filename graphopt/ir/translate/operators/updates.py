"""Legacy parameter updates with a master weight or a condition for skipping the step.

Both are ordinary ops around the update. The update moves the float32 master weight, of which the
parameter is a rounded copy. If the step is skipped, all variables keep their old values.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.math import Cast, Where
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.ops.update.plain import Dpsgd
from graphopt.ir.dialect.ops.update.sparse import SparseAdam, SparseAdamw
from graphopt.ir.dialect.types import dtype_of
from graphopt.ir.program import Operator, OpRole
from graphopt.ir.program.sub_blocks import sub_blocks
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sparse import Ids, count_lookups, declared_lookups
from graphopt.ir.translate.operators.table import BY_TYPE, DialectRow
from graphopt.ir.translate.releases import PADDLE_2

MASTER, SKIP = ("MasterParam", "master_param"), ("SkipUpdate", "skip_update")
MASTER_OUT = ("MasterParamOut", "master_param_out")


UPDATES = BY_TYPE.types_of(Dpsgd, Update)


@translates(*UPDATES)
def update(emit: Emitter) -> Written:
    """Translate an update, of the master weight if there is one, unless a value says to skip it.

    Adam and AdamW use the sparse gradient of an embedding if its variable declares it.
    """
    lookups = declared_lookups(emit)
    return sparse_update(emit, lookups) if lookups else _update(emit, emit.row)


def sparse_update(emit: Emitter, lookups: Ids) -> Written:
    """Emit Adam or AdamW with the sparse gradient of these lookups.

    With `lazy_mode` only the rows of the lookups move.
    """
    op, row = emit.op, emit.row
    lazy = bool(op.attrs.get("lazy_mode"))
    if op.attrs.get("amsgrad") or (op.type == "adamw" and not lazy):
        return _update(emit, row)
    kind = SparseAdam if op.type == "adam" else SparseAdamw
    sparse = DialectRow(op.type, kind, row.inputs[:-1], row.outputs[:-1])
    counts = [count_lookups(emit, lookups)] if lazy else []
    return _update(emit, sparse, *counts)


def _update(emit: Emitter, row: DialectRow, *more: SSAValue) -> Written:
    """Emit the update of a row of the table, with `more` operands after the row's own."""
    op = emit.op
    master, skip = _first(op, MASTER), _first(op, SKIP)
    plain = copy(op)
    plain.inputs = {s: names for s, names in op.inputs.items() if s not in MASTER + SKIP}
    without = Emitter(emit.builder, plain)
    operands = [
        _rate_of_one(emit)
        if slot == "LearningRate" and op.type == "adadelta" and not op.input(slot)
        else emit(FullLike, emit.input("MeanSquare"), value=0.0)
        if slot == "MeanGrad" and not op.input(slot) and not op.attrs.get("centered")
        else without.operand(row, i)
        for i, slot in enumerate(row.inputs)
    ]
    if op.type == "lamb" and not op.output("Beta1PowOut"):
        # Paddle 1.x does not correct the bias of the moments
        operands[5:7] = [emit(FullLike, v, value=0.0) for v in operands[5:7]]
    if master is not None:
        operands[0] = emit.read(master)
        operands[1] = emit(Cast, operands[1], dtype=dtype_of(operands[0].type))
    written = without.by_row(*operands, *more, row=row, **_attrs(op))
    if master is not None:
        (param,) = op.output(row.outputs[0])
        moved = written[param]
        written[param] = emit(Cast, moved, dtype=dtype_of(emit.input(row.inputs[0]).type))
        for slot in MASTER_OUT:
            written.update(dict.fromkeys(op.output(slot), moved))
    if skip is not None:
        condition = emit.read(skip)
        for name, new in written.items():
            written[name] = emit(Where, condition, emit.read(name), new)
    return written


def _rate_of_one(emit: Emitter) -> SSAValue:
    """Emit a learning rate of 1, as Paddle 1.8's adadelta has none."""
    dtype = dtype_of(emit.input("Param").type)
    return emit(Full, shape=(1,), value=1.0, dtype=dtype)


def _attrs(op: Operator) -> dict[str, Any]:
    """Collect the attributes that `pd` states in another way.

    The weight decay of lars_momentum is a list of one number for each parameter. The version of the
    file decides whether Adam's epsilon is uncorrected, as in Paddle 1.
    """
    if op.type == "adam" and 0 < op.release < PADDLE_2:
        return {"uncorrected_epsilon": True}
    decay = op.attrs.get("lars_weight_decay")
    return {"lars_weight_decay": decay[0]} if isinstance(decay, (list, tuple)) else {}


def _first(op: Operator, slots: tuple[str, ...]) -> str | None:
    return next((name for slot in slots for name in op.input(slot)), None)


def updates_parameters(op: Operator) -> bool:
    """True for an operator of an optimizer, and for one that runs such operators."""
    if op.role & OpRole.OPTIMIZE or op.type in UPDATES:
        return True
    return any(updates_parameters(inner) for block in sub_blocks(op) for inner in block.ops)
