"""An op with dynamic (tensor-valued) attributes: a shape, an axis, a count that the run decides.

`pd.dynamic` stands for another op. When the values are found to be constants of the program the
translation makes the plain op instead, so passes need not know this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, var_operand_def, var_result_def

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.attrs import dictionary, integers, string, strings
from graphopt.ir.dialect.definition import SEGMENTS, attr_kinds, default_attrs
from graphopt.ir.dialect.op import PdOp, bind_groups, class_of
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Tensor,
    like,
    normalize_axes,
    rank_of,
    shape_of,
    tensor,
)

# the elements of a property as far as they are known; None: not even their number is
Partial = tuple[int | None, ...] | None


@irdl_op_definition
class Dynamic(OpaqueOp):
    """The op named `op` on `inputs` (`groups` operands for each of its fields).

    Its properties are `attrs`, and those named in `dynamic` are read from `values` when the program
    runs. Paddle: operators with inputs such as ShapeTensor, AxisTensor, StartsTensorList.
    """

    name = "pd.dynamic"
    inputs = var_operand_def(Tensor)
    values = var_operand_def(Tensor)
    outs = var_result_def(Tensor)
    op = string()
    groups = integers()
    dynamic = strings()
    attrs = dictionary()

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        inputs: tuple[Tensor, ...],
        values: tuple[Tensor, ...],
        op: str,
        groups: Sequence[int],
        dynamic: Sequence[str],
        attrs: DictionaryAttr,
    ) -> tuple[Tensor, ...]:
        count = len(dynamic)
        if count != len(values):
            raise ProgramError(f"dynamic names {count} properties, but there are {len(values)}")
        unknown = {n: _nothing_known(v) for n, v in zip(dynamic, values, strict=True)}
        op_class = class_of(op)
        return infer_dynamic(op_class, grouped(inputs, groups), decoded(op_class, attrs), unknown)


# the ops that name another one, with its properties in `attrs`
STAND_INS = ("pd.dynamic", "pd.vjp")


def draws(op: Operation) -> tuple[tuple[int, int], ...]:
    """The seed and the number among a program's random ops, for each draw of an op."""
    if isinstance(op, RandomOp):
        return op.draws()
    if isinstance(op, PdOp) and op.name in STAND_INS:
        return _drawn(op.attr("op"), op.attr("attrs"))
    return ()


def _drawn(name: str, stored: DictionaryAttr) -> tuple[tuple[int, int], ...]:
    attrs = decoded(class_of(name), stored)
    if name in STAND_INS:
        return _drawn(attrs["op"], attrs["attrs"])
    is_random = issubclass(class_of(name), RandomOp)
    return ((attrs["seed"], attrs["rng_id"]),) if is_random else ()


def grouped(flat: Sequence[Any], groups: Sequence[int]) -> list[Sequence[Any]]:
    """A flat list of operands cut into groups of these sizes."""
    if sum(groups) != len(flat):
        raise ProgramError(f"groups {list(groups)} do not share out {len(flat)} operands")
    ends = [sum(groups[: i + 1]) for i in range(len(groups))]
    return [flat[end - size : end] for end, size in zip(ends, groups, strict=True)]


def decoded(
    op_class: type[PdOp], attrs: DictionaryAttr | Mapping[str, Attribute]
) -> dict[str, Any]:
    """The properties of `op_class` in `attrs` as Python values, defaults filled in."""
    kinds = attr_kinds(op_class)
    stored = attrs.data if isinstance(attrs, DictionaryAttr) else attrs
    unknown = stored.keys() - kinds.keys()
    if unknown:
        raise ProgramError(f"'{op_class.name}' has no attribute '{min(unknown)}'")
    given = {name: kinds[name].decode(attr) for name, attr in stored.items()}
    return {**default_attrs(op_class), **given}


def _nothing_known(value: Tensor) -> Partial:
    shape = shape_of(value)
    return None if UNKNOWN in shape else (None,) * (shape[0] if shape else 1)


def infer_dynamic(
    op_class: type[PdOp],
    groups: Sequence[Sequence[Attribute]],
    attrs: Mapping[str, Any],
    unknown: Mapping[str, Partial],
) -> tuple[Tensor, ...]:
    """Result types of `op_class` when the properties in `unknown` are known in part only."""
    for name in unknown:
        if name not in attr_kinds(op_class):
            raise ProgramError(f"'{op_class.name}' has no attribute '{name}'")
    rule = _RULES.get(op_class.name, _any_size)
    return rule(bind_groups(op_class, groups), attrs, unknown)


Bound = Mapping[str, Any]
Rule = Callable[[Bound, Bound, Mapping[str, Partial]], tuple[Tensor, ...]]


def _first(operands: Bound) -> Tensor:
    first: Tensor | tuple[Tensor, ...] = next(iter(operands.values()))
    return first[0] if isinstance(first, tuple) else first


def _any_size(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    """The rank of the first operand, no dimension known."""
    x = _first(operands)
    return (like(x, shape=(UNKNOWN,) * rank_of(x)),)


def _same(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    return (_first(operands),)


def _sizes(unknown: Mapping[str, Partial], name: str) -> tuple[int | None, ...]:
    sizes = unknown[name]
    if sizes is None:
        raise UnsupportedError(
            f"the number of dimensions in '{name}' must be known before the program runs; "
            "give a tensor of known length"
        )
    return sizes


def _new(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    """A new tensor whose shape is the property."""
    if "shape" not in unknown:
        return (tensor(attrs["shape"], attrs["dtype"]),)
    sizes = _sizes(unknown, "shape")
    return (tensor([UNKNOWN if n is None else n for n in sizes], attrs["dtype"]),)


def _reshape(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x, sizes = operands["x"], _sizes(unknown, "shape")
    own = shape_of(x)
    shape = [
        own[at] if size == 0 and at < len(own) else UNKNOWN if size is None else size
        for at, size in enumerate(sizes)
    ]
    return (like(x, shape=shape),)


def _expand(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x, sizes = operands["x"], _sizes(unknown, "shape")
    own = (1,) * (len(sizes) - rank_of(x)) + shape_of(x)
    if len(sizes) < rank_of(x):
        raise ProgramError(f"{list(own)} cannot expand to the lower rank {len(sizes)}")
    shape: list[int] = []
    for size, dim in zip(sizes, own, strict=True):
        keeps = size == -1 or (size is None and dim > 1)
        shape.append(dim if keeps else UNKNOWN if size is None else size)
    return (like(x, shape=shape),)


def _tile(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x = operands["x"]
    rank = max(rank_of(x), len(_sizes(unknown, "repeat_times")))
    return (like(x, shape=(UNKNOWN,) * rank),)


def _slice(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    """The axes that are cut are unknown; those with one element left are dropped."""
    x = operands["input"] if "input" in operands else operands["x"]
    shape = list(shape_of(x))
    for axis in normalize_axes(attrs["axes"], len(shape)):
        shape[axis] = UNKNOWN
    dropped = set(normalize_axes(attrs.get("decrease_axis", ()), len(shape)))
    return (like(x, shape=[dim for axis, dim in enumerate(shape) if axis not in dropped]),)


def _split(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x = operands["x"]
    sections = unknown.get("sections") or attrs["sections"]
    shape = [UNKNOWN] * rank_of(x)
    if "axis" not in unknown:
        (axis,) = normalize_axes((attrs["axis"],), len(shape))
        shape = list(shape_of(x))
        parts = [(*shape[:axis], n, *shape[axis + 1 :]) for n in sections or (UNKNOWN,)]
        shapes = [[UNKNOWN if n is None else n for n in part] for part in parts]
        return tuple(like(x, shape=s) for s in shapes * (1 if sections else attrs["num"]))
    return (like(x, shape=shape),) * (len(sections) or attrs["num"])


def _topk(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x = operands["x"]
    shape = list(shape_of(x))
    if shape:
        shape[normalize_axes((attrs["axis"],), len(shape))[0]] = UNKNOWN
    return like(x, shape=shape), like(x, shape=shape, dtype="int64")


def _columns(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    """A new last axis."""
    x = _first(operands)
    dtype = attrs["dtype"] if "dtype" in attrs else attrs["out_dtype"]
    return (like(x, shape=(*shape_of(x), UNKNOWN), dtype=dtype),)


def _unsqueeze(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x = _first(operands)
    return (like(x, shape=(UNKNOWN,) * (rank_of(x) + len(_sizes(unknown, "axis")))),)


def _range(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    known = attrs["num"] if "num" in attrs and "num" not in unknown else UNKNOWN
    return (tensor((known,), attrs["dtype"]),)


def _reduce(operands: Bound, attrs: Bound, unknown: Mapping[str, Partial]) -> tuple[Tensor, ...]:
    x, axes = operands["x"], _sizes(unknown, "axis")
    rank = rank_of(x) if attrs["keepdim"] else rank_of(x) - len(axes)
    return (like(x, shape=(UNKNOWN,) * rank, dtype=attrs.get("dtype")),)


_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "all", "any", "amax", "amin", "logsumexp")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("pd.full", "pd.uniform", "pd.gaussian", "pd.randint"), _new),
    "pd.truncated_gaussian": _new,
    "pd.reshape": _reshape,
    "pd.expand": _expand,
    "pd.tile": _tile,
    "pd.slice": _slice,
    "pd.strided_slice": _slice,
    "pd.split": _split,
    "pd.topk": _topk,
    "pd.one_hot": _columns,
    "pd.sequence_mask": _columns,
    "pd.unsqueeze": _unsqueeze,
    "pd.arange": _range,
    "pd.linspace": _range,
    "pd.logspace": _range,
    **dict.fromkeys(("pd.roll", "pd.cumsum", "pd.set_value", "pd.flip"), _same),
    **{f"pd.{name}": _reduce for name in _REDUCTIONS},
}
