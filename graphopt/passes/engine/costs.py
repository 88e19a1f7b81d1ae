"""The static cost of ops: floating-point operations, and bytes that are read and written.

Each op counts by itself, before XLA fuses anything, and forward only: derivatives are not counted.
An unknown size, which is the batch in most programs, counts as one. Floating-point operations are
counted for products, 2 m k n for matrices of m by k and k by n, and for convolutions and attention,
which consist of products; other ops have few in comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.definition import definition
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, Layers, RegionOp
from graphopt.ir.dialect.ops.conv import (
    Conv2dBase,
    Conv3d,
    ConvTransposeBase,
    DeformableConv,
)
from graphopt.ir.dialect.ops.fused import PACKED, FusedConv2dAddAct, FusedGemmEpilogue
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.transformer import (
    FusedAttention,
    FusedDotProductAttention,
    FusedFeedforward,
)
from graphopt.ir.dialect.signature import STATE, Port, inputs_of, main_function
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of


@dataclass(frozen=True)
class Cost:
    """Operations, bytes of traffic, and the state between steps: its bytes and its arrays."""

    flops: int = 0
    traffic: int = 0
    state_bytes: int = 0
    state_arrays: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.traffic + other.traffic,
            self.state_bytes + other.state_bytes,
            self.state_arrays + other.state_arrays,
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            self.flops - other.flops,
            self.traffic - other.traffic,
            self.state_bytes - other.state_bytes,
            self.state_arrays - other.state_arrays,
        )


def cost_of_module(module: ModuleOp) -> Cost:
    """Compute the cost of one call of `@main`, and the size of the state that the program reads."""
    called: Operation = module
    state: list[Port] = []
    try:
        called = main_function(module)
        state = [port for port in inputs_of(module) if port.kind == STATE]
    except ValueError:
        pass  # a fragment, without an @main whose arguments have roles
    found = cost_of(op for op in called.walk() if isinstance(op, PdOp) and not _is_inside(op))
    sizes = [bytes_of_type(port.type) for port in state]
    return found + Cost(state_bytes=sum(sizes), state_arrays=len(sizes))


def cost_of(ops: Iterable[Operation]) -> Cost:
    """Sum the costs of several ops."""
    return sum((cost_of_op(op) for op in ops if isinstance(op, PdOp)), Cost())


def cost_of_op(op: PdOp) -> Cost:
    """Compute the cost of an op with its regions; a loop of unknown length counts once."""
    if isinstance(op, RegionOp):
        return _cost_of_regions(op)
    return Cost(flops_of(op), traffic_of(op))


def traffic_of(op: Operation) -> int:
    """Count the bytes that an op reads and writes; a derivative or a view has none."""
    if isinstance(op, Grad):
        return 0
    movement = op.get_trait(Movement)
    if movement is not None and movement.in_order:
        return 0  # a view
    return sum(bytes_of(value) for value in (*dict.fromkeys(op.operands), *op.results))


def flops_of(op: PdOp) -> int:
    """Count the floating-point operations of the products in an op without regions."""
    for kinds, count in _PRODUCTS.items():
        if isinstance(op, kinds):
            return count(op)
    return 0


def elements(value: SSAValue) -> int:
    """Count the elements of a value; an unknown size counts as one."""
    is_tensor = isinstance(cast(object, value.type), TensorType)
    return _elements_of(shape_of(value.type)) if is_tensor else 0


def bytes_of(value: SSAValue) -> int:
    """Count the bytes of a value; an unknown size counts as one."""
    count = elements(value)
    return count * dtype_of(value.type).numpy.itemsize if count else 0


def bytes_of_type(type: Tensor) -> int:
    """Count the bytes of a tensor type; an unknown size counts as one."""
    return _elements_of(shape_of(type)) * dtype_of(type).numpy.itemsize


def _elements_of(shape: Sequence[int]) -> int:
    return prod(1 if dim < 0 else dim for dim in shape)


def _is_inside(op: Operation) -> bool:
    """True for an op in a region of another op, which counts it."""
    return isinstance(op.parent_op(), PdOp)


def _cost_of_regions(op: RegionOp) -> Cost:
    inner = cost_of(other for region in op.regions for other in region.block.ops)
    if isinstance(op, FusionGroup):  # inner values stay in registers and caches
        return Cost(inner.flops, traffic_of(op))
    times = max(shape_of(op.stacks[0].type)[0], 1) if isinstance(op, Layers) else 1
    return Cost(inner.flops * times, inner.traffic * times)


def _matmul(op: PdOp) -> int:
    """Count the operations of a matmul: all of x, once for each column of the result."""
    x, y = (shape_of(value.type) for value in op.operands[:2])
    if len(y) < 2:
        return 2 * _elements_of(x)
    columns = y[-2] if op.attr("transpose_y") else y[-1]
    batch = _elements_of(y[:-2]) if len(x) <= 2 else 1
    return 2 * _elements_of(x) * max(columns, 1) * batch


def _convolution(op: PdOp) -> int:
    """Count the operations: for each element of the result, one output channel's filter."""
    filter = _elements_of(shape_of(op.operands[1].type))
    return 2 * elements(op.results[0]) * filter // max(_channels_out(op), 1)


def _channels_out(op: PdOp) -> int:
    sizes = shape_of(op.operands[1].type)
    if isinstance(op, Conv3d):
        return sizes[0]
    form = op.attr("filter_format")
    return sizes[0] * sizes[-1] if form == PACKED else sizes[-1 if form == "HWIO" else 0]


def _transposed_convolution(op: PdOp) -> int:
    """Count the operations: for each element of the input, one input channel's filter."""
    filter = shape_of(op.operands[1].type)
    return 2 * elements(op.operands[0]) * _elements_of(filter[1:])


def _deformable_convolution(op: PdOp) -> int:
    filter = next(v for name, v in _named_operands(op) if name == "filter")
    return 2 * elements(op.results[0]) * _elements_of(shape_of(filter.type)[1:])


def _core(op: PdOp) -> int:
    """Count the operations of attention: the scores, and the sums of values weighted by them."""
    q, k, v = (shape_of(value.type) for value in op.operands[:3])
    keys = k[-1] if op.attr("transpose_k") else k[-2]
    rows = _elements_of(q[:-1])
    return 2 * rows * max(keys, 1) * (max(q[-1], 1) + max(v[-1], 1))


def _attention(op: PdOp) -> int:
    """Count the operations of the projections, the attention core and the output layer."""
    values = dict[str, SSAValue]()
    weights: list[SSAValue] = []
    for name, value in _named_operands(op):
        values.setdefault(name, value)
        if name == "qkv_weight":
            weights.append(value)
    rows = _elements_of(shape_of(values["x"].type)[:-1])
    source = values.get("memory", values["x"])
    keys = max(shape_of(source.type)[-2], 1)
    width = max(shape_of(values["linear_weight"].type)[0], 1)
    projected = 2 * rows * sum(map(elements, weights))
    return projected + 4 * rows * keys * width + 2 * rows * elements(values["linear_weight"])


def _feedforward(op: PdOp) -> int:
    values = dict(_named_operands(op))
    rows = _elements_of(shape_of(values["x"].type)[:-1])
    return 2 * rows * (elements(values["linear1_weight"]) + elements(values["linear2_weight"]))


def _named_operands(op: PdOp) -> Iterable[tuple[str, SSAValue]]:
    """Yield the operands with the names of their fields."""
    for (name, _), group in zip(definition(type(op)).operands, op.operand_groups(), strict=True):
        for value in group:
            yield name, value


_PRODUCTS: Mapping[tuple[type[PdOp], ...], Callable[[PdOp], int]] = {
    (Matmul, FusedGemmEpilogue): _matmul,
    (Conv2dBase, Conv3d, FusedConv2dAddAct): _convolution,
    (ConvTransposeBase,): _transposed_convolution,
    (DeformableConv,): _deformable_convolution,
    (FusedDotProductAttention,): _core,
    (FusedAttention,): _attention,
    (FusedFeedforward,): _feedforward,
}
