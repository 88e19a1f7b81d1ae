"""The legacy-name table: Paddle's saved operator types, slots and attributes against `pd` ops.

Data only, read in both directions. A row says which slots hold the operands and results in the
order in which the `pd` op declares them, and which attributes have another name; attributes with
the same name on both sides need no mention. What a row cannot say is in `translate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphopt.ir.op import PdOp
from graphopt.ir.ops import BY_NAME


@dataclass(frozen=True)
class Row:
    """One operator type and the op that it means."""

    type: str
    op: type[PdOp]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """`pd` property -> legacy attribute."""


def _row(type: str, op: str, slots: str, **renamed: str) -> Row:
    inputs, outputs = slots.split("->")
    return Row(type, BY_NAME[f"pd.{op}"], tuple(inputs.split()), tuple(outputs.split()), renamed)


_UNARY = "X -> Out"
_BINARY = "X Y -> Out"
_CONV = "Input Filter -> Output"
_BATCH_NORM = "X Mean Variance Scale Bias -> Y MeanOut VarianceOut SavedMean SavedVariance"
_ADAM = (
    "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow"
    " -> ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut"
)

ROWS: tuple[Row, ...] = (
    # activations
    _row("relu", "relu", _UNARY),
    _row("relu6", "relu6", _UNARY),
    _row("gelu", "gelu", _UNARY),
    _row("sigmoid", "sigmoid", _UNARY),
    _row("silu", "silu", _UNARY),
    _row("tanh", "tanh", _UNARY),
    _row("hard_sigmoid", "hardsigmoid", _UNARY),
    _row("leaky_relu", "leaky_relu", _UNARY, negative_slope="alpha"),
    _row("softmax", "softmax", _UNARY),
    _row("log_softmax", "log_softmax", _UNARY),
    # arithmetic
    _row("elementwise_add", "add", _BINARY),
    _row("elementwise_sub", "subtract", _BINARY),
    _row("elementwise_mul", "multiply", _BINARY),
    _row("elementwise_div", "divide", _BINARY),
    _row("elementwise_max", "maximum", _BINARY),
    _row("elementwise_min", "minimum", _BINARY),
    _row("elementwise_pow", "elementwise_pow", _BINARY),
    _row("equal", "equal", _BINARY),
    _row("not_equal", "not_equal", _BINARY),
    _row("less_than", "less_than", _BINARY),
    _row("less_equal", "less_equal", _BINARY),
    _row("greater_than", "greater_than", _BINARY),
    _row("greater_equal", "greater_equal", _BINARY),
    _row("logical_and", "logical_and", _BINARY),
    _row("logical_or", "logical_or", _BINARY),
    _row("logical_not", "logical_not", _UNARY),
    _row("exp", "exp", _UNARY),
    _row("log", "log", _UNARY),
    _row("sqrt", "sqrt", _UNARY),
    _row("rsqrt", "rsqrt", _UNARY),
    _row("erf", "erf", _UNARY),
    _row("square", "square", _UNARY),
    _row("abs", "abs", _UNARY),
    _row("pow", "pow", _UNARY),
    _row("clip", "clip", _UNARY),
    _row("scale", "scale", _UNARY),
    _row("cast", "cast", _UNARY, dtype="out_dtype"),
    _row("sum", "add_n", _UNARY),
    _row("where", "where", "Condition X Y -> Out"),
    _row("cumsum", "cumsum", _UNARY),
    # linear algebra, convolution, pooling
    _row("matmul_v2", "matmul", _BINARY, transpose_x="trans_x", transpose_y="trans_y"),
    _row("conv2d", "conv2d", _CONV),
    _row("depthwise_conv2d", "depthwise_conv2d", _CONV),
    _row("pool2d", "pool2d", _UNARY, kernel_size="ksize"),
    # normalisation
    _row("batch_norm", "batch_norm", _BATCH_NORM, data_format="data_layout"),
    _row("layer_norm", "layer_norm", "X Scale Bias -> Y Mean Variance"),
    # reductions
    _row("mean", "mean", _UNARY),
    _row("reduce_mean", "mean", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_sum", "sum", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_max", "max", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_min", "min", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_prod", "prod", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("arg_max", "argmax", _UNARY, keepdim="keepdims"),
    # shapes
    _row("assign", "assign", _UNARY),
    _row("reshape2", "reshape", _UNARY),
    _row("transpose2", "transpose", _UNARY, perm="axis"),
    _row("flatten_contiguous_range", "flatten", _UNARY),
    _row("squeeze2", "squeeze", _UNARY, axis="axes"),
    _row("unsqueeze2", "unsqueeze", _UNARY, axis="axes"),
    _row("concat", "concat", _UNARY),
    _row("stack", "stack", "X -> Y"),
    _row("split", "split", _UNARY),
    _row("slice", "slice", "Input -> Out"),
    _row("expand_v2", "expand", _UNARY),
    _row("shape", "shape", "Input -> Out"),
    # creation
    _row("fill_constant", "full", "-> Out"),
    _row("fill_any_like", "full_like", _UNARY),
    _row("assign_value", "assign_value", "-> Out"),
    # random
    _row("dropout", "dropout", _UNARY, p="dropout_prob", mode="dropout_implementation"),
    _row("uniform_random", "uniform", "-> Out"),
    _row("gaussian_random", "gaussian", "-> Out"),
    _row("truncated_gaussian_random", "truncated_gaussian", "-> Out"),
    # lookups and losses
    _row("lookup_table_v2", "embedding", "Ids W -> Out"),
    _row("one_hot_v2", "one_hot", _UNARY),
    _row("gather", "gather", "X Index -> Out"),
    _row("top_k_v2", "topk", "X -> Out Indices"),
    _row("accuracy", "accuracy", "Out Indices Label -> Accuracy Correct Total"),
    _row(
        "softmax_with_cross_entropy",
        "cross_entropy_with_softmax",
        "Logits Label -> Softmax Loss",
    ),
    # updates
    _row("sgd", "sgd", "Param Grad LearningRate -> ParamOut"),
    _row("momentum", "momentum", "Param Grad Velocity LearningRate -> ParamOut VelocityOut"),
    _row("adam", "adam", _ADAM),
    _row("adamw", "adamw", _ADAM),
)


BY_TYPE: dict[str, Row] = {row.type: row for row in ROWS}
