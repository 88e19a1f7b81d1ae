"""Sizes that a run decides: attributes that are tensors, data-sized results, tensor arrays.

`pd.dynamic` stands for another op. When its values are constants of the program, the translation
builds the plain op instead, so passes need not know `pd.dynamic`. Programs with data-sized results
run op by op. A tensor array of open length is one tensor of its elements along the first axis; they
may differ in the size of their own first axis, which is unknown then. An array whose length follows
from the program needs no op (see `translate/blocks/arrays.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import DictionaryAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import dictionary, flag, integer, integers, string, strings
from graphopt.ir.dialect.attrs import dtype as dtype_property
from graphopt.ir.dialect.definition import SEGMENTS, attr_kinds, default_attrs
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule, class_of
from graphopt.ir.dialect.ops.base import DataSizedOp, OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Partial,
    Tensor,
    broadcast_shapes,
    check_count,
    compatible,
    dtype_of,
    element_count,
    like,
    normalize_axis,
    rank_of,
    shape_of,
    show,
)


@irdl_op_definition
class Dynamic(OpaqueOp):
    """The op named `op` on `inputs` (`groups` operands for each of its fields).

    Its properties are `attrs`; the program reads the properties named in `dynamic` from `values`
    when it runs. Paddle: operators with inputs such as ShapeTensor, AxisTensor, StartsTensorList.
    """

    name = "pd.dynamic"
    inputs = var_operand_def(TENSOR)
    values = var_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
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
        return infer_dynamic(
            op_class, group_operands(inputs, groups), decode_properties(op_class, attrs), unknown
        )


# the ops that wrap an op, given by its name, with its properties in `attrs`
STAND_INS = ("pd.dynamic", "pd.vjp")


def is_kind_of(op: Operation, kinds: tuple[type[PdOp], ...]) -> bool:
    """True for an op of these classes, or one that stands in for an op of them."""
    found = type(op)
    attrs: Mapping[str, Any] = op.attr_values() if isinstance(op, PdOp) else {}
    while found.name in STAND_INS:
        found, stored = class_of(attrs["op"]), attrs["attrs"]
        attrs = decode_properties(found, stored)
    return issubclass(found, kinds)


def draws(op: Operation) -> tuple[tuple[int, int], ...]:
    """Return the seed and the RNG id of each draw of an op."""
    if isinstance(op, RandomOp):
        return op.draws()
    if isinstance(op, PdOp) and op.name in STAND_INS:
        return _random_effects(op.attr("op"), op.attr("attrs"))
    return ()


def _random_effects(name: str, stored: DictionaryAttr) -> tuple[tuple[int, int], ...]:
    """Return the seed and the RNG id that an op's properties hold, if it draws."""
    attrs = decode_properties(class_of(name), stored)
    if name in STAND_INS:
        return _random_effects(attrs["op"], attrs["attrs"])
    is_random = issubclass(class_of(name), RandomOp)
    return ((attrs["seed"], attrs["rng_id"]),) if is_random else ()


def group_operands(flat: Sequence[Any], groups: Sequence[int]) -> list[Sequence[Any]]:
    """Split a flat list of operands into groups of these sizes."""
    if sum(groups) != len(flat):
        raise ProgramError(f"groups {list(groups)} do not share out {len(flat)} operands")
    ends = [sum(groups[: i + 1]) for i in range(len(groups))]
    return [flat[end - size : end] for end, size in zip(ends, groups, strict=True)]


def decode_properties(
    op_class: type[PdOp], attrs: DictionaryAttr | Mapping[str, Attribute]
) -> dict[str, Any]:
    """Decode the properties of `op_class` in `attrs` to Python values, with defaults filled in."""
    kinds = attr_kinds(op_class)
    stored = attrs.data if isinstance(attrs, DictionaryAttr) else attrs
    unknown = stored.keys() - kinds.keys()
    if unknown:
        raise ProgramError(f"'{op_class.name}' has no attribute '{min(unknown)}'")
    given = {name: kinds[name].decode(attr) for name, attr in stored.items()}
    return {**default_attrs(op_class), **given}


def _nothing_known(value: Tensor) -> Partial:
    shape = shape_of(value)
    if UNKNOWN in shape:
        return None
    count = shape[0] if shape else 1
    check_count(count, "sizes, axes or positions in one tensor")
    return (None,) * count


def infer_dynamic(
    op_class: type[PdOp],
    groups: Sequence[Sequence[Attribute]],
    attrs: Mapping[str, Any],
    unknown: Mapping[str, Partial],
) -> tuple[Tensor, ...]:
    """Infer the result types of `op_class` when the properties in `unknown` are known in part."""
    kinds = attr_kinds(op_class)
    for name, elements in unknown.items():
        if name not in kinds:
            raise ProgramError(f"'{op_class.name}' has no attribute '{name}'")
        if elements is not None and len(elements) != 1 and not kinds[name].many:
            raise ProgramError(
                f"'{name}' of '{op_class.name}' is one number, found {len(elements)}"
            )
    known = {**bind_groups(op_class, groups), **attrs, **unknown}
    types: Tensor | tuple[Tensor, ...] = call_rule(op_class.infer_partly, known)
    return (types,) if isinstance(types, TensorType) else types


@irdl_op_definition
class Nonzero(DataSizedOp):
    """Indices of the elements that are not 0, one row for each. Paddle: where_index."""

    name = "pd.nonzero"
    condition = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(condition: Tensor) -> Tensor:
        if not rank_of(condition):
            raise ProgramError("nonzero needs axes, found a scalar; reshape it to [1]")
        return like(condition, shape=(UNKNOWN, rank_of(condition)), dtype="int64")


@irdl_op_definition
class MaskedSelect(DataSizedOp):
    """The elements of x where the mask is true, in order. Paddle: masked_select."""

    name = "pd.masked_select"
    DECIDED_BY: ClassVar[str] = "mask"
    x = operand_def(TENSOR)
    mask = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, mask: Tensor) -> Tensor:
        if dtype_of(mask) != "bool":
            raise OperandError(f"the mask must be bool, found {show(mask)}")
        broadcast_shapes(shape_of(x), shape_of(mask))
        return like(x, shape=(UNKNOWN,))


@irdl_op_definition
class Unique(DataSizedOp):
    """The different elements, or slices along `axis`, in order. Paddle: unique.

    Further results: the first position of each, the index of each element among them, and counts.
    """

    name = "pd.unique"
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    indices = result_def(TENSOR)
    inverse = result_def(TENSOR)
    counts = result_def(TENSOR)
    axis = integers(())
    dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, axis: tuple[int, ...], dtype: str) -> tuple[Tensor, ...]:
        if not axis:
            out, elements = (UNKNOWN,), element_count(shape_of(x))
        else:
            at = normalize_axis(axis[0], rank_of(x))
            out = tuple(UNKNOWN if i == at else dim for i, dim in enumerate(shape_of(x)))
            elements = shape_of(x)[at]
        index = like(x, shape=(UNKNOWN,), dtype=dtype)
        return like(x, shape=out), index, like(x, shape=(elements,), dtype=dtype), index


@irdl_op_definition
class UniqueConsecutive(DataSizedOp):
    """x with runs of equal elements, or slices along `axis`, made one. Paddle: unique_consecutive.

    Further results: the index that each element has in the result, and the lengths of the runs.
    """

    name = "pd.unique_consecutive"
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    inverse = result_def(TENSOR)
    counts = result_def(TENSOR)
    axis = integers(())
    dtype = dtype_property("int64")

    @staticmethod
    def infer(x: Tensor, axis: tuple[int, ...], dtype: str) -> tuple[Tensor, ...]:
        out, _, inverse, counts = Unique.infer(x, axis, dtype)
        return out, inverse, counts


@irdl_op_definition
class Bincount(DataSizedOp):
    """Number of times each integer 0, 1, … is in x, or the sum of weights. Paddle: bincount."""

    name = "pd.bincount"
    x = operand_def(TENSOR)
    weights = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    minlength = integer(0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(x: Tensor, weights: Tensor | None) -> Tensor:
        check_integer("x", x)
        if rank_of(x) != 1:
            raise ProgramError(f"bincount counts the elements of a vector, found {show(x)}")
        if weights is None:
            return like(x, shape=(UNKNOWN,), dtype="int64")
        return like(weights, shape=(UNKNOWN,))


@irdl_op_definition
class RepeatInterleave(DataSizedOp):
    """Slice i along `axis`, repeats[i] times. Paddle: repeat_interleave with RepeatsTensor."""

    name = "pd.repeat_interleave_with_tensor_index"
    DECIDED_BY: ClassVar[str] = "repeats"
    x = operand_def(TENSOR)
    repeats = operand_def(TENSOR)
    out = result_def(TENSOR)
    axis = integer(0)

    @staticmethod
    def infer(x: Tensor, repeats: Tensor, axis: int) -> Tensor:
        at = normalize_axis(axis, rank_of(x))
        sizes = (shape_of(x)[at], *shape_of(repeats))
        if rank_of(repeats) != 1 or (UNKNOWN not in sizes and sizes[0] != sizes[1] != 1):
            raise ProgramError(f"repeats needs one number for each slice along axis {axis}")
        return like(x, shape=[UNKNOWN if i == at else d for i, d in enumerate(shape_of(x))])


def _element(array: Tensor) -> Tensor:
    if not rank_of(array):
        raise ProgramError(f"a tensor array has a first axis, found {show(array)}")
    return like(array, shape=shape_of(array)[1:])


def _rows(element: Tensor) -> Tensor:
    """Return the type of an element without the size of its first axis."""
    return like(element, shape=[UNKNOWN, *shape_of(element)[1:]][: rank_of(element)])


@irdl_op_definition
class ArrayWrite(DataSizedOp):
    """The array with x at a position, which may be the one after its last element.
    Paddle: write_to_array.
    """

    name = "pd.array_write"
    DECIDED_BY: ClassVar[str] = "position"
    array = operand_def(TENSOR)
    position = operand_def(TENSOR)
    x = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(array: Tensor, position: Tensor, x: Tensor) -> Tensor:
        element = _element(array)
        first = shape_of(element)[:1] if shape_of(element)[:1] == shape_of(x)[:1] else (UNKNOWN,)
        if not compatible(_rows(element), _rows(x)):
            raise ProgramError(
                f"a tensor array of {show(element)} elements cannot take {show(x)}: where its "
                "length depends on data, elements differ in their first axis at most"
            )
        return like(x, shape=(UNKNOWN, *first[: rank_of(x)], *shape_of(x)[1:]))


@irdl_op_definition
class ArrayRead(DataSizedOp):
    """The element at a position. Paddle: read_from_array."""

    name = "pd.array_read"
    DECIDED_BY: ClassVar[str] = "position"
    array = operand_def(TENSOR)
    position = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(array: Tensor, position: Tensor) -> Tensor:
        return _element(array)


@irdl_op_definition
class ArrayToTensor(OpaqueOp):
    """Array elements joined along `axis`, a new axis with `use_stack`, and their sizes there.
    Paddle: tensor_array_to_tensor.
    """

    name = "pd.array_to_tensor"
    array = operand_def(TENSOR)
    out = result_def(TENSOR)
    sizes = result_def(TENSOR)
    axis = integer(0)
    use_stack = flag(False)

    @staticmethod
    def infer(array: Tensor, axis: int, use_stack: bool) -> tuple[Tensor, Tensor]:
        shape = list(shape_of(_element(array)))
        count = shape_of(array)[0]
        axis = normalize_axis(axis, len(shape) + use_stack)
        if use_stack:
            shape.insert(axis, count)
        else:
            known = UNKNOWN not in (count, shape[axis])
            shape[axis] = count * shape[axis] if known else UNKNOWN
        return like(array, shape=shape), like(array, shape=(count,), dtype="int32")
