"""Store several state variables of one type as one argument of `@main`, named in `pd.stack_of`.

After the new argument a `pd.unbind` yields the single variables, and before the return a `pd.stack`
joins their new values; `fold_stacks` then removes pairs that cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.rearrange import Unbind
from graphopt.ir.dialect.ops.shape import Stack
from graphopt.ir.dialect.signature import STATE, main_function, signature_of, stack_entry
from graphopt.ir.dialect.signature_edit import SignatureEdit, edit_signature, state_name
from graphopt.ir.dialect.types import dtype_of, shape_of, tensor
from graphopt.passes.engine.rewrite import differentiated_values
from graphopt.passes.storage.batch_stacked_ops import lift

Names = tuple[str, ...]


def state_arguments(module: ModuleOp) -> dict[SSAValue, str]:
    """Find arguments that are one state variable each, as declared, equal on all replicas."""
    arguments = main_function(module).body.block.args
    ports = signature_of(module).arguments
    return {
        argument: port.name
        for argument, port in zip(arguments, ports, strict=True)
        if port.kind == STATE
        and not (port.per_replica or port.shard_of is not None or port.stack_of or port.order)
    }


def stack_at_rest(module: ModuleOp, groups: Sequence[Names]) -> None:
    """Replace the variables of each group, which are state of one type, by one argument."""
    if groups:
        function = main_function(module)
        with edit_signature(function) as edit:
            items = _take_stacks(edit, function.body.block, groups)
            _give_stacks(edit, function.body.block, groups, items)


def _take_stacks(edit: SignatureEdit, block: Block, groups: Sequence[Names]) -> dict[str, SSAValue]:
    """Replace the arguments of each group by a stack; return the new value of each variable."""
    state, front = edit.state, block.first_op
    assert front is not None
    found: dict[str, SSAValue] = {}
    for names in groups:
        first = state[names[0]]
        type_ = tensor((len(names), *shape_of(first.type)), dtype_of(first.type))
        stack = edit.add(type_, stack_entry(names))
        stack.name_hint = first.name_hint
        unbound = Unbind.make(stack)
        block.insert_op_before(unbound, front)
        found |= zip(names, unbound.results, strict=True)
    replace_uses({state[name]: value for name, value in found.items()})
    edit.drop([state[name] for name in found])
    return found


def _give_stacks(
    edit: SignatureEdit, block: Block, groups: Sequence[Names], items: Mapping[str, SSAValue]
) -> None:
    """Replace the results of each group by one stack."""
    end = block.last_op
    assert end is not None
    places = {state_name(attributes): at for at, attributes in enumerate(edit.results)}
    written = [names for names in groups if any(name in places for name in names)]
    values = dict(items)
    values |= {name: edit.returned[places[name]] for name in items if name in places}
    gone = {places.get(name) for names in written for name in names}
    edit.keep_results([at for at in range(len(edit.results)) if at not in gone])
    for names in written:
        new = [values[name] for name in names]
        made = Stack.make(new)
        made.results[0].name_hint = new[0].name_hint
        block.insert_op_before(made, end)
        edit.give(made.results[0], stack_entry(names))


def fold_stacks(module: ModuleOp) -> None:
    """Read a stack instead of stacking its items again, also in derivatives.

    An op on all items of a stack becomes an op on the stack.
    """
    block = main_function(module).body.block
    blocked = _differentiate_stacks(module)
    lift(block, differentiated_values(module))
    for op in list(block.ops):
        if isinstance(op, Stack):
            source = _find_unstacking(op)
            if source is not None and source not in blocked:
                replace_uses({op.results[0]: source.operands[0]})
                op.detach()
                op.erase()
    for op in reversed(list(block.ops)):
        if isinstance(op, Unbind) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _find_unstacking(op: Stack) -> Unbind | None:
    """Find the op that unbound the values which `op` stacks again."""
    source = op.operands[0].owner
    if not isinstance(source, Unbind) or source.attr("axis") or op.attr("axis"):
        return None
    return source if tuple(op.operands) == tuple(source.results) else None


def _differentiate_stacks(module: ModuleOp) -> set[Operation]:
    """Replace derivatives with respect to all items of an argument by one of the stack.

    Derivatives with respect to only some items stay, and so do derivatives with respect to items of
    a value that other ops may read whole. Return the ops that unbind these items, which must stay.
    """
    grads = [op for op in module.walk() if isinstance(op, Grad)]
    block, ports = main_function(module).body.block, signature_of(module).arguments
    stacks = {value for value, port in zip(block.args, ports, strict=True) if port.stack_of}
    blocked: set[Operation] = set()
    for grad in grads:
        blocked |= {v.owner for v in grad.no_grad if isinstance(v.owner, Unbind)}
        counts: dict[Operation, int] = {}
        for value in grad.wrt:
            if isinstance(value.owner, Unbind):
                counts[value.owner] = counts.get(value.owner, 0) + 1
        blocked |= {
            op
            for op, count in counts.items()
            if count != len(op.results) or op.operands[0] not in stacks
        }
    for grad in grads:
        _differentiate(grad, blocked)
    return blocked


def _differentiate(grad: Grad, blocked: set[Operation]) -> None:
    """Rebuild a derivative with stacks in place of all their items."""
    wrt: dict[SSAValue, int] = {}
    place: list[tuple[int, int | None]] = []
    parameters: set[int] = set()
    for at, value in enumerate(grad.wrt):
        source = value.owner
        index = None
        if isinstance(source, Unbind) and source not in blocked:
            index, value = cast(OpResult, value).index, source.operands[0]
        new = wrt.setdefault(value, len(wrt))
        place.append((new, index))
        if at in grad.attr("parameters"):
            parameters.add(new)
    if len(wrt) == len(grad.wrt):
        return
    attrs = {**grad.attr_values(), "parameters": tuple(sorted(parameters))}
    made = Grad.make(
        grad.of, list(wrt), grad.cotangents, grad.no_grad, location=grad.location, **attrs
    )
    block = grad.parent
    assert block is not None
    block.insert_op_before(made, grad)
    stacks = dict.fromkeys(new for new, index in place if index is not None)
    apart = {new: _apart(made, new) for new in stacks}
    values: dict[SSAValue, SSAValue] = {}
    for old, (new, index) in zip(grad.results, place, strict=True):
        values[old] = made.results[new] if index is None else apart[new].results[index]
    replace_uses(values)
    grad.detach()
    grad.erase()


def _apart(made: PdOp, at: int) -> Unbind:
    """Unbind a result right after its op."""
    unbound = Unbind.make(made.results[at], location=made.location)
    block = made.parent
    assert block is not None
    block.insert_op_after(unbound, made)
    return unbound
