"""IfElse: a branch per row of a batch (paddle.fluid.layers.IfElse)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sub_blocks import parent_of_current
from graphopt.ir.program import Variable, default_main_program, undo, unique_name
from graphopt.tensor.blocks import ConditionalBlock
from graphopt.tensor.creation import assign


class IfElse:
    """Rows for which `cond` holds go through one block, the others through another.

        branches = IfElse(label > 0)                      # bool, shape [rows, 1]
        with branches.true_block():
            branches.output(branches.input(x) * 2)
        with branches.false_block():
            branches.output(branches.input(x) - 5)
        (merged,) = branches()                            # the rows in their order

    The blocks must treat each row separately; an operator that lets rows depend on each other (a
    mean over the batch) is refused with UnsupportedError when the program is compiled.
    """

    def __init__(self, cond: Variable, name: str | None = None) -> None:
        self.helper = LayerHelper("ifelse", name)
        self.cond = arguments.variable(cond, "cond", "IfElse")
        if cond.dtype != "bool":
            raise TypeError(
                f"IfElse(): 'cond' must be bool, but '{cond.name}' is {cond.dtype}; use the "
                "result of a comparison"
            )
        self._inputs: dict[str, tuple[Variable, Variable]] = {}
        self._outputs: dict[bool, list[Variable]] = {True: [], False: []}
        self._side: bool | None = None

    @contextmanager
    def true_block(self) -> Iterator[None]:
        """Append operators for the rows for which the condition holds."""
        with self._block(True):
            yield

    @contextmanager
    def false_block(self) -> Iterator[None]:
        """Append operators for the other rows."""
        with self._block(False):
            yield

    @contextmanager
    def _block(self, side: bool) -> Iterator[None]:
        if self._side is not None:
            raise ValueError("You cannot invoke IfElse.block() inside a block")
        with undo.transaction():
            self._side = side
            try:
                with ConditionalBlock([self.cond]).block():
                    yield
            finally:
                self._side = None
            if not self._outputs[side]:
                raise ValueError("Must set output inside block")

    def input(self, x: Variable) -> Variable:
        """Select the rows of `x` that belong to this block."""
        if self._side is None:
            raise ValueError("input must in true/false blocks")
        arguments.variable(x, "x", "IfElse.input")
        if x.name not in self._inputs:
            parent = parent_of_current(default_main_program())
            key = f"ifelse_input{self.helper.name}"
            pair = tuple(parent.create_var(unique_name.generate(key)) for _ in range(2))
            outputs = {"OutTrue": pair[0], "OutFalse": pair[1]}
            inputs = {"X": x, "Mask": self.cond}
            parent.append_op("split_lod_tensor", inputs, outputs, {"level": 0})
            undo.put(self._inputs, x.name, (pair[0], pair[1]))
        return self._inputs[x.name][0 if self._side else 1]

    def output(self, *outs: Variable) -> None:
        """Declare the results of this block for its rows; both blocks have equally many."""
        if self._side is None:
            raise ValueError("output can only be invoked in the sub-block")
        parent = parent_of_current(default_main_program())
        for each in outs:
            arguments.variable(each, "outs", "IfElse.output")
            name = unique_name.generate(f"{self.helper.name}_output")
            outer = parent.create_var(name, each.shape, each.dtype)
            undo.note(self._outputs[self._side].pop)
            self._outputs[self._side].append(assign(each, outer))

    def __call__(self) -> list[Variable]:
        """Merge the outputs of both blocks to the original order of rows."""
        if self._side is not None:
            raise ValueError("IfElse::__call__ must be out of sub-block")
        yes, no = self._outputs[True], self._outputs[False]
        if not yes and not no:
            raise ValueError("Must invoke true_block/false_block before __call__")
        if yes and no and len(yes) != len(no):
            raise ValueError("The output side must be same")
        if not yes or not no:
            return yes or no
        helper = LayerHelper("merge_lod_tensor")
        return [
            helper.emit(
                "merge_lod_tensor",
                {"X": self.cond, "Mask": self.cond, "InTrue": a, "InFalse": b},
                {"level": 0},
            )
            for a, b in zip(yes, no, strict=True)
        ]
