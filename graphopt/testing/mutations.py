"""Changes of a finished program by one constraint, which make patterns near misses, or nearly.

Each gives another well-typed program that still has most of its patterns; the fusion must find out
whether it still applies. A mutation that does not apply returns False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import ProgramError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation as act
from graphopt.ir.dialect.ops import linear, math, norm, random, shape
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.reduce import Mean
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.ops.update.fused import FusedUpdate
from graphopt.ir.dialect.signature import FETCH, STATE, main_function, signature_of
from graphopt.ir.dialect.signature_edit import edit_signature, port_attributes
from graphopt.ir.dialect.types import dtype_of
from graphopt.testing.enclose import enclose_ops

Draw = Callable[[Any], Any]
Twist = Callable[[Draw, ModuleOp], bool]

# ops that can replace each other wherever their types allow
SIBLINGS: Sequence[Sequence[type[PdOp]]] = (
    (math.Add, math.Subtract, math.Multiply, math.Maximum),
    (act.Relu, act.Tanh, act.Sigmoid, math.Exp, act.Silu, act.Relu6, act.Softmax, act.LeakyRelu),
    (act.Softmax, act.LogSoftmax, act.Tanh),
    (norm.LayerNorm, act.Relu),
)
BINARY = (math.Add, math.Subtract, math.Multiply, math.Maximum)
# properties that select random numbers, or that must agree with others
_FIXED = frozenset({"rng_id", "seed", "parameters", "dtype", "values", "amsgrad", "lazy_mode"})
_NUMBERS = {"p": (0.0, 0.5), "epsilon": (1e-5, 0.5), "momentum": (0.5,)}


def ops_of(module: ModuleOp) -> list[PdOp]:
    """List the ops of the function, in order, without those inside of others."""
    return [op for op in main_function(module).body.block.ops if isinstance(op, PdOp)]


def _results(module: ModuleOp) -> list[SSAValue]:
    """List the values that a program can read once more."""
    found = [op.results[0] for op in ops_of(module) if op.results and not isinstance(op, Full)]
    return [value for value in found if dtype_of(value.type).is_floating]


def add_result(module: ModuleOp, kind: str, name: str, value: SSAValue) -> None:
    """Return a value under a name, as a fetch or as state."""
    with edit_signature(main_function(module)) as edit:
        edit.give(value, port_attributes(kind, name))


def _name(module: ModuleOp, stem: str) -> str:
    return f"{stem}.{len(signature_of(module).results)}"


def _end(module: ModuleOp) -> Operation:
    last = main_function(module).body.block.last_op
    assert last is not None
    return last


def _insert(op: PdOp, before: Operation) -> SSAValue:
    assert before.parent is not None
    before.parent.insert_op_before(op, before)
    return op.results[0]


def fetch(draw: Draw, module: ModuleOp) -> bool:
    """Fetch an intermediate value."""
    return _give_back(draw, module, FETCH, "middle")


def keep(draw: Draw, module: ModuleOp) -> bool:
    """Make an intermediate value persistable: the program writes it."""
    return _give_back(draw, module, STATE, "kept")


def _give_back(draw: Draw, module: ModuleOp, kind: str, name: str) -> bool:
    values = _results(module)
    if not values:
        return False
    add_result(module, kind, _name(module, name), draw(st.sampled_from(values)))
    return True


def read_again(draw: Draw, module: ModuleOp) -> bool:
    """Add a reader of a result, maybe of a side result, right after it or at the end."""
    found = [
        value
        for op in ops_of(module)
        for value in op.results
        if dtype_of(value.type).is_floating and not isinstance(op, (Full, Update, FusedUpdate))
    ]
    if not found:
        return False
    value = draw(st.sampled_from(found))
    owner = value.owner
    assert isinstance(owner, Operation)
    assert owner.next_op is not None
    before = owner.next_op if draw(st.booleans()) else _end(module)
    reader = math.Scale.make(value, scale=0.5, bias=1.0)
    add_result(module, FETCH, _name(module, "read"), _insert(reader, before))
    return True


def differentiate(draw: Draw, module: ModuleOp) -> bool:
    """Take a gradient with respect to an intermediate value, or stop it there."""
    grads = [op for op in ops_of(module) if isinstance(op, Grad)]
    last = grads[0] if grads else _end(module)
    before = [op for op in ops_of(module) if op.is_before_in_block(last)]
    middles = [
        value
        for op in before
        for value in op.results[:1]
        if dtype_of(value.type).is_floating and not isinstance(op, (Full, FullLike))
    ]
    if not middles:
        return False
    middle = draw(st.sampled_from(middles))
    if not grads:
        out = draw(st.sampled_from(middles[middles.index(middle) :]))
        loss = _mean(out, last)
        seed = _insert(FullLike.make(loss, value=1.0), last)
        made = Grad.make([loss], [middle], [seed], [])
        add_result(module, FETCH, _name(module, "grad"), _insert(made, last))
        return True
    old = grads[0]
    stopped = [middle] if middle not in old.wrt and draw(st.integers(0, 3)) == 3 else []
    wrt = list(old.wrt) if stopped or middle in old.wrt else [*old.wrt, middle]
    made = Grad.make(
        list(old.of),
        wrt,
        list(old.cotangents),
        [*old.no_grad, *stopped],
        parameters=old.attr("parameters"),
    )
    assert old.parent is not None
    old.parent.insert_op_before(made, old)
    for a, b in zip(old.results, made.results, strict=False):
        a.replace_all_uses_with(b)
    old.detach()
    old.erase()
    if not stopped:
        add_result(module, FETCH, _name(module, "grad"), made.results[wrt.index(middle)])
    return True


def _mean(value: SSAValue, before: Operation) -> SSAValue:
    return _insert(Mean.make(_insert(math.Square.make(value), before)), before)


def property_(draw: Draw, module: ModuleOp) -> bool:
    """Change an axis, permutation, scale, mode or switch of an op, but not its type."""
    candidates = [op for op in ops_of(module) if _changeable(op) and not isinstance(op, Grad)]
    if not candidates:
        return False
    op = draw(st.sampled_from(candidates))
    name = draw(st.sampled_from(_changeable(op)))
    values = op.attr_values()
    found = _other(draw, name, values[name])
    return found != values[name] and replace_op(op, type(op), {**values, name: found})


def _changeable(op: PdOp) -> list[str]:
    return [
        name
        for name, value in op.attr_values().items()
        if name not in _FIXED and isinstance(value, (bool, int, float, str, tuple, list))
    ]


_WORDS: Mapping[str, Sequence[str]] = {
    "mode": ("upscale_in_train", "downgrade_in_infer"),
    "data_format": ("NCHW", "NHWC"),
    "data_layout": ("NCHW", "NHWC"),
}


def _other(draw: Draw, name: str, value: Any) -> Any:
    """Draw another value of a property."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return draw(st.sampled_from(_WORDS.get(name, (value,))))
    if isinstance(value, int):
        return draw(st.sampled_from([value - 1, value + 1, 0, 1, -2]))
    if isinstance(value, float):
        return draw(st.sampled_from(_NUMBERS.get(name, (value + 1, 0.5, 1.0, -1.0, 0.0))))
    if len(value) > 1 and name != "shape":
        return tuple(draw(st.permutations(value)))
    return value


def sibling(draw: Draw, module: ModuleOp) -> bool:
    """Replace an op by one of the same type: the wrong activation, a difference for a sum."""
    pairs = [
        (op, other)
        for op in ops_of(module)
        for family in SIBLINGS
        if type(op) in family
        for other in family
        if other is not type(op)
    ]
    if not pairs:
        return False
    op, other = draw(st.sampled_from(pairs))
    count = 2 if issubclass(other, BINARY) else 1
    shared = {k: v for k, v in op.attr_values().items() if k in attr_kinds(other)}
    return len(op.operands) >= count and replace_op(op, other, shared, op.operands[:count])


def swap(draw: Draw, module: ModuleOp) -> bool:
    """Swap the operands of a sum, a difference or a product."""
    kinds = (math.Add, math.Subtract, math.Multiply, math.Divide, linear.Matmul)
    found = [op for op in ops_of(module) if isinstance(op, kinds)]
    if not found:
        return False
    op = draw(st.sampled_from(found))
    return replace_op(op, type(op), op.attr_values(), op.operands[1::-1])


def share(draw: Draw, module: ModuleOp) -> bool:
    """Let an op read another value of the same type: a shared weight, or the wrong source."""
    block = main_function(module).body.block
    ops = [op for op in ops_of(module) if not isinstance(op, (Grad, Update))]
    pairs: list[tuple[PdOp, int, SSAValue]] = []
    seen: list[SSAValue] = list(block.args)
    for op in ops:
        pairs += [
            (op, index, other)
            for index, value in enumerate(op.operands)
            for other in seen
            if other is not value and other.type == value.type
        ]
        seen += op.results
    if not pairs:
        return False
    op, index, other = draw(st.sampled_from(pairs))
    op.operands[index] = other
    return True


def between(draw: Draw, module: ModuleOp) -> bool:
    """Insert an op between two others: a copy, or one that changes the numbers."""
    uses = [
        (op, index)
        for op in ops_of(module)
        for index, value in enumerate(op.operands)
        if isinstance(value.owner, PdOp)
        and dtype_of(value.type).is_floating
        and not isinstance(op, (Grad, Update))
    ]
    if not uses:
        return False
    op, index = draw(st.sampled_from(uses))
    value = op.operands[index]
    kinds: Sequence[tuple[type[PdOp], Mapping[str, Any]]] = (
        (shape.Assign, {}),
        (math.Scale, {"scale": 1.0}),
        (math.Scale, {"scale": -1.0}),
        (math.Scale, {"scale": 0.5, "bias": 1.0}),
        (random.Dropout, {"p": 0.5, "is_test": True, "mode": "downgrade_in_infer"}),
        (math.Exp, {}),
    )
    kind, attrs = draw(st.sampled_from(kinds))
    op.operands[index] = _insert(kind.make(value, **attrs), op)
    return True


def region(draw: Draw, module: ModuleOp) -> bool:
    """Enclose some consecutive ops in a branch or a loop."""
    ops = ops_of(module)
    stops = [i for i, op in enumerate(ops) if isinstance(op, Grad)]
    end = stops[0] if stops else len(ops)
    if end < 2:
        return False
    start = draw(st.integers(0, end - 1))
    stop = draw(st.integers(start + 1, end))
    return enclose_ops(module, start, stop, loop=draw(st.booleans()))


def replace_op(
    op: PdOp,
    kind: type[PdOp],
    attrs: Mapping[str, Any],
    operands: Sequence[SSAValue] | None = None,
) -> bool:
    """Replace `op` by another op, if its results have the same types."""
    groups = op.operand_groups() if operands is None else [[value] for value in operands]
    try:
        made = kind.make(*groups, **attrs)
        made.verify()
    except (ProgramError, VerifyException):
        return False
    if [v.type for v in made.results] != [v.type for v in op.results[: len(made.results)]]:
        return False
    if any(result.uses for result in op.results[len(made.results) :]):
        return False
    _insert(made, op)
    for old, new in zip(op.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    return True


TWISTS: Mapping[str, Twist] = {
    "fetch": fetch,
    "keep": keep,
    "read again": read_again,
    "differentiate": differentiate,
    "property": property_,
    "sibling": sibling,
    "swap": swap,
    "share": share,
    "between": between,
    "region": region,
}
