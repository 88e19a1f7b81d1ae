"""append_backward and gradients: one `pd_grad` operator for the whole backward pass.

The front end only decides which variables depend on which; the derivative itself is taken when
the program is compiled. Paddle pages: paddle.static.append_backward, paddle.static.gradients.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.mode import current_op_attrs, require_static
from graphopt.ir.program import (
    Block,
    Operator,
    OpRole,
    Parameter,
    Variable,
    VarKind,
    is_sparse_lookup,
)
from graphopt.ir.program.constant_slots import CONSTANT_SLOTS
from graphopt.ir.program.gradient_types import GRAD_TYPE, RECOMPUTE
from graphopt.ir.program.gradients_on_demand import declare_gradients
from graphopt.ir.program.sub_blocks import sub_blocks


@dataclass(frozen=True)
class Path:
    """The path from inputs to targets: the inputs that matter, and values to stop at."""

    inputs: frozenset[str]
    stops: tuple[str, ...]
    end: int
    """Position of the derivative in the operator list."""
    before_loop: tuple[str, ...] = ()
    """Inputs that a loop changes in place; as in Paddle, the gradient is of their first value."""
    tables: frozenset[str] = frozenset()
    """Inputs that only lookups with sparse gradients read."""


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Any] | None = None,
    no_grad_set: Iterable[Any] | None = None,
    callbacks: Any = None,
    checkpoints: Any = None,
    distop_context: Any = None,
) -> list[tuple[Parameter, Variable]]:
    """Append the gradients of a loss with respect to its parameters.

    Returns (parameter, gradient) pairs in the order in which the parameters were made, for the
    trainable ones (or those of `parameter_list`) that the loss depends on. Gradients are called
    `<name>@GRAD`. No gradient flows through variables with `stop_gradient` or in `no_grad_set`.
    Any other variable on the way has a gradient as well, which is computed when an operator reads
    it or a run fetches it: results of operators, fed data and constants whose `stop_gradient` is
    False.

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
    path = _with_stops_of_leaves(_trace([loss], wanted, no_grad), loss, wanted, no_grad)
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
    """The gradients of the sum of the targets with respect to each input.

    `target_gradients` weight the targets (None: ones); several targets are added. Returns one
    Variable per input, in its shape, or None where no target depends on it. Raises ProgramError
    when a weight does not have its target's shape.
    """
    require_static()
    outs = _several(targets, "targets")
    wrt = arguments.variables(_as_list(inputs), "inputs", "gradients")
    weights = [None] * len(outs) if target_gradients is None else _as_list(target_gradients)
    if len(weights) != len(outs):
        raise ValueError(
            f"gradients(): there are {len(outs)} targets but {len(weights)} target_gradients"
        )
    # as in Paddle, a target that is given twice counts once, with its last weight
    weighted = {target.name: (target, weight) for target, weight in zip(outs, weights, strict=True)}
    outs, weights = map(list, zip(*weighted.values(), strict=True))
    path = _trace(outs, wrt, _names(no_grad_set, "no_grad_set"))
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


def _check_extras(block: Block, callbacks: Any, checkpoints: Any) -> None:
    if callbacks is not None and not isinstance(callbacks, (list, tuple)):
        raise TypeError(
            f"append_backward(): 'callbacks' must be a list of functions, found "
            f"{type(cast(object, callbacks)).__name__}"
        )
    if callbacks:
        raise UnsupportedError(
            "append_backward(callbacks=…): there is no gradient operator per operator to call "
            "them with; the backward pass is one operator"
        )
    _check_checkpoints(block, _names(checkpoints, "checkpoints"))


def _check_checkpoints(block: Block, names: Iterable[str]) -> None:
    for name in names:
        if block.find_var(name) is None:
            raise ValueError(f"append_backward(): '{name}' in checkpoints is not a variable")


def recompute(block: Block, checkpoints: Sequence[Variable | str]) -> None:
    """Let the derivatives of a block compute activations again instead of keeping them.

    Raises ValueError for a checkpoint that is no variable.
    """
    names = sorted(_names(checkpoints, "checkpoints"))
    _check_checkpoints(block, names)
    for op in block.ops:
        if op.type == GRAD_TYPE:
            op._set_attr(RECOMPUTE, names)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _several(value: Any, name: str) -> list[Variable]:
    found = arguments.variables(_as_list(value), name, "gradients")
    if not found:
        raise ValueError(f"gradients(): '{name}' is empty")
    return found


def _names(items: Iterable[Any] | None, name: str) -> set[str]:
    """The names in a set of Variables and names."""
    if items is None:
        return set()
    if isinstance(items, (str, Variable)) or not isinstance(items, (set, frozenset, list, tuple)):
        raise TypeError(f"'{name}' must be a set of Variables or names")
    return {
        item if isinstance(item, str) else arguments.variable(item, name, "gradients").name
        for item in items
    }


def _variable(item: Any, name: str) -> Variable:
    """A member of a list; TypeError when it is no Variable."""
    return arguments.variable(item, name, "append_backward")


def _element_count(x: Variable) -> int | None:
    """The number of elements, None when it is not known."""
    count = 1
    for dim in x.shape:
        if dim < 0:
            return None
        count *= dim
    return count


def _parameters(block: Block, given: Sequence[Any] | None) -> list[Variable]:
    """The trainable parameters, or those given, in the order of their creation."""
    everything = block.program.global_block().all_parameters()
    if given is None:
        return [p for p in everything if p.trainable]
    if not isinstance(given, (list, tuple, set)):
        raise TypeError(
            f"append_backward(): 'parameter_list' must be a list of Variables and names, found "
            f"{type(given).__name__}"
        )
    names = [
        item if isinstance(item, str) else _variable(item, "parameter_list").name for item in given
    ]
    for name in names:
        if block.find_var(name) is None:
            raise ValueError(f"append_backward(): '{name}' in parameter_list is not a variable")
    order = [p.name for p in everything]
    found = [block.find_var(name) for name in dict.fromkeys(names)]
    chosen = [v for v in found if v is not None]
    return sorted(chosen, key=lambda v: order.index(v.name) if v.name in order else len(order))


def _trace(targets: Sequence[Variable], inputs: Sequence[Variable], no_grad: set[str]) -> Path:
    """Walk the operators to see which inputs the targets depend on.

    The derivative belongs after the last operator, except when an input is overwritten after its
    use (a parameter that another loss has updated): then it belongs before that.
    """
    block = targets[0].block
    end = len(block.ops)
    while True:
        path, overwritten = _trace_to(end, targets, inputs, no_grad)
        if not overwritten:
            return path
        end = min(overwritten.values())
        if end < 0:
            name = min(overwritten, key=lambda n: overwritten[n])
            raise ProgramError(
                f"'{targets[0].name}' uses '{name}' from before it was overwritten by operator "
                f"{ops_around(block)[end]!r}, outside of this branch or loop; take the gradients "
                "before that"
            )
        written = {name for op in block.ops[end:] for name in op.output_arg_names}
        late = [target.name for target in targets if target.name in written]
        if late:
            name = min(overwritten, key=lambda n: overwritten[n])
            raise ProgramError(
                f"'{late[0]}' uses '{name}' from before and after it was overwritten by operator "
                f"{block.ops[end]!r}; take the gradients before that"
            )


def _with_stops_of_leaves(
    path: Path, loss: Variable, wanted: Sequence[Variable], no_grad: set[str]
) -> Path:
    """The path with the values that stop gradients on the way to the leaves of the program.

    Leaves are fed data, constants and state with `stop_gradient` False.
    """
    block = loss.block
    if block.parent is not None:
        return path  # only derivatives of the global block give other gradients
    used = {name for op in block.ops[: path.end] for name in op.input_arg_names}
    made = {n for op in block.ops if any(op.input_arg_names) for n in op.output_arg_names}
    known = {p.name for p in wanted} | made | no_grad
    leaves = [v for name in sorted(used - known) if (v := block.find_var(name)) is not None]
    leaves = [v for v in leaves if not v.stop_gradient and _is_float(block, v.name)]
    if not leaves:
        return path
    found, _ = _trace_to(path.end, [loss], [*wanted, *leaves], no_grad)
    return replace(path, stops=found.stops)


def _trace_to(
    end: int, targets: Sequence[Variable], inputs: Sequence[Variable], no_grad: set[str]
) -> tuple[Path, dict[str, int]]:
    """The path among the first `end` operators, and where inputs that it misses are overwritten.

    In a branch it begins with the operators around it, whose positions count back from -1. Names
    may be written more than once: a name means the value of its last write before the operator in
    question.
    """
    block = targets[0].block
    around = ops_around(block)
    before_block = len(around)
    ops = [*around, *block.ops[:end]]

    def stopped(name: str) -> bool:
        variable = block.find_var(name)
        blocked = name in no_grad or variable is None or variable.stop_gradient
        return blocked or not _is_float(block, name)

    starts = {x.name for x in inputs if not stopped(x.name)}
    dependent = _dependent(ops, starts)
    last_write = {name: i for i, op in enumerate(ops) for name in op.output_arg_names}
    needed = {target.name for target in targets}
    used_before: dict[str, int] = {}  # start -> the write that hides the value that was used
    next_write: dict[str, int] = {}
    reached: set[str] = set()
    stops: dict[str, None] = {}
    sparse: dict[str, bool] = {}  # start -> whether only sparse lookups have read it so far
    looped: set[str] = set()
    for index in range(len(ops) - 1, -1, -1):
        outputs = ops[index].output_arg_names
        written = needed.intersection(outputs)
        needed -= written
        carried = _carried(ops[index]) & starts
        looped |= written & carried
        for name in (written & starts) - carried:
            if last_write[name] == index:
                reached.add(name)
            else:
                used_before[name] = next_write[name]
        if index >= before_block or not _may_not_run(ops[index]):
            next_write.update(dict.fromkeys((n for n in outputs if n not in carried), index))
        blocked = {name for name in written if stopped(name) and name not in starts}
        stops.update(dict.fromkeys(n for n in sorted(blocked) if last_write[n] == index))
        if blocked != written:
            needed |= dependent[index]
            for name in dependent[index] & starts:
                sparse[name] = sparse.get(name, True) and is_sparse_lookup(ops[index])
    for name in needed & starts:
        if name in next_write:
            used_before[name] = next_write[name]
        else:
            reached.add(name)
    hidden = {n: at - before_block for n, at in used_before.items() if n not in reached}
    float_stops = tuple(name for name in stops if _is_float(block, name))
    before = tuple(name for name in sorted(looped & reached) if name not in next_write)
    tables = frozenset(name for name, only in sparse.items() if only)
    return Path(frozenset(reached), float_stops, end, before, tables), hidden


def ops_around(block: Block) -> list[Operator]:
    """The operators in front of a block, in the blocks around it, outermost first."""
    parent = block.parent
    if parent is None:
        return []
    runs = (at for at, op in enumerate(parent.ops) if block in sub_blocks(op))
    return [*ops_around(parent), *parent.ops[: next(runs, len(parent.ops))]]


def _dependent(ops: Sequence[Operator], starts: set[str]) -> list[frozenset[str]]:
    """For each operator, its inputs that depend on a start in any way."""
    live = set(starts)
    result: list[frozenset[str]] = []
    for op in ops:
        inputs = frozenset(live.intersection(_read_by(op)))
        result.append(inputs)
        if inputs:
            live.update(op.output_arg_names)
    return result


def _read_by(op: Operator) -> list[str]:
    """The names through whose values a gradient may flow back from an operator.

    A branch that is not taken keeps the old values of the names that it writes; so does a write to
    one element of an array.
    """
    keeps = _may_not_run(op) or op.type == "write_to_array"
    fixed = CONSTANT_SLOTS.get(op.type, ())
    names = [name for slot in op.inputs if slot not in fixed for name in op.input(slot)]
    return [*names, *(op.output_arg_names if keeps else ())]


def _may_not_run(op: Operator) -> bool:
    """True for a branch.

    Seen from another branch, the parameters that it updates have their old values: one runs.
    """
    return op.type in ("conditional_block", "conditional_block_infer")


def _carried(op: Operator) -> set[str]:
    """The variables that a loop changes in place."""
    return set(op.input("X")) & set(op.output("Out")) if op.type == "while" else set()


def _is_float(block: Block, name: str) -> bool:
    variable = block.find_var(name)
    return variable is not None and variable.has_type and variable.dtype.is_differentiable


def _mark_loss(loss: Variable) -> None:
    """The operator that makes the loss carries the flag Loss in its role."""
    for op in reversed(loss.block.ops):
        if loss.name in op.output_arg_names:
            op._set_attr("op_role", op.role | OpRole.LOSS)
            return


def _fresh(block: Block, name: str) -> str:
    """The gradient's name, with `grad/` before it as often as that name is taken."""
    while block.find_var(name) is not None:
        name = f"grad/{name}"
    return name


def _ones(target: Variable, at: int) -> Variable:
    """The gradient of a target with respect to itself, as an operator of its own.

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
    return made


def _append_grad(
    targets: Sequence[Variable],
    inputs: Sequence[Variable],
    seeds: Sequence[Variable],
    path: Path,
    at: int,
    parameters: Iterable[int],
) -> list[Variable]:
    """The `pd_grad` operator, and the gradient variables that it writes.

    Also without inputs: it computes additionally fetched gradients.
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
        attrs["before_loop"] = [x.name for x in inputs if x.name in path.before_loop]
    block._insert_op(at, GRAD_TYPE, lists, {"XGrad": grads}, attrs)
    return grads
