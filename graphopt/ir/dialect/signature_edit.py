"""Edits of a function's signature: its arguments and results, their attributes and types."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, SSAValue

from graphopt.ir.dialect.bulk import replace_arguments
from graphopt.ir.dialect.signature import FEED, STATE

Attributes = Mapping[str, Attribute]


@contextmanager
def edit_signature(function: FuncOp) -> Generator[SignatureEdit]:
    """Edit a function's signature; arguments, attributes and type change on exit."""
    edit = SignatureEdit(function)
    yield edit
    edit.finish()


def add_feed(function: FuncOp, name: str, type_: Attribute) -> BlockArgument:
    """Append an argument that is a feed of this name."""
    with edit_signature(function) as edit:
        return edit.add(type_, port_attributes(FEED, name))


def port_attributes(kind: str, name: str) -> DictionaryAttr:
    """Build the attributes of an argument or a result of this kind and name."""
    return DictionaryAttr({kind: StringAttr(name)})


def state_name(attributes: DictionaryAttr) -> str | None:
    """Return the name of an argument or a result that is state; None for others."""
    name = attributes.data.get(STATE)
    return name.data if isinstance(name, StringAttr) else None


class SignatureEdit:
    """The arguments and results of a function under edit.

    `results` holds the attributes of the returned values, in order.
    """

    def __init__(self, function: FuncOp) -> None:
        end = function.body.block.last_op
        assert isinstance(end, ReturnOp)
        self._function, self._end = function, end
        found = zip(function.args, _entries(function.arg_attrs, len(function.args)), strict=True)
        # indexed by the position of the old argument; None for a removed one
        self._arguments: list[tuple[BlockArgument, DictionaryAttr] | None] = list(found)
        self.results = _entries(function.res_attrs, len(end.operands))

    @property
    def state(self) -> dict[str, BlockArgument]:
        """The arguments that are state, by name."""
        pairs = [(state_name(slot[1]), slot[0]) for slot in self._arguments if slot is not None]
        return {name: argument for name, argument in pairs if name is not None}

    @property
    def returned(self) -> Sequence[SSAValue]:
        """The values that the function returns."""
        return self._end.operands

    def add(self, type_: Attribute, attributes: DictionaryAttr) -> BlockArgument:
        """Append an argument."""
        made = BlockArgument(type_, self._function.body.block, len(self._arguments))
        self._arguments.append((made, attributes))
        return made

    def replace(self, old: BlockArgument, type_: Attribute) -> BlockArgument:
        """Replace an argument by one of another type; keep its attributes and name."""
        slot = self._arguments[old.index]
        assert slot is not None and slot[0] is old
        made = BlockArgument(type_, self._function.body.block, old.index)
        made.name_hint = old.name_hint
        self._arguments[old.index] = made, slot[1]
        return made

    def drop(self, arguments: Collection[BlockArgument]) -> None:
        """Remove arguments; they must have no uses when the edit ends."""
        for argument in arguments:
            self._arguments[argument.index] = None

    def mark(self, said: Mapping[str, Attributes]) -> None:
        """Add attributes to state, by its name, among arguments and results."""
        self._arguments = [slot and (slot[0], _mark(slot[1], said)) for slot in self._arguments]
        self.results = [_mark(attributes, said) for attributes in self.results]

    def give(self, value: SSAValue, attributes: DictionaryAttr) -> None:
        """Append a returned value."""
        self._end.operands = [*self._end.operands, value]
        self.results.append(attributes)

    def keep_results(self, kept: Sequence[int]) -> None:
        """Keep only the returned values at these positions."""
        if len(kept) < len(self.results):
            self._end.operands = [self._end.operands[at] for at in kept]
            self.results = [self.results[at] for at in kept]

    def set_result(self, at: int, value: SSAValue) -> None:
        """Replace the returned value at a position."""
        self._end.operands[at] = value

    def finish(self) -> None:
        """Write the edit to the function; raise ValueError if a removed argument has uses."""
        function, block = self._function, self._function.body.block
        slots = [slot for slot in self._arguments if slot is not None]
        arguments = [argument for argument, _ in slots]
        for gone in {*block.args} - {*arguments}:
            if gone.first_use is not None:
                raise ValueError(f"argument %{gone.name_hint} is removed, but something reads it")
        replace_arguments(block, arguments)
        if arguments or function.arg_attrs is not None:
            function.arg_attrs = ArrayAttr([attributes for _, attributes in slots])
        if self.results or function.res_attrs is not None:
            function.res_attrs = ArrayAttr(self.results)
        function.function_type = FunctionType.from_lists(
            [argument.type for argument in arguments], [value.type for value in self._end.operands]
        )


def _entries(attributes: ArrayAttr[DictionaryAttr] | None, count: int) -> list[DictionaryAttr]:
    return list(attributes) if attributes is not None else [DictionaryAttr({})] * count


def _mark(attributes: DictionaryAttr, said: Mapping[str, Attributes]) -> DictionaryAttr:
    more = said.get(state_name(attributes) or "")
    return DictionaryAttr({**attributes.data, **more}) if more else attributes
