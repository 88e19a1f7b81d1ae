"""Rewrites to the operators that OpenVINO's reader of Paddle's files has (2026.4).

Other operators are decomposed into these. Read back by Paddle or graphopt, the program means the
same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Block, Operator, Program
from graphopt.ir.program.sub_blocks import sub_block
from graphopt.ir.translate.inference import drop_blocks
from graphopt.ir.translate.paddle_forms import FormRule, Rewriter, rewrite

_TYPES = """
abs arg_max arg_min assign assign_value atan2 batch_norm bicubic_interp_v2 bilinear_interp
bilinear_interp_v2 bmm box_coder cast ceil clip concat conditional_block conv2d conv2d_transpose
cos cumsum deformable_conv deformable_conv_v1 depthwise_conv2d depthwise_conv2d_transpose
dequantize_linear dropout elementwise_add elementwise_div elementwise_floordiv elementwise_max
elementwise_min elementwise_mod elementwise_mul elementwise_pow elementwise_sub elu equal exp
expand_as_v2 expand_v2 eye feed fetch fill_any_like fill_constant fill_constant_batch_size_like
flatten_contiguous_range flip floor gather gather_nd gelu generate_proposals_v2 greater_equal
greater_than grid_sampler group_norm hard_sigmoid hard_swish index_select layer_norm leaky_relu
less_equal less_than linear_interp_v2 linspace lod_array_length log logical_and logical_not
logical_or logical_xor lookup_table_v2 matmul matmul_v2 matrix_nms max_pool2d_with_index
max_pool3d_with_index memcpy meshgrid multiclass_nms3 nearest_interp nearest_interp_v2 not_equal
one_hot_v2 p_norm pad3d partial_concat partial_sum pool2d pool3d pow prior_box quantize_linear
range reduce_all reduce_any reduce_max reduce_mean reduce_min reduce_prod reduce_sum relu relu6
reshape2 reverse rnn roi_align roll round rsqrt scale scatter scatter_nd_add select_input
set_value shape share_data sigmoid silu sin slice softmax softplus softshrink split sqrt
squeeze2 stack strided_slice sum swish sync_batch_norm take_along_axis tanh tanh_shrink
tensor_array_to_tensor tile top_k_v2 transpose2 tril_triu trilinear_interp_v2 unique unsqueeze2
unstack where where_index while write_to_array yolo_box
"""
KNOWN = frozenset(_TYPES.split())
"""The operator types that the reader supports."""


def to_openvino_forms(program: Program) -> None:
    """Rewrite, in place, operators that the reader lacks as operators that it has.

    Raises UnsupportedError with all operators that have no such form.
    """
    _join_branches(program.global_block())
    drop_blocks(program)
    rewrite(program, _RULES)
    unknown: dict[str, list[str]] = {}
    for block in program.blocks:
        for op in block.ops:
            if op.type not in KNOWN:
                unknown.setdefault(op.type, []).extend(op.output_arg_names[:1])
    if unknown:
        lines = [f"{type} ({', '.join(names[:3])})" for type, names in unknown.items()]
        raise UnsupportedError(
            "OpenVINO's reader of Paddle files does not support these operators:\n  "
            + "\n  ".join(lines)
            + "\nwrite .onnx, which OpenVINO also reads"
        )


# Operators that may run only if their branch is taken.
_ONLY_IF_TAKEN = frozenset({"while", "conditional_block", "assert", "print", "py_func"})


def _join_branches(block: Block) -> None:
    """Compute both branches and select a result: the reader fails on blocks of branches."""
    inner = {op: sub_block(op) for op in block.ops if "sub_block" in op.attrs}
    for each in inner.values():
        _join_branches(each)
    chosen = {name for op in block.ops if op.type == "select_input" for name in op.input("X")}
    joined = {
        op: each
        for op, each in inner.items()
        if op.type == "conditional_block"
        and chosen.issuperset(op.output("Out"))
        and _ONLY_IF_TAKEN.isdisjoint(one.type for one in each.ops)
    }
    made = {name for op in joined for name in op.output("Out")}
    rewriter = Rewriter(block)
    for op in block.ops:
        if op in joined:
            block.vars.update(joined[op].vars)
            for one in joined[op].ops:
                one.block = block
                rewriter.ops.append(one)
            joined[op].ops = []
            continue
        if op.type == "select_input" and made.issuperset(op.input("X")):
            _choose(rewriter, op)
        rewriter.ops.append(op)
    block.ops = rewriter.ops


def _choose(rewriter: Rewriter, op: Operator) -> None:
    """Rewrite a select_input as `where`: the second tensor where the mask is 1, else the first."""
    (mask,), (no, yes) = op.input("Mask"), op.input("X")
    attrs = {"in_dtype": _dtype(rewriter, mask), "out_dtype": DType("bool")}
    condition = rewriter.add("cast", {"X": mask}, attrs)
    if rewriter.shape(condition) == (1,) and not (rewriter.shape(no) or rewriter.shape(yes)):
        condition = rewriter.add("squeeze2", {"X": condition}, {"axes": [0]})  # results are 0-D
    become(op, "where", {"Condition": [condition], "X": [yes], "Y": [no]})
    rewriter.broadcast(op, ("Condition", "X", "Y"))


def become(
    op: Operator,
    type: str,
    inputs: Mapping[str, Sequence[str]],
    attrs: Mapping[str, Any] | None = None,
    slot: str = "Out",
) -> None:
    """Change an operator, in place, to another one with the same first result."""
    out = next(names[0] for names in (op.output("Out"), op.output("Y")) if names)
    op.type, op.outputs = type, {slot: [out]}
    op.inputs = {name: list(names) for name, names in inputs.items()}
    op.attrs, op.attr_kinds, op.saved = dict(attrs or {}), {}, None


def _both(x: str, y: str) -> dict[str, list[str]]:
    return {"X": [x], "Y": [y]}


class _OperatorParts:
    """A builder of the parts of an operator on one tensor, in the order of computation."""

    def __init__(self, rewriter: Rewriter, op: Operator) -> None:
        self.rewriter, self.op = rewriter, op
        self.x = op.input("X")[0]

    def __call__(self, type: str, x: str, y: str | None = None, **attrs: Any) -> str:
        """Add an operator on one tensor or two; return its result."""
        inputs = {"X": x} if y is None else {"X": x, "Y": y}
        return self.rewriter.add(type, inputs, attrs if y is None else {"axis": -1, **attrs})

    def scale(self, x: str, scale: float, bias: float = 0.0) -> str:
        return self("scale", x, scale=scale, bias=bias, bias_after_scale=True)

    def fill_like(self, x: str, value: float) -> str:
        """Add a tensor of one number in the shape of `x`."""
        return self("fill_any_like", x, value=value, dtype=_dtype(self.rewriter, x))

    def ends(self, type: str, x: str, y: str | None = None, **attrs: Any) -> None:
        """Change the operator itself to the last of its parts."""
        inputs = {"X": [x]} if y is None else _both(x, y)
        become(self.op, type, inputs, attrs if y is None else {"axis": -1, **attrs})

    def ends_scaled(self, x: str, scale: float, bias: float = 0.0) -> None:
        self.ends("scale", x, scale=scale, bias=bias, bias_after_scale=True)


def _square(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends("elementwise_mul", parts.x, parts.x)


def _mish(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    soft = parts("softplus", parts.x, beta=1.0, threshold=20.0)
    parts.ends("elementwise_mul", parts.x, parts("tanh", soft))


def _log_softmax(rewriter: Rewriter, op: Operator) -> None:
    parts, axis = _OperatorParts(rewriter, op), op.attrs.get("axis", -1)
    rank = len(rewriter.shape(parts.x))
    reduced: dict[str, Any] = {"dim": [axis % rank], "keep_dim": True, "reduce_all": False}
    away = parts("elementwise_sub", parts.x, parts("reduce_max", parts.x, **reduced))
    total = parts("reduce_sum", parts("exp", away), **reduced)
    parts.ends("elementwise_sub", away, parts("log", total))


def _sign(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    zero, dtype = parts.fill_like(parts.x, 0.0), _dtype(rewriter, parts.x)
    attrs = {"in_dtype": DType("bool"), "out_dtype": dtype}
    above, below = (
        parts("cast", parts(type, parts.x, zero), **attrs) for type in ("greater_than", "less_than")
    )
    parts.ends("elementwise_sub", above, below)


def _dtype(rewriter: Rewriter, name: str) -> DType:
    variable = rewriter.block.find_var(name)
    if variable is None or not variable.has_type:
        raise UnsupportedError(f"the dtype of variable '{name}' is not known")
    return variable.dtype


def _log_sigmoid(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    soft = parts("softplus", parts.scale(parts.x, -1.0), beta=1.0, threshold=20.0)
    parts.ends_scaled(soft, -1.0)


def _hardtanh(rewriter: Rewriter, op: Operator) -> None:
    parts, bounds = (
        _OperatorParts(rewriter, op),
        (op.attrs.get("t_min", 0.0), op.attrs.get("t_max", 24.0)),
    )
    parts.ends("clip", parts.x, min=bounds[0], max=bounds[1])


def _tan(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends("elementwise_div", parts("sin", parts.x), parts("cos", parts.x))


def _of_exponentials(sign: float) -> FormRule:
    """Build the rule of sinh (`sign` -1) or cosh (`sign` 1)."""

    def rule(rewriter: Rewriter, op: Operator) -> None:
        parts = _OperatorParts(rewriter, op)
        other = parts("exp", parts.scale(parts.x, -1.0))
        total = parts("elementwise_add", parts("exp", parts.x), parts.scale(other, sign))
        parts.ends_scaled(total, 0.5)

    return rule


def _logarithm(scale: float, bias: float) -> FormRule:
    """Build the rule of scale * log(x + bias)."""

    def rule(rewriter: Rewriter, op: Operator) -> None:
        parts = _OperatorParts(rewriter, op)
        moved = parts.scale(parts.x, 1.0, bias) if bias else parts.x
        parts.ends_scaled(parts("log", moved), scale)

    return rule


def _expm1(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends_scaled(parts("exp", parts.x), 1.0, -1.0)


def _reciprocal(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends("elementwise_div", parts.fill_like(parts.x, 1.0), parts.x)


def _softsign(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends("elementwise_div", parts.x, parts.scale(parts("abs", parts.x), 1.0, 1.0))


def _selu(rewriter: Rewriter, op: Operator) -> None:
    parts, scale, alpha = _OperatorParts(rewriter, op), op.attrs.get("scale"), op.attrs.get("alpha")
    inner = parts("elu", parts.x, alpha=1.6732632 if alpha is None else alpha)
    parts.ends_scaled(inner, 1.050701 if scale is None else scale)


def _celu(rewriter: Rewriter, op: Operator) -> None:
    parts, alpha = _OperatorParts(rewriter, op), op.attrs.get("alpha", 1.0)
    parts.ends_scaled(parts("elu", parts.scale(parts.x, 1 / alpha), alpha=1.0), alpha)


def _kept_where(size: bool, default: float) -> FormRule:
    """Build the rule that keeps x where x, or |x| with `size`, is above the threshold; else 0."""

    def rule(rewriter: Rewriter, op: Operator) -> None:
        parts, limit = _OperatorParts(rewriter, op), op.attrs.get("threshold", default)
        compared = parts("abs", parts.x) if size else parts.x
        above = parts("greater_than", compared, parts.fill_like(compared, limit))
        attrs = {"in_dtype": DType("bool"), "out_dtype": _dtype(rewriter, parts.x)}
        parts.ends("elementwise_mul", parts.x, parts("cast", above, **attrs))

    return rule


def _stanh(rewriter: Rewriter, op: Operator) -> None:
    parts, attrs = _OperatorParts(rewriter, op), op.attrs
    inner = parts("tanh", parts.scale(parts.x, attrs.get("scale_a", 0.67)))
    parts.ends_scaled(inner, attrs.get("scale_b", 1.7159))


def _prelu(rewriter: Rewriter, op: Operator) -> None:
    """Rewrite prelu as relu(x) - alpha * relu(-x)."""
    parts, (alpha,) = _OperatorParts(rewriter, op), op.input("Alpha")
    rank, sizes = len(rewriter.shape(parts.x)), rewriter.shape(alpha)
    first = op.attrs.get("data_format", "NCHW")[1:2] == "C"
    if op.attrs.get("mode") == "channel" and first and len(sizes) == 1:
        alpha = rewriter.add("reshape2", {"X": alpha}, {"shape": [1, -1, *[1] * (rank - 2)]})
    elif op.attrs.get("mode") == "all":
        alpha = rewriter.add("reshape2", {"X": alpha}, {"shape": [1] * rank})
    below = parts("relu", parts.scale(parts.x, -1.0))
    parts.ends("elementwise_sub", parts("relu", parts.x), parts("elementwise_mul", below, alpha))


def _mean(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends("reduce_mean", parts.x, dim=[], keep_dim=False, reduce_all=True)


def _instance_norm(rewriter: Rewriter, op: Operator) -> None:
    """Rewrite instance_norm as group_norm with a group for each channel."""
    (x,) = op.input("X")
    channels, epsilon = rewriter.shape(x)[1], op.attrs.get("epsilon", 1e-5)
    if channels < 0:
        raise UnsupportedError(f"the number of channels of variable '{x}' is not known")
    inputs = {slot: op.input(slot) for slot in ("X", "Scale", "Bias") if op.input(slot)}
    attrs = {"groups": channels, "epsilon": epsilon, "data_layout": "NCHW"}
    become(op, "group_norm", inputs, attrs, slot="Y")


def _mul(rewriter: Rewriter, op: Operator) -> None:
    """Rewrite mul as matmul_v2, with the last axes of x flattened."""
    (x,), (y,) = op.input("X"), op.input("Y")
    rank, columns = len(rewriter.shape(x)), op.attrs.get("x_num_col_dims", 1)
    if len(rewriter.shape(y)) != 2:
        return
    if columns != rank - 1:
        attrs = {"start_axis": columns, "stop_axis": rank - 1}
        x = rewriter.add("flatten_contiguous_range", {"X": x}, attrs)
    become(op, "matmul_v2", _both(x, y), {"trans_x": False, "trans_y": False})


def _is_nan(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    parts.ends("not_equal", parts.x, parts.x)


def _dot(rewriter: Rewriter, op: Operator) -> None:
    parts, (y,) = _OperatorParts(rewriter, op), op.input("Y")
    product, last = parts("elementwise_mul", parts.x, y), len(rewriter.shape(parts.x)) - 1
    parts.ends("reduce_sum", product, dim=[last], keep_dim=False, reduce_all=False)


def _bce_loss(rewriter: Rewriter, op: Operator) -> None:
    """Decompose bce_loss; logarithms below -100 become -100."""
    parts, (label,) = _OperatorParts(rewriter, op), op.input("Label")

    def share(x: str, weight: str) -> str:
        logarithm = parts("log", x)
        kept = parts("elementwise_max", logarithm, parts.fill_like(logarithm, -100.0))
        return parts("elementwise_mul", weight, kept)

    no, other = (parts.scale(name, -1.0, 1.0) for name in (parts.x, label))
    total = parts("elementwise_add", share(parts.x, label), share(no, other))
    parts.ends_scaled(total, -1.0)


def _atan(rewriter: Rewriter, op: Operator) -> None:
    parts = _OperatorParts(rewriter, op)
    become(op, "atan2", {"X1": [parts.x], "X2": [parts.fill_like(parts.x, 1.0)]})


# coefficients of Abramowitz and Stegun 7.1.26, highest power first
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _erf(rewriter: Rewriter, op: Operator) -> None:
    """Approximate erf by a polynomial of 1 / (1 + 0.3275911 |x|), with an error below 1.5e-7."""
    parts = _OperatorParts(rewriter, op)
    size = parts("abs", parts.x)
    share = parts.scale(size, 0.3275911, 1.0)
    share = parts("elementwise_div", parts.fill_like(share, 1.0), share)
    total = parts.scale(share, _ERF[0], _ERF[1])
    for factor in _ERF[2:]:
        total = parts.scale(parts("elementwise_mul", total, share), 1.0, factor)
    power = parts("exp", parts.scale(parts("elementwise_mul", size, size), -1.0))
    rest = parts("elementwise_mul", parts("elementwise_mul", total, share), power)
    zero, dtype = parts.fill_like(parts.x, 0.0), _dtype(rewriter, parts.x)
    below = parts("less_than", parts.x, zero)
    below = parts("cast", below, in_dtype=DType("bool"), out_dtype=dtype)
    sign = parts.scale(below, -2.0, 1.0)
    parts.ends("elementwise_mul", sign, parts.scale(rest, -1.0, 1.0))


def _logsumexp(rewriter: Rewriter, op: Operator) -> None:
    parts, attrs = _OperatorParts(rewriter, op), op.attrs
    rank = len(rewriter.shape(parts.x))
    axes = [int(axis) % rank for axis in attrs.get("axis", [0])]
    axes = list(range(rank)) if attrs.get("reduce_all") or not axes else axes
    reduced: dict[str, Any] = {"dim": axes, "keep_dim": True, "reduce_all": False}
    top = parts("reduce_max", parts.x, **reduced)
    total = parts("reduce_sum", parts("exp", parts("elementwise_sub", parts.x, top)), **reduced)
    whole = parts("elementwise_add", parts("log", total), top)
    kept = bool(attrs.get("keepdim", attrs.get("keep_dim", False)))
    if kept:
        parts.ends_scaled(whole, 1.0)
    else:
        parts.ends("reduce_sum", whole, dim=axes, keep_dim=False, reduce_all=False)


def _shuffle_channels(rewriter: Rewriter, op: Operator) -> None:
    """Rewrite pixel_shuffle as a reshape, a transpose and a reshape of the channels."""
    (x,), factor = op.input("X"), op.attrs.get("upscale_factor", 1)
    _, c, h, w = rewriter.shape(x)
    if op.attrs.get("data_format", "NCHW") != "NCHW" or min(c, h, w) < 0:
        return
    channels = c // (factor * factor)
    apart = rewriter.add("reshape2", {"X": x}, {"shape": [0, channels, factor, factor, h, w]})
    order = rewriter.add("transpose2", {"X": apart}, {"axis": [0, 1, 4, 2, 5, 3]})
    become(op, "reshape2", {"X": [order]}, {"shape": [0, channels, h * factor, w * factor]})


_RULES: Mapping[str, FormRule] = {
    "square": _square,
    "mish": _mish,
    "log_softmax": _log_softmax,
    "sign": _sign,
    "logsigmoid": _log_sigmoid,
    "brelu": _hardtanh,
    "tan": _tan,
    "sinh": _of_exponentials(-1.0),
    "cosh": _of_exponentials(1.0),
    "log1p": _logarithm(1.0, 1.0),
    "log2": _logarithm(1 / math.log(2), 0.0),
    "log10": _logarithm(1 / math.log(10), 0.0),
    "expm1": _expm1,
    "reciprocal": _reciprocal,
    "softsign": _softsign,
    "selu": _selu,
    "celu": _celu,
    "hard_shrink": _kept_where(True, 0.5),
    "thresholded_relu": _kept_where(False, 1.0),
    "stanh": _stanh,
    "prelu": _prelu,
    "mean": _mean,
    "instance_norm": _instance_norm,
    "mul": _mul,
    "isnan_v2": _is_nan,
    "bce_loss": _bce_loss,
    "atan": _atan,
    "erf": _erf,
    "logsumexp": _logsumexp,
    "dot": _dot,
    "pixel_shuffle": _shuffle_channels,
}
