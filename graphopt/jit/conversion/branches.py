"""`if` and `a if c else b` whose condition may be a Variable.

Both branches are traced, each into a block of its own. The values that they assign to a name are
merged to one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from graphopt.errors import GraphoptError
from graphopt.frontend import nest
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.mode import get_default_dtype
from graphopt.frontend.sub_blocks import (
    append_block_op,
    is_array,
    new_block,
    reads_and_writes,
    scopes_of,
)
from graphopt.frontend.tracing import current_trace
from graphopt.ir.dialect.shapes import UNKNOWN
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Variable, default_main_program, undo, unique_name
from graphopt.jit.conversion.conditions import Thunk, as_flag
from graphopt.jit.conversion.jumps import RESULT
from graphopt.jit.conversion.unknown import NOT_YET, Unknown
from graphopt.tensor.array import create_array
from graphopt.tensor.creation import assign, full
from graphopt.tensor.logic import logical_not
from graphopt.tensor.manipulation import cast

Read = Callable[[], list[Any]]
Write = Callable[[list[Any]], None]
NUMBERS = (bool, int, float)


def fresh(values: Sequence[Any]) -> list[Any]:
    """Copy the lists and dicts in values, which a branch or a loop may change."""
    return [nest.map_leaves(lambda leaf: leaf, value) for value in values]


def is_same(one: Any, other: Any) -> bool:
    """True for one object, and for equal numbers and strings."""
    if one is other:
        return True
    plain = (*NUMBERS, str)
    return isinstance(one, plain) and type(one) is type(other) and bool(one == other)


def with_held(read: Read, write: Write, names: Sequence[str]) -> tuple[Read, Write, Sequence[str]]:
    """Add the places where objects of the script hold other tensors to the names.

    A function that is called in a branch or a loop may change these.
    """
    trace = current_trace()
    if trace is None or trace.held is None:
        return read, write, names
    held = trace.held.tensors().besides(nest.leaves(read()))

    def write_all(values: list[Any]) -> None:
        write(values[: len(names)])
        held.write(values[len(names) :])

    return lambda: [*read(), *held.read()], write_all, [*names, *held.names()]


def branch(
    test: Any, yes: Thunk, no: Thunk, read: Read, write: Write, names: Sequence[str]
) -> None:
    """Run `yes` or `no`, which change the values of `names`, as `test` selects."""
    if not isinstance(test, Variable):
        (yes if test else no)()
        return
    with undo.transaction():
        _Branch(as_flag(test, "if"), read, write, names).trace(yes, no)


def choice(test: Any, yes: Thunk, no: Thunk) -> Any:
    """Evaluate `yes() if test else no()`."""
    if not isinstance(test, Variable):
        return yes() if test else no()
    made: list[Any] = [Unknown(RESULT, "has no value")]

    def write(values: list[Any]) -> None:
        made[:] = values

    def into(value: Thunk) -> Thunk:
        return lambda: write([value()])

    branch(test, into(yes), into(no), lambda: list(made), write, ["the value of `if` and `else`"])
    return made[0]


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Add a note to errors in a branch: the branch is traced whatever its condition will be."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, GraphoptError):
            error.add_note(
                "both branches of an `if` over a tensor are traced, before its condition is known; "
                "to check a tensor when the program runs, use `assert`"
            )
        raise


@dataclass(frozen=True)
class _Both:
    """The values of both branches at one place, to be merged."""

    yes: Any
    no: Any


class _Branch:
    """An `if` over a Variable."""

    def __init__(self, flag: Variable, read: Read, write: Write, names: Sequence[str]) -> None:
        self.flag = flag
        self.read, self.write, self.names = with_held(read, write, names)
        self.program = default_main_program()
        self.around = self.program.current_block()

    def trace(self, yes: Thunk, no: Thunk) -> None:
        """Append both branches, and assign the merged values to the names."""
        before = self.read()
        while True:
            begun = undo.begin()
            blocks, ends = self._trace_both(before, yes, no)
            grown = {
                at: dtype
                for at, values in enumerate(zip(before, *ends, strict=True))
                if (dtype := _array_dtype(*values)) is not None
            }
            if not grown:
                undo.commit(begun)
                break
            # Paddle's form of a list to which one branch appends more than the other
            undo.roll_back(begun)
            for at, dtype in grown.items():
                before[at] = create_array(dtype, before[at])
        ends = [list(pair) for pair in zip(*ends, strict=True)]
        after = [_together(name, *pair) for name, pair in zip(self.names, ends, strict=True)]
        pairs = [leaf for leaf in nest.leaves(after) if isinstance(leaf, _Both)]
        sides: list[list[Variable]] = []
        for inside, side, other in zip(blocks, ("yes", "no"), ("no", "yes"), strict=True):
            with self._in(inside):
                sides.append([self._out(getattr(p, side), getattr(p, other)) for p in pairs])
        self._append(self.flag, blocks[0])
        self._append(logical_not(self.flag), blocks[1])
        mask = cast(self.flag, "int32") if pairs else self.flag
        made = iter([_select(mask, *each) for each in zip(*sides, strict=True)])
        self.write(
            nest.map_leaves(lambda leaf: next(made) if isinstance(leaf, _Both) else leaf, after)
        )

    def _trace_both(
        self, before: list[Any], yes: Thunk, no: Thunk
    ) -> tuple[list[Block], list[list[Any]]]:
        """Trace each branch into a block; return the blocks, and the values at their ends."""
        blocks: list[Block] = []
        ends: list[list[Any]] = []
        for function in (yes, no):
            self.write(fresh(before))
            with new_block() as inside, _explain_errors():
                function()
            blocks.append(inside)
            ends.append(self.read())
        return blocks, ends

    @contextmanager
    def _in(self, block: Block) -> Iterator[None]:
        """Append operators to a block again inside the `with` block."""
        self.program.current_block_idx = block.idx
        try:
            yield
        finally:
            self.program.current_block_idx = self.around.idx

    def _out(self, value: Any, other: Any) -> Variable:
        """Copy a branch's value to the enclosing block; `other` is the other branch's value."""
        if not isinstance(value, Variable):
            value = as_tensor(value, other)
        name = unique_name.generate("_generated_var")
        outer = self.around.create_var(name, value.shape, value.dtype)
        return assign(value, outer)

    def _append(self, condition: Variable, inside: Block) -> None:
        reads, writes = reads_and_writes(inside)
        append_block_op(
            "conditional_block",
            inside,
            {"Cond": [condition], "Input": reads},
            {"Out": writes, "Scope": [scopes_of(self.around)]},
            {"is_scalar_condition": True},
        )


def _array_dtype(before: Any, yes: Any, no: Any) -> DType | None:
    """Return the dtype of the array for a list that grows differently in the branches, or None."""
    ends = [yes, no]
    if not isinstance(before, list) or nest.difference(yes, no) is None:
        return None
    arrays = [end for end in ends if is_array(end)]
    lists = [end for end in ends if isinstance(end, list)]
    if len(arrays) + len(lists) < len(ends):
        return None
    for end in lists:
        kept = all(is_same(*pair) for pair in zip(before, end, strict=False))
        if len(end) < len(before) or not kept or not all(isinstance(v, Variable) for v in end):
            return None
    if arrays:
        return arrays[0].dtype
    return next((end[-1].dtype for end in lists if len(end) > len(before)), None)


def as_tensor(value: Any, like: Any) -> Variable:
    """Convert a number to a tensor of the type of `like`; zeros for an Unknown."""
    number = 0 if isinstance(value, Unknown) else value
    if isinstance(like, Variable):
        known = [1 if size < 0 else size for size in like.shape]
        return full(known, number, like.dtype)
    kind = float if float in (type(number), type(like)) else type(number)
    dtypes = {bool: "bool", int: "int64", float: get_default_dtype()}
    return full([], kind(number), dtypes[kind])


def _together(name: str, yes: Any, no: Any) -> Any:
    """Pair the values of both branches, with `_Both` where they differ; Unknown if that fails."""
    if name == RESULT and isinstance(yes, Unknown) != isinstance(no, Unknown):
        # one branch returns and the other continues: a flag records which
        given = no if isinstance(yes, Unknown) else yes
        missing = nest.map_leaves(lambda _: Unknown(name, NOT_YET), given)
        yes, no = (missing, given) if given is no else (given, missing)
    elif isinstance(yes, Unknown) or isinstance(no, Unknown):
        if isinstance(yes, Unknown) and isinstance(no, Unknown):
            return yes
        return Unknown(
            name, "has a value in only one branch of an `if`; set a value before the `if`"
        )
    found = nest.difference(yes, no)
    if found is not None:
        return Unknown(name, f"differs in the branches of an `if`: {found}")
    pairs = zip(nest.leaves(yes), nest.leaves(no), strict=True)
    made = [_leaf(name, *pair) for pair in pairs]
    refused = [leaf for leaf in made if isinstance(leaf, Unknown)]
    return refused[0] if refused else nest.rebuild(yes, made)


def _leaf(name: str, yes: Any, no: Any) -> Any:
    if is_same(yes, no):
        return yes
    both = yes, no
    if not all(isinstance(value, (Variable, Unknown, *NUMBERS)) for value in both) or any(
        map(is_array, both)
    ):
        return Unknown(
            name,
            f"differs in the branches of an `if` over a tensor: {_show(yes)} or {_show(no)}; "
            "both should be tensors with the same dtype and number of dimensions",
        )
    if all(isinstance(value, Variable) for value in both) and (
        yes.dtype != no.dtype or len(yes.shape) != len(no.shape)
    ):
        return Unknown(
            name,
            f"is {_show(yes)} in one branch of an `if` and {_show(no)} in the other; cast or "
            "reshape one of them",
        )
    return _Both(yes, no)


def _show(value: Any) -> str:
    if isinstance(value, Variable):
        return f"{value.dtype} {list(value.shape)}"
    return f"{value!r:.60}"


def _select(mask: Variable, yes: Variable, no: Variable) -> Variable:
    shape = [a if a == b else UNKNOWN for a, b in zip(yes.shape, no.shape, strict=True)]
    block = default_main_program().current_block()
    merged = block.create_var(unique_name.generate("_generated_var"), shape, yes.dtype)
    LayerHelper("select_input").append_op(
        "select_input", {"X": [no, yes], "Mask": mask}, {"Out": merged}
    )
    merged.stop_gradient = yes.stop_gradient and no.stop_gradient
    return merged
