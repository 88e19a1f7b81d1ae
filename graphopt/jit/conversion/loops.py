"""`while` and `for` whose end may depend on a tensor.

The body of such a loop is traced twice: first to find the names that it changes and their new
values, then into the block of the loop. Unchanged values remain Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import nest
from graphopt.frontend.sub_blocks import reads_and_writes
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Variable, default_main_program, undo
from graphopt.ir.program.location import caller_location
from graphopt.jit.conversion.branches import (
    NUMBERS,
    Read,
    Write,
    as_tensor,
    branch,
    fresh,
    is_same,
    with_held,
)
from graphopt.jit.conversion.conditions import Thunk, as_flag, negation
from graphopt.jit.conversion.jumps import RESULT
from graphopt.jit.conversion.unknown import Unknown
from graphopt.static.nn.control_flow import copy, while_in_place
from graphopt.tensor.array import create_array
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.blocks import While
from graphopt.tensor.creation import assign, full
from graphopt.tensor.manipulation import cast, reshape


class Range:
    """`range` with a Variable among its arguments."""

    def __init__(self, *limits: Any) -> None:
        start, stop, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
        if not isinstance(step, int) or step == 0:
            raise UnsupportedError(
                f"{caller_location()}: the step of a range() over a tensor must be an int other "
                "than 0"
            )
        self.start, self.stop, self.step = _index(start), _index(stop), step

    def __iter__(self) -> Iterator[Any]:
        raise UnsupportedError(
            f"{caller_location()}: a limit of this range() is a tensor, which only a `for` "
            "statement supports, not a comprehension; write the loop as a `for` statement"
        )


class Enumerated:
    """`enumerate` of a Variable."""

    def __init__(self, items: Variable, start: int = 0) -> None:
        self.items, self.start = items, start

    def __iter__(self) -> Iterator[tuple[int, Variable]]:
        return enumerate(_rows(self.items), self.start)


def _index(value: Any) -> Variable:
    """Convert a limit of a range to an int64 tensor without dimensions."""
    if not isinstance(value, Variable):
        return full([], value, "int64")
    found = value if value.dtype == "int64" else cast(value, "int64")
    return reshape(found, []) if found.shape else found


def _rows(items: Variable) -> Iterator[Variable]:
    if items.shape[0] < 0:
        raise UnsupportedError(
            f"{caller_location()}: the first dimension of '{items.name}' {list(items.shape)} is "
            "unknown; loop over the tensor with a `for` statement"
        )
    return (items[at] for at in range(items.shape[0]))  # pyright: ignore[reportIndexIssue]


def loop(test: Thunk, body: Thunk, read: Read, write: Write, names: Sequence[str]) -> None:
    """Run `body` while `test` holds."""
    while True:
        flag = test()
        if isinstance(flag, Variable):
            break
        if not flag:
            return
        body()
    as_flag(flag, "while")
    with undo.transaction():
        _ConvertedLoop(
            lambda: as_flag(_variable(test()), "while"), body, read, write, names
        ).trace()


def _variable(flag: Any) -> Variable:
    return flag if isinstance(flag, Variable) else full([], bool(flag), "bool")


def each(
    items: Any,
    body: Callable[[Any], None],
    stop: Thunk | None,
    read: Read,
    write: Write,
    names: Sequence[str],
) -> None:
    """Run `body` with each of the items, until `stop` holds."""
    if isinstance(items, Range):
        _over(items, lambda at: body(at), stop, read, write, names)
    elif isinstance(items, (Variable, Enumerated)) and _is_open(items):
        rows = items.items if isinstance(items, Enumerated) else items
        count = Range(shape_of(rows)[0])  # pyright: ignore[reportIndexIssue]

        def with_row(at: Variable) -> None:
            row = rows[at]  # pyright: ignore[reportIndexIssue]
            body((at + items.start, row) if isinstance(items, Enumerated) else row)  # pyright: ignore[reportOperatorIssue]

        _over(count, with_row, stop, read, write, names)
    else:
        _unroll_loop(
            _rows(items) if isinstance(items, Variable) else items, body, stop, read, write, names
        )


def _is_open(items: Variable | Enumerated) -> bool:
    rows = items.items if isinstance(items, Enumerated) else items
    return rows.shape[0] < 0


def _unroll_loop(
    items: Any,
    body: Callable[[Any], None],
    stop: Thunk | None,
    read: Read,
    write: Write,
    names: Sequence[str],
) -> None:
    """Run the body for each item; once `stop` is a Variable, each in a branch."""
    for item in items:
        flag = False if stop is None else stop()
        if isinstance(flag, Variable):
            branch(negation(flag), lambda item=item: body(item), lambda: None, read, write, names)
        elif flag:
            return
        else:
            body(item)


def _over(
    limits: Range,
    body: Callable[[Any], None],
    stop: Thunk | None,
    read: Read,
    write: Write,
    names: Sequence[str],
) -> None:
    """Trace a loop over a range, with its counter as an additional name."""
    at: list[Any] = [limits.start]

    def test() -> Any:
        counter = at[0]
        inside = counter < limits.stop if limits.step > 0 else counter > limits.stop
        flag = False if stop is None else stop()
        if isinstance(flag, Variable):
            return inside & negation(flag)
        return full([], False, "bool") if flag else inside

    def step() -> None:
        body(at[0])
        at[0] = at[0] + limits.step

    def write_all(values: list[Any]) -> None:
        at[0] = values[-1]
        write(values[:-1])

    with undo.transaction():
        _ConvertedLoop(
            test, step, lambda: [*read(), at[0]], write_all, [*names, "the counter"]
        ).trace()


class _ConvertedLoop:
    """A loop over a Variable."""

    def __init__(
        self,
        test: Callable[[], Variable],
        body: Thunk,
        read: Read,
        write: Write,
        names: Sequence[str],
    ) -> None:
        self.test, self.body = test, body
        self.read, self.write, self.names = with_held(read, write, names)
        self._writes = False

    def trace(self) -> None:
        """Append the loop, and assign the results to the names."""
        start = self.read()
        carried: dict[int, None] = {}
        settled = False
        while not settled:  # each iteration replaces a number, a list or an undefined name
            carried, settled = {}, True
            met, after, grown = self._try_body(start)
            for at, (name, old, new) in enumerate(zip(self.names, met, after, strict=True)):
                if at in grown:
                    # Paddle's form of a list that a loop fills
                    start[at] = create_array(grown[at], start[at])
                    settled = False
                    continue
                first = _start(name, old, new)
                if first is not None:
                    carried[at] = None
                    if first is not old:
                        settled = False
                        start[at] = _like(first, old, start[at])
                elif not _is_unchanged(old, new):
                    start[at] = _local(name, start[at], new)
        if not carried and self._writes:
            self._trace_in_place(start)
            return
        if not carried:
            raise UnsupportedError(
                f"{caller_location()}: the loop would never end: no variable of its condition "
                "changes in the loop"
            )

        def put(values: Sequence[Any]) -> None:
            now = fresh(start)
            for at, value in zip(carried, values, strict=True):
                now[at] = value
            self.write(now)

        def test(*values: Any) -> Variable:
            put(values)
            return self.test()

        def body(*values: Any) -> list[Any]:
            put(values)
            self.body()
            after = self.read()
            return [after[at] for at in carried]

        variables = nest.map_leaves(copy, [start[at] for at in carried])
        _let_gradients_through(variables)
        put(while_in_place(test, body, variables))
        _let_gradients_through(variables)

    def _trace_in_place(self, start: list[Any]) -> None:
        """Append a loop that changes tensors in place, but no name."""
        flag = self.test()
        with While(flag).block():
            self.write(fresh(start))
            self.body()
            assign(self.test(), flag)
        self.write(start)

    def _try_body(self, start: list[Any]) -> tuple[list[Any], list[Any], dict[int, DType]]:
        """Trace the body once; return values before and after it, and growing lists' dtypes.

        The operators of the body are rolled back, and so are the types of their results.
        """
        with _taken_back() as block:
            met = _distinct(start)
            self.write(fresh(met))
            self.test()
            self.body()
            after = _keep_types(self.read(), met)
            self._writes = bool(reads_and_writes(block)[1])
            pairs = enumerate(zip(met, after, strict=True))
            return met, after, {at: new[-1].dtype for at, (old, new) in pairs if _grows(old, new)}


def _let_gradients_through(variables: list[Any]) -> None:
    """Clear `stop_gradient` of loop variables: a constant start gets the sum's gradient.

    `while_loop` of a static program stops the gradient, as Paddle's does.
    """
    for leaf in nest.leaves(variables):
        if isinstance(leaf, Variable):
            undo.note_attributes(leaf, "stop_gradient")
            leaf.stop_gradient = False


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Copy a tensor for each place but the first that has it.

    Names that start as one tensor are several variables of the loop: `previous = current` changes
    `previous` also if both were the same before the loop. A tensor array is not copied.
    """
    seen: set[int] = set()

    def own(leaf: Any) -> Any:
        again = id(leaf) in seen
        seen.add(id(leaf))
        return copy(leaf) if again else leaf

    return [nest.map_leaves(own, value) for value in values]


def _keep_types(after: Sequence[Any], met: Sequence[Any]) -> list[Any]:
    """Replace new tensors after a body by copies, whose types a rollback does not change."""
    old = {id(leaf) for leaf in nest.leaves(list(met))}

    def keep(leaf: Any) -> Any:
        if not isinstance(leaf, Variable) or id(leaf) in old or not leaf.has_type:
            return leaf
        return leaf.copy_to(leaf.block)

    return [nest.map_leaves(keep, value) for value in after]


def _like(first: Any, met: Any, given: Any) -> Any:
    """Substitute leaves in `first`: each leaf of `met` by the leaf of `given` at its place."""
    copies = zip(nest.leaves(met), nest.leaves(given), strict=True)
    originals = {id(one): other for one, other in copies}
    return nest.map_leaves(lambda leaf: originals.get(id(leaf), leaf), first)


@contextmanager
def _taken_back() -> Iterator[Block]:
    """Open a block whose operators and changes are rolled back at its end."""
    begun = undo.begin()
    try:
        yield default_main_program()._create_block()
    finally:
        undo.roll_back(begun)


def _is_unchanged(old: Any, new: Any) -> bool:
    if isinstance(old, Unknown) and isinstance(new, Unknown):
        return True
    if nest.difference(old, new) is not None:
        return False
    return all(is_same(*pair) for pair in zip(nest.leaves(old), nest.leaves(new), strict=True))


def _grows(old: Any, new: Any) -> bool:
    """True for a list of tensors to which the body of a loop appends tensors."""
    if not (isinstance(old, list) and isinstance(new, list) and len(old) < len(new)):
        return False
    kept = all(is_same(before, after) for before, after in zip(old, new, strict=False))
    return kept and all(isinstance(value, Variable) for value in new)


def _start(name: str, old: Any, new: Any) -> Any:
    """Return the value of a loop variable before the loop; None if the name is no loop variable.

    A name is a loop variable if the body changes tensors or numbers in it, and keeps its form.
    """
    if name == RESULT and isinstance(old, Unknown) and not isinstance(new, Unknown):
        old = nest.map_leaves(lambda _: old, new)
    if (isinstance(old, Unknown) and name != RESULT) or isinstance(new, Unknown):
        return None
    if _is_unchanged(old, new) or nest.difference(old, new) is not None:
        return None
    made: list[Any] = []
    for before, after in zip(nest.leaves(old), nest.leaves(new), strict=True):
        if is_same(before, after) or isinstance(before, Variable):
            made.append(before)
        elif isinstance(before, (*NUMBERS, Unknown)) and isinstance(after, (Variable, *NUMBERS)):
            made.append(as_tensor(before, after))
        else:
            return None
    kept = all(one is other for one, other in zip(made, nest.leaves(old), strict=True))
    return old if kept else nest.rebuild(old, made)


def _local(name: str, old: Any, new: Any) -> Unknown:
    """Create the Unknown of a name that the body must set before it reads it."""
    if isinstance(old, Unknown):
        reason = "has a value inside a loop over a tensor only; give it one before the loop"
    elif isinstance(old, list) and isinstance(new, list):
        reason = (
            "is a list that changes in a loop over a tensor; there it can only grow by append() of "
            "tensors, and be joined by paddle.stack or paddle.concat after the loop"
        )
    else:
        reason = (
            f"changes from {old!r:.40} to {new!r:.40} in a loop over a tensor; only tensors and "
            "numbers can, and keep their dtype and number of dimensions"
        )
    return Unknown(name, reason)
