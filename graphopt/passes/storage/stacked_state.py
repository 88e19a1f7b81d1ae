"""Store several state variables of one type as one argument of `@main`, named in `pd.stack_of`.

After the new argument a `pd.unbind` gives the single variables, and before the return a `pd.stack`
joins their new values; `fold_stacks` then removes pairs that cancel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from graphopt.ir.dialect.bulk import replace_arguments, replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.rearrange import Unbind
from graphopt.ir.dialect.ops.shape import Stack
from graphopt.ir.dialect.signature import STATE, main_function, signature_of, stack_entry
from graphopt.ir.dialect.types import dtype_of, shape_of, tensor
from graphopt.passes.engine.rewrite import differentiated_values
from graphopt.passes.storage.batch_stacked_ops import lift

Names = tuple[str, ...]


def state_arguments(module: ModuleOp) -> dict[SSAValue, str]:
    """The arguments that are one state variable each, stored as declared, equal on all replicas."""
    arguments = main_function(module).body.block.args
    ports = signature_of(module).arguments
    return {
        argument: port.name
        for argument, port in zip(arguments, ports, strict=True)
        if port.kind == STATE
        and not (port.per_replica or port.shard_of is not None or port.stack_of or port.order)
    }


def stack_at_rest(module: ModuleOp, groups: Sequence[Names]) -> None:
    """Let the variables of each group, which are state of one type, be one argument."""
    if groups:
        function = main_function(module)
        items = _take_stacks(module, function, groups)
        _give_stacks(module, function, groups, items)


def _take_stacks(
    module: ModuleOp, function: FuncOp, groups: Sequence[Names]
) -> dict[str, SSAValue]:
    """Replace the arguments of the groups; what stands for each variable now."""
    block, ports = function.body.block, signature_of(module).arguments
    by_name = {p.name: a for a, p in zip(block.args, ports, strict=True) if p.kind == STATE}
    gone = {by_name[name] for names in groups for name in names}
    kept = [at for at, argument in enumerate(block.args) if argument not in gone]
    arguments = [block.args[at] for at in kept]
    attrs = function.arg_attrs
    assert attrs is not None
    entries = [attrs.data[at] for at in kept]
    found: dict[str, SSAValue] = {}
    values: dict[SSAValue, SSAValue] = {}
    front = block.first_op
    assert front is not None
    for names in groups:
        item = by_name[names[0]].type
        type_ = tensor((len(names), *shape_of(item)), dtype_of(item))
        stack = BlockArgument(type_, block, len(arguments))
        stack.name_hint = by_name[names[0]].name_hint
        arguments.append(stack)
        entries.append(stack_entry(names))
        unbound = Unbind.make(stack)
        block.insert_op_before(unbound, front)
        found |= zip(names, unbound.results, strict=True)
        values |= {by_name[name]: found[name] for name in names}
    replace_uses(values)
    replace_arguments(block, arguments)
    function.arg_attrs = ArrayAttr(entries)
    return found


def _give_stacks(
    module: ModuleOp, function: FuncOp, groups: Sequence[Names], items: Mapping[str, SSAValue]
) -> None:
    """Replace the results of the groups by one each, and settle the type of the function."""
    block, end = function.body.block, function.body.block.last_op
    assert isinstance(end, ReturnOp)
    attrs = function.res_attrs
    places: dict[str, int] = {}
    for at, entry in enumerate(attrs.data if attrs is not None else ()):
        if STATE in entry.data:
            places[cast("DictionaryAttr", entry).data[STATE].data] = at  # pyright: ignore
    written = [names for names in groups if any(name in places for name in names)]
    gone = {places[name] for names in written for name in names if name in places}
    values = [value for at, value in enumerate(end.operands) if at not in gone]
    entries = [e for at, e in enumerate(attrs.data if attrs is not None else ()) if at not in gone]
    for names in written:
        new = [end.operands[places[n]] if n in places else items[n] for n in names]
        made = Stack.make(new)
        made.results[0].name_hint = new[0].name_hint
        block.insert_op_before(made, end)
        values.append(made.results[0])
        entries.append(stack_entry(names))
    end.operands = values
    if attrs is not None:
        function.res_attrs = ArrayAttr(entries)
    function.function_type = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in values]
    )


def fold_stacks(module: ModuleOp) -> None:
    """Read a stack instead of stacking its items again, also in derivatives.

    An op on all items of a stack becomes an op on the stack.
    """
    block = main_function(module).body.block
    blocked = _differentiate_stacks(module)
    lift(block, differentiated_values(module))
    for op in list(block.ops):
        if isinstance(op, Stack):
            source = _unstacked(op)
            if source is not None and source not in blocked:
                replace_uses({op.results[0]: source.operands[0]})
                op.detach()
                op.erase()
    for op in reversed(list(block.ops)):
        if isinstance(op, Unbind) and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _unstacked(op: Stack) -> Unbind | None:
    """The op that split the values which this one stacks again."""
    source = op.operands[0].owner
    if not isinstance(source, Unbind) or source.attr("axis") or op.attr("axis"):
        return None
    return source if tuple(op.operands) == tuple(source.results) else None


def _differentiate_stacks(module: ModuleOp) -> set[Operation]:
    """Let derivatives with respect to all items of an argument be those of the stack.

    Those with respect to some are left, or to items of a value that something else may read as a
    whole; the ops that give these items, which must stay.
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
    """The same derivative with stacks in place of all their items."""
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
    """The items of a result, right after the op."""
    unbound = Unbind.make(made.results[at], location=made.location)
    block = made.parent
    assert block is not None
    block.insert_op_after(unbound, made)
    return unbound
