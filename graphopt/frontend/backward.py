"""append_backward and gradients: one `pd_grad` operator for the whole backward pass.

The front end only decides which variables depend on which; the derivative itself is taken when
the program is compiled. Paddle pages: paddle.static.append_backward, paddle.static.gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.backward_path import Path, path_between, with_stops_of_leaves
from graphopt.frontend.mode import current_op_attrs, require_static
from graphopt.frontend.nest import items_of
from graphopt.ir.program import Block, OpRole, Parameter, Variable, VarKind
from graphopt.ir.program.gradient_types import BEFORE_LOOP, GRAD_TYPE, RECOMPUTE
from graphopt.ir.program.gradients_on_demand import declare_gradients


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Any] | None = None,
    no_grad_set: Iterable[Any] | None = None,
    callbacks: Any = None,
    checkpoints: Any = None,
    distop_context: Any = None,
) -> list[tuple[Parameter, Variable]]:
    """Append the gradients of a loss with respect to its parameters.

    Returns (parameter, gradient) pairs in the order in which the parameters were created, for the
    trainable parameters (or those in `parameter_list`) that the loss depends on. Gradients are
    called `<name>@GRAD`. No gradient flows through variables with `stop_gradient` or in
    `no_grad_set`. Any other variable on the path has a gradient as well: results of operators, fed
    data and constants whose `stop_gradient` is False. It is computed when an operator reads it or a
    run fetches it.

    With `checkpoints` (Variables or names, between which Paddle computes values again to save
    memory) the derivative recomputes activations. The names are only checked: the compiler chooses
    where to cut (pass `recompute-activations`).

    Raises ProgramError (ValueError) when the loss has more than one element, UnsupportedError for
    callbacks.
    """
    require_static()
    arguments.variable(loss, "loss", "append_backward")
    _check_extras(loss.block, callbacks, checkpoints)
    if _element_count(loss) not in (1, None):
        raise ProgramError(
            f"append_backward() needs a loss of one element, but '{loss.name}' has shape "
            f"{list(loss.shape)}; reduce it first, e.g. with paddle.mean"
        )
    program, no_grad = loss.block.program, _names(no_grad_set, "no_grad_set")
    wanted = _parameters(loss.block, parameter_list)
    path = with_stops_of_leaves(path_between([loss], wanted, no_grad), loss, wanted, no_grad)
    reached = [p for p in wanted if p.name in path.inputs]
    _mark_loss(loss)
    with program.role(OpRole.BACKWARD | OpRole.LOSS):
        seed = _ones(loss, path.end)
    with program.role(OpRole.BACKWARD):
        at = path.end + 1
        grads = _append_grad([loss], reached, [seed], path, at, range(len(reached)))
        declare_gradients(loss.block.ops[at])
    if checkpoints:
        recompute(loss.block, checkpoints)
    return [(cast("Parameter", p), grad) for p, grad in zip(reached, grads, strict=True)]


def gradients(
    targets: Any,
    inputs: Any,
    target_gradients: Any = None,
    no_grad_set: Iterable[Any] | None = None,
) -> list[Variable | None]:
    """Append the gradients of the sum of the targets with respect to each input.

    `target_gradients` weight the targets (None: ones); several targets are added. Returns one
    Variable per input, in its shape, or None where no target depends on it. Raises ProgramError
    when a weight does not have its target's shape.
    """
    require_static()
    outs = arguments.variables(items_of(targets), "targets", "gradients")
    if not outs:
        raise ValueError("gradients(): 'targets' is empty")
    wrt = arguments.variables(items_of(inputs), "inputs", "gradients")
    _refuse_arrays([*outs, *wrt])
    weights = [None] * len(outs) if target_gradients is None else items_of(target_gradients)
    if len(weights) != len(outs):
        raise ValueError(
            f"gradients(): there are {len(outs)} targets but {len(weights)} target_gradients"
        )
    # as in Paddle, a repeated target counts once, with its last weight
    weighted = {target.name: (target, weight) for target, weight in zip(outs, weights, strict=True)}
    outs, weights = map(list, zip(*weighted.values(), strict=True))
    path = path_between(outs, wrt, _names(no_grad_set, "no_grad_set"))
    reached = [x for x in wrt if x.name in path.inputs]
    if not reached:
        return [None] * len(wrt)
    program = outs[0].block.program
    with program.role(OpRole.BACKWARD):
        at = path.end
        seeds: list[Variable] = []
        for target, weight in zip(outs, weights, strict=True):
            if weight is None:
                seeds.append(_ones(target, at))
                at += 1
            else:
                seeds.append(arguments.variable(weight, "target_gradients", "gradients"))
        distinct = list({x.name: x for x in reached}.values())
        made = _append_grad(outs, distinct, seeds, path, at, ())
    by_name = {x.name: grad for x, grad in zip(distinct, made, strict=True)}
    return [by_name.get(x.name) for x in wrt]


def _refuse_arrays(variables: Iterable[Variable]) -> None:
    for variable in variables:
        if variable.kind == VarKind.TENSOR_ARRAY:
            raise UnsupportedError(
                f"gradients(): '{variable.name}' is a tensor array, and gradients of tensor arrays "
                "are not supported; take the gradient of an element, the result of "
                "paddle.tensor.array_read, or with respect to the tensors written to the array"
            )


def _check_extras(block: Block, callbacks: Any, checkpoints: Any) -> None:
    if callbacks is not None and not isinstance(callbacks, (list, tuple)):
        raise TypeError(
            f"append_backward(): 'callbacks' must be a list of functions, found "
            f"{type(cast(object, callbacks)).__name__}"
        )
    if callbacks:
        raise UnsupportedError(
            "append_backward(): 'callbacks' is not supported, because the backward pass is one "
            "operator, with no gradient operators to pass to callbacks"
        )
    _check_checkpoints(block, _names(checkpoints, "checkpoints"))


def _check_checkpoints(block: Block, names: Iterable[str]) -> None:
    for name in names:
        if block.find_var(name) is None:
            raise ValueError(f"append_backward(): '{name}' in checkpoints is not a variable")


def recompute(block: Block, checkpoints: Sequence[Variable | str]) -> None:
    """Let the derivatives of a block recompute activations instead of keeping them.

    Raises ValueError for a checkpoint that is not a variable.
    """
    names = sorted(_names(checkpoints, "checkpoints"))
    _check_checkpoints(block, names)
    for op in block.ops:
        if op.type == GRAD_TYPE:
            op._set_attr(RECOMPUTE, names)


def _names(items: Iterable[Any] | None, name: str) -> set[str]:
    """Collect the names of a set of Variables and names."""
    if items is None:
        return set()
    if isinstance(items, (str, Variable)) or not isinstance(items, (set, frozenset, list, tuple)):
        raise TypeError(f"'{name}' must be a set of Variables or names")
    return {
        item if isinstance(item, str) else arguments.variable(item, name, "gradients").name
        for item in items
    }


def _element_count(x: Variable) -> int | None:
    """Count the elements of a variable; None if a dimension is unknown."""
    count = 1
    for dim in x.shape:
        if dim < 0:
            return None
        count *= dim
    return count


def _parameters(block: Block, given: Sequence[Any] | None) -> list[Variable]:
    """Collect the trainable parameters, or the given ones, in the order of their creation."""
    everything = block.program.global_block().all_parameters()
    if given is None:
        return [p for p in everything if p.trainable]
    if not isinstance(given, (list, tuple, set)):
        raise TypeError(
            f"append_backward(): 'parameter_list' must be a list of Variables and names, found "
            f"{type(given).__name__}"
        )
    names = [
        item
        if isinstance(item, str)
        else arguments.variable(item, "parameter_list", "append_backward").name
        for item in given
    ]
    for name in names:
        if block.find_var(name) is None:
            raise ValueError(f"append_backward(): '{name}' in parameter_list is not a variable")
    order = [p.name for p in everything]
    found = [block.find_var(name) for name in dict.fromkeys(names)]
    chosen = [v for v in found if v is not None]
    return sorted(chosen, key=lambda v: order.index(v.name) if v.name in order else len(order))


def _mark_loss(loss: Variable) -> None:
    """Mark the operator that computes the loss with the LOSS flag in its role."""
    for op in reversed(loss.block.ops):
        if loss.name in op.output_arg_names:
            op._set_attr("op_role", op.role | OpRole.LOSS)
            return


def _fresh(block: Block, name: str) -> str:
    """Find an unused name for a gradient by prefixing `grad/` until the name is free."""
    while block.find_var(name) is not None:
        name = f"grad/{name}"
    return name


def _ones(target: Variable, at: int) -> Variable:
    """Insert an operator that writes the gradient of a target with respect to itself.

    Data parallelism finds the seed of the loss by this operator, and scripts may feed its result.
    """
    block = target.block
    made = block.create_var(_fresh(block, target.grad_name))
    attrs = {**current_op_attrs(), "value": 1.0, "dtype": target.dtype.code}
    if _element_count(target) is None:
        block._insert_op(at, "fill_any_like", {"X": target}, {"Out": made}, attrs)
    else:
        attrs["shape"] = list(target.shape)
        block._insert_op(at, "fill_constant", {}, {"Out": made}, attrs)
    made.stop_gradient = False
    return made


def _append_grad(
    targets: Sequence[Variable],
    inputs: Sequence[Variable],
    seeds: Sequence[Variable],
    path: Path,
    at: int,
    parameters: Iterable[int],
) -> list[Variable]:
    """Insert the `pd_grad` operator; return the gradient variables that it writes.

    It is inserted without inputs, too: then it computes the gradients that runs fetch in addition.
    """
    block = targets[0].block
    grads: list[Variable] = []
    for x in inputs:
        kind = VarKind.SELECTED_ROWS if x.name in path.tables else VarKind.DENSE_TENSOR
        grads.append(block.create_var(_fresh(block, x.grad_name), x.shape, x.dtype, kind=kind))
    slots = {"Y": targets, "X": inputs, "YGrad": seeds, "NoGrad": path.stops}
    lists = {slot: list(values) for slot, values in slots.items()}
    attrs = {**current_op_attrs(), "parameters": list(parameters)}
    if path.before_loop:
        attrs[BEFORE_LOOP] = [x.name for x in inputs if x.name in path.before_loop]
    block._insert_op(at, GRAD_TYPE, lists, {"XGrad": grads}, attrs)
    return grads
