"""The path of a backward pass: the operators between inputs and targets, and the gradient stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphopt.errors import ProgramError
from graphopt.ir.operators import row_of
from graphopt.ir.program import Block, Operator, Variable, is_sparse_lookup
from graphopt.ir.program.gradients_on_demand import carried_variables, is_float
from graphopt.ir.program.sub_blocks import sub_blocks


@dataclass(frozen=True)
class Path:
    """The path from inputs to targets: the inputs that matter, and the gradient stops."""

    inputs: frozenset[str]
    stops: tuple[str, ...]
    end: int
    """The derivative's position in the operator list."""
    before_loop: tuple[str, ...] = ()
    """Inputs that a loop changes in place; as in Paddle, the gradient is for the first value."""
    tables: frozenset[str] = frozenset()
    """Inputs that only lookups with sparse gradients read."""


def path_between(
    targets: Sequence[Variable], inputs: Sequence[Variable], no_grad: set[str]
) -> Path:
    """Walk the operators to find the inputs that the targets depend on.

    The derivative belongs after the last operator, except when an input is overwritten after its
    use (a parameter that another loss has updated): then it belongs before that write.
    """
    block = targets[0].block
    end = len(block.ops)
    while True:
        path, overwritten = _path_among(end, targets, inputs, no_grad)
        if not overwritten:
            return path
        end = min(overwritten.values())
        if end < 0:
            name = min(overwritten, key=lambda n: overwritten[n])
            raise ProgramError(
                f"'{targets[0].name}' uses the value of '{name}' before operator "
                f"{_ops_around(block)[end]!r} overwrites '{name}' outside of this branch or loop; "
                "take the gradients before that operator"
            )
        written = {name for op in block.ops[end:] for name in op.output_arg_names}
        late = [target.name for target in targets if target.name in written]
        if late:
            name = min(overwritten, key=lambda n: overwritten[n])
            raise ProgramError(
                f"'{late[0]}' uses the values of '{name}' before and after operator "
                f"{block.ops[end]!r} overwrites '{name}'; take the gradients before that operator"
            )


def with_stops_of_leaves(
    path: Path, loss: Variable, wanted: Sequence[Variable], no_grad: set[str]
) -> Path:
    """Extend a path by the gradient stops on the way to the leaves of the program.

    Leaves are fed data, constants and state with `stop_gradient` False.
    """
    block = loss.block
    if block.parent is not None:
        return path  # only derivatives of the global block return other gradients
    used = {name for op in block.ops[: path.end] for name in op.input_arg_names}
    made = {n for op in block.ops if any(op.input_arg_names) for n in op.output_arg_names}
    known = {p.name for p in wanted} | made | no_grad
    leaves = [v for name in sorted(used - known) if (v := block.find_var(name)) is not None]
    leaves = [v for v in leaves if not v.stop_gradient and is_float(block, v.name)]
    if not leaves:
        return path
    found, _ = _path_among(path.end, [loss], [*wanted, *leaves], no_grad)
    return replace(path, stops=found.stops)


def _path_among(
    end: int, targets: Sequence[Variable], inputs: Sequence[Variable], no_grad: set[str]
) -> tuple[Path, dict[str, int]]:
    """Find the path among the first `end` operators, and the writes that hide inputs.

    A write hides an input that the path misses because it is overwritten after its use. In a branch
    the path begins with the operators before it in enclosing blocks; their positions count back
    from -1. Names may be written more than once: a name means the value of its last write before
    the operator in question.
    """
    block = targets[0].block
    around = _ops_around(block)
    before_block = len(around)
    ops = [*around, *block.ops[:end]]

    def stops_gradient(name: str) -> bool:
        variable = block.find_var(name)
        blocked = name in no_grad or variable is None or variable.stop_gradient
        return blocked or not is_float(block, name)

    starts = {x.name for x in inputs if not stops_gradient(x.name)}
    dependent = _dependent(ops, starts)
    last_write = {name: i for i, op in enumerate(ops) for name in op.output_arg_names}
    needed = {target.name for target in targets}
    used_before: dict[str, int] = {}  # start -> the write that hides the used value
    next_write: dict[str, int] = {}
    reached: set[str] = set()
    stops: dict[str, None] = {}
    sparse: dict[str, bool] = {}  # start -> whether only sparse lookups have read it so far
    looped: set[str] = set()
    for index in range(len(ops) - 1, -1, -1):
        outputs = ops[index].output_arg_names
        written = needed.intersection(outputs)
        needed -= written
        kept = carried_variables(ops[index]) & starts
        looped |= written & kept
        for name in (written & starts) - kept:
            if last_write[name] == index:
                reached.add(name)
            else:
                used_before[name] = next_write[name]
        if index >= before_block or not _may_not_run(ops[index]):
            next_write.update(dict.fromkeys((n for n in outputs if n not in kept), index))
        blocked = {name for name in written if stops_gradient(name) and name not in starts}
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
    float_stops = tuple(name for name in stops if is_float(block, name))
    before = tuple(name for name in sorted(looped & reached) if name not in next_write)
    tables = frozenset(name for name, only in sparse.items() if only)
    return Path(frozenset(reached), float_stops, end, before, tables), hidden


def _ops_around(block: Block) -> list[Operator]:
    """Collect the operators that run before a block in its enclosing blocks, outermost first."""
    parent = block.parent
    if parent is None:
        return []
    runs = (at for at, op in enumerate(parent.ops) if block in sub_blocks(op))
    return [*_ops_around(parent), *parent.ops[: next(runs, len(parent.ops))]]


def _dependent(ops: Sequence[Operator], starts: set[str]) -> list[frozenset[str]]:
    """Compute for each operator the set of its inputs that depend on a start in any way."""
    live = set(starts)
    result: list[frozenset[str]] = []
    for op in ops:
        inputs = frozenset(live.intersection(_read_by(op)))
        result.append(inputs)
        if inputs:
            live.update(op.output_arg_names)
    return result


def _read_by(op: Operator) -> list[str]:
    """List the names through whose values a gradient may flow back from an operator.

    A branch that does not run keeps the old values of the names that it writes; a write to one
    element of a tensor array keeps the other elements.
    """
    keeps = _may_not_run(op) or op.type == "write_to_array"
    fixed = row_of(op.type).constant
    names = [name for slot in op.inputs if slot not in fixed for name in op.input(slot)]
    return [*names, *(op.output_arg_names if keeps else ())]


def _may_not_run(op: Operator) -> bool:
    """True for a branch.

    For a block in another branch, the parameters that this one updates have their old values: only
    one of the branches runs.
    """
    return op.type in ("conditional_block", "conditional_block_infer")
