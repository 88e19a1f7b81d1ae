"""Control flow as `with` blocks: ConditionalBlock, While and Switch.

The functions in `control_flow.py` build on these classes, which scripts use as
paddle.fluid.layers.While and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sub_blocks import append_block_op, new_block, reads_and_writes, scopes_of
from graphopt.ir.dialect.shapes import UNKNOWN, element_count
from graphopt.ir.program import Variable, undo
from graphopt.tensor.logic import logical_and, logical_not


def check_flag(value: object, name: str, function: str) -> Variable:
    """Check that `value` is a bool Variable of one element and return it, or raise TypeError."""
    found = arguments.variable(value, name, function)
    if found.dtype != "bool" or element_count(found.shape) not in (1, UNKNOWN):
        raise TypeError(
            f"{function}(): '{name}' must be a bool Variable of one element, but '{found.name}' "
            f"is {found.dtype} of shape {list(found.shape)}; compare or reduce it first"
        )
    return found


class ConditionalBlock:
    """Operators that run only if a condition holds (paddle.fluid.layers.ConditionalBlock).

    A variable from outside that the block assigns to keeps its value when the block does not run.
    """

    def __init__(
        self, inputs: Sequence[Variable], is_scalar_condition: bool = False, name: str | None = None
    ) -> None:
        self.inputs = arguments.variables(inputs, "inputs", "ConditionalBlock")
        self.is_scalar_condition = is_scalar_condition
        self.helper = LayerHelper("conditional_block", name)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Collect the operators built inside the `with` statement into the block."""
        with undo.transaction():
            with new_block() as inside:
                yield
            parent = inside.parent
            assert parent is not None
            reads, writes = reads_and_writes(inside)
            append_block_op(
                "conditional_block",
                inside,
                {"Cond": self.inputs, "Input": reads},
                {"Out": writes, "Scope": [scopes_of(parent)]},
                {"is_scalar_condition": self.is_scalar_condition},
            )


class While:
    """A loop that repeats a block while a condition holds (paddle.fluid.layers.While).

    The block must assign the condition again. The outer variables that it assigns are the loop
    variables: they must have a value before the loop and keep their dtype. A size that the body
    changes is unknown after the loop.

        loop = While(condition)
        with loop.block():
            ...
            paddle.assign(paddle.less_than(i, n), condition)

    Raises TypeError for a condition that is not a bool Variable of one element.
    """

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        self.helper = LayerHelper("while", name)
        self.cond_var = check_flag(cond, "cond", "While")
        self.is_test = is_test

    @contextmanager
    def block(self) -> Iterator[None]:
        """Collect the operators built inside the `with` statement into the loop body."""
        with undo.transaction():
            with new_block() as inside:
                yield
            parent = inside.parent
            assert parent is not None
            reads, writes = reads_and_writes(inside)
            names = [n for n in dict.fromkeys((*reads, *writes)) if n != self.cond_var.name]
            append_block_op(
                "while",
                inside,
                {"X": names, "Condition": [self.cond_var]},
                {
                    "Out": list(dict.fromkeys((*writes, self.cond_var.name))),
                    "StepScopes": [scopes_of(parent)],
                },
                {"is_test": self.is_test},
            )


class Switch:
    """A chain of cases: the first whose condition holds runs, else the default.

    Paddle page: paddle.fluid.layers.Switch.

        with Switch() as switch:
            with switch.case(step < 10):
                paddle.assign(warm, rate)
            with switch.default():
                paddle.assign(full, rate)

    The cases assign to outer variables, which must have a value before.
    """

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("switch", name)
        self.inside_scope = False
        self.pre_not_conditions: list[Variable] = []

    def __enter__(self) -> Switch:
        self.inside_scope = True
        return self

    def __exit__(self, *_: object) -> None:
        self.inside_scope = False

    @contextmanager
    def case(self, condition: Variable) -> Iterator[None]:
        """Open the block for `condition`; it runs if no earlier condition holds."""
        if not self.inside_scope:
            raise ValueError("case should be called inside with")
        check_flag(condition, "condition", "Switch.case")
        with undo.transaction():
            holds, none_yet = condition, logical_not(condition)
            if self.pre_not_conditions:
                before = self.pre_not_conditions[-1]
                none_yet = logical_and(before, none_yet)
                holds = logical_and(before, condition)
            undo.note(self.pre_not_conditions.pop)
            self.pre_not_conditions.append(none_yet)
            with ConditionalBlock([holds], is_scalar_condition=True).block():
                yield

    @contextmanager
    def default(self) -> Iterator[None]:
        """Open the block that runs if no condition holds."""
        if not self.pre_not_conditions:
            raise ValueError("there should be at least one condition")
        last = self.pre_not_conditions[-1]
        with ConditionalBlock([last], is_scalar_condition=True).block():
            yield
