"""The attributes that Paddle writes also where they have their defaults, by operator type.

They are those of Paddle 2.6 that `save_inference_model` keeps. PIR leaves out attributes that
legacy has, and readers other than Paddle's own want them. Under the operator types of a row are
names, kinds and defaults.
"""

from __future__ import annotations

DEFAULT_ROWS = """
eigh
    UPLO:STRING='L'
index_put
    accumulate:BOOLEAN=False
leaky_relu
    alpha:FLOAT=0.02
celu elu
    alpha:FLOAT=1.0
gelu
    approximate:BOOLEAN=False
squeeze2 unsqueeze2
    axes:INTS=[]
elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min
elementwise_mod elementwise_mul elementwise_pow elementwise_sub log_softmax softmax
    axis:INT=-1
concat gather index_add stack unbind
    axis:INT=0
maxout
    axis:INT=1
fake_quantize_abs_max fake_quantize_dequantize_abs_max
    bit_length:INT=8
channel_shuffle
    data_format:STRING='NCHW'
affine_channel
    data_layout:STRING='AnyLayout'
index_select
    dim:INT=0
cross
    dim:INT=9
randperm
    dtype:INT=3
logit
    eps:FLOAT=1e-06
label_smooth
    epsilon:FLOAT=0.0
fused_embedding_eltwise_layernorm instance_norm
    epsilon:FLOAT=1e-05
pow
    factor:FLOAT=1.0
svd
    full_matrices:BOOLEAN=False
shuffle_channel
    group:INT=1
shard_index
    ignore_value:INT=-1
nms
    iou_threshold:FLOAT=1.0
conditional_block
    is_scalar_condition:BOOLEAN=False
while
    is_test:BOOLEAN=False
softshrink
    lambda:FLOAT=0.5
fft_c2r
    last_dim_size:LONG=0
sequence_mask
    maxlen:INT=-1
bincount
    minlength:INT=0
qr
    mode:STRING='reduced'
sgd
    multi_precision:BOOLEAN=False
edit_distance
    normalized:BOOLEAN=False
scatter
    overwrite:BOOLEAN=True
dist
    p:FLOAT=2.0
pad
    pad_value:FLOAT=0.0
lookup_table_v2
    padding_idx:LONG=-1
lu
    pivots:BOOLEAN=True
distribute_fpn_proposals generate_proposals_v2
    pixel_offset:BOOLEAN=True
kldiv_loss
    reduction:STRING='mean'
tile
    repeat_times:INTS=[]
fusion_squared_mat_sub
    scalar:FLOAT=1.0
expand_v2 reshape2
    shape:INTS=[]
increment
    step:FLOAT=1.0
update_loss_scaling
    stop_update:BOOLEAN=False
assert
    summarize:LONG=-1
expand_as_v2
    target_shape:INTS=[]
hard_shrink
    threshold:FLOAT=0.5
thresholded_relu
    threshold:FLOAT=1.0
mish
    threshold:FLOAT=20.0
soft_relu
    threshold:FLOAT=40.0
cholesky cholesky_solve
    upper:BOOLEAN=False
cast
    use_mkldnn:BOOLEAN=False
fill_any
    value:FLOAT=0.0
addmm
    Alpha:FLOAT=1.0 Beta:FLOAT=1.0
put_along_axis
    Include_self:BOOLEAN=True Reduce:STRING='assign'
repeat_interleave
    Repeats:INT=0 dim:INT=0
eigvalsh
    UPLO:STRING='L' is_test:BOOLEAN=False
affine_grid
    align_corners:BOOLEAN=True output_shape:INTS=[]
selu
    alpha:FLOAT=1.6732632 scale:FLOAT=1.050701
lod_reset
    append:BOOLEAN=False target_lod:INTS=[]
argsort
    axis:INT=-1 descending:BOOLEAN=False
cummax cummin
    axis:INT=-1 dtype:INT=3
equal greater_equal greater_than less_equal less_than not_equal
    axis:INT=-1 force_cpu:BOOLEAN=False
mode
    axis:INT=-1 keepdim:BOOLEAN=False
unstack
    axis:INT=0 num:INT=0
tensor_array_to_tensor
    axis:INT=0 use_stack:BOOLEAN=False
nanmedian
    axis:INTS=[] keepdim:BOOLEAN=True
roll
    axis:LONGS=[] shifts:LONGS=[]
layer_norm
    begin_norm_axis:INT=1 epsilon:FLOAT=1e-05
softplus
    beta:FLOAT=1.0 threshold:FLOAT=20.0
fake_channel_wise_quantize_dequantize_abs_max
    bit_length:INT=8 quant_axis:INT=0
warpctc
    blank:INT=0 norm_by_times:BOOLEAN=False
pixel_unshuffle
    data_format:STRING='NCHW' downscale_factor:INT=1
prelu
    data_format:STRING='NCHW' mode:STRING='all'
temporal_shift
    data_format:STRING='NCHW' shift_ratio:FLOAT=0.25
pixel_shuffle
    data_format:STRING='NCHW' upscale_factor:INT=1
decayed_adagrad
    decay:FLOAT=0.95 epsilon:FLOAT=1e-06
tril_triu
    diagonal:INT=0 lower:BOOLEAN=False
fill_any_like
    dtype:INT=-1 value:FLOAT=0.0
eye
    dtype:INT=5 num_columns:LONG=-1
empty
    dtype:INT=5 shape:LONGS=[]
adagrad
    epsilon:FLOAT=1e-06 multi_precision:BOOLEAN=False
norm
    epsilon:FLOAT=1e-10 is_test:BOOLEAN=False
fused_dropout_add
    fix_seed:BOOLEAN=False seed:INT=0
sigmoid_cross_entropy_with_logits
    ignore_index:INT=-100 normalize:BOOLEAN=False
nll_loss
    ignore_index:LONG=-100 reduction:STRING='mean'
moving_average_abs_max_scale
    is_test:BOOLEAN=False moving_rate:FLOAT=0.9
sum
    mkldnn_data_type:STRING='float32' use_mkldnn:BOOLEAN=False
multinomial
    num_samples:INT=1 replacement:BOOLEAN=False
hard_sigmoid
    offset:FLOAT=0.5 slope:FLOAT=0.2
anchor_generator
    offset:FLOAT=0.5 stride:FLOATS=[16.0,16.0]
diag_v2
    offset:INT=0 padding_value:FLOAT=0.0
crop_tensor
    offsets:INTS=[] shape:INTS=[]
searchsorted
    out_int32:BOOLEAN=False right:BOOLEAN=False
stanh
    scale_a:FLOAT=0.67 scale_b:FLOAT=1.7159
flatten_contiguous_range
    start_axis:INT=1 stop_axis:INT=1
brelu
    t_max:FLOAT=24.0 t_min:FLOAT=0.0
matmul_v2
    trans_x:BOOLEAN=False trans_y:BOOLEAN=False
lu_unpack
    unpack_ludata:BOOLEAN=True unpack_pivots:BOOLEAN=True
gru_unit
    activation:INT=2 gate_activation:INT=1 origin_mode:BOOLEAN=False
grid_sampler
    align_corners:BOOLEAN=True mode:STRING='bilinear' padding_mode:STRING='zeros'
one_hot_v2
    allow_out_of_range:BOOLEAN=False depth:INT=-1 dtype:INT=5
allclose isclose
    atol:STRING='1e-8' equal_nan:BOOLEAN=False rtol:STRING='1e-5'
average_accumulates
    average_window:FLOAT=0.0 max_average_window:LONG=9223372036854775807
    min_average_window:LONG=10000
diagonal trace
    axis1:INT=0 axis2:INT=1 offset:INT=0
gumbel_softmax
    axis:INT=-1 hard:BOOLEAN=False temperature:FLOAT=1.0
kthvalue
    axis:INT=-1 k:INT=1 keepdim:BOOLEAN=False
fused_elemwise_add_activation
    axis:INT=-1 save_intermediate_out:BOOLEAN=False scale:FLOAT=0.0
logsumexp
    axis:INTS=[0] keepdim:BOOLEAN=False reduce_all:BOOLEAN=False
scale
    bias:FLOAT=0.0 bias_after_scale:BOOLEAN=True scale:FLOAT=1.0
histogram
    bins:LONG=100 max:INT=0 min:INT=0
fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max
    bit_length:INT=8 is_test:BOOLEAN=False moving_rate:FLOAT=0.9
fake_channel_wise_quantize_abs_max
    bit_length:INT=8 is_test:BOOLEAN=False quant_axis:INT=0
fake_quantize_range_abs_max
    bit_length:INT=8 is_test:BOOLEAN=False window_size:INT=10000
ctc_align
    blank:INT=0 merge_repeated:BOOLEAN=True padding_value:INT=0
auc
    curve:STRING='ROC' num_thresholds:INT=8191 slide_steps:INT=1
pad3d
    data_format:STRING='NCDHW' mode:STRING='constant' value:FLOAT=0.0
group_norm
    data_layout:STRING='NCHW' epsilon:FLOAT=1e-05 groups:INT=-1
diag_embed
    dim1:INT=-2 dim2:INT=-1 offset:INT=0
spectral_norm
    dim:INT=0 eps:FLOAT=1e-12 power_iters:INT=1
dropout
    dropout_implementation:STRING='downgrade_in_infer' dropout_prob:FLOAT=0.5
    is_test:BOOLEAN=False
arg_max arg_min
    dtype:INT=3 flatten:BOOLEAN=False keepdims:BOOLEAN=False
randint
    dtype:INT=3 seed:INT=0 shape:LONGS=[]
adadelta
    epsilon:FLOAT=1e-06 multi_precision:BOOLEAN=False rho:FLOAT=0.95
matrix_rank
    hermitian:BOOLEAN=False tol:FLOAT=0.0 use_default_tol:BOOLEAN=True
rrelu
    is_test:BOOLEAN=False lower:FLOAT=0.125 upper:FLOAT=0.33333334
ftrl
    l1:FLOAT=0.0 l2:FLOAT=0.0 lr_power:FLOAT=-0.5
hard_swish
    offset:FLOAT=3.0 scale:FLOAT=6.0 threshold:FLOAT=6.0
roi_pool
    pooled_height:INT=1 pooled_width:INT=1 spatial_scale:FLOAT=1.0
fake_channel_wise_dequantize_max_abs
    quant_axis:INT=0 quant_bits:INTS=[8] x_num_col_dims:INT=1
triangular_solve
    transpose:BOOLEAN=False unitriangular:BOOLEAN=False upper:BOOLEAN=True
fused_fc_elementwise_layernorm
    activation_type:STRING='' begin_norm_axis:INT=1 epsilon:FLOAT=1e-05 x_num_col_dims:INT=1
max_pool3d_with_index
    adaptive:BOOLEAN=False global_pooling:BOOLEAN=False paddings:INTS=[0,0,0] strides:INTS=[1,1,1]
max_pool2d_with_index
    adaptive:BOOLEAN=False global_pooling:BOOLEAN=False paddings:INTS=[0,0] strides:INTS=[1,1]
cumsum logcumsumexp
    axis:INT=-1 exclusive:BOOLEAN=False flatten:BOOLEAN=False reverse:BOOLEAN=False
top_k_v2
    axis:INT=-1 k:INT=1 largest:BOOLEAN=True sorted:BOOLEAN=True
box_coder
    axis:INT=0 box_normalized:BOOLEAN=True code_type:STRING='encode_center_size'
    variance:FLOATS=[]
unique_consecutive
    axis:INTS=[] dtype:INT=5 return_counts:BOOLEAN=False return_inverse:BOOLEAN=False
multiclass_nms3
    background_label:INT=0 nms_eta:FLOAT=1.0 nms_threshold:FLOAT=0.3 normalized:BOOLEAN=True
dpsgd
    batch_size:FLOAT=16.0 clip:FLOAT=10.0 seed:INT=0 sigma:FLOAT=1.0
adamax
    beta1:FLOAT=0.9 beta2:FLOAT=0.999 epsilon:FLOAT=1e-08 multi_precision:BOOLEAN=False
triu_indices
    col:INT=0 dtype:INT=3 offset:INT=0 row:INT=0
tril_indices
    cols:INT=0 dtype:INT=3 offset:INT=0 rows:INT=0
unpool3d
    data_format:STRING='NCDHW' output_size:INTS=[0,0,0] paddings:INTS=[0,0,0] strides:INTS=[1,1,1]
unpool
    data_format:STRING='NCHW' output_size:INTS=[0,0] paddings:INTS=[0,0] strides:INTS=[1,1]
slice
    decrease_axis:INTS=[] ends:INTS=[] infer_flags:INTS=[] starts:INTS=[]
truncated_gaussian_random
    dtype:INT=5 mean:FLOAT=0.0 seed:INT=0 std:FLOAT=1.0
psroi_pool
    output_channels:INT=1 pooled_height:INT=1 pooled_width:INT=1 spatial_scale:FLOAT=1.0
roi_align
    aligned:BOOLEAN=False pooled_height:INT=1 pooled_width:INT=1 sampling_ratio:INT=-1
    spatial_scale:FLOAT=1.0
lrn
    alpha:FLOAT=0.0001 beta:FLOAT=0.75 data_format:STRING='AnyLayout' k:FLOAT=2.0 n:INT=5
multihead_matmul
    alpha:FLOAT=1.0 head_number:INT=1 transpose_K:BOOLEAN=True transpose_Q:BOOLEAN=False
    transpose_V:BOOLEAN=False
lamb
    always_adapt:BOOLEAN=False beta1:FLOAT=0.9 beta2:FLOAT=0.999 epsilon:FLOAT=1e-06
    multi_precision:BOOLEAN=False
p_norm
    asvector:BOOLEAN=False axis:INT=-1 epsilon:FLOAT=1e-12 keepdim:BOOLEAN=False porder:FLOAT=2.0
softmax_with_cross_entropy
    axis:INT=-1 ignore_index:INT=-100 numeric_stable_mode:BOOLEAN=True soft_label:BOOLEAN=False
    use_softmax:BOOLEAN=True
split
    axis:INT=0 mkldnn_data_type:STRING='float32' num:INT=0 sections:INTS=[]
    use_mkldnn:BOOLEAN=False
matrix_nms
    background_label:INT=0 gaussian_sigma:FLOAT=2.0 normalized:BOOLEAN=True
    post_threshold:FLOAT=0.0 use_gaussian:BOOLEAN=False
dequantize_linear quantize_linear
    bit_length:INT=8 is_test:BOOLEAN=True only_observer:BOOLEAN=False quant_axis:INT=0
    round_type:INT=0
assign_value
    bool_values:INTS=[] fp32_values:FLOATS=[] fp64_values:FLOAT64S=[] int32_values:INTS=[]
    int64_values:LONGS=[]
flash_attn
    causal:BOOLEAN=False dropout:FLOAT=0.0 is_test:BOOLEAN=False return_softmax:BOOLEAN=False
    rng_name:STRING=''
rmsprop
    centered:BOOLEAN=False decay:FLOAT=0.9 epsilon:FLOAT=1e-10 momentum:FLOAT=0.0
    multi_precision:BOOLEAN=False
strided_slice
    decrease_axis:INTS=[] ends:INTS=[] infer_flags:INTS=[] starts:INTS=[] strides:INTS=[]
frobenius_norm reduce_max reduce_mean reduce_min reduce_prod reduce_sum
    dim:INTS=[0] in_dtype:INT=-1 keep_dim:BOOLEAN=False out_dtype:INT=-1 reduce_all:BOOLEAN=False
reduce_all reduce_amax reduce_amin reduce_any
    dim:LONGS=[0] in_dtype:INT=-1 keep_dim:BOOLEAN=False out_dtype:INT=-1 reduce_all:BOOLEAN=False
gaussian_random
    dtype:INT=5 mean:FLOAT=0.0 seed:INT=0 shape:LONGS=[] std:FLOAT=1.0
lars_momentum
    epsilon:FLOAT=0.0 lars_coeff:FLOAT=0.001 lars_weight_decay:FLOATS=[0.0005]
    multi_precision:BOOLEAN=False rescale_grad:FLOAT=1.0
momentum
    multi_precision:BOOLEAN=False regularization_coeff:FLOAT=0.0 regularization_method:STRING=''
    rescale_grad:FLOAT=1.0 use_nesterov:BOOLEAN=False
unique
    axis:INTS=[] dtype:INT=3 is_sorted:BOOLEAN=False return_counts:BOOLEAN=False
    return_index:BOOLEAN=False return_inverse:BOOLEAN=False
conv3d
    data_format:STRING='NCDHW' dilations:INTS=[1,1,1] groups:INT=1
    padding_algorithm:STRING='EXPLICIT' paddings:INTS=[0,0,0] strides:INTS=[1,1,1]
conv2d depthwise_conv2d
    data_format:STRING='NCHW' dilations:INTS=[1,1] groups:INT=1
    padding_algorithm:STRING='EXPLICIT' paddings:INTS=[0,0] strides:INTS=[1,1]
batch_norm
    data_layout:STRING='NCHW' epsilon:FLOAT=1e-05 is_test:BOOLEAN=False momentum:FLOAT=0.9
    trainable_statistics:BOOLEAN=False use_global_stats:BOOLEAN=False
deformable_conv
    deformable_groups:INT=1 dilations:INTS=[1,1] groups:INT=1 im2col_step:INT=64
    paddings:INTS=[0,0] strides:INTS=[1,1]
fused_bias_dropout_residual_layer_norm
    dropout_fix_seed:BOOLEAN=True dropout_implementation:STRING='downgrade_in_infer'
    dropout_rate:FLOAT=0.5 dropout_seed:INT=1 is_test:BOOLEAN=False ln_epsilon:FLOAT=1e-05
fill_constant_batch_size_like
    dtype:INT=5 force_cpu:BOOLEAN=False input_dim_idx:INT=0 output_dim_idx:INT=0
    str_value:STRING='' value:FLOAT=0.0
fill_constant
    dtype:INT=5 force_cpu:BOOLEAN=False place_type:INT=-1 shape:LONGS=[] str_value:STRING=''
    value:FLOAT=0.0
hierarchical_sigmoid
    epmap:STRINGS=[] height_sections:LONGS=[] is_sparse:BOOLEAN=False num_classes:INT=2
    table_names:STRINGS=[] trainer_id:INT=0
yolov3_loss
    anchor_mask:INTS=[] anchors:INTS=[] class_num:INT=1 downsample_ratio:INT=32
    ignore_thresh:FLOAT=0.7 scale_x_y:FLOAT=1.0 use_label_smooth:BOOLEAN=True
adam
    beta1:FLOAT=0.9 beta2:FLOAT=0.999 epsilon:FLOAT=1e-08 lazy_mode:BOOLEAN=False
    min_row_size_to_use_multithread:LONG=1000 multi_precision:BOOLEAN=False
    use_global_beta_pow:BOOLEAN=False
set_value
    decrease_axes:LONGS=[] dtype:INT=5 ends:LONGS=[] none_axes:LONGS=[] shape:LONGS=[]
    starts:LONGS=[] steps:LONGS=[]
print
    is_forward:BOOLEAN=True print_phase:STRING='BOTH' print_tensor_layout:BOOLEAN=True
    print_tensor_lod:BOOLEAN=True print_tensor_name:BOOLEAN=True print_tensor_shape:BOOLEAN=True
    print_tensor_type:BOOLEAN=True
bicubic_interp_v2 bilinear_interp_v2 linear_interp_v2 nearest_interp_v2 trilinear_interp_v2
    align_corners:BOOLEAN=True align_mode:INT=1 data_layout:STRING='NCHW'
    interp_method:STRING='bilinear' out_d:INT=0 out_h:INT=0 out_w:INT=0 scale:FLOATS=[]
yolo_box
    anchors:INTS=[] class_num:INT=1 clip_bbox:BOOLEAN=True conf_thresh:FLOAT=0.01
    downsample_ratio:INT=32 iou_aware:BOOLEAN=False iou_aware_factor:FLOAT=0.5 scale_x_y:FLOAT=1.0
conv3d_transpose
    data_format:STRING='NCHW' dilations:INTS=[1,1,1] groups:INT=1 output_padding:INTS=[]
    output_size:INTS=[] padding_algorithm:STRING='EXPLICIT' paddings:INTS=[0,0,0]
    strides:INTS=[1,1,1]
conv2d_transpose depthwise_conv2d_transpose
    data_format:STRING='NCHW' dilations:INTS=[1,1] groups:INT=1 output_padding:INTS=[]
    output_size:INTS=[] padding_algorithm:STRING='EXPLICIT' paddings:INTS=[0,0] strides:INTS=[1,1]
uniform_random
    diag_num:INT=0 diag_step:INT=0 diag_val:FLOAT=1.0 dtype:INT=5 max:FLOAT=1.0 min:FLOAT=-1.0
    seed:INT=0 shape:LONGS=[]
rnn
    dropout_prob:FLOAT=0.0 hidden_size:INT=100 input_size:INT=10 is_bidirec:BOOLEAN=False
    is_test:BOOLEAN=False mode:STRING='RNN_TANH' num_layers:INT=1 seed:INT=0
coalesce_tensor
    align_size:INT=-1 concated_ranks:LONGS=[] concated_shapes:LONGS=[] constant:FLOAT=0.0
    copy_data:BOOLEAN=False persist_output:BOOLEAN=False set_constant:BOOLEAN=False
    use_align:BOOLEAN=True user_defined_size_of_dtype:INT=-1
prior_box
    aspect_ratios:FLOATS=[] clip:BOOLEAN=True flip:BOOLEAN=True max_sizes:FLOATS=[]
    min_max_aspect_ratios_order:BOOLEAN=False offset:FLOAT=0.5 step_h:FLOAT=0.0 step_w:FLOAT=0.0
    variances:FLOATS=[]
fused_elementwise_add fused_elementwise_div fused_elementwise_mul fused_elementwise_sub
    axis:INT=-1 fuse_activation:STRING='' fuse_alpha:FLOAT=0.0 fuse_beta:FLOAT=0.0
    fused_output_scale:FLOAT=1.0 fused_unsqueeze2_axes:INTS=[] scale_out:FLOAT=1.0
    scale_x:FLOAT=1.0 scale_y:FLOAT=1.0
uniform_random_batch_size_like
    diag_num:INT=0 diag_step:INT=0 diag_val:FLOAT=1.0 dtype:INT=5 input_dim_idx:INT=0
    max:FLOAT=1.0 min:FLOAT=-1.0 output_dim_idx:INT=0 seed:INT=0
fc
    Scale_in:FLOAT=1.0 Scale_out:FLOAT=1.0 Scale_weights:FLOATS=[1.0] activation_type:STRING=''
    force_fp32_output:BOOLEAN=False in_num_col_dims:INT=1 mkldnn_data_type:STRING='float32'
    padding_weights:BOOLEAN=False use_mkldnn:BOOLEAN=False use_quantizer:BOOLEAN=False
pool3d
    adaptive:BOOLEAN=False ceil_mode:BOOLEAN=False data_format:STRING='NCDHW'
    exclusive:BOOLEAN=True global_pooling:BOOLEAN=False padding_algorithm:STRING='EXPLICIT'
    paddings:INTS=[0,0,0] pooling_type:STRING='' strides:INTS=[1,1,1] use_cudnn:BOOLEAN=False
pool2d
    adaptive:BOOLEAN=False ceil_mode:BOOLEAN=False data_format:STRING='NCHW'
    exclusive:BOOLEAN=True global_pooling:BOOLEAN=False padding_algorithm:STRING='EXPLICIT'
    paddings:INTS=[0,0] pooling_type:STRING='' strides:INTS=[1,1] use_cudnn:BOOLEAN=False
adamw
    beta1:FLOAT=0.9 beta2:FLOAT=0.999 coeff:FLOAT=0.01 epsilon:FLOAT=1e-08 lazy_mode:BOOLEAN=False
    lr_ratio:FLOAT=1.0 min_row_size_to_use_multithread:LONG=1000 multi_precision:BOOLEAN=False
    use_global_beta_pow:BOOLEAN=False with_decay:BOOLEAN=False
fused_conv2d_add_act
    activation:STRING='relu' data_format:STRING='NCHW' dilations:INTS=[1,1]
    exhaustive_search:BOOLEAN=False fuse_alpha:FLOAT=0.0 groups:INT=1
    padding_algorithm:STRING='EXPLICIT' paddings:INTS=[0,0] split_channels:INTS=[]
    strides:INTS=[1,1] workspace_size_MB:INT=32
lookup_table
    entry:STRING='none' entry_config:STRING='' epmap:STRINGS=[] grad_inplace:BOOLEAN=False
    height_sections:LONGS=[] is_distributed:BOOLEAN=False is_sparse:BOOLEAN=False
    is_test:BOOLEAN=False padding_idx:LONG=-1 remote_prefetch:BOOLEAN=False
    table_class:STRING='none' table_names:STRINGS=[] trainer_id:INT=0
"""
