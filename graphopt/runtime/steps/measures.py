"""Variables that are compiled as fetches in addition to the requested ones.

A measure such as an accuracy costs next to nothing beside the step of a large model, and compiling
that model once more costs seconds. So the measures of such a training program are fetches from its
first compilation on, unless a pass could rewrite the ops that compute their operands. Other
variables follow when fetches change from run to run.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod

from graphopt.ir.program import GRAD_SUFFIX, Block, Operator, Program, Variable
from graphopt.ir.program.gradient_types import GRAD_TYPE, forward_type

Names = tuple[str, ...]

MOST_BYTES = 64 << 20
"""The most bytes of the variables compiled as fetches before any request."""
MOST_MEASURES = 8
MUCH_WORK = 1 << 24
"""From so many multiplications in a step on, which take milliseconds, a measure costs nothing."""
SHARE = 512
"""The multiplications of a step for each element of an additional measure, at least."""
MOST_ELEMENTS = 1 << 20
"""The most elements of a measure once fetches change from run to run."""

# each of these multiplies every weight at least once for each row
_WITH_WEIGHTS = ("mul", "matmul", "conv", "depthwise_conv", "fc", "rnn", "lstm", "gru")
# the operators of additional measures: none draws, calls Python or stores anything
_OF_MEASURES = frozenset(
    (
        *("abs", "accuracy", "arg_max", "argmax", "cast", "cross_entropy", "cross_entropy2"),
        *("elementwise_add", "elementwise_div", "elementwise_mul", "elementwise_sub", "equal"),
        *("greater_equal", "greater_than", "less_equal", "less_than", "log", "log_softmax", "mean"),
        *("not_equal", "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min"),
        *("reduce_sum", "reshape", "reshape2", "scale", "sigmoid", "slice", "softmax"),
        *("softmax_with_cross_entropy", "sqrt", "square", "squeeze", "squeeze2", "sum", "top_k"),
        *("top_k_v2", "unsqueeze", "unsqueeze2"),
    )
)

# patterns of passes begin after these operators, and end before them
_REDUCTIONS = ("mean", "reduce_", "accuracy", "auc", "squared_l2_norm")
_ENDS = (
    *(*_REDUCTIONS, "arg_max", "bce_loss", "cross_entropy", "huber_loss", "log_loss", "nll_loss"),
    *("sigmoid_cross_entropy_with_logits", "softmax_with_cross_entropy", "square_error_cost"),
    *("top_k",),
)


def measures(program: Program, names: Names, rows: int, *, first: bool) -> list[str]:
    """Find scalars that training computes from its feeds at almost no cost beside `names`.

    None is, or reads, a value inside a pattern that passes rewrite. Open sizes count as `rows`. A
    small program gets none with its `first` fetches: they would prolong its step, and it compiles
    quickly.
    """
    block = program.global_block()
    if not any(map(_is_derivative, block.ops)):
        return []
    work = rows * _weights(block)
    if first and work < MUCH_WORK:
        return []
    left = min(work // SHARE, MOST_ELEMENTS) if first else MOST_ELEMENTS
    found: list[str] = []
    needed = _needed_ops(block, names)
    # scripts watch the last scalars
    for name in reversed(_numbers_of_feeds(block)):
        if name in names or len(found) == MOST_MEASURES:
            continue
        extra = _ancestors(block, [name]) - needed
        ops = [block.ops[at] for at in sorted(extra)]
        if not all(_is_of_measures(block, op) for op in ops):
            continue
        read = {name, *(each for op in ops for each in op.input_arg_names)}
        if any(_is_inside(block, needed, each) for each in read):
            continue
        elements = sum(_elements(block, op, rows) for op in ops)
        if elements <= left:
            left -= elements
            needed |= extra
            found.append(name)
    return found[::-1]


def _weights(block: Block) -> int:
    """Count the weights that ops multiply with their inputs."""
    used = {
        name
        for op in block.ops
        if op.type.startswith(_WITH_WEIGHTS)
        for name in op.input_arg_names
        if _is_state(block, name)
    }
    return sum(prod(block.vars[name].shape) for name in used if len(block.vars[name].shape) > 1)


def _numbers_of_feeds(block: Block) -> list[str]:
    """List the floating-point scalars that depend on feeds, without gradients."""
    of_feeds = {name for name, variable in block.vars.items() if variable.is_data}
    found: dict[str, None] = {}
    for op in block.ops:
        if of_feeds.isdisjoint(op.input_arg_names):
            continue
        for name in op.output_arg_names:
            variable = block.vars.get(name)
            if variable is None or variable.persistable or GRAD_SUFFIX in name:
                continue
            of_feeds.add(name)
            if is_plain(variable) and prod(variable.shape) == 1:
                found[name] = None
    return list(found)


def _needed_ops(block: Block, names: Names) -> set[int]:
    """Find the positions of the ops that fetches or the state need."""
    state = (
        name
        for op in block.ops
        for name in op.output_arg_names
        if name in block.vars and _is_state(block, name)
    )
    return _ancestors(block, [*names, *state])


def _ancestors(block: Block, names: Iterable[str]) -> set[int]:
    """Find the positions of the ops that these variables depend on; any earlier writer counts."""
    wanted, found = set(names), set[int]()
    for at in range(len(block.ops) - 1, -1, -1):
        op = block.ops[at]
        if not wanted.isdisjoint(op.output_arg_names):
            found.add(at)
            wanted.update(op.input_arg_names)
    return found


def _is_derivative(op: Operator) -> bool:
    return op.type == GRAD_TYPE or forward_type(op.type) is not None


def _is_inside(block: Block, needed: Collection[int], name: str) -> bool:
    """Return whether a value connects two `needed` ops that a pass may fuse."""
    ops = [block.ops[at] for at in sorted(needed)]
    made = next((op.type for op in ops if name in op.output_arg_names), "")
    if not made or made.startswith(_REDUCTIONS):
        return False
    readers = [op for op in ops if name in op.input_arg_names and not _is_derivative(op)]
    return not all(op.type.startswith(_ENDS) for op in readers)


def _is_of_measures(block: Block, op: Operator) -> bool:
    names = (*op.input_arg_names, *op.output_arg_names)
    known = all(name in block.vars and block.vars[name].has_type for name in names)
    return op.type in _OF_MEASURES and known and not any(_is_state(block, n) for n in names)


def _is_state(block: Block, name: str) -> bool:
    variable = block.vars.get(name)
    return variable is not None and variable.persistable


def _elements(block: Block, op: Operator, rows: int) -> int:
    """Count the elements of an op's operands."""
    return sum(_size(block.vars[name].shape, rows) for name in op.input_arg_names)


def _size(shape: Sequence[int], rows: int) -> int:
    return prod(size if size >= 0 else rows for size in shape)


def fetchable(program: Program, names: Names, rows: int) -> Iterator[str]:
    """Yield variables that operators compute, first those after the last of `names`.

    Open sizes count as `rows`. Gradients are included when one of the names is a gradient.
    """
    block = program.global_block()
    gradients = any(GRAD_SUFFIX in name for name in names)
    made = dict.fromkeys(name for op in block.ops for name in op.output_arg_names)
    order = list(made)
    start = max((order.index(name) for name in names if name in made), default=-1) + 1
    left = MOST_BYTES
    for name in itertools.chain(order[start:], order[:start]):
        variable = block.vars.get(name)
        if variable is None or variable.persistable or not is_plain(variable):
            continue
        if not gradients and GRAD_SUFFIX in name:
            continue
        size = 8 * _size(variable.shape, rows)
        if size <= left:
            left -= size
            yield name


def is_plain(variable: Variable) -> bool:
    """Return whether a variable is one array of floating-point numbers."""
    return variable.has_type and variable.dtype.is_floating and not variable.lod_level
