"""The builder that appends `pd` ops to a block, and numbers the random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.types import check_size
from graphopt.ir.program import Operator
from graphopt.ir.translate.operators.properties import constant_property, make_dynamic

Placed = TypeVar("Placed", bound=PdOp)


class OpBuilder:
    """A builder that appends `pd` ops to a block.

    `read` gives the value of a variable name at this point of the program.
    """

    def __init__(self, block: Block, read: Callable[[str], SSAValue]) -> None:
        self.block = block
        self.read = read
        self.random_ops = 0
        self.trains = False
        """True if gradients of the translated operators are taken."""
        self.only_types = False
        """True if ops are created only for their result types, from the types of inputs."""

    def emit(
        self, op_class: type[PdOp], source: Operator | None, *operands: Any, **attrs: Any
    ) -> PdOp:
        """Create an op at the end of the block."""
        self._number(op_class, attrs)
        return self.place(op_class.make(*operands, **attrs), source)

    def emit_dynamic(
        self,
        op_class: type[PdOp],
        source: Operator,
        operands: Sequence[Any],
        attrs: Mapping[str, Any],
        tensors: Mapping[str, SSAValue],
    ) -> PdOp:
        """Emit an op with tensors for some attributes; the plain op if these are constants."""
        known = {name: constant_property(op_class, name, v) for name, v in tensors.items()}
        dynamic = {name: value for name, value in tensors.items() if known[name] is None}
        merged = {**attrs, **{name: value for name, value in known.items() if value is not None}}
        if not dynamic:
            return self.emit(op_class, source, *operands, **merged)
        self._number(op_class, merged)
        made = make_dynamic(op_class, operands, merged, dynamic)
        return self.place(made, source)

    def _number(self, op_class: type[PdOp], attrs: dict[str, Any]) -> None:
        """Give a random op without a seed the next `rng_id`, unless it shares another op's."""
        if issubclass(op_class, RandomOp) and not attrs.get("seed") and "rng_id" not in attrs:
            self.random_ops += 1
            attrs["rng_id"] = self.random_ops

    def place(self, made: Placed, source: Operator | None) -> Placed:
        """Append an existing op, with the location of its operator."""
        for result in made.results:
            check_size(result.type)
        if source is not None and source.location is not None:
            file, line = source.location
            made.location = FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))
        self.block.add_op(made)
        return made
