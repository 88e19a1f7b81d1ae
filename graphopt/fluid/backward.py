"""Gradients (paddle.fluid.backward)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from graphopt.frontend import nest as _nest
from graphopt.frontend.backward import append_backward as append_backward
from graphopt.frontend.backward import gradients as gradients
from graphopt.frontend.calls import publish
from graphopt.ir.dtypes import DType
from graphopt.ir.program import (
    GRAD_SUFFIX,
    Block,
    Operator,
    Parameter,
    Program,
    Variable,
    program_guard,
)
from graphopt.ir.program.location import caller_level


def calc_gradient(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Any = None,
    no_grad_set: Any = None,
) -> Any:
    """Append gradients as `gradients` does; one gradient comes without a list (fluid.backward)."""
    found = gradients(targets, inputs, target_gradients, no_grad_set)
    return found[0] if len(found) == 1 else found


_as_list = _nest.as_list


def _append_grad_suffix_(name: str) -> str:
    """Return the name of a variable's gradient."""
    return name + GRAD_SUFFIX


def _strip_grad_suffix_(name: str) -> str:
    """Return the name of the variable of a gradient, from the gradient's name."""
    found = re.search(f"{GRAD_SUFFIX}(@|$)", name)
    return (name[: found.start()] if found else name).rpartition("grad/")[2]


def _get_stop_gradients_(program: Program) -> dict[int, set[str]]:
    """Collect the names of the gradients that are not computed, by block index."""
    return {
        block.idx: {v.grad_name for v in block.vars.values() if v.stop_gradient}
        for block in program.blocks
    }


def _find_op_path_(
    block: Block,
    targets: Sequence[Variable],
    inputs: Sequence[Variable],
    no_grad_set: set[str] | None,
    is_while: bool = False,
) -> list[Operator]:
    """Find the operators of a block through which the targets depend on the inputs, in order.

    Without inputs, find all operators that the targets need. Names in `no_grad_set` end the path;
    with inputs, it gains the values that the path reads from elsewhere. With `is_while` the targets
    may need values that are written later, in the previous iteration.
    """
    blocked = set[str]() if no_grad_set is None else no_grad_set
    after = [True] * len(block.ops)
    if inputs:
        reached = {variable.name for variable in inputs}
        for index, op in enumerate(block.ops):
            after[index] = not reached.isdisjoint(op.input_arg_names)
            if after[index]:
                reached.update(name for name in op.output_arg_names if name not in blocked)
    needed = {variable.name for variable in targets}
    before = [False] * len(block.ops)
    for _ in range(1 + is_while):
        for index, op in reversed(list(enumerate(block.ops))):
            if after[index] and not needed.isdisjoint(op.output_arg_names):
                before[index] = True
                needed.update(name for name in op.input_arg_names if name not in blocked)
    path = [op for op, kept in zip(block.ops, before, strict=True) if kept]
    if inputs:
        given, made = {variable.name for variable in inputs}, set[str]()
        for op in path:
            blocked.update(n for n in op.input_arg_names if n not in given and n not in made)
            made.update(op.output_arg_names)
    return path


def _find_no_grad_vars(
    block: Block,
    op_path: Sequence[Operator],
    targets: Sequence[Variable],
    no_grad_set: set[str],
) -> set[str]:
    """Find the variables that operators of a path write and that no target needs."""
    needed = {variable.name for variable in targets}
    unused: set[str] = set()
    for op in reversed(op_path):
        outputs = [name for name in op.output_arg_names if name not in no_grad_set]
        unused.update(name for name in outputs if name not in needed)
        if not needed.isdisjoint(op.output_arg_names):
            needed.update(name for name in op.input_arg_names if name not in no_grad_set)
    return unused


def gradients_with_optimizer(
    program: Program, optimizer: Any, inputs: Any = None, outputs: Any = None
) -> tuple[list[Operator], list[tuple[Variable, Variable]]]:
    """Append the gradients of a program's outputs, and the updates of an optimizer.

    By default, the outputs are the variables that operators write and none reads, and the inputs
    those variables that operators read and none writes. Returns the update operators and the
    (input, gradient) pairs.
    """
    block = program.global_block()
    read = dict.fromkeys(name for op in block.ops for name in op.input_arg_names)
    written = dict.fromkeys(name for op in block.ops for name in op.output_arg_names)
    sources = [block.var(n) for n in read if n not in written] if inputs is None else inputs
    results = [block.var(n) for n in written if n not in read] if outputs is None else outputs
    with program_guard(program):
        pairs = [
            (source, gradient)
            for source, gradient in zip(sources, gradients(results, sources), strict=True)
            if gradient is not None
        ]
        updated = [pair for pair in pairs if isinstance(pair[0], Parameter)]
        return optimizer.apply_gradients(updated), pairs


def _infer_var_data_type_shape_(grad_var_name: str, block: Block) -> None:
    """Copy the shape and dtype of a variable to its gradient.

    Without the variable, warn and set the dtype to float32.
    """
    gradient, source = block.var(grad_var_name), block.find_var(_strip_grad_suffix_(grad_var_name))
    if source is not None:
        gradient.shape, gradient.dtype = source.shape, source.dtype
        return
    warnings.warn(
        f"Set grad var: {grad_var_name} dtype to default FP32, since we can't find its related "
        "forward var",
        stacklevel=caller_level(),
    )
    gradient.dtype = DType("float32")


publish(globals(), __name__)
