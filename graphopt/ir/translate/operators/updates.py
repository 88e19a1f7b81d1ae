"""Legacy parameter updates with a master weight or a condition for skipping the step.

Both are ordinary ops around the update: it moves the float32 master weight, of which the parameter
is a rounded copy; where the step is skipped, everything keeps its old value.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.math import Cast, Where
from graphopt.ir.dialect.ops.optimizer import Update
from graphopt.ir.dialect.ops.plain_update import Dpsgd
from graphopt.ir.dialect.ops.sparse_update import SparseAdam, SparseAdamw
from graphopt.ir.dialect.types import dtype_of
from graphopt.ir.program import Operator, OpRole, saved_version
from graphopt.ir.program.sub_blocks import sub_block
from graphopt.ir.translate.operators.sparse import Ids, counted, declared_lookups
from graphopt.ir.translate.operators.table import BY_TYPE, Row
from graphopt.ir.translate.operators.translator import Translator

MASTER, SKIP = ("MasterParam", "master_param"), ("SkipUpdate", "skip_update")
MASTER_OUT = ("MasterParamOut", "master_param_out")
# the version of Paddle 2.0
_SECOND = 2000000


def translate_update(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """An update, of the master weight where there is one, unless a value says to skip it.

    Adam and AdamW know the sparse gradient of an embedding, which its variable declares.
    """
    lookups = declared_lookups(self, op)
    return run_sparse_update(self, op, lookups) if lookups else _update(self, op, BY_TYPE[op.type])


def run_sparse_update(self: Translator, op: Operator, lookups: Ids) -> dict[str, SSAValue]:
    """Adam or AdamW with the sparse gradient of lookups of these numbers of rows.

    With `lazy_mode` only their rows move.
    """
    row = BY_TYPE[op.type]
    lazy = bool(op.attrs.get("lazy_mode"))
    if op.attrs.get("amsgrad") or (op.type == "adamw" and not lazy):
        return _update(self, op, row)
    kind = SparseAdam if op.type == "adam" else SparseAdamw
    sparse = Row(op.type, kind, row.inputs[:-1], row.outputs[:-1])
    counts = [counted(self, op, lookups)] if lazy else []
    return _update(self, op, sparse, *counts)


def _update(self: Translator, op: Operator, row: Row, *more: SSAValue) -> dict[str, SSAValue]:
    """The update of a row of the table, with more operands after those of its slots."""
    master, skip = _first(op, MASTER), _first(op, SKIP)
    kept = {slot: names for slot, names in op.inputs.items() if slot not in MASTER + SKIP}
    plain = copy(op)
    plain.inputs = kept
    operands = [
        _rate_of_one(self, op)
        if slot == "LearningRate" and op.type == "adadelta" and not op.input(slot)
        else self.operand(plain, row, i)
        for i, slot in enumerate(row.inputs)
    ]
    if op.type == "lamb" and not op.output("Beta1PowOut"):
        # Paddle 1.x does not correct the bias of the moments
        operands[5:7] = [self.emit(FullLike, op, v, value=0.0).results[0] for v in operands[5:7]]
    if master is not None:
        operands[0] = self.read(master)
        operands[1] = self.emit(Cast, op, operands[1], dtype=dtype_of(operands[0].type)).results[0]
    written = self.by_row(plain, row, *operands, *more, **_attrs(op, row))
    if master is not None:
        (param,) = op.output(row.outputs[0])
        moved = written[param]
        dtype = dtype_of(self.read(op.input(row.inputs[0])[0]).type)
        written[param] = self.emit(Cast, op, moved, dtype=dtype).results[0]
        for slot in MASTER_OUT:
            written.update(dict.fromkeys(op.output(slot), moved))
    if skip is not None:
        condition = self.read(skip)
        for name, new in written.items():
            written[name] = self.emit(Where, op, condition, self.read(name), new).results[0]
    return written


def _rate_of_one(self: Translator, op: Operator) -> SSAValue:
    """The learning rate for Paddle 1.8's adadelta, which does not take one."""
    dtype = dtype_of(self.read(op.input("Param")[0]).type)
    return self.emit(Full, op, shape=(1,), value=1.0, dtype=dtype).results[0]


def _attrs(op: Operator, row: Row) -> dict[str, Any]:
    """Attributes that `pd` states in another way.

    Weight decay of lars_momentum is a list of one number for each parameter; that Adam's epsilon
    is that of Paddle 1, by the version of the file.
    """
    if op.type == "adam" and op.is_loaded and 0 < saved_version(op.block.program) < _SECOND:
        return {"uncorrected_epsilon": True}
    decay = op.attrs.get("lars_weight_decay")
    return {"lars_weight_decay": decay[0]} if isinstance(decay, (list, tuple)) else {}


def _first(op: Operator, slots: tuple[str, ...]) -> str | None:
    return next((name for slot in slots for name in op.input(slot)), None)


UPDATES = tuple(row.type for row in BY_TYPE.values() if issubclass(row.op, (Dpsgd, Update)))


def updates_parameters(op: Operator) -> bool:
    """True for an operator of an optimizer, and for one that runs such operators."""
    if op.role & OpRole.OPTIMIZE or op.type in UPDATES:
        return True
    return "sub_block" in op.attrs and any(map(updates_parameters, sub_block(op).ops))
