"""The names of the attributes that Paddle 1.8 and 2.6 know, of the operators that are translated.

Without those that are hints everywhere (see `attributes.py`). An operator type that neither release
has is not here. The largest number of `quantize_linear` and its inverse is Paddle 3's.
"""

from __future__ import annotations

from collections.abc import Mapping

_TABLE = """\
abs accuracy acos acosh angle as_complex as_real asin asinh assign atan atan2 atanh bce_loss
bernoulli bilinear_tensor_product bitwise_and bitwise_not bitwise_or bitwise_xor bmm bpr_loss
broadcast_tensors c_sync_calc_stream ceil check_finite_and_unscale complex conj cos cos_sim cosh
crf_decoding
determinant digamma dot eig eigvals elementwise_fmax elementwise_fmin elementwise_heaviside
equal_all erf erfinv exp expand_as expm1 fill_zeros_like floor fused_softmax_mask
fused_softmax_mask_upper_triangle fusion_repeated_fc_relu gather_nd gather_tree
get_tensor_from_selected_rows hinge_loss i0 i0e i1 i1e imag index_sample inverse is_empty
isfinite isfinite_v2 isinf isinf_v2 isnan isnan_v2 kron l1_norm lerp lgamma linear_chain_crf log
log10 log1p log2 logical_and logical_not logical_or logical_xor logsigmoid masked_select mean
memcpy memcpy_d2h memcpy_h2d merge_selected_rows meshgrid minus modified_huber_loss multi_dot
multiplex mv nextafter poisson range rank_loss real reciprocal relu reorder_lod_tensor_by_rank
round row_conv rsqrt scatter_nd_add sequence_concat sequence_expand_as sequence_reverse
sequence_scatter sequence_slice sequence_unpad sgd shape share_data sigmoid sign silu sin sinh
size slogdeterminant softsign solve sqrt square squared_l2_distance squared_l2_norm sum tan tanh
tanh_shrink trunc where where_index
    -
dist
    p
matrix_power polygamma
    n
cvm
    use_cvm
top_k
    k
cross cumprod index_select
    dim
logit
    eps
concat equal flatten flatten2 grad_add greater_equal greater_than index_add less_equal less_than
log_softmax not_equal reverse stack unbind unstack
    axis
eigh eigvalsh
    UPLO
increment
    step
qr
    mode
squeeze squeeze2 unsqueeze unsqueeze2
    axes
swish
    beta
take_along_axis
    Axis
celu elu leaky_relu
    alpha
cholesky cholesky_solve
    upper
expand_v2 reshape reshape2
    shape
fill_any
    value
fill_zeros_like2 linspace logspace rnn_memory_helper
    dtype
huber_loss
    delta
merge_lod_tensor split_lod_tensor
    level
shuffle_channel
    group
smooth_l1_loss
    sigma
fusion_squared_mat_sub
    scalar
lu
    pivots
margin_rank_loss
    margin
pow
    factor
sequence_erase
    tokens
softshrink
    lambda
adagrad fused_embedding_eltwise_layernorm instance_norm label_smooth log_loss
    epsilon
clip
    max min
sequence_reshape
    new_dim
clip_by_norm
    max_norm
einsum
    equation
assert
    summarize
bincount
    minlength
cast
    out_dtype
fake_dequantize_max_abs
    max_range
flip
    axis dims
hard_shrink mish relu6 soft_relu thresholded_relu
    threshold
kldiv_loss
    reduction
scatter
    overwrite
sequence_expand
    ref_level
space_to_depth
    blocksize
addmm
    Alpha Beta
cummax cummin unique_consecutive
    axis dtype
unique unique_with_counts
    axis dtype is_sorted
edit_distance
    normalized
fake_quantize_abs_max fake_quantize_dequantize_abs_max
    bit_length
index_put
    accumulate
adadelta
    epsilon rho
affine_channel
    data_layout
brelu
    t_max t_min
empty
    dtype shape
fill_any_like
    dtype value
fused_dropout_add
    mode p seed
gelu
    approximate
hierarchical_sigmoid
    num_classes
lookup_table lookup_table_v2
    padding_idx
lstm_unit
    forget_bias
maxout
    axis groups
moving_average_abs_max_scale
    moving_rate
repeat_interleave
    Repeats dim
rrelu
    lower upper
selu
    alpha scale
sequence_softmax
    data_format
sigmoid_focal_loss
    alpha gamma
cross_entropy2
    ignore_index
expand
    expand_times
expand_as_v2
    target_shape
hard_sigmoid
    offset slope
histogram
    bins max min
mode nanmedian
    axis keepdim
norm
    axis epsilon
randperm
    dtype n seed
sampling_id
    max min seed
tile
    repeat_times
collect_fpn_proposals
    post_nms_topN
crop crop_tensor
    offsets shape
decayed_adagrad
    decay epsilon
nms
    iou_threshold
sequence_pad
    padded_length
split
    axis sections
svd
    full_matrices
flash_attn
    causal dropout
ftrl
    l1 l2 lr_power
gather
    axis overwrite
iou_similarity
    box_normalized
kthvalue
    axis k keepdim
softplus
    beta threshold
tril_triu
    diagonal lower
argsort
    axis descending
matmul_v2
    trans_x trans_y
renorm
    axis max_norm p
searchsorted
    out_int32 right
stanh
    scale_a scale_b
diag_embed
    dim1 dim2 offset
prelu
    data_format mode
roll
    axis dims shifts
sequence_mask
    maxlen out_dtype
softmax transpose transpose2
    axis data_format
fill
    dtype shape value
lod_reset
    append target_lod
channel_shuffle
    data_format groups
diagonal
    axis1 axis2 offset
pad
    pad_value paddings
sequence_enumerate
    pad_value win_size
sequence_pool
    pad_value pooltype
adamax
    beta1 beta2 epsilon
allclose isclose
    atol equal_nan rtol
spectral_norm
    dim eps power_iters
warpctc
    blank norm_by_times
warprnnt
    blank fastemit_lambda
diag_v2
    offset padding_value
flatten_contiguous_range
    start_axis stop_axis
triu_indices
    col dtype offset row
fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max
    bit_length quant_axis
gumbel_softmax
    axis hard temperature
top_k_v2
    axis k largest sorted
fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max
    bit_length moving_rate
fake_quantize_range_abs_max
    bit_length window_size
hard_swish
    offset scale threshold
nll_loss
    ignore_index reduction
sigmoid_cross_entropy_with_logits
    ignore_index normalize
tril_indices
    cols dtype offset rows
cross_entropy
    ignore_index soft_label
fused_elemwise_add_activation
    axis functor_list scale
layer_norm skip_layernorm
    begin_norm_axis epsilon
logsumexp
    axis keepdim reduce_all
multinomial
    num_samples replacement
put_along_axis
    Axis Include_self Reduce
gaussian_random
    dtype mean seed shape std
sample_logits
    num_samples remove_accidental_hits seed uniq use_customized_samples
truncated_gaussian_random
    a b dtype mean seed shape std
randint
    dtype high low seed shape
affine_grid
    align_corners output_shape
dpsgd
    batch_size clip seed sigma
eye
    dtype num_columns num_rows
fft_c2c
    axes forward normalization
group_norm
    data_layout epsilon groups
lrn
    alpha beta data_format k n
pixel_shuffle
    data_format upscale_factor
arg_max arg_min
    axis dtype flatten keepdims
coalesce_tensor
    constant dtype set_constant
fill_constant
    dtype shape str_value value
lu_unpack
    unpack_ludata unpack_pivots
scale
    bias bias_after_scale scale
pixel_unshuffle
    data_format downscale_factor
trace
    axis1 axis2 dim1 dim2 offset
matrix_rank
    hermitian tol use_default_tol
triangular_solve
    transpose unitriangular upper
cumsum logcumsumexp
    axis exclusive flatten reverse
one_hot one_hot_v2
    allow_out_of_range depth dtype
slice
    axes decrease_axis ends starts
grid_sampler
    align_corners mode padding_mode
pad3d
    data_format mode paddings value
rmsprop
    centered decay epsilon momentum
temporal_shift
    data_format seg_num shift_ratio
auc
    curve num_thresholds slide_steps
elementwise_add elementwise_div elementwise_floordiv elementwise_max elementwise_min
elementwise_mod elementwise_mul elementwise_pow elementwise_sub
    axis x_data_format y_data_format
frobenius_norm reduce_all reduce_amax reduce_amin reduce_any reduce_max reduce_mean reduce_min
reduce_prod reduce_sum
    dim keep_dim out_dtype reduce_all
ctc_align
    blank merge_repeated padding_value
fft_r2c
    axes forward normalization onesided
fusion_transpose_flatten_concat
    concat_axis flatten_axis trans_axis
pad2d
    data_format mode pad_value paddings
fake_channel_wise_dequantize_max_abs
    quant_axis quant_bits x_num_col_dims
p_norm
    asvector axis epsilon keepdim porder
box_coder
    axis box_normalized code_type variance
gru_unit
    activation gate_activation origin_mode
strided_slice
    axes decrease_axis ends starts strides
lars_momentum
    epsilon lars_coeff lars_weight_decay mu
shard_index
    ignore_value index_num nshards shard_id
unfold
    dilations kernel_sizes paddings strides
dropout
    dropout_implementation dropout_prob seed
fft_c2r
    axes forward last_dim_size normalization
prroi_pool roi_pool
    pooled_height pooled_width spatial_scale
softmax_with_cross_entropy
    axis ignore_index soft_label use_softmax
lamb
    always_adapt beta1 beta2 epsilon weight_decay
dequantize_linear quantize_linear
    bit_length only_observer qmax qmin quant_axis round_type
max_pool2d_with_index max_pool3d_with_index
    adaptive global_pooling ksize paddings strides
unpool unpool3d
    data_format ksize output_size paddings strides
adam
    beta1 beta2 epsilon lazy_mode use_global_beta_pow
chunk_eval
    chunk_scheme excluded_chunk_types num_chunk_types
gru
    activation gate_activation is_reverse origin_mode
anchor_generator
    anchor_sizes aspect_ratios offset stride variances
deformable_conv deformable_conv_v1
    deformable_groups dilations groups paddings strides
average_accumulates
    average_window max_average_window min_average_window
fold
    dilations kernel_sizes output_sizes paddings strides
uniform_random
    diag_num diag_step diag_val dtype max min seed shape
multihead_matmul
    alpha head_number transpose_K transpose_Q transpose_V
fused_fc_elementwise_layernorm
    activation_type begin_norm_axis epsilon x_num_col_dims
gaussian_random_batch_size_like
    dtype input_dim_idx mean output_dim_idx seed shape std
mul
    scale_out scale_x scale_y x_num_col_dims y_num_col_dims
distribute_fpn_proposals
    max_level min_level pixel_offset refer_level refer_scale
fill_constant_batch_size_like
    dtype input_dim_idx output_dim_idx shape str_value value
hash
    mod_by num_hash
tree_conv
    max_depth
roi_perspective_transform
    spatial_scale transformed_height transformed_width
psroi_pool
    output_channels pooled_height pooled_width spatial_scale
sequence_conv
    contextLength contextStart contextStride paddingTrainable
merged_momentum momentum
    mu regularization_coeff regularization_method use_nesterov
merged_adam
    beta1 beta2 epsilon use_global_beta_pow
fused_bias_dropout_residual_layer_norm
    dropout_implementation dropout_rate dropout_seed ln_epsilon
py_func
    backward_callable_id backward_skip_vars forward_callable_id
bicubic_interp bicubic_interp_v2 bilinear_interp bilinear_interp_v2 linear_interp
linear_interp_v2 nearest_interp nearest_interp_v2 trilinear_interp trilinear_interp_v2
    align_corners align_mode data_layout out_d out_h out_w scale
generate_proposals_v2
    eta min_size nms_thresh pixel_offset post_nms_topN pre_nms_topN
roi_align
    aligned pooled_height pooled_width sampling_ratio spatial_scale
set_value
    axes decrease_axes dtype ends none_axes shape starts steps values
rnn
    dropout_prob hidden_size input_size is_bidirec mode num_layers seed
assign_value
    bool_values dtype fp32_values fp64_values int32_values int64_values shape
adamw
    beta1 beta2 coeff epsilon lazy_mode lr_ratio use_global_beta_pow with_decay
update_loss_scaling
    decr_every_n_nan_or_inf decr_ratio incr_every_n_steps incr_ratio stop_update
lstm
    candidate_activation cell_activation gate_activation is_reverse use_peepholes
fc
    Scale_in Scale_out Scale_weights activation_type in_num_col_dims padding_weights
batch_norm
    data_layout epsilon fuse_with_relu momentum trainable_statistics use_global_stats
c_allreduce_max c_allreduce_min c_allreduce_prod c_allreduce_sum
    ring_id use_calc_stream use_model_parallel
c_allgather
    nranks ring_id use_calc_stream
c_broadcast
    ring_id root use_calc_stream
c_sync_comm_stream
    ring_id
data_norm
    data_layout enable_scale_and_shift epsilon slot_dim summary_decay_rate sync_stats
uniform_random_batch_size_like
    diag_num diag_step diag_val dtype input_dim_idx max min output_dim_idx seed shape
density_prior_box
    clip densities fixed_ratios fixed_sizes flatten_to_2d offset step_h step_w variances
rms_norm
    begin_norm_axis epsilon quant_max_bound quant_min_bound quant_round_type quant_scale
multiclass_nms multiclass_nms2 multiclass_nms3
    background_label keep_top_k nms_eta nms_threshold nms_top_k normalized score_threshold
yolov3_loss
    anchor_mask anchors class_num downsample_ratio ignore_thresh scale_x_y use_label_smooth
conv3d_transpose
    data_format dilations groups output_padding output_size padding_algorithm paddings strides
yolo_box
    anchors class_num clip_bbox conf_thresh downsample_ratio iou_aware iou_aware_factor
    scale_x_y
fused_conv2d_add_act
    activation data_format dilations fuse_alpha groups padding_algorithm paddings split_channels
    strides
prior_box
    aspect_ratios clip flip max_sizes min_max_aspect_ratios_order min_sizes offset step_h step_w
    variances
fused_conv2d fused_conv3d
    data_format dilations fuse_activation fuse_residual_connection groups padding_algorithm
    paddings strides
matmul
    Scale_out Scale_x Scale_y alpha fused_reshape_Out fused_transpose_Out head_number
    transpose_X transpose_Y
center_loss
    cluster_num need_update
precision_recall
    class_number
matrix_nms
    background_label gaussian_sigma keep_top_k nms_top_k normalized post_threshold
    score_threshold use_gaussian
fused_elementwise_add fused_elementwise_div fused_elementwise_mul fused_elementwise_sub
    axis fuse_activation fuse_alpha fuse_beta fused_output_scale fused_unsqueeze2_axes scale_out
    scale_x scale_y
pool2d pool3d
    adaptive ceil_mode data_format exclusive global_pooling ksize padding_algorithm paddings
    pooling_type strides
lstmp
    candidate_activation cell_activation cell_clip gate_activation is_reverse proj_activation
    proj_clip use_peepholes
print
    first_n message print_phase print_tensor_layout print_tensor_lod print_tensor_name
    print_tensor_shape print_tensor_type summarize
conv3d
    data_format dilations fuse_activation fuse_alpha fuse_beta fuse_relu
    fuse_residual_connection groups padding_algorithm paddings strides
conv2d_transpose depthwise_conv2d_transpose
    data_format dilations fuse_activation fuse_alpha fuse_beta fuse_relu groups output_padding
    output_size padding_algorithm paddings strides
conv2d depthwise_conv2d
    Scale_in Scale_in_eltwise Scale_out Scale_weights data_format dilations fuse_activation
    fuse_alpha fuse_beta fuse_brelu fuse_brelu_threshold fuse_relu
    fuse_relu_before_depthwise_conv fuse_residual_connection groups padding_algorithm paddings
    strides
add_position_encoding
    alpha beta
batch_fc box_clip dequantize_log fsp polygon_box_transform
    -
beam_search
    beam_size end_id is_accumulated level
bipartite_match
    dist_threshold match_type
broadcast
    ring_id root
deformable_psroi_pooling
    group_size no_trans output_dim part_size pooled_height pooled_width sample_per_part
    spatial_scale trans_std
dequantize_abs_max
    max_range
detection_map
    ap_type background_label class_num evaluate_difficult overlap_threshold
fill_diagonal
    offset value wrap
fill_diagonal_tensor
    dim1 dim2 offset
frame
    axis frame_length hop_length
fused_bias_residual_layernorm
    begin_norm_axis epsilon quant_max_bound quant_min_bound quant_round_type quant_scale
    residual_alpha
fused_elemwise_activation
    axis functor_list scale
generate_mask_labels
    num_classes resolution
generate_proposal_labels
    batch_size_per_im bbox_reg_weights bg_thresh_hi bg_thresh_lo class_nums fg_fraction fg_thresh
    is_cascade_rcnn is_cls_agnostic use_random
generate_proposals
    eta min_size nms_thresh post_nms_topN pre_nms_topN
graph_send_recv
    out_size reduce_op
graph_send_ue_recv
    message_op out_size reduce_op
graph_send_uv
    message_op
im2sequence
    kernels out_stride paddings strides
locality_aware_nms
    background_label keep_top_k nms_eta nms_threshold nms_top_k normalized score_threshold
lookup_table_dequant
    padding_idx
match_matrix_tensor
    dim_t
mine_hard_examples
    mining_type neg_dist_threshold neg_pos_ratio sample_size
nce
    num_neg_samples num_total_classes sampler seed
overlap_add
    axis hop_length
partial_concat partial_sum
    length start_index
proximal_gd
    l1 l2
rank_attention
    MaxRank MaxSize
retinanet_detection_output
    keep_top_k nms_eta nms_threshold nms_top_k score_threshold
retinanet_target_assign
    negative_overlap positive_overlap
rpn_target_assign
    rpn_batch_size_per_im rpn_fg_fraction rpn_negative_overlap rpn_positive_overlap
    rpn_straddle_thresh use_random
seed
    seed
segment_pool
    pooltype
similarity_focus
    axis indexes
spp
    pooling_type pyramid_height
tdm_child
    child_nums dtype
tdm_sampler
    dtype layer_offset_lod neg_samples_num_list output_positive seed
viterbi_decode
    include_bos_eos_tag
"""


def _parsed() -> Mapping[str, frozenset[str]]:
    """Lines of types, then indented lines of the names that all of these have."""
    found: dict[str, frozenset[str]] = {}
    types: list[str] = []
    names: list[str] = []
    for line in [*_TABLE.splitlines(), ""]:
        if not line.startswith(" ") and names:
            found.update(dict.fromkeys(types, frozenset(names) - {"-"}))
            types, names = [], []
        (names if line.startswith(" ") else types).extend(line.split())
    return found


KNOWN: Mapping[str, frozenset[str]] = _parsed()
