"""Program -> module: names become SSA values, exactly once.

The result is one function `@main`. Its arguments are the feeds and the state (persistable
variables) that the program reads; its results are the fetches and the state that it writes.
Everything behind this parser is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue

from graphopt.errors import FeedError, FetchError, UnsupportedError
from graphopt.ir.program import (
    GRAD_SUFFIX,
    Operator,
    Program,
    Variable,
    VarKind,
)
from graphopt.ir.signature import FEED, FETCH, STATE
from graphopt.ir.translate import GRAD_TYPE, Translator
from graphopt.ir.types import Tensor, tensor

_SKIPPED = frozenset(("feed", "fetch"))


def parse_program(
    program: Program, feeds: Iterable[str] = (), fetches: Sequence[str] = ()
) -> ModuleOp:
    """The `pd` module that runs `program` with these feeds and fetches.

    A feed may name any variable; it is the variable's value until an operator overwrites it.
    Fetches are read after the last operator. Raises FeedError when the program reads a variable
    that nothing gives a value, FetchError for an unknown fetch, UnsupportedError for operators
    without a translation.
    """
    return _Parser(program, frozenset(feeds)).run(fetches)


class _Parser:
    """State of one conversion: the current value of each name, and the function's arguments."""

    def __init__(self, program: Program, feeds: frozenset[str]) -> None:
        self.program = program
        self.feeds = feeds
        self.block = Block()
        self.values: dict[str, SSAValue] = {}
        self.arg_attrs: list[DictionaryAttr] = []
        self.written: dict[str, None] = {}  # persistable names in order of first write
        self.reader: Operator | None = None
        self.translator = Translator(self.block, self.read)

    def run(self, fetches: Sequence[str]) -> ModuleOp:
        if self.program.num_blocks > 1 and any(
            attr in op.attrs for op in self.program.global_block().ops for attr in _BLOCK_ATTRS
        ):
            raise UnsupportedError("programs with sub-blocks (control flow) cannot be compiled yet")
        wanted = _intermediate_gradients(self.program, fetches)
        for op in self.program.global_block().ops:
            if op.type not in _SKIPPED:
                self.step(_with_more_gradients(op, wanted) if op.type == GRAD_TYPE else op)
        self.reader = None
        results = [(FETCH, name, self.fetch(name)) for name in fetches]
        results += [(STATE, name, self.values[name]) for name in self.written if self.changed(name)]
        return self.finish(results)

    def changed(self, name: str) -> bool:
        """True unless the name still has the value that the state of this name came with."""
        value = self.values[name]
        kept = isinstance(value, BlockArgument) and self.arg_attrs[value.index].data
        return not kept or kept.get(STATE) != StringAttr(name)

    def step(self, op: Operator) -> None:
        self.reader = op
        for name, value in self.translator.translate(op).items():
            variable = op.block.find_var(name)
            self.values[name] = value
            value.name_hint = value_name(name)
            if variable is not None and variable.persistable:
                self.written.setdefault(name)

    def read(self, name: str) -> SSAValue:
        """The current value of a name; the first read of a feed or of state makes an argument."""
        if name in self.values:
            return self.values[name]
        variable = self.program.global_block().find_var(name)
        if name in self.feeds:
            return self.argument(FEED, name, variable)
        if variable is not None and variable.persistable:
            return self.argument(STATE, name, variable)
        raise FeedError(_missing_feed(name, self.reader))

    def argument(self, kind: str, name: str, variable: Variable | None) -> SSAValue:
        if variable is None or not variable.has_type:
            raise FeedError(f"the variable '{name}' has no declared shape and dtype")
        if variable.kind != VarKind.DENSE_TENSOR:
            raise UnsupportedError(f"variable '{name}' is not a dense tensor")
        value = self.block.insert_arg(_type_of(variable), len(self.block.args))
        value.name_hint = value_name(name)
        self.values[name] = value
        self.arg_attrs.append(DictionaryAttr({kind: StringAttr(name)}))
        return value

    def fetch(self, name: str) -> SSAValue:
        variable = self.program.global_block().find_var(name)
        known = name in self.values or name in self.feeds
        if not known and (variable is None or not variable.persistable):
            raise FetchError(
                f"Cannot find fetched variable({name}): the program has no variable name '{name}' "
                "that an operator writes or that was fed"
            )
        return self.read(name)

    def finish(self, results: Sequence[tuple[str, str, SSAValue]]) -> ModuleOp:
        self.block.add_op(ReturnOp(*(value for _, _, value in results)))
        inputs: list[Attribute] = [arg.type for arg in self.block.args]
        outputs: list[Attribute] = [value.type for _, _, value in results]
        function = FuncOp(
            "main",
            FunctionType.from_lists(inputs, outputs),
            Region(self.block),
            arg_attrs=ArrayAttr(self.arg_attrs),
            res_attrs=ArrayAttr(
                [DictionaryAttr({kind: StringAttr(name)}) for kind, name, _ in results]
            ),
        )
        return ModuleOp([function])


def value_name(name: str) -> str:
    """A variable name as an SSA name: `fc_0.w_0@GRAD` prints as `%fc_0.w_0$GRAD`."""
    valid = _NOT_IN_NAMES.sub("$", name)
    return valid if valid[:1].isidentifier() or valid[:1] in "$.-" else f"_{valid}"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_$.-]")
_BLOCK_ATTRS = ("sub_block", "block", "blocks")


def _type_of(variable: Variable) -> Tensor:
    return tensor(variable.shape, variable.dtype)


def _missing_feed(name: str, reader: Operator | None) -> str:
    message = f"Need feed data for variable {name}"
    if reader is None:
        return message
    where = f" at {reader.location}" if reader.location else ""
    return f"{message}: operator {reader.type}{where} reads it and nothing gives it a value"


def _intermediate_gradients(program: Program, fetches: Sequence[str]) -> tuple[str, ...]:
    """Fetched `X@GRAD` names that no operator writes, of variables that exist."""
    written = {n for op in program.global_block().ops for n in op.output_arg_names}
    return tuple(
        name
        for name in fetches
        if name.endswith(GRAD_SUFFIX)
        and name not in written
        and program.global_block().find_var(name.removesuffix(GRAD_SUFFIX)) is not None
    )


def _with_more_gradients(op: Operator, wanted: Sequence[str]) -> Operator:
    """The derivative operator, also computing the gradients of the wanted intermediates."""
    if not wanted:
        return op
    sources = [name.removesuffix(GRAD_SUFFIX) for name in wanted]
    inputs = {**op.inputs, "X": [*op.input("X"), *sources]}
    outputs = {**op.outputs, "XGrad": [*op.output("XGrad"), *wanted]}
    return Operator(op.block, op.type, inputs, outputs, op.attrs, op.location)
