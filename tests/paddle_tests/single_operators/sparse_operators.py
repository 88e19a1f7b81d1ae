"""Single operators on variables with some rows of a taller tensor (SelectedRows).

Programs have dense gradients. Here an operator computes with the present rows, or with the whole
tall tensor, whose absent rows are 0, and writes selected rows where Paddle does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Slot

Array = np.ndarray[Any, Any]
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class SparseRun:
    """An operator, the scope of its variables, and its computation on dense variables."""

    type: str
    inputs: Names
    outputs: Names
    attrs: Mapping[str, Any]
    scope: Scope
    dense: Callable[[Scope], None]

    def slot(self, name: str) -> Slot:
        """Return the variable of a name; create it if the scope lacks it."""
        return self.scope.find_var(name) or self.scope.var(name)

    def input(self, slot: str) -> Slot:
        """Return the first variable of an input slot."""
        return self.slot(self.inputs[slot][0])

    def output(self, slot: str = "Out") -> Slot:
        """Return the first variable of an output slot."""
        return self.slot(self.outputs[slot][0])

    def computed(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Compute the outputs with these values of variables instead of the scope's.

        The variables of the scope do not change.
        """
        inner = Scope(self.scope)
        read = {name for names in self.inputs.values() for name in names}
        written = [name for names in self.outputs.values() for name in names]
        for name, value in values.items():
            inner.var(name).put(value)
        for name in written:
            if name not in values and name in read:
                inner.var(name).put(self.slot(name).numpy())
            else:
                inner.var(name)
        self.dense(inner)
        return {name: inner.var(name).numpy() for name in written}


def is_sparse(scope: Scope, name: str) -> bool:
    """True for a variable of a scope that has rows of a taller tensor."""
    slot = scope.find_var(name)
    return slot is not None and slot.rows is not None


def run_sparse(run: SparseRun) -> None:
    """Run an operator on selected rows; UnsupportedError if Paddle cannot."""
    own = _OWN.get(run.type)
    if own is not None:
        own(run)
    elif "Param" in run.inputs:
        _update(run)
    else:
        raise UnsupportedError(f"operator {run.type} of selected rows")


def _values(slot: Slot) -> Array:
    """Return the values of the present rows."""
    return slot.numpy()[: len(slot.rows or ())]


def _put(slot: Slot, rows: Sequence[int] | Array, values: Array, height: int) -> None:
    slot.put(values)
    slot.rows, slot.height = [int(row) for row in rows], height


def _merged(slot: Slot) -> tuple[Array, Array]:
    """Return each row once, in order, with the sum of its values."""
    values = _values(slot)
    rows, places = np.unique(np.asarray(slot.rows, "int64"), return_inverse=True)
    total = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    np.add.at(total, places.reshape(-1), values)
    return rows, total


def _tall(slot: Slot, height: int) -> Array:
    """Build the tall tensor; absent rows are 0."""
    rows, values = _merged(slot)
    whole = np.zeros((height, *values.shape[1:]), values.dtype)
    whole[rows] = values
    return whole


def _merge(run: SparseRun) -> None:
    x = run.input("X")
    _put(run.output(), *_merged(x), x.height)


def _by_row(run: SparseRun) -> None:
    """Run an operator that treats each row alone, or the norm of the merged rows."""
    x = run.input("X")
    merges = run.type == "clip_by_norm"
    rows, values = _merged(x) if merges else (x.rows or (), _values(x))
    (made,) = run.computed({run.inputs["X"][0]: values}).values()
    _put(run.output(), rows, made, x.height)


def _tensor(run: SparseRun) -> None:
    run.output().put(_values(run.input("X")))


def _sum(run: SparseRun) -> None:
    """Add the rows of all inputs, or dense tensors if an input is dense."""
    slots = [run.slot(name) for name in run.inputs["X"]]
    if any(slot.rows is None for slot in slots):
        height = next(slot.numpy().shape[0] for slot in slots if slot.rows is None)
        parts = [slot.numpy() if slot.rows is None else _tall(slot, height) for slot in slots]
        run.output().put(np.sum(parts, 0))
        return
    whole = Slot("whole")
    _put(
        whole,
        [row for slot in slots for row in slot.rows or ()],
        np.concatenate([_values(slot) for slot in slots]),
        max(slot.height for slot in slots),
    )
    _put(run.output(), *_merged(whole), whole.height)


def _lookup(run: SparseRun) -> None:
    """Look up row numbers among the present rows."""
    table, ids = run.input("W"), run.input("Ids").numpy()
    places = {row: place for place, row in enumerate(table.rows or ())}
    missing = sorted({int(number) for number in ids.flat} - places.keys())
    if missing:
        raise ValueError(f"operator {run.type}: the table has no row {missing[0]}")
    found = np.array([places[int(number)] for number in ids.flat], ids.dtype).reshape(ids.shape)
    values = {run.inputs["W"][0]: _values(table), run.inputs["Ids"][0]: found}
    (made,) = run.computed(values).values()
    run.output().put(made)


def _split(run: SparseRun) -> None:
    """Split the rows by parts of the height; each part counts from its start."""
    x, start = run.input("X"), 0
    rows, values = np.asarray(x.rows, "int64"), _values(x)
    for name, height in zip(run.outputs["Out"], run.attrs["height_sections"], strict=True):
        inside = (rows >= start) & (rows < start + height)
        _put(run.slot(name), rows[inside] - start, values[inside], height)
        start += height


def _only(value: Array, moved: Array, target: Slot, source: Slot) -> Array:
    """Keep the moved rows of a value; the other rows keep the output's values."""
    stays = target if target.is_initialized() else source
    return np.where(moved.reshape(-1, *[1] * (value.ndim - 1)), value, stays.numpy())


def _update(run: SparseRun) -> None:
    """Update with the rows of a gradient; with `lazy_mode` only these rows move."""
    names = [name for names in run.inputs.values() for name in names]
    param, gradient = run.input("Param"), run.input("Grad")
    sparse = {name: run.slot(name) for name in names if is_sparse(run.scope, name)}
    height = max(slot.height for slot in sparse.values())
    if param.rows is None:
        height = param.numpy().shape[0]
    made = run.computed({name: _tall(slot, height) for name, slot in sparse.items()})
    moved = np.isin(np.arange(height), gradient.rows or ())
    for slot, outs in run.outputs.items():
        for name in outs:
            target, value = run.slot(name), made[name]
            if target.rows is not None:
                value = value[target.rows]
            elif run.attrs.get("lazy_mode") and value.shape[:1] == (height,):
                value = _only(value, moved, target, run.input(slot.removesuffix("Out")))
            target.put(value)


_OWN: Mapping[str, Callable[[SparseRun], None]] = {
    "merge_selected_rows": _merge,
    "get_tensor_from_selected_rows": _tensor,
    "split_selected_rows": _split,
    "sum": _sum,
    "lookup_table": _lookup,
    "lookup_table_v2": _lookup,
    **dict.fromkeys(("scale", "clip", "clip_by_norm", "sqrt", "square", "assign"), _by_row),
}

SPARSE_TYPES = frozenset(_OWN)
"""The operators that know rows, in addition to the updates of parameters."""
