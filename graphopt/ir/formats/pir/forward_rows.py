"""The forward operators of PIR against Paddle's legacy operators. Data only.

Grouped by signature: on the left the legacy slots of the operands and results, in the order in
which PIR has them; on the right the PIR names, each with `=` and the legacy type where that is
another. A trailing underscore, PIR's mark of operators that write in place, is left out.

In a signature `axis=AxisTensor` is an operand that legacy has as the attribute `axis` if it is a
constant, else in the slot `AxisTensor`; with no slot the attribute then names the variable.
`-` is an operand or result that legacy has not.
"""

from __future__ import annotations

from collections.abc import Mapping

FORWARD: Mapping[str, str] = {
    "X -> Out": """
        broadcast_tensors channel_shuffle fused_softmax_mask_upper_triangle is_empty l1_norm
        lod_reset memcpy memcpy_d2h memcpy_h2d merge_selected_rows get_tensor_from_selected_rows
        fill_diagonal frame gammaln=lgamma overlap_add partial_concat partial_sum
        pixel_shuffle pixel_unshuffle share_data shuffle_channel temporal_shift
        abs acos acosh add_n=sum all=reduce_all amax=reduce_amax
        amin=reduce_amin angle any=reduce_any as_complex as_real asin asinh assign atan atanh
        bernoulli bitwise_not cast ceil celu cholesky clip_by_norm conj cos cosh cumprod
        diag=diag_v2 digamma eigvals elu erf erfinv exp expm1 fft_c2c fft_c2r fft_r2c
        flatten=flatten_contiguous_range flip floor gelu gumbel_softmax hardshrink=hard_shrink
        hardsigmoid=hard_sigmoid hardswish=hard_swish hardtanh=brelu imag increment
        isfinite=isfinite_v2 isinf=isinf_v2 isnan=isnan_v2 leaky_relu lgamma log log10 log1p
        log2 log_softmax logcumsumexp logical_not logit logsigmoid logsumexp matrix_power
        matrix_rank maxout mean_all=mean meshgrid mish array_length=lod_array_length multi_dot
        p_norm poisson pool3d pow real reciprocal relu relu6 renorm repeat_interleave round
        rsqrt selu shard_index sigmoid sign silu sin sinh soft_relu softmax softplus softshrink
        softsign sqrt square squared_l2_norm stanh swish tan tanh tanh_shrink thresholded_relu
        transpose=transpose2 tril=tril_triu triu=tril_triu trunc unbind""",
    "X Y -> Out": """
        dist dot fill_diagonal_tensor
        fused_elementwise_add fused_elementwise_div fused_elementwise_mul fused_elementwise_sub
        add=elementwise_add bitwise_and bitwise_or bitwise_xor bmm
        cholesky_solve complex cross divide=elementwise_div elementwise_pow equal equal_all
        expand_as=expand_as_v2 floor_divide=elementwise_floordiv fmax=elementwise_fmax
        fmin=elementwise_fmin greater_equal greater_than heaviside=elementwise_heaviside kron
        less_equal less_than logical_and logical_or logical_xor matmul=matmul_v2
        maximum=elementwise_max minimum=elementwise_min multiply=elementwise_mul not_equal
        remainder=elementwise_mod solve subtract=elementwise_sub triangular_solve""",
    "Input -> Out": """
        uniform_random_batch_size_like det=determinant diag_embed diagonal
        full_batch_size_like=fill_constant_batch_size_like numel=size shape shape64=shape
        slogdet=slogdeterminant trace""",
    "X dim= -> Out": """
        frobenius_norm max=reduce_max mean=reduce_mean min=reduce_min prod=reduce_prod
        sum=reduce_sum""",
    "x -> out": "i0 i0e i1 i1e polygamma standard_gamma",
    "X OutSize SizeTensor Scale -> Out": """
        bicubic_interp=bicubic_interp_v2 bilinear_interp=bilinear_interp_v2
        linear_interp=linear_interp_v2 nearest_interp=nearest_interp_v2
        trilinear_interp=trilinear_interp_v2""",
    "x y -> out": "bitwise_left_shift bitwise_right_shift copysign gammaincc nextafter",
    "-> Out": "assign_value full=fill_constant randperm truncated_gaussian_random",
    "Input Filter -> Output": "conv2d conv3d conv3d_transpose depthwise_conv2d",
    "X -> Y": "fold stack unfold unstack",
    "X -> Eigenvalues Eigenvectors": "eig eigh eigvalsh",
    "X -> Out Indices": "argsort kthvalue mode",
    "X CVM -> Y": "cvm",
    "X Index -> Out": "gather_nd index_sample index_select",
    "X axis= -> Out": "argmax=arg_max argmin=arg_min cumsum",
    "- -> Out": "assign_value_=assign_value full_=fill_constant",
    "Input Filter output_size= -> Output": "conv2d_transpose depthwise_conv2d_transpose",
    "Input Other rtol=Rtol atol=Atol -> Out": "allclose isclose",
    "Param Grad LearningRate Moment1 Moment2 Moment2Max Beta1Pow Beta2Pow MasterParam "
    "SkipUpdate beta1=Beta1Tensor beta2=Beta2Tensor epsilon=EpsilonTensor "
    "-> ParamOut Moment1Out Moment2Out Moment2MaxOut Beta1PowOut Beta2PowOut MasterParamOut": """
        adam adamw""",
    "Param Grad Velocity LearningRate MasterParam "
    "-> ParamOut VelocityOut MasterParamOut": "lars_momentum momentum",
    "X -> Out Mask": "max_pool2d_with_index max_pool3d_with_index",
    "X Mean Variance Scale Bias "
    "-> Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace": "batch_norm sync_batch_norm",
    "X ROIs RoisNum -> Out": "psroi_pool roi_align",
    "X Scale Bias -> Y Mean Variance": "group_norm layer_norm",
    "X axis=AxisTensor -> Out": "concat split_with_num=split",
    "X shape=Shape -> Out": "expand=expand_v2 reshape=reshape2",
    "shape=ShapeTensor -> Out": "empty gaussian=gaussian_random randint",
    "x -> out indices": "cummax cummin",
    "- X I -> Out": "array_write=write_to_array",
    "Condition -> Out": "nonzero=where_index",
    "Condition X Y -> Out": "where",
    "Hyps Refs HypsLength RefsLength -> SequenceNum Out": "edit_distance",
    "Ids Parents -> Out": "gather_tree",
    "Ids W -> Out": "embedding=lookup_table_v2",
    "In -> Out": "print",
    "Input -> Output": "inverse",
    "Input HiddenPrev Weight Bias -> Gate ResetHiddenPrev Hidden": "gru_unit",
    "Input Index -> Result": "take_along_axis",
    "Input Index Value -> Result": "put_along_axis",
    "Input InputLength -> Output OutputLength": "ctc_align",
    "Input Offset Filter Mask -> Output": "deformable_conv",
    "Input PreState WeightList SequenceLength - -> Out DropoutState State Reserve": "rnn",
    "Input Transition Length -> Scores Path": "viterbi_decode",
    "Input ValueTensor starts= ends= steps= -> Out": "set_value_with_tensor=set_value",
    "Input starts= ends= steps= -> Out": "set_value",
    "Input starts=StartsTensor ends=EndsTensor -> Out": "slice",
    "Input starts=StartsTensor ends=EndsTensor strides=StridesTensor -> Out": "strided_slice",
    "Logits Label -> Softmax Loss": "cross_entropy_with_softmax=softmax_with_cross_entropy",
    "Logits Label LogitsLength LabelLength -> Loss WarpCTCGrad": "warpctc",
    "Operands -> Out InnerCache XShape": "einsum",
    "Out Indices Label -> Accuracy Correct Total": "accuracy",
    "Param Grad AvgSquaredGrad AvgSquaredUpdate LearningRate MasterParam "
    "-> ParamOut AvgSquaredGradOut AvgSquaredUpdateOut MasterParamOut": "adadelta",
    "Param Grad LearningRate -> ParamOut": "dpsgd",
    "Param Grad LearningRate Moment InfNorm Beta1Pow MasterParam "
    "-> ParamOut MomentOut InfNormOut MasterParamOut": "adamax",
    "Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow MasterParam SkipUpdate "
    "-> ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut MasterParamOut": "lamb",
    "Param Grad Moment LearningRate -> ParamOut MomentOut": "decayed_adagrad",
    "Param Grad Moment LearningRate MasterParam -> ParamOut MomentOut MasterParamOut": "adagrad",
    "Param LearningRate Grad MasterParam -> ParamOut MasterParamOut": "sgd",
    "Param MeanSquare Grad Moment LearningRate MeanGrad MasterParam "
    "-> ParamOut MomentOut MeanSquareOut MeanGradOut MasterParamOut": "rmsprop",
    "Param SquaredAccumulator LinearAccumulator Grad LearningRate "
    "-> ParamOut SquaredAccumOut LinearAccumOut": "ftrl",
    "Predict Label StatPos StatNeg InsTagWeight -> AUC StatPosOut StatNegOut": "auc",
    "SortedSequence Values -> Out": "searchsorted",
    "Start End Step -> Out": "arange=range",
    "Start Stop Num -> Out": "linspace",
    "Start Stop Num Base -> Out": "logspace",
    "Theta output_shape=OutputShape -> Output": "affine_grid",
    "ValueTensor shape=ShapeTensor -> Out": "full_with_tensor=fill_constant",
    "W Ids -> Out": "lookup_table",
    "Weight U V -> Out": "spectral_norm",
    "X -> Out Index Counts": "unique_consecutive",
    "X -> Out Indices Index Counts": "unique",
    "X -> Out MedianIndex": "nanmedian",
    "X -> Out Noise": "rrelu",
    "X -> Out OutIndex": "array_to_tensor=tensor_array_to_tensor",
    "X -> Out Pivots Infos": "lu",
    "X -> Q R": "qr",
    "X -> U S VH": "svd",
    "X Alpha -> Out": "prelu",
    "X Filter -> Out": "row_conv",
    "X FoundInfinite PrevLossScaling InGoodSteps InBadSteps stop_update=StopUpdate "
    "-> Out LossScaling OutGoodSteps OutBadSteps": "update_loss_scaling",
    "X Grid -> Output": "grid_sample=grid_sampler",
    "X I -> Out": "array_read=read_from_array slice_array_dense=read_from_array",
    "X Ids -> Out": "multiplex",
    "X Ids Updates -> Out": "scatter",
    "X Index AddValue -> Out": "index_add",
    "X Index Updates -> Out": "scatter_nd_add",
    "X Index axis=Axis -> Out": "gather",
    "X Indices -> Out": "unpool3d",
    "X Indices output_size= -> Out": "unpool",
    "X SegmentIds -> Out SummedIds": "segment_pool",
    "X Src_index Dst_index out_size=Out_size -> Out Dst_count": "send_u_recv=graph_send_recv",
    "X Y Src_index Dst_index out_size=Out_size -> Out Dst_count": "send_ue_recv=graph_send_ue_recv",
    "x bias residual norm_weight norm_bias -> out residual_out mean variance": """
        fused_bias_residual_layernorm""",
    "x target -> out": "reduce_as",
    "x y src_index dst_index -> out": "send_uv=graph_send_uv",
    "X Label -> Out": "bce_loss",
    "X Label W Bias PathTable PathCode -> Out PreOut W_Out": "hsigmoid_loss=hierarchical_sigmoid",
    "X Label Weight -> Out Total_weight": "nll_loss",
    "X Label pos_weight -> Out": "sigmoid_cross_entropy_with_logits",
    "X Mask -> Y": "masked_select",
    "X Pivots -> Pmat L U": "lu_unpack",
    "X ROIs RoisNum -> Out Argmax": "roi_pool",
    "X RepeatsTensor -> Out": "repeat_interleave_with_tensor_index=repeat_interleave",
    "X Scale -> Out FoundInfinite": "check_finite_and_unscale",
    "X Scale Bias -> Y SavedMean SavedVariance": "instance_norm",
    "X Seed dropout_prob= -> Out Mask": "dropout",
    "X Target -> Loss": "kldiv_loss",
    "X TolTensor -> Out": "matrix_rank_tol=matrix_rank",
    "X Vec -> Out": "mv",
    "X Weight -> Out": "histogram",
    "X Weights minlength= -> Out": "bincount",
    "X Y -> Out Residual": "huber_loss",
    "X Y Weight -> Out": "lerp",
    "X Y Weight Bias -> Out": "bilinear=bilinear_tensor_product",
    "X axes= -> Out": "squeeze=squeeze2",
    "X axes=AxesTensor -> Out": "unsqueeze=unsqueeze2",
    "X depth=depth_tensor -> Out": "one_hot=one_hot_v2",
    "X k=K -> Out Indices": "topk=top_k_v2",
    "X ksize= -> Out": "pool2d",
    "X maxlen=MaxLenTensor -> Y": "sequence_mask",
    "X min=Min max=Max -> Out": "clip",
    "X num_samples= -> Out": "multinomial",
    "X pad_value= -> Out": "pad",
    "X paddings=Paddings -> Out": "pad3d",
    "X repeat_times=RepeatTimes -> Out": "tile",
    "X scale=ScaleTensor -> Out": "scale",
    "X sections=SectionsTensorList axis=AxisTensor -> Out": "split",
    "X shifts=ShiftsTensor -> Out": "roll",
    "X value= -> Out": "fill=fill_any full_like=fill_any_like",
    "X1 X2 -> Out": "atan2",
    "count prob -> out": "binomial",
    "num_rows= num_columns= -> Out": "eye",
    "param grad learning_rate beta1_pow beta2_pow rho moment1 moment2 master_param "
    "-> param_out beta1_pow_out beta2_pow_out rho_out moment1_out moment2_out "
    "master_param_out": "radam",
    "param grad learning_rate d y n master_param -> param_out d_out y_out master_param_out": "asgd",
    "param grad learning_rate momentum_decay_pow beta2_pow mu_product moment1 moment2 "
    "master_param "
    "-> param_out momentum_decay_pow_out beta2_pow_out mu_product_out moment1_out moment2_out "
    "master_param_out": "nadam",
    "param grad prev learning_rate master_param learning_rate_range etas "
    "-> param_out prev_out learning_rate_out master_param_out": "rprop",
    "param in_sum_1 in_sum_2 in_sum_3 in_num_accumulates in_old_num_accumulates "
    "in_num_updates "
    "-> out_sum_1 out_sum_2 out_sum_3 out_num_accumulates out_old_num_accumulates "
    "out_num_updates": "average_accumulates",
    "shape=ShapeTensor min= max= -> Out": "uniform=uniform_random",
    "x indices value -> out": "index_put",
    "Cond Data ->": "assert",
    "Input -> Output FusedOutput": "coalesce_tensor",
    "Input X Y -> Out": "addmm",
    "X Y Bias -> Out": "linear_v2",
    "X Scale Bias -> Out": "affine_channel",
    "Input -> Anchors Variances": "anchor_generator",
    "PriorBox PriorBoxVar TargetBox -> OutputBox": "box_coder",
    "MultiLevelRois MultiLevelScores MultiLevelRoIsNum -> FpnRois RoisNum": "collect_fpn_proposals",
    "X shape=Shape offsets=Offsets -> Out": "crop=crop_tensor",
    "X Scale ZeroPoint InAccum InState "
    "-> Y OutState OutAccum OutScale": "dequantize_linear quantize_linear",
    "FpnRois RoisNum -> MultiFpnRois MultiLevelRoIsNum RestoreIndex": "distribute_fpn_proposals",
    "X Scales -> Out": "fake_channel_wise_dequantize_max_abs",
    "X Scale -> Out": "fake_dequantize_max_abs",
    "X -> Out OutScale": """
        fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max
        fake_quantize_abs_max fake_quantize_dequantize_abs_max""",
    "X InScale InAccum InState -> Out OutScale OutState OutAccum": """
        fake_quantize_moving_average_abs_max fake_quantize_dequantize_moving_average_abs_max""",
    "X InScale Iter -> Out OutScale OutScales": "fake_quantize_range_abs_max",
    "X InAccum InState -> Out OutScale OutState OutAccum": "moving_average_abs_max_scale",
    "Input W Bias -> Out": "fc",
    "q k v fixed_seed_offset attn_mask -> out softmax softmax_lse seed_offset": "flash_attn",
    "x y seed_tensor -> out seed_offset": "fused_dropout_add",
    "X Mask -> Out": "fused_softmax_mask",
    "X Residual Bias LnScale LnBias -> Y BiasDropoutResidualOut DropoutMaskOut LnMean LnVariance": (
        "fused_bias_dropout_residual_layer_norm"
    ),
    "Input Filter Bias ResidualData -> Output Outputs": "fused_conv2d_add_act",
    "X Y -> Out IntermediateOut": "fused_elemwise_add_activation",
    "Ids Embs Bias Scale -> Out": "fused_embedding_eltwise_layernorm",
    "X W Y Bias0 Scale Bias1 -> Out Mean Variance": "fused_fc_elementwise_layernorm",
    "X Y Bias -> Out ReserveSpace": "fused_gemm_epilogue",
    "X W Bias -> ReluOut Out": "fusion_repeated_fc_relu",
    "X Y -> SquaredX SquaredY SquaredXY Out": "fusion_squared_mat_sub",
    "Scores BboxDeltas ImShape Anchors Variances "
    "-> RpnRois RpnRoiProbs RpnRoisNum": "generate_proposals=generate_proposals_v2",
    "Logits Labels -> Loss": "hinge_loss",
    "X PriorDist -> Out": "label_smooth",
    "Predicted Labels -> Loss": "log_loss",
    "X -> Out MidOut": "lrn",
    "BBoxes Scores -> Out Index RoisNum": "matrix_nms",
    "Boxes -> KeepBoxesIdxs": "nms",
    "BBoxes Scores RoisNum -> Out Index NmsRoisNum": "multiclass_nms3",
    "Input W Bias BiasQK -> Out": "multihead_matmul",
    "X -> Out Norm": "norm",
    "Input Image -> Boxes Variances": "prior_box",
    "X Y Scale Bias -> Out": "skip_layernorm",
    "-> out": "tril_indices triu_indices",
    "X ImgSize -> Boxes Scores": "yolo_box",
    "X GTBox GTLabel GTScore -> Loss ObjectnessMask GTMatchMask": "yolo_loss=yolov3_loss",
    "X - -> Out": "assign_out=assign",
}
