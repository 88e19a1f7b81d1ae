"""The gradient operators of PIR against Paddle's legacy ones. Data only.

As in the table of operators, by the names of the forward operators: `add` is `add_grad`, whose
legacy type is that of `add` with `_grad`. `X>XShape` is the operand X where legacy has the forward
operator's note of X's shape in its place.
"""

from __future__ import annotations

from collections.abc import Mapping

GRADIENT: Mapping[str, str] = {
    "X Out@GRAD -> X@GRAD": """
        fft_r2c
        abs acos acosh angle asin asinh atan atanh cast celu cos cosh diag digamma erf expand_as
        gelu hardshrink hardswish hardtanh leaky_relu lgamma log log10 log1p log2 logit
        logsigmoid mean_all meshgrid mish multi_dot pow renorm repeat_interleave sin sinh
        softplus softshrink softsign square squared_l2_norm stanh swish tan tanh_shrink
        thresholded_relu""",
    "Out@GRAD -> X@GRAD": """
        channel_shuffle fft_c2c fft_c2r label_smooth pixel_shuffle pixel_unshuffle temporal_shift
        as_complex as_real assign ceil conj flip floor imag poisson real round sign transpose
        tril triu trunc unbind""",
    "Out Out@GRAD -> X@GRAD": """
        cholesky erfinv exp expm1 gumbel_softmax hardsigmoid log_softmax reciprocal relu relu6
        rsqrt selu sigmoid softmax sqrt tanh""",
    "X Y Out@GRAD -> X@GRAD Y@GRAD": """
        dot
        add bmm complex cross elementwise_pow fmax fmin heaviside kron matmul maximum minimum
        multiply remainder subtract""",
    "X Out Out@GRAD -> X@GRAD": """
        amax amin cumprod elu logcumsumexp logsumexp matrix_power maxout p_norm pool3d silu
        soft_relu""",
    "X OutSize SizeTensor Scale Out@GRAD "
    "-> X@GRAD": "bicubic_interp bilinear_interp linear_interp nearest_interp trilinear_interp",
    "Input Filter Output@GRAD "
    "-> Input@GRAD Filter@GRAD": "conv2d conv3d conv3d_transpose depthwise_conv2d",
    "X Out Out@GRAD dim= -> X@GRAD": "frobenius_norm max min prod",
    "X Y Out Out@GRAD -> X@GRAD Y@GRAD": "dist cholesky_solve divide solve triangular_solve",
    "X Index Out@GRAD -> X@GRAD": "gather_nd index_sample index_select",
    "X Y@GRAD -> X@GRAD": "fold stack unfold",
    "x out out@GRAD -> x@GRAD": "i0e i1 i1e",
    "Eigenvalues Eigenvectors Eigenvalues@GRAD Eigenvectors@GRAD -> X@GRAD": "eig eigh",
    "Input Filter Output@GRAD output_size= "
    "-> Input@GRAD Filter@GRAD": "conv2d_transpose depthwise_conv2d_transpose",
    "Input Out Out@GRAD -> Input@GRAD": "det slogdet",
    "Input Out@GRAD -> Input@GRAD": "diagonal trace",
    "Out@GRAD axis=AxisTensor -> X@GRAD": "split split_with_num",
    "X Indices Out@GRAD -> X@GRAD": "kthvalue mode",
    "X Mask Out@GRAD -> X@GRAD": "max_pool2d_with_index max_pool3d_with_index",
    "X Out@GRAD dim= -> X@GRAD": "mean sum",
    "X ROIs RoisNum Out@GRAD -> X@GRAD": "psroi_pool roi_align",
    "X>XShape Out@GRAD -> X@GRAD": "flatten reshape",
    "X>XShape Out@GRAD axes= -> X@GRAD": "squeeze unsqueeze",
    "x indices out@GRAD -> x@GRAD": "cummax cummin",
    "x out@GRAD -> x@GRAD": "i0 polygamma",
    "Condition X Y Out@GRAD -> X@GRAD Y@GRAD": "where",
    "Eigenvectors Eigenvalues@GRAD -> X@GRAD": "eigvalsh",
    "Ids Updates Out@GRAD -> X@GRAD Updates@GRAD": "scatter",
    "Ids W Out@GRAD -> W@GRAD": "embedding",
    "Index AddValue Out@GRAD -> X@GRAD AddValue@GRAD": "index_add",
    "Index Updates Out@GRAD -> X@GRAD Updates@GRAD": "scatter_nd_add",
    "Indices X Out@GRAD -> X@GRAD": "argsort",
    "Input HiddenPrev Weight Bias Gate ResetHiddenPrev Hidden@GRAD"
    " -> Input@GRAD HiddenPrev@GRAD Weight@GRAD Bias@GRAD": "gru_unit",
    "Input Index Result@GRAD -> Input@GRAD": "take_along_axis",
    "Input Index Value Result Result@GRAD -> Input@GRAD Value@GRAD": "put_along_axis",
    "Input Offset Filter Mask Output@GRAD "
    "-> Input@GRAD Offset@GRAD Filter@GRAD Mask@GRAD": "deformable_conv",
    "Input Out@GRAD starts=StartsTensor ends=EndsTensor -> Input@GRAD": "slice",
    "Input Out@GRAD starts=StartsTensor ends=EndsTensor strides=StridesTensor "
    "-> Input@GRAD": "strided_slice",
    "Input PreState WeightList SequenceLength Out DropoutState Reserve Out@GRAD State@GRAD"
    " -> Input@GRAD PreState@GRAD WeightList@GRAD": "rnn",
    "Label Softmax Loss@GRAD -> Logits@GRAD": "cross_entropy_with_softmax",
    "Logits LogitsLength WarpCTCGrad Loss@GRAD -> Logits@GRAD": "warpctc",
    "Mask Out@GRAD dropout_prob= -> X@GRAD": "dropout",
    "Out@GRAD scale=ScaleTensor -> X@GRAD": "scale",
    "Output Output@GRAD -> Input@GRAD": "inverse",
    "Residual Out@GRAD -> X@GRAD Y@GRAD": "huber_loss",
    "Theta Output@GRAD output_shape=OutputShape -> Theta@GRAD": "affine_grid",
    "ValueTensor Out@GRAD starts= ends= steps= "
    "-> Input@GRAD ValueTensor@GRAD": "set_value_with_tensor",
    "Weight U V Out@GRAD -> Weight@GRAD": "spectral_norm",
    "X Alpha Out@GRAD -> X@GRAD Alpha@GRAD": "prelu",
    "X Filter Out@GRAD -> X@GRAD Filter@GRAD": "row_conv",
    "X Grid Output@GRAD -> X@GRAD Grid@GRAD": "grid_sample",
    "X Ids Out@GRAD -> X@GRAD": "multiplex",
    "X Index Out@GRAD axis=Axis -> X@GRAD": "gather",
    "X Indices Out Out@GRAD -> X@GRAD": "unpool3d",
    "X Indices Out Out@GRAD output_size= -> X@GRAD": "unpool",
    "X Indices Out@GRAD k=K -> X@GRAD": "topk",
    "X Label Out@GRAD -> X@GRAD": "bce_loss",
    "X Label Weight Total_weight Out@GRAD -> X@GRAD": "nll_loss",
    "X Label pos_weight Out@GRAD -> X@GRAD": "sigmoid_cross_entropy_with_logits",
    "X Mask Y@GRAD -> X@GRAD": "masked_select",
    "X Noise Out@GRAD -> X@GRAD": "rrelu",
    "X Out MedianIndex Out@GRAD -> X@GRAD": "nanmedian",
    "X Out Out@GRAD ksize= -> X@GRAD": "pool2d",
    "X Out Pivots Out@GRAD -> X@GRAD": "lu",
    "X Out@GRAD axis= -> X@GRAD": "cumsum",
    "X Out@GRAD axis=AxisTensor -> X@GRAD": "concat",
    "X Out@GRAD min=Min max=Max -> X@GRAD": "clip",
    "X Out@GRAD pad_value= -> X@GRAD": "pad",
    "X Out@GRAD paddings=Paddings -> X@GRAD": "pad3d",
    "X Out@GRAD repeat_times=RepeatTimes -> X@GRAD": "tile",
    "X Out@GRAD shifts=ShiftsTensor -> X@GRAD": "roll",
    "X Pivots L U Pmat L@GRAD U@GRAD -> X@GRAD": "lu_unpack",
    "X Q R Q@GRAD R@GRAD -> X@GRAD": "qr",
    "X ROIs RoisNum Argmax Out@GRAD -> X@GRAD": "roi_pool",
    "X RepeatsTensor Out@GRAD -> X@GRAD": "repeat_interleave_with_tensor_index",
    "X Scale Bias Mean Variance Y@GRAD -> X@GRAD Scale@GRAD Bias@GRAD": "layer_norm",
    "X Scale Bias MeanOut VarianceOut SavedMean SavedVariance ReserveSpace Y@GRAD"
    " -> X@GRAD Scale@GRAD Bias@GRAD": "batch_norm",
    "X Scale Bias SavedMean SavedVariance Y@GRAD -> X@GRAD Scale@GRAD Bias@GRAD": "instance_norm",
    "X Scale Bias Y Mean Variance Y@GRAD -> X@GRAD Scale@GRAD Bias@GRAD": "group_norm",
    "X Target Loss@GRAD -> X@GRAD": "kldiv_loss",
    "X U VH S U@GRAD VH@GRAD S@GRAD -> X@GRAD": "svd",
    "X Vec Out@GRAD -> X@GRAD Vec@GRAD": "mv",
    "X W Label PathTable PathCode Bias PreOut Out@GRAD -> X@GRAD W@GRAD Bias@GRAD": "hsigmoid_loss",
    "X Y Weight Out Out@GRAD -> X@GRAD Y@GRAD": "lerp",
    "X Y Weight Out@GRAD -> X@GRAD Y@GRAD Weight@GRAD Bias@GRAD": "bilinear",
    "X1 X2 Out@GRAD -> X1@GRAD X2@GRAD": "atan2",
    "Y@GRAD -> X@GRAD": "unstack",
    "x indices value out@GRAD -> x@GRAD value@GRAD": "index_put",
    "X Out@GRAD shape=Shape -> X@GRAD": "expand",
    "Input X Y Out@GRAD -> Input@GRAD X@GRAD Y@GRAD": "addmm",
    "X Y Bias Out@GRAD -> X@GRAD Y@GRAD Bias@GRAD": "linear_v2",
    "Predicted Labels Loss@GRAD -> Predicted@GRAD": "log_loss",
}
