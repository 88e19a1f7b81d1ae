"""Well-typed calls of any op: operand types and property values that its type rule accepts.

They are searched, not listed: operands and properties are drawn from the declarations of the class;
the type rule of the op decides, then its lowering, which is traced. `STARTS` has a first call for
the few ops whose operands fit together in a way that random draws would hardly find.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from xdsl.irdl import OptOperandDef, VarOperandDef

from graphopt.errors import GraphoptError
from graphopt.ir.dialect.attrs import Kind
from graphopt.ir.dialect.definition import attr_kinds, default_attrs, definition
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dialect.types import Tensor, agree, dtype_of, shape_of, tensor
from graphopt.testing.starts import STARTS

Shape = tuple[int, ...]
Draw = Callable[[Any, Shape, random.Random], Any]
Groups = tuple[tuple[Tensor, ...], ...]
Fixed = tuple[tuple[int, Tensor], ...]
"""Required operand types, by position."""

SHAPES: Sequence[Shape] = ((2, 3), (2, 3, 4, 4), (3,), (2, 3, 4), (4, 4), (2, 3, 4, 4, 4))
MANY, TRIES = 8, 3000
"""The most calls of an op to keep, and the most to try."""
TRACED = 100
"""The most calls that may fail to trace before a search ends."""
PLAIN = 300
"""The first calls, with float32 and integers only, and mostly one shape for all operands."""
LEFT = ("rng_id", "algorithm", "kernel", "filter_format", "language")
"""Properties that user programs do not set, but the translation and other passes."""
ONE = ("learning_rate", "_pow")
WHOLE = ("index", "indices", "label", "length", "num", "ids", "count", "size", "order", "offset")
"""Words in the names of operands that are mostly one number, and mostly integers."""


@dataclass(frozen=True)
class TypedCall:
    """The operand types of a call by field, its property values, and its result types."""

    operands: Groups
    attrs: Mapping[str, Any]
    results: tuple[Tensor, ...]

    @classmethod
    def of(cls, op_class: type[PdOp], operands: Groups, attrs: Mapping[str, Any]) -> TypedCall:
        """Infer the result types of a call by the type rule; ProgramError when it does not fit."""
        fields = definition(op_class).operands
        groups = operands + ((),) * (len(fields) - len(operands))
        types = infer_types(op_class, groups, {**default_attrs(op_class), **attrs})
        return cls(groups, attrs, tuple(types))

    @property
    def flat(self) -> tuple[Tensor, ...]:
        """The operand types in order."""
        return tuple(each for group in self.operands for each in group)


@cache
def calls_of(
    op_class: type[PdOp], fixed: Fixed = (), wanted: Tensor | None = None, result: int = 0
) -> tuple[TypedCall, ...]:
    """Find calls of an op, some with the default properties; of the `wanted` type at `result`.

    Operands have the `fixed` types. Empty when none is found.
    """

    def fits(call: TypedCall) -> bool:
        given = wanted is None or call.results[result : result + 1] == (wanted,)
        return given and all(call.flat[at : at + 1] == (type,) for at, type in fixed)

    found: list[TypedCall] = []
    seen = set[object]()
    for call in filter(fits, _tried_calls(op_class, fixed, wanted)):
        key = call.operands, repr(call.attrs)
        if key not in seen and _is_traced(op_class, call):
            found.append(call)
        seen.add(key)
        if len(found) == MANY or len(seen) - len(found) > TRACED:
            break
    return tuple(found)


def _tried_calls(op_class: type[PdOp], fixed: Fixed, wanted: Tensor | None) -> Iterator[TypedCall]:
    """Try random calls and yield those that the type rule accepts."""
    chance = random.Random(zlib.crc32(op_class.name.encode()))
    kinds, defaults = attr_kinds(op_class), default_attrs(op_class)
    start = STARTS.get(op_class.name)
    shapes = [shape_of(type) for _, type in fixed] or list(SHAPES)
    shapes = [*around(shape_of(wanted)), *SHAPES] if wanted is not None else shapes
    for turn in range(TRIES if wanted is None else TRIES // 6):
        base = shapes[turn % len(shapes)]
        if start is not None:
            groups, given = start.operands, {**defaults, **start.attrs}
        else:
            groups, given = _operands(op_class, base, turn < PLAIN, chance), dict(defaults)
        groups = _with(groups, fixed)
        if any(name not in given and not _drawn_strategy(kind) for name, kind in kinds.items()):
            return
        vary = turn % 2 or any(name not in given for name in kinds)
        attrs = {
            name: given[name]
            if not vary or (start is not None and name in start.attrs)
            else _value(name, kind, given, base, chance)
            for name, kind in kinds.items()
        }
        if groups is not None:
            try:
                yield TypedCall.of(op_class, groups, attrs)
            except (GraphoptError, ArithmeticError, LookupError, TypeError, ValueError):
                continue  # a rule may trust what the translation has checked


def around(shape: Shape) -> Iterator[Shape]:
    """Yield the shape, and the shapes with one axis more or less."""
    yield shape
    for at in range(len(shape) + 1):
        yield (*shape[:at], 4, *shape[at:])
    for at in range(len(shape)):
        yield (*shape[:at], *shape[at + 1 :])


def _operands(op_class: type[PdOp], base: Shape, plain: bool, chance: random.Random) -> Groups:
    """Draw operand types by field: the first one has the shape `base`, others similar shapes."""
    dtype = (
        "float32" if plain else chance.choice(("float32", "float32", "int64", "bool", "complex64"))
    )
    groups: list[tuple[Tensor, ...]] = []
    for at, (name, field) in enumerate(definition(op_class).operands):
        is_one = not isinstance(field, VarOperandDef) or isinstance(field, OptOperandDef)
        if isinstance(field, OptOperandDef) and chance.random() < 0.5:
            groups.append(())
            continue
        shape = base if not at else _near(name, base, plain, chance)
        type = tensor(shape, _dtype(name, dtype, at == 0 or plain, chance))
        count = 1 if is_one else chance.choice((1, 2, 2, 3))
        groups.append((type,) * count)
    return tuple(groups)


def _near(name: str, base: Shape, plain: bool, chance: random.Random) -> Shape:
    """Draw the shape, a part of it, or another one of its sizes."""
    if any(word in name for word in ONE) and chance.random() < 0.9:
        return (1,)
    if plain and chance.random() < 0.7:
        return base
    own = (base,) * 5 + (base[-1:], base[:1], base[:-1], (1,), ())
    other = tuple(chance.choice((*base, 1, 2, 4)) for _ in range(chance.randint(1, 4)))
    return chance.choice((*own, other, other))


def _dtype(name: str, first: str, alike: bool, chance: random.Random) -> str:
    if any(word in name for word in WHOLE):
        return chance.choice(("int64", "int64", "int32", first, "bool"))
    if alike or chance.random() < 0.75:
        return first
    return chance.choice(("float32", "int64", "int32", "bool", "complex64"))


def _value(
    name: str, kind: Kind, given: Mapping[str, Any], base: Shape, chance: random.Random
) -> Any:
    """Draw a value of a property: mostly the given one, or another one of its kind."""
    if name in LEFT or (name in given and chance.random() < 0.5):
        return given[name]
    default = given.get(name)
    if kind.words:
        return chance.choice(kind.words)
    draw = _drawn_strategy(kind)
    return default if draw is None else draw(default, base, chance)


def _drawn_strategy(kind: Kind) -> Draw | None:
    return DRAWN.get(kind.name.removesuffix(" or none"))


def _number(default: Any, base: Shape, chance: random.Random) -> float:
    if not isinstance(default, (int, float)):
        return chance.choice((0.5, 1.0, 2.0))
    return chance.choice((default * 0.5, default * 1.5)) if default else 0.25


def _integers(default: Any, base: Shape, chance: random.Random) -> tuple[int, ...]:
    way, rank = chance.randrange(5), len(base)
    if way == 0:
        return base
    if way == 1:
        return tuple(chance.sample(range(rank), rank))
    number = chance.choice((0, 1, 2, None))
    count = len(default or ()) or chance.choice((1, 2, 3, rank))
    drawn = ((0, 1, 2) if number is None else (number,) for _ in range(count))
    return tuple(chance.choice(numbers) for numbers in drawn)


DRAWN: Mapping[str, Draw] = {
    "true or false": lambda default, base, chance: chance.random() < 0.5,
    "a number": _number,
    "an integer": lambda default, base, chance: chance.choice((0, 1, 2, 3, -1)),
    "a list of integers": _integers,
    "a list of numbers": lambda default, base, chance: tuple(
        chance.choice((0.5, 1.0, 2.0))
        for _ in range(len(default or ()) or chance.choice((1, 2, 4)))
    ),
    "an element type": lambda default, base, chance: chance.choice(("float32", "int64")),
}
"""By kind of property: a function that draws another value."""


def _with(groups: Groups, fixed: Fixed) -> Groups | None:
    """Replace the operand types at these positions; None when there are fewer."""
    if not fixed:
        return groups
    flat = [each for group in groups for each in group]
    for at, type in fixed:
        if at >= len(flat):
            return None
        flat[at] = type
    rest = iter(flat)
    return tuple(tuple(islice(rest, len(group))) for group in groups)


def _is_traced(op_class: type[PdOp], call: TypedCall) -> bool:
    """True when the lowering takes the operands and gives the types of the type rule."""
    import jax
    import numpy as np
    from xdsl.ir import Block

    import graphopt.lowering.rules  # noqa: F401  (every op can be computed)
    from graphopt.ir.dialect.ops.dynamic import draws
    from graphopt.lowering.call import Call
    from graphopt.lowering.collectives import ALONE

    block = Block(arg_types=call.flat)
    rest = iter(block.args)
    operands = [[next(rest) for _ in group] for group in call.operands]
    try:
        op = op_class.make(*operands, **call.attrs)
    except GraphoptError:
        return False
    block.add_op(op)
    count, computed = len(draws(op)), Call.of(op, ALONE)

    def rule(*arrays: Any) -> Any:
        keys = [jax.random.key(number) for number in range(count)]
        return computed(arrays, tuple(keys) if count > 1 else keys[0] if keys else None)

    if issubclass(op_class, DataSizedOp) and op_class.name in STARTS:
        return True  # other numbers need not fit together
    shapes = [shape_of(type) for type in call.flat]
    dtypes = [np.dtype(dtype_of(type).numpy) for type in call.flat]
    with jax.enable_x64(True), warnings.catch_warnings(action="ignore"):
        warnings.simplefilter("error", DeprecationWarning)  # calls that JAX is going to refuse
        try:
            if issubclass(op_class, DataSizedOp):  # its sizes depend on the numbers
                found = rule(*map(np.ones, shapes, dtypes))
            else:
                found = jax.eval_shape(rule, *map(jax.ShapeDtypeStruct, shapes, dtypes))
        except Exception:
            return False
    return all(
        agree(each.shape, shape_of(type)) and str(each.dtype) == f"{dtype_of(type)}"
        for each, type in zip(found, call.results, strict=True)
    )
