"""A walk over the operators of a block and its inner blocks, with the value of each name.

A `BlockFrame` is one block being parsed. A name that the block declares is its own. Any other name
that it writes belongs to an enclosing block, and the caller that parses the frame decides what
happens to it there.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unicodedata import normalize

from xdsl.ir import Block as IrBlock
from xdsl.ir import BlockArgument, SSAValue

from graphopt.errors import FeedError, ProgramError, UnsupportedError
from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import StopGradient
from graphopt.ir.dialect.types import dtype_of
from graphopt.ir.program import Block, Operator, Program, VarKind
from graphopt.ir.program.gradient_types import BEFORE_LOOP, GRAD_TYPE
from graphopt.ir.program.gradients_on_demand import off_the_path
from graphopt.ir.translate.blocks.outer_path import bring_in
from graphopt.ir.translate.operators.translator import Translator, errors_of

Elements = tuple[SSAValue | None, ...]
"""A tensor array: the value at each position, None if unwritten."""
Array = Elements | SSAValue
"""A tensor array, or an open array, which is one tensor: see `arrays.py`."""

SKIPPED = frozenset(("feed", "fetch"))


@dataclass
class BlockFrame:
    """A block being parsed: the values of its names, and the block of `pd` ops that it becomes."""

    block: Block
    target: IrBlock
    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    written: dict[str, None] = field(default_factory=dict[str, None])
    before_loop: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The values of loop variables before the loop that changed them in place."""
    partial: dict[str, str] = field(default_factory=dict[str, str])
    """The names that only one branch wrote, with the condition of that branch."""
    selected: dict[tuple[str, str], SSAValue] = field(default_factory=dict[Any, SSAValue])
    """The result of `select_input`, by the names in the false and the true branch."""
    chosen: dict[tuple[str, str], str] = field(default_factory=dict[Any, str])
    """The name in the branch known to be taken; the keys are as in `selected`."""
    deferred: dict[Operator, Operator] = field(default_factory=dict[Operator, Operator])
    """The operator of a false branch -> the one of its true branch, parsed together with it."""

    ended: bool = False
    """True when the last op of the block contains the rest of it."""

    def owns(self, name: str) -> bool:
        """True for a variable local to this block: declared here and not persistable."""
        variable = self.block.vars.get(name)
        return variable is not None and not variable.persistable

    def outer_names(self) -> list[str]:
        """List the written names of enclosing blocks, in order of first write."""
        return [name for name in self.written if not self.owns(name)]


Handler = Callable[["BlockParser", Operator], Mapping[str, SSAValue]]


class BlockParser(ABC):
    """State of one conversion: the frames from the global block inwards."""

    def __init__(self, program: Program, target: IrBlock, handlers: Mapping[str, Handler]) -> None:
        self.program = program
        self.handlers = handlers
        self.frames = [BlockFrame(program.global_block(), target)]
        self.targets: list[IrBlock] = []
        """The blocks of the regions created so far."""
        self.translator = Translator(target, self.read)
        self.known = KnownValues()
        self.reader: Operator | None = None
        self.unrolled = 0
        self.in_one = False
        """True if an open branch of the function takes the rest of the program into its sides."""
        self.wanted: frozenset[str] = frozenset()
        """The names that are read after the last operator."""
        self.sides_read: dict[Operator, int] = {}
        """For each open branch, the number of its sides that were looked up."""
        self.translator.trains = any(
            op.type == GRAD_TYPE for block in program.blocks for op in block.ops
        )

    @property
    def frame(self) -> BlockFrame:
        """The block that is being parsed."""
        return self.frames[-1]

    # Names ------------------------------------------------------------------------------------

    @abstractmethod
    def argument_for(self, name: str) -> SSAValue | None:
        """Return the function's argument for a feed or state name; None for other names."""

    def find(self, name: str) -> SSAValue | None:
        """Look up the current value of a name; None if it has none."""
        for frame in reversed(self.frames):
            if name in frame.values:
                return frame.values[name]
        return self.argument_for(name)

    def read(self, name: str) -> SSAValue:
        """Look up the current value of a name.

        Raises FeedError if it has none, UnsupportedError if only one branch assigns it.
        """
        value = self.find(name)
        if value is not None:
            return value
        for frame in reversed(self.frames):
            if name in frame.partial:
                raise UnsupportedError(
                    f"'{name}' has a value only if the condition '{frame.partial[name]}' holds, "
                    "but is read where the condition may not hold; set a value before the "
                    "condition, e.g. with paddle.assign"
                )
        raise FeedError(_missing_feed(name, self.reader))

    def bind(self, name: str, value: SSAValue) -> None:
        """Bind a name to a value from here on."""
        if not isinstance(value, BlockArgument):
            value.name_hint = value_name(name)
        self.frame.values[name] = value
        self.frame.written.setdefault(name)

    # Arrays -----------------------------------------------------------------------------------

    def is_array(self, name: str) -> bool:
        """True for the name of a tensor array that is visible here."""
        variable = self.frame.block.find_var(name)
        return variable is not None and variable.kind == VarKind.TENSOR_ARRAY

    def array(self, name: str) -> Array:
        """Look up the tensor array of this name; a new array has no elements."""
        for frame in reversed(self.frames):
            if name in frame.arrays:
                return frame.arrays[name]
        return ()

    # Blocks -----------------------------------------------------------------------------------

    def run(self, ops: Iterable[Operator]) -> None:
        """Parse operators into the current frame."""
        frame = self.frame
        for op in ops:
            if frame.ended:
                return
            if op.type not in SKIPPED and not _gives_nothing(op):
                self.step(op)

    def step(self, op: Operator) -> None:
        op = self.derivative(op) if op.type == GRAD_TYPE else op
        self.reader = op
        handler = self.handlers.get(op.type)
        if handler is None:
            written: Mapping[str, SSAValue] = self.translator.translate(op)
            if op.type == GRAD_TYPE:
                self._bring_in(op)
        else:
            with errors_of(op):
                written = handler(self, op)
        for name, value in written.items():
            self.bind(name, self._stop_gradient(op, name, value))
            if op.type != "while":
                self.frame.before_loop.pop(name, None)

    def derivative(self, op: Operator) -> Operator:
        """Prepare a derivative operator: resolve its names to their values here.

        Inputs that a loop changed in place keep their values from before the loop. `NoGrad` drops
        names that only one branch computes: a `pd.stop_gradient` in the branch stops them already.
        """
        with errors_of(op):
            _check_path(op)
        frame = self.frame
        changed = [n for n in op.attrs.get(BEFORE_LOOP, ()) if n in frame.before_loop]
        names = {name: f"{name}@BEFORE_LOOP" for name in changed}
        frame.values.update({names[name]: frame.before_loop[name] for name in changed})
        inputs = {
            **op.inputs,
            "X": [names.get(name, name) for name in op.input("X")],
            "NoGrad": [name for name in op.input("NoGrad") if name not in frame.partial],
        }
        return Operator(op.block, op.type, inputs, op.outputs, op.attrs, op.location)

    def _bring_in(self, op: Operator) -> None:
        """Extend the path of the last derivative through the operators around its block."""
        made = self.frame.target.last_op
        around = [frame.target for frame in self.frames if frame.target is not self.frame.target]
        if around and isinstance(made, Grad):
            with errors_of(op):
                bring_in(made, list(dict.fromkeys(around)))

    def _stop_gradient(self, op: Operator, name: str, value: SSAValue) -> SSAValue:
        """Emit a `pd.stop_gradient` for a sub-block's variable that stops gradients.

        In the global block the derivative lists such values itself. If all inputs stop gradients
        already, no op is needed.
        """
        if not self.translator.trains or len(self.frames) == 1:
            return value
        block = self.frame.block
        variable = block.vars.get(name)
        if variable is None or not variable.stop_gradient:
            return value
        if all(v is None or v.stop_gradient for v in map(block.find_var, op.input_arg_names)):
            return value
        if not dtype_of(value.type).is_differentiable or not op.input_arg_names:
            return value
        return self.translator.emit(StopGradient, op, value).results[0]

    def enter(self, block: Block, target: IrBlock | None = None) -> BlockFrame:
        """Start a sub-block; without a target its ops go where this frame's ops go."""
        frame = BlockFrame(block, self.frame.target if target is None else target)
        if target is not None:
            self.targets.append(target)
        self.frames.append(frame)
        self.translator.block = frame.target
        return frame

    def leave(self) -> BlockFrame:
        """End the sub-block that was entered last."""
        frame = self.frames.pop()
        self.translator.block = self.frame.target
        return frame

    def parse_into(self, block: Block, target: IrBlock) -> BlockFrame:
        """Parse a sub-block into a block of its own."""
        frame = self.enter(block, target)
        self.run(block.ops)
        self.leave()
        return frame


def _check_path(derivative: Operator) -> None:
    """Raise ProgramError if the targets do not depend on an input: its gradient would be zero."""
    for name in off_the_path(derivative):
        raise ProgramError(
            f"the gradient of {derivative.input('Y')} with respect to '{name}': the program was "
            f"edited after the gradient was added, and the targets no longer depend on '{name}'; "
            "edit the program before you call paddle.static.gradients or minimize"
        )


def _gives_nothing(op: Operator) -> bool:
    """True for a derivative with respect to no variable."""
    return op.type == GRAD_TYPE and not op.input("X")


def value_name(name: str) -> str:
    """Convert a variable name to an SSA name: `fc_0.w_0@GRAD` prints as `%fc_0.w_0$GRAD`.

    MLIR names are ASCII: `café` becomes `%cafe`, a name in another script `%v`. The text has the
    name of the variable before it: `feed "图像" %v`.
    """
    if not name.isascii():
        name = _OTHER_SCRIPTS.sub("@", normalize("NFKD", name).translate(_ACCENTS))
        name = name if any(map(str.isalnum, name)) else "v"
    valid = _NOT_IN_NAMES.sub("$", name)
    # xDSL takes a trailing underscore and number as its own suffix: nothing is left of `_5`
    return valid if valid[:1].isidentifier() or valid.startswith(("$", ".", "-")) else f"v{valid}"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_$.-]")
_OTHER_SCRIPTS = re.compile(r"[^\x00-\x7f]+")
_ACCENTS = dict.fromkeys(range(0x300, 0x370))


def _missing_feed(name: str, reader: Operator | None) -> str:
    message = f"Need feed data for variable {name}"
    if reader is None:
        return message
    where = f" at {reader.location}" if reader.location else ""
    return f"{message}: operator {reader.type}{where} reads {name} before it has a value"
