"""Program -> module: names become SSA values, exactly once.

The result is one function `@main`. Its arguments are the feeds and the state (persistable
variables) that the program reads; its results are the fetches and the state that it writes.
Everything after this parser is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from graphopt.errors import FeedError, FetchError, OpenSizeError, ProgramError, UnsupportedError
from graphopt.ir.dialect.bulk import set_arguments
from graphopt.ir.dialect.collector import paused_collector
from graphopt.ir.dialect.data_sized import is_short
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.signature import FEED, FETCH, KEPT_GRADIENTS, STATE
from graphopt.ir.dialect.types import tensor
from graphopt.ir.program import GRAD_SUFFIX, Operator, Program, Variable, VarKind
from graphopt.ir.program.array_parts import array_of
from graphopt.ir.program.gradients_on_demand import derivative_with, with_gradients
from graphopt.ir.program.open_branches import TAKEN
from graphopt.ir.translate.blocks.arrays import ARRAYS, array_part
from graphopt.ir.translate.blocks.block import BlockParser, value_name
from graphopt.ir.translate.blocks.branches import BRANCHES
from graphopt.ir.translate.blocks.feeds import FEEDS
from graphopt.ir.translate.blocks.gradients import GradientParser
from graphopt.ir.translate.blocks.loops import LOOPS
from graphopt.ir.translate.blocks.onnx_sequences import ONNX_SEQUENCES
from graphopt.ir.translate.blocks.open_branches import OpenBranch, keep_condition
from graphopt.ir.translate.blocks.pylayers import PYLAYERS
from graphopt.ir.translate.gradients.raising import plan_gradients

# a shape, with -1 for any size, and a dtype
FeedType = tuple[Sequence[int], str]
# the elements of a feed, in row-major order
Numbers = tuple[float, ...]

HANDLERS = {**BRANCHES, **LOOPS, **ARRAYS, **ONNX_SEQUENCES, **PYLAYERS, **FEEDS}


@paused_collector()
def parse_program(
    program: Program,
    feeds: Iterable[str] = (),
    fetches: Sequence[str] = (),
    types: Mapping[str, FeedType] | None = None,
    numbers: Mapping[str, Numbers] | None = None,
    *,
    keeps_fed_state: bool = False,
    in_one: bool = False,
) -> ModuleOp:
    """Build the `pd` module that runs `program` with these feeds and fetches.

    A feed may name any variable; it is the variable's value until an operator overwrites it.
    Fetches are read after the last operator. `types` has the shape and dtype of each feed that
    differs from its variable. `numbers` has all elements of the feeds that become constants; their
    arguments stay, without a user. With `keeps_fed_state` a persistable variable that is fed is
    also a result. With `in_one` a branch whose results have two types takes the rest of the program
    into its sides; if the rest fits one side only, the module has this side alone. Such a module is
    shown or written, not run: no run computes its condition beforehand.

    Raises FeedError if an operator reads a variable without a value, FetchError for an unknown
    fetch, and UnsupportedError for an operator without a translation. Raises OpenBranchError if a
    branch gives results of different types, unless the only fetch is `TAKEN`: then the module
    computes the branch's condition. Raises OpenSizeError if sizes or numbers have to be known; the
    error has the feeds that decide them.
    """
    feeds = list(feeds)
    kept = feeds if keeps_fed_state else ()
    parser = Parser(program, frozenset(feeds), types or {}, numbers or {})
    try:
        return parser.run_main(fetches, kept, in_one=in_one)
    except OpenSizeError as error:
        error.feeds = parser.deciding_feeds(error.values)
        raise
    except ProgramError as error:
        # the error may be in a side of a branch that these numbers do not take
        found = parser.deciding_feeds(error.conditions)
        if not found:
            raise
        known = OpenSizeError(str(error))
        known.feeds = found
        raise known from error


class Parser(BlockParser):
    """The conversion of a whole program, which also collects the function's arguments."""

    def __init__(
        self,
        program: Program,
        feeds: frozenset[str],
        types: Mapping[str, FeedType],
        numbers: Mapping[str, Numbers],
    ) -> None:
        super().__init__(program, Block(), HANDLERS)
        self.feeds = feeds
        self.types = types
        self.numbers = numbers
        self.block = self.frame.target
        self.arguments: list[BlockArgument] = []
        self.arg_attrs: list[DictionaryAttr] = []
        self.kept_gradients: Sequence[str] = ()

    def run_main(
        self, fetches: Sequence[str], kept_feeds: Sequence[str], *, in_one: bool = False
    ) -> ModuleOp:
        """Build the module for these fetches; state in `kept_feeds` is a result, too."""
        wanted = self.gradients_on_demand(fetches)

        def prepare(op: Operator) -> Operator:
            return with_gradients(op, wanted[op]) if op in wanted else op

        block = self.program.global_block()
        plan = plan_gradients(block.ops, block, fetches)
        self.in_one = in_one and plan.flow is None and not wanted
        self.wanted = frozenset(fetches)
        try:
            if plan.flow is None:
                self.run(map(prepare, block.ops))
            else:
                self.translator.trains = True
                self.kept_gradients = plan.reasons
                GradientParser(self, plan).run(prepare)
        except OpenBranch as branch:
            return self.condition_of(branch, fetches)
        self.reader = None
        results = [(FETCH, name, self.fetch(name)) for name in fetches]
        kept = [name for name in kept_feeds if self.is_state(name) and self.read(name)]
        results += [
            (STATE, name, self.frame.values[name])
            for name in dict.fromkeys([*self.frame.written, *kept])
            if self.is_state(name) and self.has_changed(name)
        ]
        return self.finish(results)

    def condition_of(self, branch: OpenBranch, fetches: Sequence[str]) -> ModuleOp:
        """Build the module that computes only the condition of an open branch.

        Raises OpenBranchError unless `TAKEN` is the only fetch, UnsupportedError for a branch in a
        loop.
        """
        if not branch.is_first:
            raise UnsupportedError(f"inside a loop {branch.as_error()}")
        if list(fetches) != [TAKEN]:
            raise branch.as_error()
        keep_condition(self.block, branch)
        return self.finish([(FETCH, TAKEN, branch.condition)])

    def gradients_on_demand(self, fetches: Sequence[str]) -> dict[Operator, list[str]]:
        """Group the fetched gradients that no operator writes by the derivative to extend."""
        block = self.program.global_block()
        gradients = {name for name in fetches if name.endswith(GRAD_SUFFIX)} - self.feeds
        found: dict[Operator, list[str]] = {}
        if gradients:
            gradients.difference_update(name for op in block.ops for name in op.output_arg_names)
        for name in sorted(gradients):
            derivative = derivative_with(block, name)
            if derivative is not None:
                found.setdefault(derivative, []).append(name)
        return found

    def deciding_feeds(self, values: Iterable[SSAValue]) -> tuple[str, ...]:
        """Collect the feeds of a few elements that `values` are computed from."""
        found: dict[str, None] = {}
        seen, todo = set[SSAValue](), list(values)
        while todo:
            each = todo.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, BlockArgument):
                is_own = each.owner is self.block and is_short(each)
                name = self.arg_attrs[each.index].data.get(FEED) if is_own else None
                if isinstance(name, StringAttr):
                    found[name.data] = None
            elif isinstance(each.owner, Operation):
                todo += each.owner.operands
        return tuple(found)

    def is_state(self, name: str) -> bool:
        """True for a persistable variable."""
        variable = self.program.global_block().find_var(name)
        return variable is not None and variable.persistable

    def has_changed(self, name: str) -> bool:
        """True unless the name still has the initial value of its state variable."""
        value = self.frame.values[name]
        kept = isinstance(value, BlockArgument) and self.arg_attrs[value.index].data
        return not kept or kept.get(STATE) != StringAttr(name)

    def argument_for(self, name: str) -> SSAValue | None:
        variable = self.frame.block.find_var(name)
        if name in self.feeds:
            return self.argument(FEED, name, variable)
        if variable is not None and variable.persistable:
            return self.argument(STATE, name, variable)
        return None

    def argument(self, kind: str, name: str, variable: Variable | None) -> SSAValue:
        if variable is None or not (variable.has_type or variable.takes_any_shape):
            raise FeedError(f"the variable '{name}' has no declared shape and dtype")
        if variable.kind != VarKind.DENSE_TENSOR:
            raise UnsupportedError(f"variable '{name}' is not a dense tensor")
        shape, dtype = variable.shape, variable.dtype
        if kind == FEED and name in self.types:
            shape, dtype = self.types[name]
        value = BlockArgument(tensor(shape, dtype), self.block, len(self.arguments))
        self.arguments.append(value)
        value.name_hint = value_name(name)
        self.arg_attrs.append(DictionaryAttr({kind: StringAttr(name)}))
        found: SSAValue = value
        if kind == FEED and name in self.numbers:
            known = AssignValue.make(shape=shape, values=self.numbers[name], dtype=f"{dtype}")
            self.block.add_op(known)
            found = known.results[0]
        self.frames[0].values[name] = found
        return found

    def fetch(self, name: str) -> SSAValue:
        array = array_of(name)
        if self.is_array(array):
            return array_part(self, array, name)
        variable = self.program.global_block().find_var(name)
        known = name in self.frame.values or name in self.feeds
        if not known and variable is not None and _is_left_empty(variable):
            empty = Full.make(shape=(0,), value=0.0, dtype=f"{variable.dtype}")
            self.block.add_op(empty)
            return empty.results[0]
        if not known and (variable is None or not variable.persistable):
            raise FetchError(f"Cannot find fetched variable({name}): {self._reason(name)}")
        return self.read(name)

    def _reason(self, name: str) -> str:
        """Explain why a variable cannot be fetched, and suggest the closest name that can."""
        ops = self.program.global_block().ops
        for op in ops:
            for slot in op.output_names:
                if name in op.output(slot):
                    at = "" if op.location is None else f" at {op.location}"
                    return (
                        f"the variable is in the slot {slot} of operator {op.type}{at}, which "
                        "graphopt does not compute; fetch another result"
                    )
        written = [n for op in ops for n in op.output_arg_names]
        near = get_close_matches(name, {*written, *self.feeds}, 1)
        hint = (
            f"did you mean '{near[0]}'?" if near else "a variable of another program needs that one"
        )
        return (
            f"the program has no variable named '{name}' that an operator writes or that was fed; "
            f"{hint}"
        )

    def finish(self, results: Sequence[tuple[str, str, SSAValue]]) -> ModuleOp:
        self.block.add_op(ReturnOp(*(value for _, _, value in results)))
        set_arguments(self.block, self.arguments)
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
        module = ModuleOp([function])
        if self.kept_gradients:
            module.attributes[KEPT_GRADIENTS] = ArrayAttr(map(StringAttr, self.kept_gradients))
        return module


def _is_left_empty(variable: Variable) -> bool:
    """True for a tensor that a script declares without a shape, and nothing writes or feeds."""
    free = not (variable.is_data or variable.persistable)
    return free and variable.takes_any_shape and not variable.has_type
