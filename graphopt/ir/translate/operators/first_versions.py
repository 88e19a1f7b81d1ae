"""Operators of Paddle 1.x that later versions replaced: `matmul`, `top_k`, `one_hot`, `pad2d`, …

Each becomes ops that exist for its successor. Like `translator.py`, this is used for saved programs
and for the operators that `graphopt.fluid` appends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.activation import Hardtanh, Softplus
from graphopt.ir.dialect.ops.conv import is_channels_last
from graphopt.ir.dialect.ops.index import OneHot, Topk
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.logic import Isfinite, Isinf, Isnan
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax
from graphopt.ir.dialect.ops.math import Clip, Divide, Log, Multiply, Scale, Sqrt, Square
from graphopt.ir.dialect.ops.rearrange import Pad, Tile
from graphopt.ir.dialect.ops.reduce import All, Sum
from graphopt.ir.dialect.ops.reduce import Any as AnyOf
from graphopt.ir.dialect.ops.shape import Flatten, Reshape, Squeeze, Unsqueeze
from graphopt.ir.dialect.ops.vision import Interpolate
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of
from graphopt.ir.program import EMPTY, Operator
from graphopt.ir.translate.operators.registry import Special
from graphopt.ir.translate.operators.translator import Translator

Written = dict[str, SSAValue]
# the logarithm of zero is the negative of this
_LARGEST = 1e20


def _only(op: Operator, *slots: str) -> None:
    """Refuse other inputs: they carry sizes that are known only when the program runs."""
    for slot, names in op.inputs.items():
        if slot not in slots and any(name != EMPTY for name in names):
            raise UnsupportedError(
                f"operator {op.type} takes '{slot}' from a tensor ({', '.join(names)}); "
                "only constants are supported there"
            )


def _named(op: Operator, **values: SSAValue) -> Written:
    """These values under the names in the slots of the same name."""
    return {n: v for slot, v in values.items() for n in op.output(slot) if n != EMPTY}


def _matmul(self: Translator, op: Operator) -> Written:
    """With a factor; the product of two vectors has one element in one dimension."""
    _only(op, "X", "Y")
    x, y = self.read(op.input("X")[0]), self.read(op.input("Y")[0])
    flags = {f"transpose_{c}": bool(op.attrs.get(f"transpose_{c.upper()}")) for c in "xy"}
    # vectors are a row and a column, so transposes make matrices of them
    if rank_of(x.type) == 1 and flags["transpose_x"]:
        x = self.emit(Reshape, op, x, shape=(1, -1)).results[0]
    if rank_of(y.type) == 1 and flags["transpose_y"]:
        y = self.emit(Reshape, op, y, shape=(-1, 1)).results[0]
    out = self.emit(Matmul, op, x, y, **flags).results[0]
    if float(op.attrs.get("alpha", 1.0)) != 1.0:
        out = self.emit(Scale, op, out, scale=op.attrs["alpha"]).results[0]
    if rank_of(out.type) == 0:
        out = self.emit(Reshape, op, out, shape=(1,)).results[0]
    return _named(op, Out=out)


def _cross_entropy(self: Translator, op: Operator) -> Written:
    """The entropy of probabilities; the logarithm of 0 counts as -1e20."""
    _only(op, "X", "Label")
    x, label = self.read(op.input("X")[0]), self.read(op.input("Label")[0])
    if op.attrs.get("soft_label"):
        logarithm = self.emit(Log, op, x).results[0]
        logarithm = self.emit(Clip, op, logarithm, min=-_LARGEST, max=_LARGEST).results[0]
        terms = self.emit(Multiply, op, label, logarithm).results[0]
        total = self.emit(Sum, op, terms, axis=(-1,), keepdim=True).results[0]
        return _named(op, Y=self.emit(Scale, op, total, scale=-1.0).results[0])
    loss = self.emit(
        CrossEntropyWithSoftmax,
        op,
        x,
        label,
        ignore_index=int(op.attrs.get("ignore_index", -100)),
        use_softmax=False,
    ).results[1]
    loss = self.emit(Clip, op, loss, min=-_LARGEST, max=_LARGEST).results[0]
    return _named(op, Y=loss)


def _top_k(self: Translator, op: Operator) -> Written:
    _only(op, "X")
    made = self.emit(Topk, op, self.read(op.input("X")[0]), k=int(op.attrs.get("k", 1)))
    return _named(op, Out=made.results[0], Indices=made.results[1])


def _one_hot(self: Translator, op: Operator) -> Written:
    """The first version takes numbers with a trailing 1, which the classes replace."""
    _only(op, "X")
    x = self.read(op.input("X")[0])
    if shape_of(x.type)[-1:] != (1,):
        raise ProgramError(
            f"one_hot needs numbers with a last dimension of 1, found {list(shape_of(x.type))}; "
            "append one, or use one_hot_v2"
        )
    x = self.emit(Squeeze, op, x, axis=(-1,)).results[0]
    attrs = {
        "depth": int(op.attr("depth")),
        "allow_out_of_range": bool(op.attrs.get("allow_out_of_range")),
    }
    return _named(op, Out=self.emit(OneHot, op, x, **attrs).results[0])


def _expand(self: Translator, op: Operator) -> Written:
    _only(op, "X")
    x, times = self.read(op.input("X")[0]), tuple(op.attr("expand_times"))
    if len(times) != rank_of(x.type):
        raise ProgramError(
            f"expand needs a number for each axis of {list(shape_of(x.type))}, found {list(times)}"
        )
    return _named(op, Out=self.emit(Tile, op, x, repeat_times=times).results[0])


def _expand_as(self: Translator, op: Operator) -> Written:
    """As often as x fits into the target, along each axis."""
    _only(op, "X", "target_tensor")
    x, target = self.read(op.input("X")[0]), self.read(op.input("target_tensor")[0])
    sizes, wanted = shape_of(x.type), shape_of(target.type)
    fits = len(sizes) == len(wanted)
    times: list[int] = []
    for own, other in zip(sizes, wanted, strict=False):
        if UNKNOWN in (own, other) and own != other:
            raise UnsupportedError(
                f"expand_as needs known shapes, found {list(sizes)} and {list(wanted)}"
            )
        fits = fits and (own == other or (own > 0 and other % own == 0))
        times.append(1 if own == other else other // max(own, 1))
    if not fits:
        raise ProgramError(f"{list(sizes)} cannot be repeated to the shape {list(wanted)}")
    return _named(op, Out=self.emit(Tile, op, x, repeat_times=times).results[0])


def _pad2d(self: Translator, op: Operator) -> Written:
    """Rows above and below, then columns left and right."""
    _only(op, "X")
    x, pads = self.read(op.input("X")[0]), list(op.attrs.get("paddings", (0, 0, 0, 0)))
    mode = str(op.attrs.get("mode", "constant"))
    last = is_channels_last(str(op.attrs.get("data_format", "NCHW")))
    flat = [0, 0, *pads, 0, 0] if last else [0, 0, 0, 0, *pads]
    attrs = {
        "mode": "replicate" if mode == "edge" else mode,
        "value": float(op.attrs.get("pad_value", 0.0)),
    }
    return _named(op, Out=self.emit(Pad, op, x, paddings=flat, **attrs).results[0])


def _flatten(self: Translator, op: Operator) -> Written:
    """A matrix: the dimensions before the axis by those after it."""
    _only(op, "X")
    x, axis = self.read(op.input("X")[0]), int(op.attrs.get("axis", 1))
    rank = rank_of(x.type)
    if not 0 <= axis <= rank:
        raise ProgramError(f"flatten at axis {axis} of {list(shape_of(x.type))}")
    if axis in (0, rank):
        shape = (1, -1) if axis == 0 else (-1, 1)
        return _named(op, Out=self.emit(Reshape, op, x, shape=shape).results[0])
    if axis < rank - 1:
        x = self.emit(Flatten, op, x, start_axis=axis).results[0]
    if axis > 1:
        x = self.emit(Flatten, op, x, start_axis=0, stop_axis=axis - 1).results[0]
    return _named(op, Out=x)


def _soft_relu(self: Translator, op: Operator) -> Written:
    """log(1 + exp(x)) of x kept within ± threshold."""
    x, limit = self.read(op.input("X")[0]), float(op.attrs.get("threshold", 40.0))
    x = self.emit(Hardtanh, op, x, t_min=-limit, t_max=limit).results[0]
    return _named(op, Out=self.emit(Softplus, op, x, threshold=limit).results[0])


def _norm(self: Translator, op: Operator) -> Written:
    """Lengths along one axis, and the tensor divided by them."""
    _only(op, "X")
    x, axis = self.read(op.input("X")[0]), int(op.attrs.get("axis", -1))
    total = self.emit(Sum, op, self.emit(Square, op, x), axis=(axis,), keepdim=True)
    epsilon = float(op.attrs.get("epsilon", 1e-10))
    length = self.emit(Sqrt, op, self.emit(Scale, op, total, bias=epsilon)).results[0]
    return _named(op, Norm=length, Out=self.emit(Divide, op, x, length).results[0])


_TESTS = {"isfinite": (Isfinite, All), "isinf": (Isinf, AnyOf), "isnan": (Isnan, AnyOf)}


def _whole_test(self: Translator, op: Operator) -> Written:
    """One answer for the whole tensor: all are finite, any is infinite, any is nan."""
    test, reduce = _TESTS[op.type]
    each = self.emit(test, op, self.read(op.input("X")[0])).results[0]
    out = self.emit(reduce, op, each).results[0]
    return _named(op, Out=self.emit(Reshape, op, out, shape=(1,)).results[0])


def _interpolate(self: Translator, op: Operator) -> Written:
    """The scale is one number, and only says how large the result is."""
    _only(op, "X")
    x, method = self.read(op.input("X")[0]), op.type.removesuffix("_interp")
    layout = str(op.attrs.get("data_layout", "NCHW"))
    shape = shape_of(x.type)
    spatial = shape[1:-1] if is_channels_last(layout) else shape[2:]
    names = ("out_d", "out_h", "out_w")[-len(spatial) :]
    size = [int(op.attrs.get(name, -1)) for name in names]
    scale = float(op.attrs.get("scale") or 0.0)
    if scale > 0:
        if UNKNOWN in spatial:
            raise UnsupportedError(f"{op.type} by a scale needs known sizes, found {list(shape)}")
        size = [int(dim * scale) for dim in spatial]
    attrs = {
        "size": size,
        "mode": "linear" if method in ("bilinear", "trilinear") else method,
        "align_corners": bool(op.attrs.get("align_corners", True)),
        "align_mode": int(op.attrs.get("align_mode", 1)),
        "data_layout": layout,
    }
    return _named(op, Out=self.emit(Interpolate, op, x, None, **attrs).results[0])


def _without_copy(
    successor: type[Reshape | Squeeze | Unsqueeze], **renamed: str
) -> Callable[[Translator, Operator], Written]:
    """The successor also gives a copy of the shape, which is not needed here."""

    def translate(self: Translator, op: Operator) -> Written:
        _only(op, "X")
        attrs = {name: op.attr(legacy) for name, legacy in renamed.items()}
        made = self.emit(successor, op, self.read(op.input("X")[0]), **attrs)
        return _named(op, Out=made.results[0])

    return translate


FIRST_VERSIONS: Mapping[str, Special] = {
    "matmul": _matmul,
    "cross_entropy": _cross_entropy,
    "cross_entropy2": _cross_entropy,
    "top_k": _top_k,
    "one_hot": _one_hot,
    "expand": _expand,
    "expand_as": _expand_as,
    "pad2d": _pad2d,
    "soft_relu": _soft_relu,
    "norm": _norm,
    "flatten": _flatten,
    "flatten2": _flatten,
    "reshape": _without_copy(Reshape, shape="shape"),
    "squeeze": _without_copy(Squeeze, axis="axes"),
    "unsqueeze": _without_copy(Unsqueeze, axis="axes"),
    **dict.fromkeys(_TESTS, _whole_test),
    **{
        f"{method}_interp": _interpolate
        for method in ("nearest", "bilinear", "trilinear", "linear", "bicubic")
    },
}
