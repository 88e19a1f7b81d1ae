"""Layers as functions (paddle.nn.functional)."""

from graphopt.frontend.calls import publish
from graphopt.nn.functional.activation import celu as celu
from graphopt.nn.functional.activation import elu as elu
from graphopt.nn.functional.activation import elu_ as elu_
from graphopt.nn.functional.activation import gelu as gelu
from graphopt.nn.functional.activation import glu as glu
from graphopt.nn.functional.activation import gumbel_softmax as gumbel_softmax
from graphopt.nn.functional.activation import hardshrink as hardshrink
from graphopt.nn.functional.activation import hardsigmoid as hardsigmoid
from graphopt.nn.functional.activation import hardswish as hardswish
from graphopt.nn.functional.activation import hardtanh as hardtanh
from graphopt.nn.functional.activation import hardtanh_ as hardtanh_
from graphopt.nn.functional.activation import leaky_relu as leaky_relu
from graphopt.nn.functional.activation import leaky_relu_ as leaky_relu_
from graphopt.nn.functional.activation import log_sigmoid as log_sigmoid
from graphopt.nn.functional.activation import log_softmax as log_softmax
from graphopt.nn.functional.activation import maxout as maxout
from graphopt.nn.functional.activation import mish as mish
from graphopt.nn.functional.activation import prelu as prelu
from graphopt.nn.functional.activation import relu as relu
from graphopt.nn.functional.activation import relu6 as relu6
from graphopt.nn.functional.activation import relu_ as relu_
from graphopt.nn.functional.activation import rrelu as rrelu
from graphopt.nn.functional.activation import selu as selu
from graphopt.nn.functional.activation import sigmoid as sigmoid
from graphopt.nn.functional.activation import silu as silu
from graphopt.nn.functional.activation import softmax as softmax
from graphopt.nn.functional.activation import softmax_ as softmax_
from graphopt.nn.functional.activation import softplus as softplus
from graphopt.nn.functional.activation import softshrink as softshrink
from graphopt.nn.functional.activation import softsign as softsign
from graphopt.nn.functional.activation import swiglu as swiglu
from graphopt.nn.functional.activation import swish as swish
from graphopt.nn.functional.activation import tanh as tanh
from graphopt.nn.functional.activation import tanh_ as tanh_
from graphopt.nn.functional.activation import tanhshrink as tanhshrink
from graphopt.nn.functional.activation import thresholded_relu as thresholded_relu
from graphopt.nn.functional.activation import thresholded_relu_ as thresholded_relu_
from graphopt.nn.functional.alignment import ctc_loss as ctc_loss
from graphopt.nn.functional.alignment import gather_tree as gather_tree
from graphopt.nn.functional.alignment import rnnt_loss as rnnt_loss
from graphopt.nn.functional.alignment import sequence_mask as sequence_mask
from graphopt.nn.functional.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from graphopt.nn.functional.attention import sparse_attention as sparse_attention
from graphopt.nn.functional.common import alpha_dropout as alpha_dropout
from graphopt.nn.functional.common import bilinear as bilinear
from graphopt.nn.functional.common import cosine_similarity as cosine_similarity
from graphopt.nn.functional.common import dropout as dropout
from graphopt.nn.functional.common import dropout2d as dropout2d
from graphopt.nn.functional.common import dropout3d as dropout3d
from graphopt.nn.functional.common import feature_alpha_dropout as feature_alpha_dropout
from graphopt.nn.functional.common import linear as linear
from graphopt.nn.functional.common import normalize as normalize
from graphopt.nn.functional.conv import conv1d as conv1d
from graphopt.nn.functional.conv import conv1d_transpose as conv1d_transpose
from graphopt.nn.functional.conv import conv2d as conv2d
from graphopt.nn.functional.conv import conv2d_transpose as conv2d_transpose
from graphopt.nn.functional.conv import conv3d as conv3d
from graphopt.nn.functional.conv import conv3d_transpose as conv3d_transpose
from graphopt.nn.functional.distance import cosine_embedding_loss as cosine_embedding_loss
from graphopt.nn.functional.distance import hinge_embedding_loss as hinge_embedding_loss
from graphopt.nn.functional.distance import npair_loss as npair_loss
from graphopt.nn.functional.distance import smooth_l1_loss as smooth_l1_loss
from graphopt.nn.functional.fractional_pool import fractional_max_pool2d as fractional_max_pool2d
from graphopt.nn.functional.fractional_pool import fractional_max_pool3d as fractional_max_pool3d
from graphopt.nn.functional.hierarchical import hsigmoid_loss as hsigmoid_loss
from graphopt.nn.functional.input import embedding as embedding
from graphopt.nn.functional.input import one_hot as one_hot
from graphopt.nn.functional.likelihood import binary_cross_entropy as binary_cross_entropy
from graphopt.nn.functional.likelihood import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from graphopt.nn.functional.likelihood import dice_loss as dice_loss
from graphopt.nn.functional.likelihood import gaussian_nll_loss as gaussian_nll_loss
from graphopt.nn.functional.likelihood import kl_div as kl_div
from graphopt.nn.functional.likelihood import label_smooth as label_smooth
from graphopt.nn.functional.likelihood import log_loss as log_loss
from graphopt.nn.functional.likelihood import nll_loss as nll_loss
from graphopt.nn.functional.likelihood import poisson_nll_loss as poisson_nll_loss
from graphopt.nn.functional.likelihood import sigmoid_focal_loss as sigmoid_focal_loss
from graphopt.nn.functional.likelihood import soft_margin_loss as soft_margin_loss
from graphopt.nn.functional.loss import cross_entropy as cross_entropy
from graphopt.nn.functional.loss import l1_loss as l1_loss
from graphopt.nn.functional.loss import margin_ranking_loss as margin_ranking_loss
from graphopt.nn.functional.loss import mse_loss as mse_loss
from graphopt.nn.functional.loss import softmax_with_cross_entropy as softmax_with_cross_entropy
from graphopt.nn.functional.loss import square_error_cost as square_error_cost
from graphopt.nn.functional.margin import margin_cross_entropy as margin_cross_entropy
from graphopt.nn.functional.margin import multi_label_margin_loss as multi_label_margin_loss
from graphopt.nn.functional.margin import (
    multi_label_soft_margin_loss as multi_label_soft_margin_loss,
)
from graphopt.nn.functional.margin import multi_margin_loss as multi_margin_loss
from graphopt.nn.functional.margin import pairwise_distance as pairwise_distance
from graphopt.nn.functional.margin import triplet_margin_loss as triplet_margin_loss
from graphopt.nn.functional.margin import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from graphopt.nn.functional.norm import batch_norm as batch_norm
from graphopt.nn.functional.norm import group_norm as group_norm
from graphopt.nn.functional.norm import instance_norm as instance_norm
from graphopt.nn.functional.norm import layer_norm as layer_norm
from graphopt.nn.functional.norm import local_response_norm as local_response_norm
from graphopt.nn.functional.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from graphopt.nn.functional.pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from graphopt.nn.functional.pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from graphopt.nn.functional.pooling import adaptive_max_pool1d as adaptive_max_pool1d
from graphopt.nn.functional.pooling import adaptive_max_pool2d as adaptive_max_pool2d
from graphopt.nn.functional.pooling import adaptive_max_pool3d as adaptive_max_pool3d
from graphopt.nn.functional.pooling import avg_pool1d as avg_pool1d
from graphopt.nn.functional.pooling import avg_pool2d as avg_pool2d
from graphopt.nn.functional.pooling import avg_pool3d as avg_pool3d
from graphopt.nn.functional.pooling import max_pool1d as max_pool1d
from graphopt.nn.functional.pooling import max_pool2d as max_pool2d
from graphopt.nn.functional.pooling import max_pool3d as max_pool3d
from graphopt.nn.functional.sampled_classes import (
    adaptive_log_softmax_with_loss as adaptive_log_softmax_with_loss,
)
from graphopt.nn.functional.sampled_classes import class_center_sample as class_center_sample
from graphopt.nn.functional.unpool import lp_pool1d as lp_pool1d
from graphopt.nn.functional.unpool import lp_pool2d as lp_pool2d
from graphopt.nn.functional.unpool import max_unpool1d as max_unpool1d
from graphopt.nn.functional.unpool import max_unpool2d as max_unpool2d
from graphopt.nn.functional.unpool import max_unpool3d as max_unpool3d
from graphopt.nn.functional.vision import affine_grid as affine_grid
from graphopt.nn.functional.vision import channel_shuffle as channel_shuffle
from graphopt.nn.functional.vision import fold as fold
from graphopt.nn.functional.vision import grid_sample as grid_sample
from graphopt.nn.functional.vision import interpolate as interpolate
from graphopt.nn.functional.vision import pad as pad
from graphopt.nn.functional.vision import pixel_shuffle as pixel_shuffle
from graphopt.nn.functional.vision import pixel_unshuffle as pixel_unshuffle
from graphopt.nn.functional.vision import temporal_shift as temporal_shift
from graphopt.nn.functional.vision import unfold as unfold
from graphopt.nn.functional.vision import upsample as upsample
from graphopt.nn.functional.vision import zeropad2d as zeropad2d
from graphopt.tensor.places import diag_embed as diag_embed

logsigmoid = log_sigmoid

publish(globals(), __name__)
