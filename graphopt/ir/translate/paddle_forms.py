"""Operators in the forms that Paddle's own kernels accept, for models that other tools will run.

graphopt is more lenient than Paddle in a few places: operands that broadcast, negative axes,
arguments as attributes. A saved model spells these out. Read back, it means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Operator, Program, unique_name
from graphopt.ir.translate.open_ends import NO_END, keeps_its_ends

Shape = tuple[int, ...]
FormRule = Callable[["Rewriter", Operator], None]


def to_paddle_forms(program: Program) -> None:
    """Rewrite, in place, the operators that Paddle 2.6 would refuse or interpret differently.

    Raises UnsupportedError if the shape of an operand is not known at all.
    """
    rewrite(program, _RULES)


def rewrite(program: Program, rules: Mapping[str, FormRule]) -> None:
    """Rewrite, in place, each operator that has a rule; a rule may insert operators before it."""
    for block in program.blocks:
        rewriter = Rewriter(block)
        for op in block.ops:
            rule = rules.get(op.type)
            if rule is not None:
                rule(rewriter, op)
            rewriter.ops.append(op)
        block.ops = rewriter.ops
    program.touch()


class Rewriter:
    """The operators of a block so far, with new operators before the operators that need them."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.ops: list[Operator] = []

    def shape(self, name: str) -> Shape:
        variable = self.block.find_var(name)
        if variable is None or not variable.has_type:
            raise UnsupportedError(f"the shape of variable '{name}' is not known")
        return variable.shape

    def add(
        self, type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any], slot: str = "Out"
    ) -> str:
        """Append an operator and return the name of its result."""
        name = unique_name.generate(f"save_infer_model/{type}")
        while self.block.find_var(name) is not None:
            name = unique_name.generate(f"save_infer_model/{type}")
        result = self.block.create_var(name)
        self.ops.append(self.block.append_op(type, inputs, {slot: result}, attrs))
        self.block.ops.pop()
        return result.name

    def cast(self, op: Operator, slot: str, dtype: str) -> None:
        """Cast the operands in a slot to a dtype, except those that have it."""
        names = list(op.inputs.get(slot, ()))
        for at, name in enumerate(names):
            variable = self.block.find_var(name)
            if variable is not None and variable.has_type and variable.dtype != dtype:
                attrs = {"in_dtype": variable.dtype, "out_dtype": DType(dtype)}
                names[at] = self.add("cast", {"X": name}, attrs)
        if names:
            op.inputs[slot] = names

    def add_output(self, op: Operator, slot: str, shape: Shape, dtype: str) -> None:
        """Add an output that Paddle's operator has and nothing reads, if it is missing."""
        if not op.outputs.get(slot):
            name = unique_name.generate(f"save_infer_model/{slot}")
            self.block.create_var(name, shape, dtype, stop_gradient=True)
            op.outputs[slot] = [name]

    def broadcast(self, op: Operator, slots: Sequence[str], target: Shape | None = None) -> None:
        """Expand the operands in these slots to one shape."""
        names = [op.inputs[slot][0] for slot in slots if op.inputs.get(slot)]
        shapes = {name: self.shape(name) for name in names}
        if target is None:
            target = broadcast_shape(list(shapes.values()))
        like = next((name for name in names if shapes[name] == target), None)
        if like is None and not all(_is_static(shape, target) for shape in shapes.values()):
            like = self.sum_of_zeros(names)
        for slot in slots:
            for name in op.inputs.get(slot, ())[:1]:
                if shapes[name] != target:
                    op.inputs[slot] = [self.expand(name, target, like)]

    def sum_of_zeros(self, names: Sequence[str]) -> str:
        """Add a tensor with the shape that these broadcast to when the program runs."""
        fill = {"value": 0.0, "dtype": DType("float32")}
        zeros = [self.add("fill_any_like", {"X": name}, fill) for name in names]
        total = zeros[0]
        for zero in zeros[1:]:
            total = self.add("elementwise_add", {"X": total, "Y": zero}, {"axis": -1})
        return total

    def expand(self, name: str, target: Shape, like: str | None) -> str:
        if like is None or _is_static(self.shape(name), target):
            return self.add("expand_v2", {"X": name}, {"shape": list(target)})
        attrs = {"target_shape": list(target)}
        return self.add("expand_as_v2", {"X": name, "Y": like}, attrs)


def _is_static(shape: Shape, target: Shape) -> bool:
    """True when a tensor of this shape can be expanded without looking at another."""
    padded = (1,) * (len(target) - len(shape)) + shape
    return all(want >= 0 or have == want for want, have in zip(target, padded, strict=True))


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Compute the shape that these broadcast to, with -1 only for unknown dimensions."""
    rank = max(map(len, shapes), default=0)
    columns = zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True)
    return tuple(next((d for d in dims if d > 1), min(dims)) for dims in columns)


def _all_operands(*slots: str) -> FormRule:
    return lambda rewriter, op: rewriter.broadcast(op, slots)


def _put_along_axis(rewriter: Rewriter, op: Operator) -> None:
    """Expand index and value to the input's shape, except along the axis, counted from 0."""
    (target,), (index,) = op.inputs["Input"], op.inputs["Index"]
    shape = list(rewriter.shape(target))
    axis = int(op.attrs.get("Axis", 0)) % len(shape)
    op.attrs["Axis"] = axis
    shape[axis] = rewriter.shape(index)[axis]
    rewriter.broadcast(op, ("Index", "Value"), tuple(shape))


def _positive_axis(rewriter: Rewriter, op: Operator) -> None:
    axis = int(op.attrs.get("axis", 0))
    if axis < 0 and op.inputs.get("X"):
        op.attrs["axis"] = axis + len(rewriter.shape(op.inputs["X"][0]))


def _whole_reduction(rewriter: Rewriter, op: Operator) -> None:
    """List all axes for reduce_all, which these kernels ignore."""
    if op.attrs.get("reduce_all"):
        op.attrs["dim"] = list(range(len(rewriter.shape(op.inputs["X"][0]))))


def _slice(rewriter: Rewriter, op: Operator) -> None:
    """Mark all bounds as unknown if tensors give them, as Paddle's shape inference requires."""
    slots = ("StartsTensor", "EndsTensor", "StridesTensor")
    whole = any(op.inputs.get(slot) for slot in slots)
    listed = any(op.inputs.get(f"{slot}List") for slot in slots)
    flags = [-1 if whole or listed else 1] * len(op.attrs["axes"])
    if whole:
        op.attrs["infer_flags"] = flags
    op.attrs.setdefault("infer_flags", flags)


def _strided_slice(rewriter: Rewriter, op: Operator) -> None:
    _slice(rewriter, op)
    _ends_of_paddle_2("strides")(rewriter, op)


def _ends_of_paddle_2(strides: str) -> FormRule:
    """Build the rule that writes -1 for no end of a negative stride, as in Paddle 2.

    A slice of negative stride that ends at the last element is empty, and refused.
    """

    def rule(rewriter: Rewriter, op: Operator) -> None:
        if keeps_its_ends(op):
            return
        axes: Sequence[int] = op.attrs["axes"]
        ends: list[int] = list(op.attrs.get("ends", ()))
        steps: Sequence[int] = op.attrs.get(strides, ())
        for at, (axis, step) in enumerate(zip(axes, steps, strict=False)):
            if step > 0 or at >= len(ends):
                continue
            if ends[at] == -1:
                (out,) = op.output_arg_names
                raise UnsupportedError(
                    f"'{out}' is a slice with stride {step} and end -1, which has no elements; "
                    "Paddle 2 reads the end -1 as no end. Leave out the end to select all elements"
                )
            size = rewriter.shape(op.inputs["Input"][0])[axis]
            if ends[at] <= -_LARGE or 0 <= size < -ends[at]:
                ends[at] = -1
        if ends:
            op.attrs["ends"] = ends

    return rule


# graphopt and Paddle 3 write a slice end that includes the first element as -2 ** 31, or 1 more
_LARGE = -NO_END - 1


def _range(rewriter: Rewriter, op: Operator) -> None:
    """Convert the bounds to tensors in the dtype of the result."""
    dtype = op.attrs.get("dtype", "int64")
    for slot, default in (("Start", 0), ("End", None), ("Step", 1)):
        value = op.attrs.pop(slot.lower(), default)
        if not op.inputs.get(slot) and value is not None:
            number = {"value": float(value), "str_value": repr(value), "dtype": dtype}
            op.inputs[slot] = [rewriter.add("fill_constant", {}, {"shape": [1], **number})]
        (out,) = (rewriter.block.find_var(name) for name in op.outputs["Out"])
        if out is not None and out.has_type:
            rewriter.cast(op, slot, out.dtype)


def _sizes_in_int32(rewriter: Rewriter, op: Operator) -> None:
    """Cast sizes to int32: the kernels read them as int32, whatever their dtype."""
    for slot in ("OutSize", "SizeTensor"):
        rewriter.cast(op, slot, "int32")


def _deformable_conv(rewriter: Rewriter, op: Operator) -> None:
    """Use the first version of the operator if there is no mask; the second always has one."""
    if not op.inputs.get("Mask"):
        op.type = "deformable_conv_v1"
        op.inputs.pop("Mask", None)


def _conditional_block(rewriter: Rewriter, op: Operator) -> None:
    """Add the slot of a branch's inputs, which Paddle needs even if it is empty."""
    op.inputs.setdefault("Input", [])


def _pad3d(rewriter: Rewriter, op: Operator) -> None:
    """Add the attribute `paddings`, which Paddle needs even if a tensor has the numbers."""
    op.attrs.setdefault("paddings", [0] * 6)


def _repeat_interleave(rewriter: Rewriter, op: Operator) -> None:
    """Drop the tensor if a number is an attribute; a tensor has one number for each slice."""
    if op.attrs.get("Repeats"):
        op.inputs.pop("RepeatsTensor", None)


def _histogram(rewriter: Rewriter, op: Operator) -> None:
    """Convert the bounds to integers; UnsupportedError for fractions."""
    for name in ("min", "max"):
        bound = op.attrs.get(name, 0)
        if bound != int(bound):
            raise UnsupportedError(
                f"histogram from {op.attrs.get('min', 0)} to {op.attrs.get('max', 0)}: Paddle 2 "
                "supports only integer bounds; scale the elements first"
            )
        op.attrs[name] = int(bound)


def _nanmedian(rewriter: Rewriter, op: Operator) -> None:
    """Add the output for the positions of the medians, two for each."""
    shape = rewriter.shape(op.outputs["Out"][0])
    rewriter.add_output(op, "MedianIndex", (*shape, 2), "int64")


def _adaptive_max_pool(rewriter: Rewriter, op: Operator) -> None:
    """Use the max pooling that also gives positions: no other one pools adaptively."""
    if not (op.attrs.get("adaptive") and op.attrs.get("pooling_type") == "max"):
        return
    op.type = {"pool2d": "max_pool2d_with_index", "pool3d": "max_pool3d_with_index"}[op.type]
    kept = ("ksize", "adaptive", "op_role", "op_device")
    op.attrs = {name: value for name, value in op.attrs.items() if name in kept}
    op.attrs["global_pooling"] = False
    op.attrs["strides"] = [1] * len(op.attrs["ksize"])
    op.attrs["paddings"] = [0] * len(op.attrs["ksize"])
    (out,) = op.outputs["Out"]
    mask = unique_name.generate("save_infer_model/mask")
    rewriter.block.create_var(mask, rewriter.shape(out), "int32", stop_gradient=True)
    op.outputs["Mask"] = [mask]


def _clip(rewriter: Rewriter, op: Operator) -> None:
    """Replace bounds beyond the range of float32, in which files hold them, by infinities."""
    limit = float(np.finfo(np.float32).max)
    for name in ("min", "max"):
        value = op.attrs.get(name)
        if isinstance(value, float | int) and abs(value) > limit:
            op.attrs[name] = float("inf") if value > 0 else float("-inf")


_RULES: Mapping[str, FormRule] = {
    "where": _all_operands("Condition", "X", "Y"),
    "atan2": _all_operands("X1", "X2"),
    "put_along_axis": _put_along_axis,
    "split": _positive_axis,
    "reduce_amax": _whole_reduction,
    "reduce_amin": _whole_reduction,
    "slice": _slice,
    "strided_slice": _strided_slice,
    "deformable_conv": _deformable_conv,
    "conditional_block": _conditional_block,
    "pad3d": _pad3d,
    "repeat_interleave": _repeat_interleave,
    "histogram": _histogram,
    "nanmedian": _nanmedian,
    **{
        f"{method}_interp_v2": _sizes_in_int32
        for method in ("nearest", "linear", "bilinear", "trilinear", "bicubic")
    },
    "set_value": _ends_of_paddle_2("steps"),
    "range": _range,
    "pool2d": _adaptive_max_pool,
    "pool3d": _adaptive_max_pool,
    "clip": _clip,
}
