"""The nodes of one ONNX graph, as rules emit them, and the state shared by a model's graphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
from onnx.defs import OpSchema, get_schema

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.dtypes import DType, as_dtype, convert_as_x86
from graphopt.models.export.onnx.simplify import Instead, array_of, simpler

Array: TypeAlias = np.ndarray[Any, Any]
Value: TypeAlias = ir.Value
# the elements of an integer property, or the tensor that holds them at run time
Ints: TypeAlias = Sequence[int] | ir.Value

LAST = np.iinfo(np.int64).max
"""An end past the end of any axis, for Slice."""
FIRST = np.iinfo(np.int64).min

# By dtype: the wider dtypes for operators that lack it; they hold all its numbers.
_WIDER: Mapping[str, tuple[str, ...]] = {
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
}
# The dtypes of results, where they are not the dtype of the first operand.
_RESULTS: Mapping[str, str] = {
    **dict.fromkeys(("Shape", "Size", "ArgMax", "ArgMin", "NonZero"), "int64"),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), "bool"),
    **dict.fromkeys(("IsNaN", "IsInf"), "bool"),
}
# Operators whose results differ from run to run, or that are needed as they are written.
_NEVER_SHARED = ("Bernoulli", "Dropout", "Identity", "Multinomial")
_LARGE = 1024
"""The bytes of a constant from which on only a sample is compared at first."""
_FEW = 16
"""The most elements of a constant that is never a parameter of the model."""


class NotInOnnx(UnsupportedError):
    """An op, or a use of it, that ONNX has no operators for; the message gives the reason."""


def _dtype(type_: ir.DataType) -> DType:
    return DType(type_.numpy().name)


def dtype_of(value: Value) -> DType:
    """Return the element type of a value."""
    assert value.dtype is not None, value
    return _dtype(value.dtype)


def sizes_of(value: Value) -> tuple[int, ...]:
    """Return the dimensions of a value; UNKNOWN for open ones."""
    assert value.shape is not None, value
    return tuple(dim if isinstance(dim, int) else UNKNOWN for dim in value.shape)


def is_half(value: Value) -> bool:
    """True for the floating-point types of 16 bits."""
    return dtype_of(value) in ("float16", "bfloat16")


@dataclass(frozen=True)
class Parts:
    """A complex tensor as its real and imaginary parts, which ONNX has operators for."""

    real: Value
    imag: Value


@dataclass
class Shared:
    """The opset, the constants and the names shared by the graphs of one model."""

    opset: int
    taken: set[str] = field(default_factory=set[str])
    constants: list[Value] = field(default_factory=list[Value])
    _alike: dict[tuple[Any, ...], list[Value]] = field(
        default_factory=dict[tuple[Any, ...], list[Value]]
    )

    def name(self, wanted: str) -> str:
        """Reserve an unused name: the wanted one, numbered if it is taken."""
        name, number = wanted, 0
        while name in self.taken:
            number += 1
            name = f"{wanted}.{number}"
        self.taken.add(name)
        return name

    def hold(self, parameter: Value) -> None:
        """Register a parameter, so that an equal constant reuses it."""
        array = array_of(parameter)
        if array is not None and array.size > _FEW:
            self._alike.setdefault(_sample(array), []).append(parameter)

    def constant(self, array: Array, base: str) -> Value:
        """Create a constant; return the existing one if an equal constant exists."""
        candidates = self._alike.setdefault(_sample(array), [])
        for found in candidates:
            if _is_same(array, array_of(found)):
                return found
        made = initializer(self.name(f"{base}.constant"), array)
        candidates.append(made)
        self.constants.append(made)
        return made


@dataclass
class Nodes:
    """Adds nodes to one graph: `emit("Relu", x)` is the value of a new node.

    If ONNX does not define an operator for a dtype, it is applied in a wider one and its result is
    converted back. `base` begins the names of new values.
    """

    shared: Shared
    nodes: list[ir.Node] = field(default_factory=list[ir.Node])
    base: str = "value"
    _made: dict[tuple[Any, ...], tuple[Value, ...]] = field(
        default_factory=dict[tuple[Any, ...], tuple[Value, ...]]
    )

    def __call__(
        self, op: str, *inputs: Value | None, dtype: str | None = None, **attrs: Any
    ) -> Value:
        """Emit an operator and return its first result."""
        return self.all(op, *inputs, dtypes=(dtype,), **attrs)[0]

    def all(
        self, op: str, *inputs: Value | None, dtypes: Sequence[str | None], **attrs: Any
    ) -> tuple[Value, ...]:
        """Emit an operator and return its results, one per dtype; None means the default dtype.

        An ONNX attribute named `dtype` is passed as `dtype_`, since `dtype` is an argument of
        `__call__`.
        """
        while inputs and inputs[-1] is None:  # ONNX Runtime would read a trailing empty name
            inputs = inputs[:-1]
        schema = get_schema(op, self.shared.opset, "")
        given = {name.removesuffix("_"): v for name, v in attrs.items() if v is not None}
        widened: dict[str, DType] = {}
        values = [
            None if value is None else self._widen(schema, at, value, widened)
            for at, value in enumerate(inputs)
        ]
        instead = simpler(op, values, given)
        if instead is not None:
            return (self._instead(instead),)
        key = _key(op, values, given, dtypes)
        if key in self._made:
            return self._made[key]
        outputs: list[Value] = []
        for dtype in dtypes:
            found = dtype or _RESULTS.get(op) or dtype_of(_first(op, values))
            outputs.append(self._new(op, found))
        outputs[0].shape = _vector(op, values, given)
        self.nodes.append(ir.node(op, values, given, outputs=outputs))
        results = tuple(
            self.cast(value, widened[formal.type_str]) if formal.type_str in widened else value
            for value, formal in zip(outputs, _formals(schema.outputs, len(outputs)), strict=True)
        )
        if key is not None:
            self._made[key] = results
        return results

    def _instead(self, instead: ir.Value | Array | Instead) -> Value:
        """Create the value that a simplification returns instead of the node."""
        if isinstance(instead, ir.Value):
            return instead
        if not isinstance(instead, Instead):
            return self.constant(instead)
        operands = [
            each if each is None or isinstance(each, ir.Value) else self.constant(each)
            for each in instead.operands
        ]
        return self(instead.op, *operands, **instead.attributes)

    def _new(self, op: str, dtype: str) -> Value:
        type_ = ir.TensorType(ir.DataType.from_numpy(as_dtype(dtype).numpy))
        return ir.Value(name=self.shared.name(f"{self.base}.{op}"), type=type_)

    def _widen(self, schema: OpSchema, at: int, value: Value, widened: dict[str, DType]) -> Value:
        """Cast an operand to the first wider dtype the operator supports; record its own dtype."""
        variable = _formals(schema.inputs, at + 1)[at].type_str
        allowed, own = (
            _allowed_types(schema.name, schema.since_version).get(variable),
            dtype_of(value),
        )
        if allowed is None or _spell_type(own) in allowed:
            return value
        for wide in _WIDER.get(own, ()):
            if _spell_type(wide) in allowed:
                widened[variable] = own
                return self.cast(value, wide)
        raise NotInOnnx(f"ONNX's operator {schema.name} does not support {own}")

    def constant(self, array: Array) -> Value:
        """Create a constant; return the existing one if an equal constant exists."""
        return self.shared.constant(np.ascontiguousarray(array).reshape(np.shape(array)), self.base)

    def number(self, number: float, like: Value | str) -> Value:
        """Create a constant without dimensions, in the given dtype or a value's."""
        dtype = as_dtype(like) if isinstance(like, str) else dtype_of(like)
        return self.constant(convert_as_x86(number, dtype))

    def ints(self, numbers: Ints) -> Value:
        """Create a vector of int64 from numbers or a computed value."""
        if not isinstance(numbers, ir.Value):
            return self.constant(np.asarray(numbers, np.int64))
        return self.reshape(self.cast(numbers, "int64"), self.ints([-1]))

    def cast(self, value: Value, dtype: str) -> Value:
        """Cast a value to another dtype; return it unchanged if it has that dtype."""
        if dtype_of(value) == dtype:
            return value
        to = ir.DataType.from_numpy(as_dtype(dtype).numpy)
        # by default, numbers out of range would become the largest 8-bit float
        beyond = {"saturate": 0} if dtype.startswith("float8") else {}
        converted_ = self("Cast", value, dtype=dtype, to=int(to), **beyond)
        converted_.shape = value.shape
        return converted_

    def size(self, value: Value, axis: int) -> Value:
        """Return the size of an axis as a vector of one element."""
        known = UNKNOWN if value.shape is None else sizes_of(value)[axis]
        if known != UNKNOWN:
            return self.ints([known])
        return self("Shape", value, start=axis, end=axis + 1 or None)

    def range(self, end: Value) -> Value:
        """Emit the int64 numbers from 0 to `end`, exclusive."""
        last = self.reshape(end, self.ints([]))
        return self("Range", self.number(0, "int64"), last, self.number(1, "int64"))

    def places(self, value: Value, axis: int = 0) -> Value:
        """Emit the indices along an axis, in order."""
        known = UNKNOWN if value.shape is None else sizes_of(value)[axis]
        if known != UNKNOWN:
            return self.constant(np.arange(known))
        return self.range(self.size(value, axis))

    def zeros(self, sizes: Value, like: Value | str, fill: float = 0) -> Value:
        """Emit a tensor of these sizes filled with one number."""
        return self("Expand", self.number(fill, like), sizes)

    def shape(self, value: Value, start: int = 0, end: int | None = None) -> Value:
        """Return the sizes of a range of axes as a vector."""
        known = sizes_of(value)[start:end]
        if UNKNOWN not in known:
            return self.ints(known)
        return self("Shape", value, start=start, end=end)

    def join_sizes(self, parts: Sequence[int | Value]) -> Value:
        """Concatenate sizes, each a number or a vector, to one vector."""
        if all(isinstance(part, int) for part in parts):
            return self.ints([part for part in parts if isinstance(part, int)])
        vectors = [self.ints([part]) if isinstance(part, int) else part for part in parts]
        return vectors[0] if len(vectors) == 1 else self("Concat", *vectors, axis=0)

    def reshape(self, value: Value, sizes: Sequence[int | Value] | Value) -> Value:
        """Reshape a value; 0 keeps the size at its position, one -1 is inferred."""
        wanted = sizes if isinstance(sizes, ir.Value) else self.join_sizes(sizes)
        return self("Reshape", value, wanted)

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        """Permute the axes."""
        if list(perm) == list(range(len(perm))):
            return value
        made = self("Transpose", value, perm=list(perm))
        if value.shape is not None:
            made.shape = ir.Shape([value.shape[axis] for axis in perm])
        return made

    def unsqueeze(self, value: Value, *axes: int) -> Value:
        """Insert axes of size 1."""
        return self("Unsqueeze", value, self.ints(axes)) if axes else value

    def squeeze(self, value: Value, *axes: int) -> Value:
        """Remove axes of size 1."""
        return self("Squeeze", value, self.ints(axes)) if axes else value

    def cut(
        self, value: Value, axes: Sequence[int], starts: Ints, ends: Ints, steps: Ints = ()
    ) -> Value:
        """Slice a range of some axes."""
        strides = steps if isinstance(steps, ir.Value) or steps else [1] * len(axes)
        vectors = [self.ints(part) for part in (starts, ends, axes, strides)]
        return self("Slice", value, *vectors)


def finish_nodes(nodes: Sequence[ir.Node], results: Sequence[Value]) -> list[ir.Node]:
    """Keep the nodes that the results need, in order; name each after its first result."""
    needed, found = set(results), list[ir.Node]()
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(read_by([node]))
            found.append(node)
            node.name = node.outputs[0].name
    return found[::-1]


def read_by(nodes: Iterable[ir.Node]) -> Iterator[Value]:
    """Yield all values that nodes read, in subgraphs too."""
    for node in nodes:
        yield from (value for value in node.inputs if value is not None)
        yield from read_inside(node)


def read_inside(node: ir.Node) -> Iterator[Value]:
    """Yield the values that the subgraphs of a node read or return."""
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            inner = attribute.as_graph()
            yield from read_by(list(inner))
            yield from inner.outputs


def initializer(name: str, array: Array) -> Value:
    """Create a value whose array the model stores."""
    tensor = ir.Tensor(array, name=name)
    type_ = ir.TensorType(tensor.dtype)
    return ir.Value(name=name, type=type_, shape=ir.Shape(array.shape), const_value=tensor)


def _sample(array: Array) -> tuple[Any, ...]:
    """Compute a hash key of an array from all of its elements, or some if it is large."""
    flat = array.reshape(-1)
    some = flat if array.nbytes < _LARGE else flat[:: max(1, array.size // 64)]
    return array.dtype.name, array.shape, some.tobytes()


def _is_same(array: Array, other: Array | None) -> bool:
    """True if the bytes are equal, so that NaN equals NaN; the shapes must be equal."""
    if other is None:
        return False
    ours, theirs = (np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in (array, other))
    return np.array_equal(ours, theirs)


def _key(
    op: str,
    values: Sequence[Value | None],
    attributes: Mapping[str, Any],
    dtypes: Sequence[str | None],
) -> tuple[Any, ...] | None:
    """Compute a key that is equal for nodes with equal results; None for nodes never shared."""
    if op in _NEVER_SHARED or op.startswith("Random"):
        return None
    plain: list[tuple[str, Any]] = []
    for name, value in sorted(attributes.items()):
        if not isinstance(value, int | float | str | list | tuple):
            return None
        plain.append((name, repr(value)))
    return op, tuple(map(id, values)), tuple(plain), tuple(dtypes)


def _vector(
    op: str, values: Sequence[Value | None], attributes: Mapping[str, Any]
) -> ir.Shape | None:
    """Infer the number of sizes that an operator on sizes returns, if known."""
    shapes = [None if value is None else value.shape for value in values]
    if op == "Shape" and shapes[0] is not None:
        axes = range(len(shapes[0]))[attributes.get("start", 0) : attributes.get("end")]
        return ir.Shape([len(axes)])
    if op == "Concat" and all(shape is not None and len(shape) == 1 for shape in shapes):
        parts = [shape[0] for shape in shapes if shape is not None]
        known = [part for part in parts if isinstance(part, int)]
        return ir.Shape([sum(known) if len(known) == len(parts) else None])
    return None


def _first(op: str, values: Sequence[Value | None]) -> Value:
    """Return the operand whose dtype the results have."""
    at = {"Where": 1, "OneHot": 2, "If": 0, "Loop": 1}.get(op, 0)
    found = values[at]
    assert found is not None, op
    return found


def _formals(declared: Sequence[Any], count: int) -> list[Any]:
    """List the declaration of each operand or result; the last declaration may be variadic."""
    return [declared[min(at, len(declared) - 1)] for at in range(count)]


@cache
def _allowed_types(op: str, version: int) -> dict[str, frozenset[str]]:
    constraints = get_schema(op, version, "").type_constraints
    return {c.type_param_str: frozenset(c.allowed_type_strs) for c in constraints}


def _spell_type(dtype: str) -> str:
    return f"tensor({ir.DataType.from_numpy(DType(dtype).numpy).name.lower()})"
