"""Held tensors: the tensors that objects of the script hold before and after a trace.

A traced function may leave another tensor in an attribute, `self.steps = self.steps + 1`, and the
next call must find it there. So the program writes it to the variable that was there before, which
is put back after the trace: it is state, like the running statistics of a batch normalization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType, SimpleNamespace
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import nest
from graphopt.frontend.first_values import value_of
from graphopt.frontend.tracing import TracedProgram
from graphopt.ir.dialect.shapes import agree
from graphopt.ir.program import Program, Variable, default_main_program, unique_name
from graphopt.jit.conversion.calls import belongs_to_user
from graphopt.jit.conversion.unknown import Unknown
from graphopt.nn.layer.layers import Layer
from graphopt.runtime.state.scope import global_scope
from graphopt.tensor.creation import assign

_Container = list[Any] | dict[Any, Any] | CellType
_CELL = "cell_contents"
_GONE = object()
_LEFT = (
    "is made by one call of a traced function and read by the next, and no program keeps it; make "
    "it in __init__, as by register_buffer, or return it from the function"
)


class SharedState(Exception):
    """Signals that a variable held in several places was split; the trace must be repeated."""


@dataclass(frozen=True)
class _Place:
    """One place of a container, with its value before the trace and after it."""

    container: _Container
    key: Any
    before: Any
    after: Any

    def restore(self) -> None:
        """Put back the value from before the trace."""
        _put(self.container, self.key, self.before)


class NamedPlaces:
    """Places as names of a branch or a loop; a function called there may change them."""

    def __init__(self, places: list[_Place]) -> None:
        self._places = places

    def besides(self, known: list[Any]) -> NamedPlaces:
        """Select the places that hold none of these tensors."""
        ids = set(map(id, known))
        return NamedPlaces([p for p in self._places if id(_get(p.container, p.key)) not in ids])

    def names(self) -> list[str]:
        """Name each place by its key."""
        return [str(place.key) for place in self._places]

    def read(self) -> list[Any]:
        """Read the present values."""
        return [_get(place.container, place.key) for place in self._places]

    def write(self, values: list[Any]) -> None:
        """Write a value to each place."""
        for place, value in zip(self._places, values, strict=True):
            _put(place.container, place.key, value)


class HeldContents:
    """The contents of the containers that a function can reach, from before its trace.

    The containers are the attributes of its layer and of other objects of the script, lists and
    dicts, its closure and its global names, and the attributes of each layer from its first call in
    the trace on.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._containers: dict[int, tuple[_Container, dict[Any, Any]]] = {}
        self.watch(function)

    def watch(self, root: Any) -> None:
        """Record the values that an object holds, directly or through other objects."""
        todo = [root]
        while todo:
            for container, items in _containers(todo.pop()):
                _, known = self._containers.setdefault(id(container), (container, {}))
                new = {key: value for key, value in items.items() if key not in known}
                known.update(new)
                todo += new.values()

    def restore(self) -> None:
        """Put back the value of every place from before the trace."""
        for container, items in self._containers.values():
            if isinstance(container, list):
                container[:] = items.values()
            else:
                for key, value in items.items():
                    _put(container, key, value)

    def write_back(self, outputs: Any) -> Any:
        """Append writes of changed tensors, and put their variables back into the places.

        Returns the outputs from before these writes. Raises UnsupportedError for a new tensor of
        another shape or dtype, SharedState if a variable has to be split first.
        """
        changed = [place for place in self._places() if place.after is not place.before]
        writes: dict[str, tuple[Variable, Variable]] = {}
        for place in changed:
            for old, new in self._replaced_pairs(place.before, place.after):
                if _is_kept(default_main_program(), old, new, place.key):
                    writes.setdefault(old.name, (old, new))
        replaced = {id(place.before) for place in changed}
        for place in self._places():
            # a replaced list is held no more
            if isinstance(place.before, Variable) and id(place.container) not in replaced:
                old, new = writes.get(place.before.name, (None, place.after))
                if old is place.before and place.after is not new:
                    self._part(place.before)

        def before_writes(leaf: Any) -> Any:
            return assign(leaf) if isinstance(leaf, Variable) and leaf.name in writes else leaf

        outputs = nest.map_leaves(before_writes, outputs)
        values = [before_writes(new) for _, new in writes.values()]
        for (old, _), value in zip(writes.values(), values, strict=True):
            assign(value, old)
        for place in changed:
            leaves = self._replaced_pairs(place.before, place.after)
            if any(old.name in writes for old, _ in leaves):
                place.restore()
        return outputs

    def tensors(self) -> NamedPlaces:
        """Select the places that held a tensor before the trace."""
        return NamedPlaces(
            [place for place in self._places() if isinstance(place.before, Variable)]
        )

    def leave_unknown(self, program: Program) -> bool:
        """Replace tensors of a trace by Unknown; True if there are any."""
        found = False
        for container, _ in list(self._containers.values()):
            for key, value in _items(container).items():
                # containers of containers have a turn of their own, and may contain themselves
                leaves = nest.leaves(value, self._containers)
                ours = [isinstance(v, Variable) and v.block.program is program for v in leaves]
                if any(ours):
                    found = True
                    left = Unknown(str(key), _LEFT)
                    new = [left if o else v for o, v in zip(ours, leaves, strict=True)]
                    _put(container, key, nest.rebuild(value, new, self._containers))
        return found

    # -- parts ---------------------------------------------------------------------------------

    def _places(self) -> Iterator[_Place]:
        for container, items in self._containers.values():
            for key, before in items.items():
                yield _Place(container, key, before, _get(container, key))

    def _replaced_pairs(self, before: Any, after: Any) -> Iterator[tuple[Variable, Variable]]:
        """Yield the tensors of a value, each with its replacement; none for arrays."""
        if isinstance(before, Variable):
            if isinstance(after, Unknown):
                after.refuse()
            if isinstance(after, Variable) and after is not before:
                yield before, after
        elif isinstance(before, (list, tuple, dict)) and isinstance(after, type(before)):
            # a list may have changed before its replacement
            items = self._containers.get(id(before), (before, _items(before)))[1]
            found = _items(after)
            if items.keys() == found.keys():
                for key, value in items.items():
                    yield from self._replaced_pairs(value, found[key])

    def _part(self, variable: Variable) -> None:
        """Give each place of a variable a variable of its own, then raise SharedState."""
        self.restore()
        first, *others = [place for place in self._places() if place.before is variable]
        if not others:
            raise UnsupportedError(
                f"'{first.key}' and another name hold the same tensor, '{variable.name}', but "
                "would hold different tensors after a call; give each name its own tensor with "
                "clone()"
            )
        for place in others:
            twin = variable.copy_to(variable.block)
            twin.name, twin.persistable = unique_name.generate(variable.name), True
            twin.block._declare(twin)
            global_scope().var(twin.name).put(value_of(variable))
            _put(place.container, place.key, twin)
        raise SharedState(first.key)


def _is_kept(program: Program, old: Variable, new: Variable, key: Any) -> bool:
    """True if the program has to write `new` to `old`; False if no program reads `old`.

    Raises UnsupportedError where it has to, but cannot.
    """
    if isinstance(old.block.program, TracedProgram):
        return False  # an earlier trace left it there, and no program has read it
    fits = new.dtype == old.dtype and agree(new.shape, old.shape)
    if fits and new.block.idx == 0:
        return True
    if old.name not in program.global_block().vars:
        return False
    op = new.op
    where = f"{op.location}: " if op is not None and op.location is not None else ""
    if fits:
        raise UnsupportedError(
            f"{where}'{key}' is set by a function that is called in a branch or a loop over a "
            f"tensor; set '{key}' in the function that has the branch or loop, or write in place "
            "with paddle.assign(value, output)"
        )
    raise UnsupportedError(
        f"{where}'{key}' changes from {old.dtype} {list(old.shape)} to {new.dtype} "
        f"{list(new.shape)} in a call; a tensor that a traced function keeps between calls must "
        "keep its dtype and shape. Allocate the tensor in its largest size, and write parts of the "
        "tensor"
    )


def _containers(value: Any) -> Iterator[tuple[_Container, dict[Any, Any]]]:
    """Yield the containers that a value is or has, with their items."""
    if isinstance(value, MethodType):
        yield from _containers(value.__self__)
        yield from _containers(value.__func__)
    elif isinstance(value, FunctionType):
        if belongs_to_user(value.__globals__.get("__name__", "")):
            for cell in value.__closure__ or ():
                yield cell, _items(cell)
            names = value.__code__.co_names
            around = value.__globals__
            yield around, {name: around[name] for name in names if name in around}
    elif isinstance(value, (list, dict)):
        yield value, _items(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from _containers(item)
    elif isinstance(value, (Layer, SimpleNamespace)) or (
        not isinstance(value, type)
        and hasattr(value, "__dict__")
        and belongs_to_user(type(value).__module__)
    ):
        yield vars(value), _items(vars(value))


def _items(container: Any) -> dict[Any, Any]:
    if isinstance(container, CellType):
        found = _get(container, _CELL)
        return {} if found is _GONE else {_CELL: found}
    return dict(container if isinstance(container, dict) else enumerate(container))


def _get(container: _Container, key: Any) -> Any:
    try:
        return container.cell_contents if isinstance(container, CellType) else container[key]
    except (ValueError, LookupError):
        return _GONE


def _put(container: _Container, key: Any, value: Any) -> None:
    if isinstance(container, CellType):
        container.cell_contents = value
    else:
        container[key] = value
