"""The loss of a program: the differentiated variable, and the strategy for its gradient."""

from __future__ import annotations

from typing import Any

from graphopt.errors import FeedError
from graphopt.ir.program import GRAD_SUFFIX, Operator, Program, is_gradient
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.gradients.explicit import base_name
from graphopt.ir.translate.gradients.types import is_zero
from graphopt.passes.table.flags import GradientScaleStrategy
from graphopt.runtime.settings.strategies import BuildStrategy


def has_backward(program: Program) -> bool:
    """Return whether some operator type ends in `_grad`."""
    return any(op.type.endswith("_grad") for block in program.blocks for op in block.ops)


def losses(program: Program) -> list[str]:
    """List the variables that the program differentiates, by name."""
    ops = program.global_block().ops
    found = {name for op in ops if op.type == GRAD_TYPE for name in op.input("Y")}
    if any(is_gradient(op) for op in ops):
        found.update(filter(None, map(_find_seeded, ops)))
    return sorted(found)


def _find_seeded(op: Operator) -> str | None:
    """Find the variable whose gradient is a constant, in a program with gradient operators."""
    if op.type not in ("fill_constant", "fill_any_like") or is_zero(op):
        return None
    names = [base_name(name) for name in op.output("Out")]
    known = [name for name in names if name and op.block.find_var(name) is not None]
    return known[0] if known else None


def check_loss_name(program: Program, loss_name: str | None) -> None:
    """Raise AssertionError or ValueError unless it names the differentiated variable."""
    assert loss_name is not None, (
        "The loss name should be set, because the program contains a backward part."
    )
    found, variable = losses(program), program.global_block().find_var(loss_name)
    other = bool(found) and not any(loss_name in _find_scaled(program, name) for name in found)
    # a saved program may scale its loss before it differentiates it
    if variable is not None and other and any(map(is_gradient, program.global_block().ops)):
        other = variable.shape not in ((), (1,))
    if variable is None or other:
        raise ValueError(
            f"loss_name '{loss_name}' is not the variable that the program differentiates"
            + (f"; set loss_name to {' or '.join(found)}" if found else "")
        )


def _find_scaled(program: Program, name: str) -> list[str]:
    """Collect a variable and the variables that it scales or casts, such as an unscaled loss."""
    found = [name]
    for op in reversed(program.global_block().ops):
        if op.type in ("elementwise_mul", "scale", "cast") and found[-1] in op.output("Out"):
            found += op.input("X")
    return found


def check_weighted(strategy: BuildStrategy) -> None:
    """Raise ValueError unless the strategy averages gradients, as weights by rows require."""
    if strategy.gradient_scale_strategy is not GradientScaleStrategy.CoeffNumDevice:
        raise ValueError(
            "sample_weighted requires gradient_scale_strategy = CoeffNumDevice, found "
            f"{strategy.gradient_scale_strategy.name}"
        )


def is_customized(strategy: BuildStrategy) -> bool:
    """Return whether the strategy requires a fed gradient of the loss."""
    return strategy.gradient_scale_strategy is GradientScaleStrategy.Customized


def check_customized_seed(program: Program, strategy: BuildStrategy, feed: Any) -> None:
    """Raise FeedError when the strategy requires a fed gradient of the loss and none is."""
    if not is_customized(strategy) or not has_backward(program):
        return
    elements = feed if isinstance(feed, (list, tuple)) else [feed]
    if all(any(name.endswith(GRAD_SUFFIX) for name in element or ()) for element in elements):
        return
    wanted = " or ".join(f"'{name}{GRAD_SUFFIX}'" for name in losses(program))
    raise FeedError(
        "gradient_scale_strategy is Customized, so the gradient of the loss must be fed, under "
        f"the name {wanted}"
    )
