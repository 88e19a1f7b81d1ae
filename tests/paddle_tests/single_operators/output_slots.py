"""The output slots of the translated operators of Paddle 1.8."""

from __future__ import annotations

from collections.abc import Mapping

# the types, a colon, and their slots; a type that is not here has the slot Out
_TABLE = """\
affine_grid box_clip conv2d conv2d_transpose conv3d conv3d_transpose deformable_conv: Output
deformable_conv_v1 depthwise_conv2d depthwise_conv2d_transpose grid_sampler: Output
polygon_box_transform: Output
bpr_loss cross_entropy cvm sequence_mask sequence_reverse stack unfold unstack: Y
flatten2 reshape2 squeeze2 transpose2 unsqueeze2: Out XShape
hinge_loss kldiv_loss log_loss: Loss
matrix_nms multiclass_nms2 unique: Out Index
dropout max_pool2d_with_index max_pool3d_with_index: Out Mask
fake_quantize_dequantize_moving_average_abs_max: Out OutScale OutState OutAccum
fake_quantize_moving_average_abs_max moving_average_abs_max_scale: Out OutScale OutState OutAccum
dpsgd proximal_gd sgd: ParamOut
adagrad decayed_adagrad proximal_adagrad: ParamOut MomentOut
density_prior_box prior_box: Boxes Variances
argsort top_k: Out Indices
fake_channel_wise_quantize_abs_max fake_quantize_abs_max: Out OutScale
lars_momentum momentum: ParamOut VelocityOut
group_norm layer_norm: Y Mean Variance
auc: AUC StatPosOut StatNegOut
detection_map: AccumPosCount AccumTruePos AccumFalsePos MAP
accuracy: Accuracy Correct Total
margin_rank_loss: Activated Out
linear_chain_crf: Alpha EmissionExps TransitionExps LogLikelihood
anchor_generator: Anchors Variances
gru: BatchGate BatchResetHiddenPrev BatchHidden Hidden
precision_recall: BatchMetrics AccumMetrics AccumStatesInfo
yolo_box: Boxes Scores
lstm_unit: C H
center_loss: CentersOut SampleCenterDiff Loss
bipartite_match: ColToRowMatchIndices ColToRowMatchDist
nce: Cost SampleLogits SampleLabels
smooth_l1_loss: Diff Out
collect_fpn_proposals: FpnRois
gru_unit: Gate ResetHiddenPrev Hidden
lstm: Hidden Cell BatchGate BatchCellPreAct
modified_huber_loss: IntermediateVal Out
rpn_target_assign: LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight
retinanet_target_assign: LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight
retinanet_target_assign: ForegroundNumber
yolov3_loss: Loss ObjectnessMask GTMatchMask
distribute_fpn_proposals: MultiFpnRois RestoreIndex
mine_hard_examples: NegIndices UpdatedMatchIndices
norm: Norm Out
roi_pool: Out Argmax
unique_with_counts: Out Index Count
fused_elemwise_activation: Out IntermediateOut
sequence_pad: Out Length
sequence_pool: Out MaxIndex
lrn: Out MidOut
fake_quantize_range_abs_max: Out OutScale OutScales
target_assign: Out OutWeight
hierarchical_sigmoid: Out PreOut W_Out
nll_loss: Out Total_weight
cos_sim: Out XNorm YNorm
mean_iou: OutMeanIou OutWrong OutCorrect
split_lod_tensor: OutTrue OutFalse
coalesce_tensor: Output FusedOutput
ctc_align: Output OutputLength
box_coder: OutputBox
adadelta: ParamOut AvgSquaredGradOut AvgSquaredUpdateOut
lamb: ParamOut Moment1Out Moment2Out
adam: ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut
adamax: ParamOut MomentOut InfNormOut
rmsprop: ParamOut MomentOut MeanSquareOut MeanGradOut
ftrl: ParamOut SquaredAccumOut LinearAccumOut
chunk_eval: Precision Recall F1-Score NumInferChunks NumLabelChunks NumCorrectChunks
lstmp: Projection Cell BatchGate BatchCellPreAct BatchHidden
fusion_repeated_fc_relu: ReluOut Out
huber_loss: Residual Out
generate_proposal_labels: Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights
generate_mask_labels: MaskRois RoiHasMaskInt32 MaskInt32
generate_proposals: RpnRois RpnRoiProbs RpnRoisLod
edit_distance: SequenceNum Out
softmax_with_cross_entropy: Softmax Loss
fusion_squared_mat_sub: SquaredX SquaredY SquaredXY Out
crf_decoding: ViterbiPath
warpctc: WarpCTCGrad Loss
batch_norm: Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace
data_norm: Y Means Scales
instance_norm: Y SavedMean SavedVariance
cross_entropy2: Y XShape MatchX
average_accumulates: out_sum_1 out_sum_2 out_sum_3 out_num_accumulates
average_accumulates: out_old_num_accumulates out_num_updates
beam_search: selected_ids selected_scores parent_idx
squared_l2_distance: sub_result Out
"""


def _parsed() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in _TABLE.splitlines():
        types, slots = line.split(": ")
        for type in types.split():
            found[type] = (*found.get(type, ()), *slots.split())
    return found


_SLOTS = _parsed()


def output_slots(type: str) -> tuple[str, ...]:
    """Return the names of the output slots of an operator type."""
    return _SLOTS.get(type, ("Out",))
