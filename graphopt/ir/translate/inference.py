"""The part of a program that computes given outputs from given inputs, for saving a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from graphopt.errors import UnsupportedError
from graphopt.ir.program import (
    EMPTY,
    AttrKind,
    Block,
    Operator,
    OpRole,
    Program,
    VarKind,
)
from graphopt.ir.translate.paddle_forms import to_paddle_forms

_BLOCK_KINDS = (AttrKind.BLOCK, AttrKind.BLOCKS)
# Attributes that only training or debugging needs; published files omit them.
_TRAINING_ATTRS = (
    "op_role",
    "op_role_var",
    "op_namescope",
    "op_callstack",
    "op_device",
    "with_quant_attr",
)

# Paddle needs this slot even if a branch reads nothing
_NEEDED_EMPTY = ("conditional_block", "Input")


def inference_program(
    program: Program, feeds: Sequence[str], fetches: Sequence[str], *, prune: bool = True
) -> Program:
    """Copy the part of a program that the fetches need, in test mode.

    The copy has feed and fetch operators. Fed variables are not computed. Without `prune` every
    operator stays. Raises ValueError for a feed that the program lacks or that the fetches do not
    depend on, and for a data variable that they need and that is not fed; UnsupportedError if a
    fetch needs a derivative.
    """
    twin = program.clone()
    block = twin.global_block()
    block.ops = [op for op in block.ops if op.type not in ("feed", "fetch")]
    if prune:
        keep_only(twin, feeds, fetches)
    for block in twin.blocks:
        for op in block.ops:
            _set_test_mode(op)
    to_paddle_forms(twin)
    add_feeds_and_fetches(twin, feeds, fetches)
    return twin


def keep_only(program: Program, feeds: Sequence[str], fetches: Sequence[str]) -> None:
    """Remove the operators, blocks and variables that the fetches do not need."""
    needed, fed = set(fetches), set(feeds)
    kept: list[Operator] = []
    block = program.global_block()
    for op in reversed(block.ops):
        # A fed variable is not computed, but may be updated in place.
        made = needed.difference(fed.difference(op.input_arg_names))
        is_update = op.role & (OpRole.OPTIMIZE | OpRole.LR_SCHEDULE)
        if is_update or made.isdisjoint(op.output_arg_names):
            continue
        if op.type == "pd_grad":
            raise UnsupportedError(
                f"the fetch depends on the derivative {op.output_arg_names}, which graphopt cannot "
                "write as Paddle's gradient operators; save the whole program with static.save"
            )
        kept.append(op)
        needed.update(_names_read(program, op))
    block.ops = kept[::-1]
    drop_blocks(program)
    used = {*feeds, *fetches}
    for each in program.blocks:
        used.update(n for op in each.ops for n in (*op.input_arg_names, *op.output_arg_names))
    for each in program.blocks:
        each.vars = {name: v for name, v in each.vars.items() if name in used}
    program.touch()
    _check_feeds(block, feeds, fetches)
    _check_data(block, feeds, fetches)


def state_written(program: Program) -> list[str]:
    """List the persistable variables that a program writes also in test mode."""
    block = program.global_block()
    ops = [op for op in block.ops if "is_test" not in op.attrs]
    names = dict.fromkeys(name for op in ops for name in op.output_arg_names)
    return [name for name in names if name in block.vars and block.vars[name].persistable]


def _check_feeds(block: Block, feeds: Sequence[str], fetches: Sequence[str]) -> None:
    read = {name for each in block.program.blocks for op in each.ops for name in op.input_arg_names}
    for index, name in enumerate(feeds):
        if name not in block.vars or (name not in read and name not in fetches):
            raise ValueError(
                f"The feeded_var_names[{index}]: '{name}' doesn't exist in pruned inference "
                f"program. Please check whether '{name}' is a valid feed_var name, or remove it "
                f"from feeded_var_names if '{name}' is not involved in the target_vars calculation."
            )


def _check_data(block: Block, feeds: Sequence[str], fetches: Sequence[str]) -> None:
    read = {name for each in block.program.blocks for op in each.ops for name in op.input_arg_names}
    for name in sorted({*read, *fetches}.difference(feeds)):
        variable = block.vars.get(name)
        if variable is not None and variable.need_check_feed:
            raise ValueError(
                f"the fetches {list(fetches)} need the data variable '{name}', which is not among "
                f"the feeds {list(feeds)}; add it to feed_vars"
            )


def block_indices(op: Operator) -> Iterator[int]:
    """Yield the indices of the blocks that an operator runs."""
    for name, value in op.attrs.items():
        for item in _items(value):
            if isinstance(item, Block):
                yield item.idx
            elif op.attr_kinds.get(name) in _BLOCK_KINDS or name == "sub_block":
                yield item


def _items(value: Any) -> Sequence[Any]:
    return cast(Sequence[Any], value) if isinstance(value, list | tuple) else (value,)


def _names_read(program: Program, op: Operator) -> Iterator[str]:
    """Yield the names that an operator reads, and the outer names that its blocks read."""
    yield from op.input_arg_names
    for index in block_indices(op):
        block = program.block(index)
        for inner in block.ops:
            yield from (name for name in _names_read(program, inner) if name not in block.vars)


def drop_blocks(program: Program) -> None:
    """Remove the blocks that no operator runs any more, and renumber the others."""
    used = {0}
    todo = [0]
    while todo:
        block = program.block(todo.pop())
        found = [i for op in block.ops for i in block_indices(op)]
        found += [i for i in (block.parent_idx, block.forward_block_idx) if i >= 0]
        todo += [i for i in found if i not in used]
        used.update(found)
    if len(used) == program.num_blocks:
        return
    number = {old: new for new, old in enumerate(sorted(used))}
    program.blocks = [program.blocks[old] for old in sorted(used)]
    for block in program.blocks:
        block.idx = number[block.idx]
        block.parent_idx = number.get(block.parent_idx, -1)
        block.forward_block_idx = number.get(block.forward_block_idx, -1)
    for block in program.blocks:
        for op in block.ops:
            for name, value in op.attrs.items():
                if op.attr_kinds.get(name) in _BLOCK_KINDS or _names_blocks(name, value):
                    op.attrs[name] = _renumber(value, program, number)


def _names_blocks(name: str, value: Any) -> bool:
    return name == "sub_block" or any(isinstance(item, Block) for item in _items(value))


def _renumber(value: Any, program: Program, number: dict[int, int]) -> Any:
    if isinstance(value, list | tuple):
        return [_renumber(item, program, number) for item in _items(cast(Any, value))]
    return program.blocks[value.idx] if isinstance(value, Block) else number[value]


def _set_test_mode(op: Operator) -> None:
    if "is_test" in op.attrs:
        op.attrs["is_test"] = True
    if op.type == "batch_norm":
        for name in op.outputs.pop("ReserveSpace", ()):
            op.block.vars.pop(name, None)


def add_feeds_and_fetches(program: Program, feeds: Sequence[str], fetches: Iterable[str]) -> None:
    """Prepend a feed operator for each input, and append a fetch operator for each output."""
    block = program.global_block()
    held = {"feed": VarKind.FEED_MINIBATCH, "fetch": VarKind.FETCH_LIST}
    for name, kind in held.items():
        if name == "fetch" or feeds:
            block.vars.pop(name, None)
            block.create_var(name, persistable=True, kind=kind)
    feed_ops, fetch_ops = columns(block, feeds, enumerate(fetches))
    # Paddle inserts each feed before the earlier ones.
    block.ops[:] = [*feed_ops[::-1], *block.ops, *fetch_ops]
    program.touch()


def columns(
    block: Block,
    feeds: Sequence[str],
    fetches: Iterable[tuple[int, str]],
    held: Sequence[str] = ("feed", "fetch"),
) -> tuple[list[Operator], list[Operator]]:
    """Build the feed and fetch operators of the variables `held`, which number inputs, outputs."""
    feed, fetch = held
    return [
        Operator(block, "feed", {"X": [feed]}, {"Out": [name]}, {"col": column})
        for column, name in enumerate(feeds)
    ], [
        Operator(block, "fetch", {"X": [name]}, {"Out": [fetch]}, {"col": column})
        for column, name in fetches
    ]


def without_training_info(program: Program, clip_extra: bool = True) -> Program:
    """Copy a program so that no variable is a parameter or stops gradients.

    With `clip_extra`, operators also lose their empty input slots and the attributes that only
    training or debugging needs, such as the call stack.
    """
    twin = program.clone()
    for block in twin.blocks:
        for variable in block.vars.values():
            variable.is_parameter = False
            variable.stop_gradient = False
        if clip_extra:
            for op in block.ops:
                for name in _TRAINING_ATTRS:
                    op.attrs.pop(name, None)
                op.inputs = {
                    slot: names
                    for slot, names in op.inputs.items()
                    if (names and names != [EMPTY]) or (op.type, slot) == _NEEDED_EMPTY
                }
    return twin
