"""The legacy-name table: Paddle's saved operator types, slots and attributes against `pd` ops.

Data only, read in both directions. A row says which slots hold the operands and results in the
order in which the `pd` op declares them, and which attributes have another name; attributes with
the same name on both sides need no mention. What a row cannot say is a registered
translation (`registry.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import elementary


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
_ROI = "X ROIs RoisNum -> Out"
_BATCH_NORM = "X Mean Variance Scale Bias -> Y MeanOut VarianceOut SavedMean SavedVariance"
_RNN = "Input PreState WeightList SequenceLength -> Out State"
_ADAM = (
    "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow Moment2Max"
    " -> ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut Moment2MaxOut"
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
    _row("elu", "elu", _UNARY),
    _row("selu", "selu", _UNARY),
    _row("celu", "celu", _UNARY),
    _row("softplus", "softplus", _UNARY),
    _row("softsign", "softsign", _UNARY),
    _row("softshrink", "softshrink", _UNARY, threshold="lambda"),
    _row("hard_shrink", "hardshrink", _UNARY),
    _row("brelu", "hardtanh", _UNARY),
    _row("tanh_shrink", "tanhshrink", _UNARY),
    _row("logsigmoid", "log_sigmoid", _UNARY),
    _row("mish", "mish", _UNARY),
    _row("swish", "swish", _UNARY),
    _row("thresholded_relu", "thresholded_relu", _UNARY),
    _row("maxout", "maxout", _UNARY),
    _row("prelu", "prelu", "X Alpha -> Out"),
    _row("softmax", "softmax", _UNARY),
    _row("log_softmax", "log_softmax", _UNARY),
    # elementary functions
    *(_row(op.name[3:], op.name[3:], _UNARY) for op in elementary.PLAIN),
    # arithmetic
    _row("elementwise_add", "add", _BINARY),
    _row("elementwise_sub", "subtract", _BINARY),
    _row("elementwise_mul", "multiply", _BINARY),
    _row("elementwise_div", "divide", _BINARY),
    _row("elementwise_max", "maximum", _BINARY),
    _row("elementwise_min", "minimum", _BINARY),
    _row("elementwise_pow", "elementwise_pow", _BINARY),
    _row("elementwise_floordiv", "floor_divide", _BINARY),
    _row("elementwise_mod", "remainder", _BINARY),
    _row("elementwise_fmax", "fmax", _BINARY),
    _row("elementwise_fmin", "fmin", _BINARY),
    _row("atan2", "atan2", "X1 X2 -> Out"),
    _row("lerp", "lerp", "X Y Weight -> Out"),
    _row("multiplex", "multiplex", "X Ids -> Out"),
    _row("kron", "kron", _BINARY),
    _row("equal", "equal", _BINARY),
    _row("not_equal", "not_equal", _BINARY),
    _row("less_than", "less_than", _BINARY),
    _row("less_equal", "less_equal", _BINARY),
    _row("greater_than", "greater_than", _BINARY),
    _row("greater_equal", "greater_equal", _BINARY),
    _row("logical_and", "logical_and", _BINARY),
    _row("logical_or", "logical_or", _BINARY),
    _row("logical_not", "logical_not", _UNARY),
    _row("logical_xor", "logical_xor", _BINARY),
    _row("bitwise_and", "bitwise_and", _BINARY),
    _row("bitwise_or", "bitwise_or", _BINARY),
    _row("bitwise_xor", "bitwise_xor", _BINARY),
    _row("bitwise_not", "bitwise_not", _UNARY),
    _row("isnan_v2", "isnan", _UNARY),
    _row("isinf_v2", "isinf", _UNARY),
    _row("isfinite_v2", "isfinite", _UNARY),
    _row("equal_all", "equal_all", _BINARY),
    _row("equal_reduce", "equal_all", _BINARY),
    _row("isclose", "isclose", "Input Other -> Out"),
    _row("allclose", "allclose", "Input Other -> Out"),
    _row("exp", "exp", _UNARY),
    _row("log", "log", _UNARY),
    _row("sqrt", "sqrt", _UNARY),
    _row("rsqrt", "rsqrt", _UNARY),
    _row("erf", "erf", _UNARY),
    _row("square", "square", _UNARY),
    _row("abs", "abs", _UNARY),
    _row("stanh", "stanh", _UNARY),
    _row("logit", "logit", _UNARY),
    _row("real", "real", _UNARY),
    _row("imag", "imag", _UNARY),
    _row("angle", "angle", _UNARY),
    _row("conj", "conj", _UNARY),
    _row("pow", "pow", _UNARY),
    _row("clip", "clip", _UNARY),
    _row("scale", "scale", _UNARY),
    _row("increment", "scale", _UNARY, bias="step"),
    _row("cast", "cast", _UNARY, dtype="out_dtype"),
    _row("sum", "add_n", _UNARY),
    _row("where", "where", "Condition X Y -> Out"),
    _row("cumsum", "cumsum", _UNARY),
    _row("cumprod", "cumprod", _UNARY, axis="dim"),
    # linear algebra, convolution, pooling
    _row("matmul_v2", "matmul", _BINARY, transpose_x="trans_x", transpose_y="trans_y"),
    _row("conv2d", "conv2d", _CONV),
    _row("depthwise_conv2d", "depthwise_conv2d", _CONV),
    _row("conv3d", "conv3d", _CONV),
    _row("conv2d_transpose", "conv2d_transpose", _CONV),
    _row("depthwise_conv2d_transpose", "conv2d_transpose", _CONV),
    _row("conv3d_transpose", "conv3d_transpose", _CONV),
    _row("pool2d", "pool2d", _UNARY, kernel_size="ksize"),
    _row("pool3d", "pool3d", _UNARY, kernel_size="ksize"),
    _row("nearest_interp_v2", "interpolate", _UNARY),
    _row("linear_interp_v2", "interpolate", _UNARY),
    _row("bilinear_interp_v2", "interpolate", _UNARY),
    _row("trilinear_interp_v2", "interpolate", _UNARY),
    _row("bicubic_interp_v2", "interpolate", _UNARY),
    _row("unfold", "unfold", "X -> Y"),
    _row("grid_sampler", "grid_sample", "X Grid -> Output"),
    _row("deformable_conv", "deformable_conv", "Input Offset Filter Mask -> Output"),
    _row("deformable_conv_v1", "deformable_conv", "Input Offset Filter -> Output"),
    _row("affine_grid", "affine_grid", "Theta -> Output"),
    _row("roi_align", "roi_align", _ROI),
    _row(
        "roi_perspective_transform",
        "roi_perspective_transform",
        "X ROIs RoisNum -> Out Mask TransformMatrix",
    ),
    _row("hash", "hash", "X -> Out"),
    _row("tree_conv", "tree_conv", "NodesVector EdgeSet Filter -> Out"),
    _row("roi_pool", "roi_pool", _ROI),
    _row("prroi_pool", "prroi_pool", "X ROIs BatchRoINums -> Out"),
    _row("psroi_pool", "psroi_pool", _ROI),
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
    _row("arg_min", "argmin", _UNARY, keepdim="keepdims"),
    _row("reduce_amax", "amax", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_amin", "amin", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_all", "all", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("reduce_any", "any", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("logsumexp", "logsumexp", _UNARY),
    _row("p_norm", "p_norm", _UNARY),
    _row("frobenius_norm", "p_norm", _UNARY, axis="dim", keepdim="keep_dim"),
    _row("squared_l2_norm", "squared_l2_norm", _UNARY),
    _row("clip_by_norm", "clip_by_norm", _UNARY),
    _row("size", "numel", "Input -> Out"),
    # shapes
    _row("assign", "assign", _UNARY),
    _row("rnn_memory_helper", "assign", _UNARY),
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
    _row("tile", "tile", _UNARY),
    _row("flip", "flip", _UNARY),
    _row("roll", "roll", _UNARY),
    _row("unbind", "unbind", _UNARY),
    _row("unstack", "unbind", "X -> Y"),
    _row("strided_slice", "strided_slice", "Input -> Out"),
    _row("set_value", "set_value", "Input ValueTensor -> Out"),
    _row("expand_as_v2", "expand_as", _BINARY),
    _row("meshgrid", "meshgrid", _UNARY),
    _row("pad", "pad", _UNARY, value="pad_value"),
    _row("tril_triu", "tril_triu", _UNARY),
    # matrices
    _row("bmm", "matmul", _BINARY),
    _row("mv", "matmul", "X Vec -> Out"),
    _row("cholesky", "cholesky", _UNARY),
    _row("inverse", "inverse", "Input -> Output"),
    _row("cross", "cross", _BINARY, axis="dim"),
    _row("diagonal", "diagonal", "Input -> Out"),
    _row("trace", "trace", "Input -> Out"),
    _row("diag_v2", "diag", _UNARY),
    _row("einsum", "einsum", "Operands -> Out"),
    # creation
    _row("fill_constant", "full", "-> Out"),
    _row("empty", "full", "-> Out"),
    _row("fill_any_like", "full_like", _UNARY),
    _row("assign_value", "assign_value", "-> Out"),
    _row("range", "arange", "-> Out"),
    _row("linspace", "linspace", "-> Out"),
    _row("eye", "eye", "-> Out"),
    # random
    _row("dropout", "dropout", _UNARY, p="dropout_prob", mode="dropout_implementation"),
    _row("uniform_random", "uniform", "-> Out"),
    _row("gaussian_random", "gaussian", "-> Out"),
    _row("truncated_gaussian_random", "truncated_gaussian", "-> Out"),
    _row("randint", "randint", "-> Out"),
    _row("randperm", "randperm", "-> Out"),
    _row("bernoulli", "bernoulli", _UNARY),
    _row("multinomial", "multinomial", _UNARY),
    # lookups and losses
    _row("lookup_table_v2", "embedding", "Ids W -> Out"),
    _row("one_hot_v2", "one_hot", _UNARY),
    _row("gather", "gather", "X Index -> Out"),
    _row("top_k_v2", "topk", "X -> Out Indices"),
    _row("argsort", "argsort", "X -> Out Indices"),
    _row("kthvalue", "kthvalue", "X -> Out Indices"),
    _row("searchsorted", "searchsorted", "SortedSequence Values -> Out"),
    _row("histogram", "histogram", "X Weight -> Out"),
    _row("where_index", "nonzero", "Condition -> Out"),
    _row("masked_select", "masked_select", "X Mask -> Y"),
    _row("unique", "unique", "X -> Out Indices Index Counts"),
    _row("unique_consecutive", "unique_consecutive", "X -> Out Index Counts"),
    _row("bincount", "bincount", "X Weights -> Out"),
    _row(
        "repeat_interleave",
        "repeat_interleave_with_tensor_index",
        "X RepeatsTensor -> Out",
        axis="dim",
    ),
    _row("index_select", "gather", "X Index -> Out", axis="dim"),
    _row("index_sample", "index_sample", "X Index -> Out"),
    _row("gather_nd", "gather_nd", "X Index -> Out"),
    _row("scatter", "scatter", "X Ids Updates -> Out"),
    _row("scatter_nd_add", "scatter_nd_add", "X Index Updates -> Out"),
    _row("take_along_axis", "take_along_axis", "Input Index -> Result", axis="Axis"),
    _row(
        "put_along_axis",
        "put_along_axis",
        "Input Index Value -> Result",
        axis="Axis",
        reduce="Reduce",
        include_self="Include_self",
    ),
    _row("accuracy", "accuracy", "Out Indices Label -> Accuracy Correct Total"),
    _row("auc", "auc", "Predict Label StatPos StatNeg -> AUC StatPosOut StatNegOut"),
    _row(
        "softmax_with_cross_entropy",
        "cross_entropy_with_softmax",
        "Logits Label -> Softmax Loss",
    ),
    _row("bce_loss", "bce_loss", "X Label -> Out"),
    _row(
        "sigmoid_cross_entropy_with_logits",
        "sigmoid_cross_entropy_with_logits",
        "X Label -> Out",
    ),
    _row("huber_loss", "huber_loss", "X Y -> Out Residual"),
    _row("kldiv_loss", "kldiv_loss", "X Target -> Loss"),
    _row("nll_loss", "nll_loss", "X Label Weight -> Out Total_weight"),
    # recurrent networks; pd_rnn is not Paddle's: an rnn whose padded steps do not give 0
    _row("rnn", "rnn", _RNN),
    _row("pd_rnn", "rnn", _RNN),
    _row("gru_unit", "gru_unit", "Input HiddenPrev Weight Bias -> Gate ResetHiddenPrev Hidden"),
    # sequences against sequences, trees of classes
    _row("warpctc", "warpctc", "Logits Label LogitsLength LabelLength -> Loss"),
    _row("warprnnt", "warprnnt", "input label input_lengths label_lengths -> loss"),
    _row("ctc_align", "ctc_align", "Input InputLength -> Output OutputLength"),
    _row("edit_distance", "edit_distance", "Hyps Refs HypsLength RefsLength -> Out SequenceNum"),
    _row("gather_tree", "gather_tree", "Ids Parents -> Out"),
    _row("viterbi_decode", "viterbi_decode", "Input Transition Length -> Scores Path"),
    _row("sequence_mask", "sequence_mask", "X -> Y", max_len="maxlen"),
    _row(
        "hierarchical_sigmoid",
        "hsigmoid_loss",
        "X W Label PathTable PathCode Bias -> Out PreOut",
    ),
    _row("lstm_unit", "lstm_unit", "X C_prev -> C H"),
    _row("group_norm", "group_norm", "X Scale Bias -> Y Mean Variance"),
    _row("instance_norm", "instance_norm", "X Scale Bias -> Y SavedMean SavedVariance"),
    # calls back to the host
    _row("py_func", "py_func", "X -> Out", function="forward_callable_id"),
    # special functions, scans, places
    _row("i0", "i0", "x -> out"),
    _row("i0e", "i0e", "x -> out"),
    _row("i1", "i1", "x -> out"),
    _row("i1e", "i1e", "x -> out"),
    _row("polygamma", "polygamma", "x -> out"),
    _row("gammaincc", "gammaincc", "x y -> out"),
    _row("nextafter", "nextafter", "x y -> out"),
    _row("copysign", "copysign", "x y -> out"),
    _row("elementwise_heaviside", "heaviside", _BINARY),
    _row("gcd", "gcd", _BINARY),
    _row("bitwise_left_shift", "bitwise_left_shift", "x y -> out"),
    _row("bitwise_right_shift", "bitwise_right_shift", "x y -> out"),
    _row("logcumsumexp", "logcumsumexp", _UNARY),
    _row("cummax", "cummax", "x -> out indices"),
    _row("cummin", "cummin", "x -> out indices"),
    _row("complex", "complex", "X Y -> Out"),
    _row("as_complex", "as_complex", _UNARY),
    _row("as_real", "as_real", _UNARY),
    _row("fft_c2c", "fft_c2c", _UNARY),
    _row("fft_r2c", "fft_r2c", _UNARY),
    _row("fft_c2r", "fft_c2r", _UNARY),
    _row("mode", "mode", "X -> Out Indices"),
    _row("nanmedian", "nanmedian", _UNARY),
    _row("index_add", "index_add", "X Index AddValue -> Out"),
    _row("index_put", "index_put", "x indices value -> out"),
    _row("diag_embed", "diag_embed", "Input -> Out"),
    _row("shard_index", "shard_index", _UNARY),
    _row("logspace", "logspace", "-> Out"),
    _row("renorm", "renorm", _UNARY),
    # decompositions
    _row("determinant", "det", "Input -> Out"),
    _row("slogdeterminant", "slogdet", "Input -> Out"),
    _row("qr", "qr", "X -> Q R"),
    _row("svd", "svd", "X -> U S VH"),
    _row("eigh", "eigh", "X -> Eigenvalues Eigenvectors"),
    _row("eigvalsh", "eigvalsh", "X -> Eigenvalues"),
    _row("eig", "eig", "X -> Eigenvalues Eigenvectors"),
    _row("eigvals", "eigvals", _UNARY),
    _row("lu", "lu", "X -> Out Pivots Infos", pivot="pivots"),
    _row("lu_unpack", "lu_unpack", "X Pivots -> Pmat L U"),
    _row("solve", "solve", _BINARY),
    _row("triangular_solve", "triangular_solve", _BINARY),
    _row("cholesky_solve", "cholesky_solve", _BINARY),
    _row("matrix_power", "matrix_power", _UNARY),
    _row("matrix_exp", "matrix_exp", _UNARY),
    _row("matrix_rank", "matrix_rank", "X TolTensor -> Out"),
    _row("multi_dot", "multi_dot", _UNARY),
    # layers
    _row("bilinear_tensor_product", "bilinear", "X Y Weight Bias -> Out"),
    _row("row_conv", "row_conv", "X Filter -> Out"),
    _row("spectral_norm", "spectral_norm", "Weight U V -> Out"),
    _row(
        "data_norm",
        "data_norm",
        "X BatchSize BatchSum BatchSquareSum scale_w bias -> Y Means Scales",
    ),
    _row("cvm", "cvm", "X CVM -> Y"),
    _row("max_pool2d_with_index", "max_pool2d_with_index", "X -> Out Mask", kernel_size="ksize"),
    _row("max_pool3d_with_index", "max_pool3d_with_index", "X -> Out Mask", kernel_size="ksize"),
    _row("unpool", "unpool", "X Indices -> Out"),
    _row("unpool3d", "unpool3d", "X Indices -> Out"),
    _row("fold", "fold", "X -> Y"),
    _row("rrelu", "rrelu", "X -> Out Noise"),
    # boxes
    _row("prior_box", "prior_box", "Input Image -> Boxes Variances"),
    _row("density_prior_box", "density_prior_box", "Input Image -> Boxes Variances"),
    _row("anchor_generator", "anchor_generator", "Input -> Anchors Variances"),
    _row("box_coder", "box_coder", "PriorBox PriorBoxVar TargetBox -> OutputBox"),
    _row("iou_similarity", "iou_similarity", _BINARY),
    _row("yolo_box", "yolo_box", "X ImgSize -> Boxes Scores"),
    _row(
        "yolov3_loss",
        "yolo_loss",
        "X GTBox GTLabel GTScore -> Loss ObjectnessMask GTMatchMask",
    ),
    _row("nms", "nms", "Boxes -> KeepBoxesIdxs", threshold="iou_threshold"),
    _row("multiclass_nms3", "multiclass_nms3", "BBoxes Scores RoisNum -> Out Index NmsRoisNum"),
    _row("matrix_nms", "matrix_nms", "BBoxes Scores -> Out Index RoisNum"),
    _row(
        "generate_proposals_v2",
        "generate_proposals",
        "Scores BboxDeltas ImShape Anchors Variances -> RpnRois RpnRoiProbs RpnRoisNum",
        pre_nms_top_n="pre_nms_topN",
        post_nms_top_n="post_nms_topN",
    ),
    _row(
        "distribute_fpn_proposals",
        "distribute_fpn_proposals",
        "FpnRois RoisNum -> MultiFpnRois RestoreIndex MultiLevelRoIsNum",
    ),
    _row(
        "collect_fpn_proposals",
        "collect_fpn_proposals",
        "MultiLevelRois MultiLevelScores MultiLevelRoIsNum -> FpnRois RoisNum",
        post_nms_top_n="post_nms_topN",
    ),
    # pixels and channels in another order, and waves
    _row("pixel_shuffle", "pixel_shuffle", _UNARY),
    _row("pixel_unshuffle", "pixel_unshuffle", _UNARY),
    _row("channel_shuffle", "channel_shuffle", _UNARY),
    _row("shuffle_channel", "channel_shuffle", _UNARY, groups="group"),
    _row("space_to_depth", "space_to_depth", _UNARY),
    _row("temporal_shift", "temporal_shift", _UNARY),
    _row("gumbel_softmax", "gumbel_softmax", _UNARY),
    _row("poisson", "poisson", _UNARY),
    _row("standard_gamma", "standard_gamma", "x -> out"),
    _row("binomial", "binomial", "count prob -> out"),
    # updates
    _row("sgd", "sgd", "Param Grad LearningRate -> ParamOut"),
    _row("momentum", "momentum", "Param Grad Velocity LearningRate -> ParamOut VelocityOut"),
    _row("adam", "adam", _ADAM),
    _row("adamw", "adamw", _ADAM),
    _row("adagrad", "adagrad", "Param Grad LearningRate Moment -> ParamOut MomentOut"),
    _row(
        "decayed_adagrad",
        "decayed_adagrad",
        "Param Grad LearningRate Moment -> ParamOut MomentOut",
    ),
    _row(
        "adadelta",
        "adadelta",
        "Param Grad LearningRate AvgSquaredGrad AvgSquaredUpdate"
        " -> ParamOut AvgSquaredGradOut AvgSquaredUpdateOut",
    ),
    _row(
        "adamax",
        "adamax",
        "Param Grad LearningRate Moment InfNorm Beta1Pow -> ParamOut MomentOut InfNormOut",
    ),
    _row(
        "rmsprop",
        "rmsprop",
        "Param Grad LearningRate Moment MeanSquare MeanGrad"
        " -> ParamOut MomentOut MeanSquareOut MeanGradOut",
    ),
    _row(
        "lamb",
        "lamb",
        "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow"
        " -> ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut",
    ),
    _row(
        "nadam",
        "nadam",
        "param grad learning_rate momentum_decay_pow beta2_pow mu_product moment1 moment2"
        " -> param_out momentum_decay_pow_out beta2_pow_out mu_product_out moment1_out moment2_out",
    ),
    _row(
        "radam",
        "radam",
        "param grad learning_rate beta1_pow beta2_pow rho moment1 moment2"
        " -> param_out beta1_pow_out beta2_pow_out rho_out moment1_out moment2_out",
    ),
    _row(
        "ftrl",
        "ftrl",
        "Param Grad LearningRate SquaredAccumulator LinearAccumulator"
        " -> ParamOut SquaredAccumOut LinearAccumOut",
    ),
    _row("asgd", "asgd", "param grad learning_rate d y n -> param_out d_out y_out"),
    _row(
        "rprop",
        "rprop",
        "param grad learning_rate prev learning_rate_range etas"
        " -> param_out prev_out learning_rate_out",
    ),
    _row(
        "lars_momentum",
        "lars_momentum",
        "Param Grad LearningRate Velocity -> ParamOut VelocityOut",
    ),
    _row("dpsgd", "dpsgd", "Param Grad LearningRate -> ParamOut"),
    _row(
        "average_accumulates",
        "average_accumulates",
        "param in_sum_1 in_sum_2 in_sum_3 in_num_accumulates in_old_num_accumulates in_num_updates"
        " -> out_sum_1 out_sum_2 out_sum_3 out_num_accumulates out_old_num_accumulates"
        " out_num_updates",
    ),
)


BY_TYPE: dict[str, Row] = {row.type: row for row in ROWS}

# The slots through which tensors give properties: operator type -> slot -> `pd` property. A slot of
# several tensors has one for each element. Where several slots are filled, the first counts.
_SHAPE = {"ShapeTensorList": "shape", "ShapeTensor": "shape"}
_BOUNDS = {
    "StartsTensorList": "starts",
    "StartsTensor": "starts",
    "EndsTensorList": "ends",
    "EndsTensor": "ends",
}
_CONSTANTS = {"Beta1Tensor": "beta1", "Beta2Tensor": "beta2", "EpsilonTensor": "epsilon"}
_AXES = {"AxisTensor": "axis", "AxisTensorList": "axis"}
TENSOR_PROPERTIES: Mapping[str, Mapping[str, str]] = {
    "reshape2": {"ShapeTensor": "shape", "Shape": "shape"},
    "expand_v2": {"expand_shapes_tensor": "shape", "Shape": "shape"},
    "tile": {"repeat_times_tensor": "repeat_times", "RepeatTimes": "repeat_times"},
    "fill_constant": _SHAPE,
    "empty": _SHAPE,
    "uniform_random": _SHAPE,
    "gaussian_random": _SHAPE,
    "truncated_gaussian_random": _SHAPE,
    "randint": _SHAPE,
    "slice": _BOUNDS,
    "strided_slice": {
        **_BOUNDS,
        "StridesTensorList": "strides",
        "StridesTensor": "strides",
    },
    "set_value": {
        "StartsTensorList": "starts",
        "EndsTensorList": "ends",
        "StepsTensorList": "steps",
    },
    "concat": {"AxisTensor": "axis"},
    "split": {"AxisTensor": "axis", "SectionsTensorList": "sections"},
    "gather": {"Axis": "axis"},
    "top_k_v2": {"K": "k"},
    "one_hot_v2": {"depth_tensor": "depth"},
    "unsqueeze2": {"AxesTensorList": "axis", "AxesTensor": "axis"},
    "roll": {"ShiftsTensor": "shifts"},
    "range": {"Start": "start", "End": "end", "Step": "step"},
    "linspace": {"Start": "start", "Stop": "stop", "Num": "num"},
    "logspace": {"Start": "start", "Stop": "stop", "Num": "num", "Base": "base"},
    "pad3d": {"Paddings": "paddings"},
    "pow": {"FactorTensor": "factor"},
    "affine_grid": {"OutputShape": "output_shape"},
    "batch_norm": {"MomentumTensor": "momentum"},
    "adam": _CONSTANTS,
    "adamw": _CONSTANTS,
    **{row.type: _AXES for row in ROWS if row.type.startswith("reduce_")},
}
