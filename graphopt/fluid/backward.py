"""Gradients (paddle.fluid.backward)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from graphopt.frontend.backward import append_backward as append_backward
from graphopt.frontend.backward import gradients as gradients
from graphopt.frontend.calls import publish
from graphopt.ir.dtypes import DType
from graphopt.ir.program import GRAD_SUFFIX, Block, Program, Variable
from graphopt.ir.program.location import caller_level


def calc_gradient(
    targets: Variable | Sequence[Variable],
    inputs: Variable | Sequence[Variable],
    target_gradients: Any = None,
    no_grad_set: Any = None,
) -> Any:
    """As `gradients`, but the gradient of a single input is no list (fluid.backward)."""
    found = gradients(targets, inputs, target_gradients, no_grad_set)
    return found[0] if len(found) == 1 else found


def _append_grad_suffix_(name: str) -> str:
    """The name of a variable's gradient."""
    return name + GRAD_SUFFIX


def _strip_grad_suffix_(name: str) -> str:
    """The name of the variable that a gradient is of."""
    found = re.search(f"{GRAD_SUFFIX}(@|$)", name)
    return (name[: found.start()] if found else name).rpartition("grad/")[2]


def _as_list(x: Any) -> list[Any]:
    """The items of a list or tuple, or one item; [] for None."""
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


def _get_stop_gradients_(program: Program) -> dict[int, set[str]]:
    """The names of the gradients that are not computed, by the number of the block."""
    return {
        block.idx: {v.grad_name for v in block.vars.values() if v.stop_gradient}
        for block in program.blocks
    }


def _infer_var_data_type_shape_(grad_var_name: str, block: Block) -> None:
    """Give a gradient the shape and dtype of its variable; float32, with a warning, without one."""
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
