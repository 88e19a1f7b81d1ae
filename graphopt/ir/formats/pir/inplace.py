"""Results of PIR operators that are their operands, changed in place.

PIR is SSA in form only: an operator whose name ends with an underscore overwrites its operand, and
later readers of the *operand* see the new value too. So both ids are one variable here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from graphopt.ir.formats.pir.rows import row_of
from graphopt.ir.formats.pir_json.records import PirBlock, PirOp

# Position of a result -> position of its operand, for pairs that the slots do not show.
_PAIRS: dict[str, dict[int, int]] = {
    "array_write_": {0: 0},
    "assign_out_": {0: 1},
    "batch_norm_": {1: 1, 2: 2},
    "sync_batch_norm_": {1: 1, 2: 2},
    "rnn_": {1: 4},
    "update_loss_scaling_": {0: 0, 1: 2, 2: 3, 3: 4},
    "average_accumulates_": {i: i + 1 for i in range(6)},
}


def in_place(op: PirOp) -> dict[int, int]:
    """Map the results that are operands changed in place to these operands, by position."""
    dialect, _, name = op.name.partition(".")
    if dialect != "pd_op" or not name.endswith("_"):
        return {}
    found = _PAIRS.get(name)
    if found is None:
        found = _by_slot(name)
    return {
        result: operand
        for result, operand in found.items()
        if result < len(op.results)
        and operand < len(op.operands)
        and op.results[result].is_there
        and op.operands[operand]
    }


def _by_slot(name: str) -> dict[int, int]:
    """Pair results with operands by slot, `MomentOut` with `Moment`, or else the first of both."""
    row = row_of(name)
    if row is None:
        return {0: 0}
    slots = {operand.slot.lower(): i for i, operand in enumerate(row.operands) if operand.slot}
    found: dict[int, int] = {}
    for position, slot in enumerate(row.results):
        source = slot.lower().removesuffix("out").removesuffix("_")
        if slot.lower() not in ("", "out") and source in slots:
            found[position] = slots[source]
    return found or {0: 0}


def replaced_constants(block: PirBlock) -> set[int]:
    """Find values that an operator overwrites entirely and that no other operator reads.

    Paddle creates a tensor of zeros to write listed values into; the zeros have no meaning.
    """
    uses = Counter(value for op in operators(block) for value in op.operands)
    return {
        op.operands[0]
        for op in operators(block)
        if op.name in ("pd_op.assign_value_", "pd_op.full_")
        and op.operands
        and uses[op.operands[0]] == 1
    }


def overwritten(block: PirBlock) -> set[int]:
    """Collect the ids of values that some operator changes in place."""
    return {op.operands[i] for op in operators(block) for i in in_place(op).values()}


def operators(block: PirBlock) -> Iterator[PirOp]:
    """Iterate over the operators of a block and of its nested blocks, in file order."""
    for op in block.ops:
        yield op
        for region in op.regions:
            for inner in region:
                yield from operators(inner)
