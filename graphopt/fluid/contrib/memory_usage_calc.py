"""An estimate of the memory of a program (paddle.fluid.contrib.memory_usage_calc)."""

from __future__ import annotations

from collections.abc import Iterator

from graphopt.frontend.calls import publish
from graphopt.ir.program import EMPTY, GRAD_SUFFIX, Block, Program, Variable, VarKind
from graphopt.ir.program.gradient_types import GRAD_TYPE


def memory_usage(program: Program, batch_size: int) -> tuple[float, float, str]:
    """Estimate the least and the most memory that a program may need; the unit is B, KB or MB.

    The estimate is the bytes of all variables that operators write, gradients in between included,
    plus 5 to 10 percent. As in Paddle, no variable shares its memory. What XLA plans for a program
    is mostly less: see `explain()` of a CompiledProgram. Paddle page: fluid.contrib.memory_usage.
    """
    if not isinstance(program, Program):
        raise TypeError(
            "Calculating Memory Usage requires Program as its Parameter."
            f"But you passed in {type(program)}"
        )
    if batch_size <= 0:
        raise ValueError("The batch size need to be positive.")
    block = program.global_block()
    counted: set[str] = {EMPTY}
    total = 0.0
    for name, variable in _written_variables(block):
        if name not in counted and variable.kind == VarKind.DENSE_TENSOR:
            total += _bytes(variable, batch_size)
        counted.add(name)
    unit = "B"
    for larger in ("KB", "MB"):
        if total > 1024:
            total, unit = total / 1024, larger
        else:
            break
    return total * 1.05, total * 1.1, unit


def _written_variables(block: Block) -> Iterator[tuple[str, Variable]]:
    """Iterate over the variables that operators write, and over the gradients in between.

    Yields names and variables; for a gradient, its own name and the variable with its shape.
    """
    for at, op in enumerate(block.ops):
        for name in op.output_arg_names:
            variable = block.find_var(name)
            if variable is not None and variable.has_type:
                yield name, variable
        if op.type == GRAD_TYPE:
            for variable in _on_the_way(block, at):
                yield variable.name + GRAD_SUFFIX, variable


def _on_the_way(block: Block, at: int) -> list[Variable]:
    """Find the variables through which the gradient operator at a position differentiates."""
    op, before = block.ops[at], block.ops[:at]
    reached = set(op.input("X"))
    for each in before:
        if reached.intersection(each.input_arg_names):
            reached.update(each.output_arg_names)
    needed = set(op.input("Y"))
    for each in reversed(before):
        if needed.intersection(each.output_arg_names):
            needed.update(each.input_arg_names)
    found = (block.find_var(name) for name in needed & reached)
    return [v for v in found if v is not None and v.has_type and not v.stop_gradient]


def _bytes(variable: Variable, batch_size: int) -> int:
    """Count the bytes of a variable; raise ValueError if several of its dimensions are unknown."""
    if sum(size < 0 for size in variable.shape) > 1:
        raise ValueError(f"Var {variable.name} has more than one negative dim.")
    count = variable.dtype.numpy.itemsize
    for size in variable.shape:
        count *= batch_size * -size if size < 0 else size
    return count


publish(globals(), __name__)
