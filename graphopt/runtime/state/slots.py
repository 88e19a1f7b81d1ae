"""The holders of values in a scope: a slot for a variable, or a stack for several.

A stack holds the values of several variables in one array, along a new first axis, so that a step
passes one array instead of many. It takes over the values when a program needs them so. From then
on the variables are items of it, until they are written one by one: then they leave it, and the
next program that needs the stack makes it again. The latest value of a variable is always in one
place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from graphopt.errors import LengthsError, ScopeError
from graphopt.ir.dtypes import DType, as_dtype
from graphopt.runtime.state.arrays import Array, HostArray, as_numpy, is_of_jax
from graphopt.runtime.state.uninterrupted import Uninterrupted

Shape = tuple[int, ...]


class ArrayLayout(NamedTuple):
    """The layout of a value in its array.

    With `replicas` > 0 there is a leading axis with one value per replica, of which readers see the
    first. With `whole`, a shape, the replicas have parts instead, which readers see as one array of
    that shape. With `order` the axes are permuted: axis i is the variable's axis order[i]. With
    `cut` each device has a piece along that axis of a single array in JAX.
    """

    replicas: int = 0
    whole: tuple[int, ...] | None = None
    order: tuple[int, ...] = ()
    cut: int | None = None


AS_IT_IS = ArrayLayout()
Copy: TypeAlias = "tuple[object, ArrayLayout, Array | None]"
NO_COPY: Copy = (None, AS_IT_IS, None)


@dataclass
class Latest:
    """The last event in any slot: the `mark` of a step that stored its results, else None.

    It is no class attribute: whenever one changes, Python drops its caches for that class.
    """

    mark: object = None


latest = Latest()


def in_parts(value: HostArray, count: int) -> HostArray:
    """Split the elements into `count` rows of one length, padded with zeros."""
    length = -(-value.size // count)
    flat = np.zeros(count * length, value.dtype)
    flat[: value.size] = value.reshape(-1)
    return flat.reshape(count, length)


def _of_this_process(value: Any) -> HostArray:
    """Join the values on this process's devices: its replicas, or all parts of one value."""
    shards = sorted(value.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    return np.concatenate([shard.data for shard in shards])


def joined_parts(parts: HostArray, shape: Shape) -> HostArray:
    """Join the rows that `in_parts` split, and restore the shape."""
    return parts.reshape(-1)[: math.prod(shape)].reshape(shape)


class Slot:
    """A named value: a NumPy or JAX array, or None before its first write.

    `lock` is the scope's: a step holds it from taking buffers to storing new ones. `layout` is the
    layout of the value in the array, and `home` identifies its devices. `copy` is the copy that
    another program, which only reads the variable, made for its own devices: (home, layout, array).
    The value of a variable that is stored in a stack with others is an `Item`; `stacks` are the
    stacks that begin with this variable, by the names in them. `lengths` are the sequence lengths
    that scripts set. With `rows` the value has some rows of a tensor of `height` rows, in which a
    row may repeat. `is_shared` is true once a script has read or written the value: another process
    may continue from it, or this one continues from the script's value. `scheduled` is a learning
    rate and the array that holds it.
    """

    __slots__ = (
        *("copy", "height", "home", "is_shared", "layout", "lengths", "lock", "name", "rows"),
        *("scheduled", "stacks", "value"),
    )

    def __init__(self, name: str, lock: Any = None) -> None:
        self.name = name
        self.lock = RLock() if lock is None else lock
        # state, not a cache: one for each group of variables that a program passes together
        self.stacks: dict[tuple[str, ...], Stack] = {}
        self.lengths: list[list[int]] = []
        self.rows: list[int] | None = None
        self.height = 0
        self.is_shared = False
        self.scheduled: tuple[float, HostArray] | None = None
        self.value: Any = None
        self.put(None)

    def put(
        self, value: Array | Item | None, *, layout: ArrayLayout = AS_IT_IS, home: object = None
    ) -> None:
        """Replace the value; a variable that is stored in a stack leaves it."""
        # Reset twice: an interrupt may come before the end, and another thread's step may end
        # meanwhile.
        latest.mark = None
        if type(self.value) is Item:
            self._leave(value, layout, home)
        else:
            self.value, self.layout, self.home = value, layout, home
            self.copy = NO_COPY
        latest.mark = None

    def _leave(self, value: Array | Item | None, layout: ArrayLayout, home: object) -> None:
        with self.lock, Uninterrupted():
            self.value.stack.lose()
            self.value, self.layout, self.home = value, layout, home
            self.copy = NO_COPY

    def schedule(self, rate: float, shape: Shape, dtype: np.dtype[Any]) -> None:
        """Set the value to a learning rate, which stays on its device until it changes."""
        if not (self.is_scheduled and self.scheduled is not None and self.scheduled[0] == rate):
            value = np.full(shape, rate, dtype)
            self.scheduled = rate, value
            self.put(value)

    @property
    def is_scheduled(self) -> bool:
        """True for a learning rate that a schedule has written last."""
        return self.scheduled is not None and self.scheduled[1] is self.value

    def read(self) -> HostArray:
        """Copy the value for a script, which may keep it; ScopeError when there is none."""
        self.is_shared = True
        return self.numpy()

    def write(self, array: ArrayLike) -> None:
        """Replace the value by a copy of a script's array."""
        self.is_shared = True
        self.put(np.array(array))

    def numpy(self) -> HostArray:
        """Copy the value for the runtime; ScopeError when there is none."""
        with self.lock:
            return self._numpy()

    def _numpy(self) -> HostArray:
        if self.value is None:
            raise ScopeError(f"variable '{self.name}' has no value; run the startup_program first")
        value = self.value
        if type(value) is Item:
            return value.numpy()
        replicas, whole, order, _ = self.layout
        if replicas and not getattr(value, "is_fully_addressable", True):
            value = _of_this_process(value)
        value = np.array(as_numpy(value))
        if whole is not None:
            return joined_parts(value, whole)
        value = value[0] if replicas else value
        return np.ascontiguousarray(value.transpose(np.argsort(order))) if order else value

    def on_devices(self) -> tuple[Array, Shape | None]:
        """Return the value on its devices, uncopied; with a shape, parts of a value of it.

        `joined_parts` joins the parts. If replicas may disagree, or axes are permuted, return a
        NumPy copy of the first value. Raise ScopeError when there is no value.
        """
        self.is_shared = True
        with self.lock:
            replicas, whole, order, _ = self.layout
            agrees = whole is not None or not replicas
            if is_of_jax(self.value) and agrees and not order:
                return self.value, whole
            return self._numpy(), None

    def value_type(self) -> tuple[Shape, np.dtype[Any]] | None:
        """Return the shape and dtype of the value, without a copy; None when there is none."""
        with self.lock:
            value = self.value
            if value is None:
                return None
            if type(value) is Item:
                array, skipped = value.stack.value, 1 + bool(value.stack.layout.replicas)
                return tuple(array.shape[skipped:]), array.dtype
            replicas, whole, order, _ = self.layout
            shape = tuple(value.shape[bool(replicas) :]) if whole is None else whole
            return tuple(shape[axis] for axis in np.argsort(order)) if order else shape, value.dtype

    def get_tensor(self) -> Tensor:
        """Return a view through which scripts read and write the value."""
        return Tensor(self)

    def get_selected_rows(self) -> SelectedRows:
        """Return a view to read and write rows; the variable has rows from now on."""
        self.rows = self.rows or []
        return SelectedRows(slot=self)

    def set_int(self, value: int) -> None:
        """Replace the value by an integer."""
        self.put(np.array(value, "int64"))

    def is_int(self) -> bool:
        """Return whether the value is an integer without axes."""
        found = self.value_type()
        return found is not None and found[0] == () and found[1].kind in "iu"

    def get_int(self) -> int:
        """Return the value as an int; TypeError unless it is an integer."""
        if not self.is_int():
            raise TypeError(f"variable '{self.name}' holds no integer; set one with set_int")
        return int(self.numpy())

    def is_initialized(self) -> bool:
        """Return whether the variable has a value."""
        return self.value is not None


class Tensor:
    """The view of `scope.find_var(name).get_tensor()`: `np.array(t)` reads, `set` writes."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def set(self, array: ArrayLike, place: object = None) -> None:
        """Replace the value by a copy of `array`; every device sees it from the next run on."""
        self._slot.write(array)

    def shape(self) -> list[int]:
        """Return the sizes of the axes; [0] without a value."""
        if not self._is_initialized():
            return [0]
        type_ = self._slot.value_type()
        return list(self._slot.numpy().shape if type_ is None else type_[0])

    _get_dims = shape

    def __getitem__(self, index: Any) -> Tensor:
        """Copy a part of the value, indexed as in NumPy, into a new tensor."""
        part = Slot(self._slot.name)
        part.put(np.array(self._slot.numpy()[index]))
        made = object.__new__(type(self))
        made._slot = part
        return made

    def _dtype(self) -> DType:
        return as_dtype(self._slot.numpy().dtype)

    def _set_dims(self, dims: Sequence[int]) -> None:
        """Reshape the value; if the number of elements differs, replace it by zeros."""
        shape = tuple(int(d) for d in dims)
        value = self._slot.numpy() if self._slot.is_initialized() else np.zeros(shape, "float32")
        fits = value.size == math.prod(shape)
        self._slot.put(value.reshape(shape) if fits else np.zeros(shape, value.dtype))

    def _alloc_float(self, place: object = None) -> None:
        self._alloc("float32")

    def _alloc_double(self, place: object = None) -> None:
        self._alloc("float64")

    def _alloc_int(self, place: object = None) -> None:
        self._alloc("int32")

    def _alloc(self, dtype: str) -> None:
        """Replace the value by zeros of the same shape."""
        self._slot.put(np.zeros(self.shape(), dtype))

    def _element(self, offset: int) -> float:
        return float(self._slot.numpy().reshape(-1)[offset])

    def _set_element(self, offset: int, value: float) -> None:
        array = self._slot.numpy()
        array.reshape(-1)[offset] = value
        self._slot.put(array)

    _get_float_element = _get_double_element = _element
    _set_float_element = _set_double_element = _set_element

    def recursive_sequence_lengths(self) -> list[list[int]]:
        """Return the sequence lengths, one list for each level; [] for a dense tensor."""
        return [list(level) for level in self._slot.lengths]

    def set_recursive_sequence_lengths(self, lengths: Sequence[Sequence[int]]) -> None:
        """Replace the lengths; LengthsError if they contradict each other or the rows."""
        before = self._slot.lengths
        self._note_lengths(lengths)
        found = self._slot.lengths
        if not (all(found) and self.has_valid_recursive_sequence_lengths()):
            self._slot.lengths = before
            rows = f", a tensor of shape {self.shape()}" if self._is_initialized() else ""
            raise LengthsError(
                f"set_recursive_sequence_lengths(): {found} are not valid sequence lengths for "
                f"'{self._slot.name}'{rows}: each level must add up to the number of sequences of "
                "the next level, the last level to the number of rows"
            )

    def _note_lengths(self, lengths: Sequence[Sequence[int]]) -> None:
        """Replace the lengths without a check."""
        self._slot.lengths = [[int(n) for n in level] for level in lengths]

    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Return whether each level sums to the number of items below, the last to the rows."""
        lengths = self._slot.lengths
        counts = [len(level) for level in lengths[1:]]
        if lengths and self._slot.is_initialized():
            counts.append(self.shape()[0])
        return all(sum(level) == n for level, n in zip(lengths, counts, strict=False))

    def lod(self) -> list[list[int]]:
        """Return the offsets of the sequences by level: each start, and the end of the last."""
        return [[0, *np.cumsum(level).tolist()] for level in self._slot.lengths]

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Replace the lengths by the differences of these offsets."""
        self.set_recursive_sequence_lengths([np.diff(offsets).tolist() for offsets in lod])

    def numpy(self) -> HostArray:
        """Copy the value."""
        return self._slot.read()

    def on_device(self) -> Any:
        """Return the JAX array of a fetch or a batch; None for any other value."""
        slot = self._slot
        plain = slot.home is None and slot.layout == AS_IT_IS and not slot.lengths
        return slot.value if plain and slot.rows is None and is_of_jax(slot.value) else None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        # Paddle's empty tensor is empty as well: PaddleSlim copies whole programs' variables
        value = self._slot.read() if self._is_initialized() else np.zeros(0)
        return value if dtype is None else value.astype(dtype)

    def _is_initialized(self) -> bool:
        return self._slot.is_initialized()

    def __repr__(self) -> str:
        slot = self._slot
        plain = not slot.layout.order and slot.layout.whole is None
        plain = plain and type(slot.value) is not Item
        return repr(slot.value if plain else slot.numpy())


class SelectedRows:
    """Some rows of a tensor of `height` rows, with their numbers (fluid.core.SelectedRows)."""

    def __init__(
        self, rows: Sequence[int] = (), height: int = 0, *, slot: Slot | None = None
    ) -> None:
        self._slot = slot or Slot("selected_rows")
        if slot is None:
            self._slot.rows, self._slot.height = [int(row) for row in rows], height

    def rows(self) -> list[int]:
        """Return the numbers of the rows."""
        return list(self._slot.rows or ())

    def set_rows(self, rows: Sequence[int]) -> None:
        """Set the numbers of the rows."""
        self._slot.rows = [int(row) for row in rows]

    def height(self) -> int:
        """Return the number of rows of the whole tensor."""
        return self._slot.height

    def set_height(self, height: int) -> None:
        """Set the number of rows of the whole tensor."""
        self._slot.height = int(height)

    def get_tensor(self) -> Tensor:
        """Return a view through which scripts read and write the values of the rows."""
        return Tensor(self._slot)

    def numel(self) -> int:
        """Count the elements of the rows."""
        return self._slot.numpy().size if self._slot.is_initialized() else 0

    def sync_index(self) -> None:
        """Do nothing: rows are looked up when they are needed."""


class Item(NamedTuple):
    """The value of a variable that is stored in a stack."""

    stack: Stack
    at: int

    def numpy(self) -> HostArray:
        """Copy the value."""
        return np.array(self.stack.first()[self.at])


class Stack:
    """Several variables as one; for executables it acts like the slot of one variable.

    `home` is None when its array is not, or no longer, the variables' value. `items` are single
    variables on the devices of programs that only read them, by (home, index).
    """

    __slots__ = ("copy", "held", "home", "items", "layout", "members", "name", "value")

    is_scheduled = False

    def __init__(self, members: Sequence[Slot]) -> None:
        self.name = f"{members[0].name} .. {members[-1].name}"
        self.members = tuple(members)
        self.value: Any = None
        self.home: object = None
        self.layout = AS_IT_IS
        self.held = 0
        self._note_change()

    def _note_change(self) -> None:
        self.copy = NO_COPY
        self.items: dict[tuple[object, int], Array] = {}

    def first(self) -> HostArray:
        """View the array in NumPy, for the first replica; valid until the next step."""
        value = np.asarray(self.value)
        return value[0] if self.layout.replicas else value

    def put(self, value: Array | Item | None, *, layout: ArrayLayout, home: object) -> None:
        """Replace the values of all variables."""
        latest.mark = None
        if self.home is not None:
            self.value, self.layout, self.home = value, layout, home
            self._note_change()
            return
        # A variable that left its own array and has not reached the stack would have no value.
        with self.members[0].lock, Uninterrupted():
            for index, slot in enumerate(self.members):
                slot.put(Item(self, index))
            self.held = len(self.members)
            self.value, self.layout, self.home = value, layout, home
            self._note_change()

    def lose(self) -> None:
        """Release a variable that has its own value now; the others can still be read here."""
        latest.mark = None
        self.home, self.copy = None, NO_COPY
        self.held -= 1
        if not self.held:
            self.value = None
            self._note_change()

    @property
    def is_shared(self) -> bool:
        """True when a script has read or written one of the variables."""
        return any(slot.is_shared for slot in self.members)

    def is_initialized(self) -> bool:
        """True once all variables have values."""
        return all(slot.is_initialized() for slot in self.members)

    def numpy(self) -> HostArray:
        """Copy the values of all variables, which have one shape and dtype."""
        if self.home is not None:
            return np.array(self.first())
        return np.stack([slot.numpy() for slot in self.members])
