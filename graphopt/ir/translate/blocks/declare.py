"""Types for all variables of a program that was read from a file without them."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import GraphoptError, OpenSizeError, ProgramError, UnsupportedError
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.program import Operator, Program, VarKind
from graphopt.ir.program.sub_blocks import names_in, sub_blocks
from graphopt.ir.translate.blocks.program import Parser
from graphopt.ir.translate.onnx.naming import is_onnx_type
from graphopt.ir.translate.operators.registry import translation_of


def declare_types(program: Program, source: str) -> None:
    """Set the type and `stop_gradient` of every variable that a program's operators write.

    Variables that depend on open sizes keep no type; the program is then compiled for the sizes
    that are fed. Raises UnsupportedError, or ProgramError where operands do not fit, with every
    operator that cannot be translated.
    """
    block = program.global_block()
    feeds = [name for op in block.ops if op.type == "feed" for name in op.output("Out")]
    parser = _Declaring(program, frozenset(feeds), {}, {})
    parser.run(block.ops)
    is_open = any(UNKNOWN in block.var(name).shape for name in feeds)
    if is_open and parser.failed:
        program.fixed_feeds = ()
    # a side of a branch may fit no sizes, and only the run decides which side it takes
    may_not_run = is_open and len(program.blocks) > 1
    refused = [
        error
        for op, error in parser.failed
        if is_onnx_type(op.type)
        and not isinstance(error, OpenSizeError)
        and (not may_not_run or translation_of(op.type) is None)
    ]
    if refused:
        count = sum(len(each.ops) for each in program.blocks)
        lines = "".join(f"\n  {error}" for error in refused)
        what = f"{len(refused)} of {count} operators cannot be translated:{lines}"
        is_unsupported = all(isinstance(error, UnsupportedError) for error in refused)
        kind = UnsupportedError if is_unsupported else ProgramError
        raise kind(f"{source}: {what if len(refused) > 1 else refused[0]}")


class _Declaring(Parser):
    """A parser that notes types, and continues after an operator without translation."""

    def __init__(
        self,
        program: Program,
        feeds: frozenset[str],
        types: Mapping[str, tuple[tuple[int, ...], str]],
        numbers: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__(program, feeds, types, numbers)
        self.failed: list[tuple[Operator, GraphoptError]] = []
        self.lost: set[str] = set()
        """The names without a value, because their operator could not be translated."""

    def step(self, op: Operator) -> None:
        if any(name in self.lost for name in _names_read(op)):
            self.lost.update(op.output_arg_names)
            return
        try:
            super().step(op)
        except GraphoptError as error:
            self.lost.update(op.output_arg_names)
            self.failed.append((op, error))
        except LookupError:  # a value that an inner operator failed to write
            self.lost.update(op.output_arg_names)
        _pass_stops_on(op)

    def bind(self, name: str, value: SSAValue) -> None:
        super().bind(name, value)
        variable = self.frame.block.find_var(name)
        if variable is None or variable.persistable or variable.kind != VarKind.DENSE_TENSOR:
            return
        variable.shape, variable.dtype = shape_of(value.type), dtype_of(value.type)
        self.lost.discard(name)


def _names_read(op: Operator) -> list[str]:
    inner = [name for block in sub_blocks(op) for name in names_in(block, written=False)]
    return [*op.input_arg_names, *inner]


def _pass_stops_on(op: Operator) -> None:
    """Set `stop_gradient` on outputs if all inputs have it or the dtype is not differentiable."""
    if sub_blocks(op):
        return
    found = [op.block.find_var(name) for name in op.input_arg_names]
    stops = all(variable is None or variable.stop_gradient for variable in found)
    for name in op.output_arg_names:
        variable = op.block.find_var(name)
        if variable is None or variable.persistable:
            continue
        variable.stop_gradient = stops or (
            variable.has_dtype and not variable.dtype.is_differentiable
        )
