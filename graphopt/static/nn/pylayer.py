"""A function with a derivative of its own (paddle.static.nn.static_pylayer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.errors import ProgramError
from graphopt.frontend import arguments, nest
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.mode import current_op_attrs
from graphopt.frontend.sub_blocks import new_block, scopes_of
from graphopt.ir.program import GRAD_SUFFIX, AttrKind, Block, OpRole, Variable, undo
from graphopt.static.nn.control_flow import hand_out
from graphopt.tensor.creation import assign


def static_pylayer(
    forward_fn: Callable[..., Any],
    inputs: list[Any],
    backward_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Compute `forward_fn(*inputs)`, whose gradient is `backward_fn` (static.nn.static_pylayer).

    Both functions run once, while the program is built, and append operators to a block each.
    `forward_fn` returns a Variable, or lists, tuples and dicts of them, or None. `backward_fn` is
    called with the gradients of these Variables and returns as many gradients as `inputs` has
    Variables, in their shapes and dtypes; None is a gradient of zeros. No other variable that
    `forward_fn` uses gets a gradient. Without `backward_fn` none of the inputs does.

    Raises TypeError unless `inputs` is a list and the functions are callable; ValueError without
    `backward_fn` where an input may have a gradient, and for another number of gradients.
    """
    if not isinstance(inputs, list):
        raise TypeError(f"static_pylayer(): 'inputs' must be a list, found {type(inputs).__name__}")
    for what, function in (("forward_fn", forward_fn), ("backward_fn", backward_fn)):
        if not callable(function) and (what == "forward_fn" or function is not None):
            raise TypeError(
                f"static_pylayer(): '{what}' must be callable, found {type(function).__name__}"
            )
    given = [value for value in inputs if isinstance(value, Variable)]
    for value in given if backward_fn is None else ():
        if not value.stop_gradient:
            raise ValueError(
                "``stop_gradient`` attr of all inputs to ``forward_fn`` are expected to be True, "
                f"when ``backward_fn == None``, but {value.name}.stop_gradient got False"
            )
    LayerHelper("static_pylayer", name)
    with undo.transaction():
        with new_block() as forward:
            result = forward_fn(*inputs)
            outputs = None if result is None else nest.map_leaves(hand_out, result)
        made = [leaf for leaf in nest.leaves(outputs) if isinstance(leaf, Variable)]
        blocks = [forward]
        if backward_fn is not None:
            blocks.append(_backward_block(backward_fn, given, made))
            blocks[1].forward_block_idx = forward.idx
        parent = forward.parent
        assert parent is not None
        op = parent.append_op(
            "pylayer",
            {"Input": given},
            {"Out": made, "Scope": [scopes_of(parent)]},
            {**current_op_attrs(), "blocks": [block.idx for block in blocks]},
        )
        op.attr_kinds["blocks"] = AttrKind.BLOCKS
    return outputs


def _backward_block(
    backward_fn: Callable[..., Any], inputs: list[Variable], outputs: list[Variable]
) -> Block:
    """Build the block that computes `<input>@GRAD` from `<output>@GRAD`."""
    with new_block() as block, block.program.role(OpRole.BACKWARD):
        seeds = [
            block.create_var(f"{out.name}{GRAD_SUFFIX}", out.shape, out.dtype) for out in outputs
        ]
        found = backward_fn(*map(assign, seeds))
        gradients = [] if found is None else nest.leaves(found)
        if len(gradients) != len(inputs):
            raise ProgramError(
                "static_pylayer(): needs to keep the number of inputs to ``forward_fn`` the same "
                f"as the number of outputs to ``backward_fn``, but got {len(inputs)} and "
                f"{len(gradients)}"
            )
        for value, gradient in zip(inputs, gradients, strict=True):
            if gradient is None:
                continue
            arguments.variable(gradient, "the result of backward_fn", "static_pylayer")
            own = block.create_var(f"{value.name}{GRAD_SUFFIX}", value.shape, value.dtype)
            assign(gradient, own)
    return block
