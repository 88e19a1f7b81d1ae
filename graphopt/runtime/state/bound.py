"""State on its way from a scope to an executable: look it up, check it and copy it to devices."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphopt.errors import ScopeError
from graphopt.ir.dtypes import DType
from graphopt.lowering.plan import Replicated, put
from graphopt.runtime.state.arrays import Array, HostArray
from graphopt.runtime.state.scope import Scope, stack_in
from graphopt.runtime.state.slots import (
    AS_IT_IS,
    ArrayLayout,
    Item,
    Slot,
    Stack,
    in_parts,
    latest,
)

if TYPE_CHECKING:
    from graphopt.ir.dialect.signature import Port

# the holder of a state port's value
Holder = Slot | Stack


class Bound(NamedTuple):
    """A port of state, the holder of its value in a scope, if any yet, and its layout.

    The step takes and returns the value in that layout.
    """

    port: Port
    slot: Holder | None
    layout: ArrayLayout


class BoundState(NamedTuple):
    """The state of a step in one scope, and separate lists of its slots.

    While the mark of `slots.latest` is `as_left`, no slot was touched since such a step stored its
    results: they hold the arguments of the next one, in its layouts and on its devices.
    """

    updated: list[Bound]
    read_only: list[Bound]
    written: list[Bound]
    prepare: list[Bound]
    updated_slots: list[Any]
    read_only_slots: list[Any]
    written_slots: list[Any]
    as_left: object


def bind_state(
    replicated: Replicated, groups: Sequence[Sequence[Port]], scope: Scope
) -> BoundState:
    """Bind the state that a step updates, only reads, writes, and reads for `@prepare`."""
    bound = [[bind(replicated, port, scope) for port in ports] for ports in groups]
    updated, read_only, written = ([slot for _, slot, _ in each] for each in bound[:3])
    return BoundState(
        *(bound[0], bound[1], bound[2], bound[3]), updated, read_only, written, object()
    )


def bind(replicated: Replicated, port: Port, scope: Scope) -> Bound:
    """Bind a port of state in a scope."""
    return Bound(port, holder(scope, port), layout_of(replicated, port))


def is_at(home: Hashable, slots: BoundState) -> bool:
    """Return whether all values but those for `@prepare` are in the layout and home of a step."""
    return all(
        slot is not None and slot.home is home and slot.layout is layout
        for bounds in (slots.updated, slots.read_only, slots.written)
        for _, slot, layout in bounds
    )


def holder(scope: Scope, port: Port) -> Holder | None:
    """Find the slot or stack with the value of a port in a scope."""
    return stack_in(scope, port.stack_of) if port.stack_of else scope.find_var(port.name)


def scope_slot(scope: Scope, name: str) -> Slot:
    """Find the slot of a name, or create it in this scope."""
    return scope.find_var(name) or scope.var(name)


def layout_of(replicated: Replicated, port: Port) -> ArrayLayout:
    """Return the layout in which a replicated module's arrays hold a port of state."""
    whole = port.whole if port.cut is None else None
    found = ArrayLayout(replicated.rows(port), whole, port.order, port.cut)
    return AS_IT_IS if found == AS_IT_IS else found


def take_all(replicated: Replicated, ports: list[Bound], *, keep: bool = False) -> list[Array]:
    """Take each port, as `take` does."""
    home = replicated.home
    # Nearly always every array is in place, and a call for each would cost more than the rest.
    return [
        slot.value
        if slot is not None and slot.home is home and slot.layout is layout
        else take(replicated, Bound(port, slot, layout), keep=keep)
        for port, slot, layout in ports
    ]


def take_in_numpy(replicated: Replicated, ports: list[Bound]) -> list[Array]:
    """Take each port as `take` does, but leave NumPy arrays that are on no device."""
    found: list[Array] = []
    for port, slot, layout in ports:
        array = None if slot is None or slot.home is not None else _in_numpy(port, slot, layout)
        found.append(take(replicated, Bound(port, slot, layout)) if array is None else array)
    return found


def _in_numpy(port: Port, slot: Holder, layout: ArrayLayout) -> Array | None:
    """Transpose a NumPy array to the step's axis order; None for parts, and other arrays.

    Raise ScopeError for an array of another type.
    """
    value, held = slot.value, slot.layout
    orders = ArrayLayout(order=held.order), ArrayLayout(order=layout.order)
    if type(value) is not np.ndarray or orders != (held, layout):
        return None
    if held == layout != AS_IT_IS:
        return value
    if held.order:
        value = value.transpose(np.argsort(held.order))
    check_state(port, value)
    return np.ascontiguousarray(value.transpose(layout.order)) if layout.order else value


def take(replicated: Replicated, bound: Bound, *, keep: bool = False) -> Array:
    """Return a state array on the devices of a replicated module.

    With `keep`, or when the value is on no device yet, the slot keeps the array from now on.
    """
    home, (port, slot, layout) = replicated.home, bound
    latest.mark = None  # the value's copies and items, which others read, are dropped with it
    if slot is None or slot.value is None:
        slot = _fill_stack(port, slot)
    if slot.home is home and slot.layout == layout:
        return slot.value
    if type(slot.value) is Item and not (keep or layout.replicas):
        return _item(replicated, port, slot.value)
    where, held, array = slot.copy
    if array is None or where is not home or held != layout:
        array = _bring_home(replicated, slot, port, layout)
    # a value in parts is whole on no device, unless another program needs it whole
    shared = layout.whole is not None or layout.cut is not None
    if keep or (slot.home is None and not slot.is_scheduled) or shared:
        slot.put(array, layout=layout, home=home)
    else:
        slot.copy = home, layout, array
    return array


def _fill_stack(port: Port, slot: Holder | None) -> Holder:
    """Return a stack that no program has used yet; ScopeError for a variable without a value."""
    if isinstance(slot, Stack) and slot.is_initialized():
        return slot
    missing = slot.members if isinstance(slot, Stack) else ()
    name = next((s.name for s in missing if not s.is_initialized()), port.variables[0])
    raise ScopeError(
        f"variable '{name}' has not been initialized in the scope; run the "
        "startup_program first: exe.run(static.default_startup_program())"
    )


def _item(replicated: Replicated, port: Port, item: Item) -> Array:
    """Take one variable out of a stack, for a program that only reads it."""
    stack, home = item.stack, replicated.home
    found = stack.items.get((home, item.at))
    if found is not None:
        return found
    import jax

    with jax.enable_x64(True):
        if stack.home is home and not stack.layout.replicas:
            arrays = _unstack_items(replicated.place(port))(stack.value)
            stack.items |= {(home, index): array for index, array in enumerate(arrays)}
        else:
            stack.items[home, item.at] = put(item.numpy(), replicated.place(port))
    check_state(port, stack.items[home, item.at])
    return stack.items[home, item.at]


# one function for each device
@functools.cache
def _unstack_items(place: Any) -> Any:
    """Compile a function that splits a stack into its items."""
    import jax

    def unstack(stack: Any) -> list[Any]:
        return [stack[index] for index in range(stack.shape[0])]

    return jax.jit(unstack, out_shardings=place)


def _bring_home(replicated: Replicated, slot: Holder, port: Port, layout: ArrayLayout) -> Array:
    """Copy a value to the devices of a replicated module."""
    import jax

    replicas = layout.replicas
    if replicas and slot.layout == layout:
        value = np.array(slot.value)
    else:
        value = _check_slot(slot, port)
        if layout.order:
            value = np.ascontiguousarray(value.transpose(layout.order))
        if layout.whole is not None:
            value = in_parts(value, replicas)
        elif replicas:
            value = np.array(np.broadcast_to(value, (replicas, *value.shape)))
    with jax.enable_x64(True):
        return put(value, replicated.place(port))


def _check_slot(slot: Holder, port: Port) -> HostArray:
    """Read the value in a slot; ScopeError unless its type is the declared one."""
    if isinstance(slot, Stack) and slot.home is None:
        values = [member.numpy() for member in slot.members]
        for name, value in zip(port.stack_of, values, strict=True):
            _check_value(name, port.shape[1:], port.dtype, value)
        return np.stack(values)
    value = slot.numpy()
    check_state(port, value)
    return value


def check_state(port: Port, value: Array) -> None:
    """Raise ScopeError unless the value has the declared shape and dtype."""
    shape = port.whole or port.shape
    if port.order:
        shape = tuple(shape[port.order.index(axis)] for axis in range(len(shape)))
    _check_value(port.name, shape, port.dtype, value)


def _check_value(name: str, shape: tuple[int, ...], dtype: DType, value: Array) -> None:
    fits = len(shape) == value.ndim and all(
        want in (-1, got) for want, got in zip(shape, value.shape, strict=True)
    )
    if not fits or value.dtype != dtype.numpy:
        raise ScopeError(
            f"variable '{name}' is {dtype} {list(shape)} in the program, but the scope "
            f"holds {value.dtype.name} {list(value.shape)}; set an array of that dtype and shape"
        )
