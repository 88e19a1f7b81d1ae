"""Layers under the names and with the semantics of 1.8 (paddle.fluid.layers).

Names whose later form is the same are found when they are used, see `graphopt.fluid.elsewhere`;
names that graphopt refuses are functions that say why, see `graphopt.fluid.refused`.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from typing import Any

from graphopt.fluid import elsewhere, refused
from graphopt.fluid.layers import control_flow as control_flow
from graphopt.fluid.layers import detection as detection
from graphopt.fluid.layers import distributions as distributions
from graphopt.fluid.layers import io as io
from graphopt.fluid.layers import learning_rate_scheduler as learning_rate_scheduler
from graphopt.fluid.layers import loss as loss
from graphopt.fluid.layers import metric_op as metric_op
from graphopt.fluid.layers import nn as nn
from graphopt.fluid.layers import ops as ops
from graphopt.fluid.layers import sequence_lod as sequence_lod
from graphopt.fluid.layers import tensor as tensor
from graphopt.fluid.layers import utils as utils
from graphopt.fluid.layers.average_precision import detection_map as detection_map
from graphopt.fluid.layers.creation import full as full
from graphopt.fluid.layers.creation import full_like as full_like
from graphopt.fluid.layers.creation import kron as kron
from graphopt.fluid.layers.creation import logsumexp as logsumexp
from graphopt.fluid.layers.creation import meshgrid as meshgrid
from graphopt.fluid.layers.creation import randint as randint
from graphopt.fluid.layers.creation import randn as randn
from graphopt.fluid.layers.creation import randperm as randperm
from graphopt.fluid.layers.ctc import warpctc as warpctc
from graphopt.fluid.layers.detection import anchor_generator as anchor_generator
from graphopt.fluid.layers.detection import box_clip as box_clip
from graphopt.fluid.layers.detection import box_coder as box_coder
from graphopt.fluid.layers.detection import deformable_conv as deformable_conv
from graphopt.fluid.layers.detection import deformable_roi_pooling as deformable_roi_pooling
from graphopt.fluid.layers.detection import density_prior_box as density_prior_box
from graphopt.fluid.layers.detection import iou_similarity as iou_similarity
from graphopt.fluid.layers.detection import polygon_box_transform as polygon_box_transform
from graphopt.fluid.layers.detection import prior_box as prior_box
from graphopt.fluid.layers.detection import prroi_pool as prroi_pool
from graphopt.fluid.layers.detection import psroi_pool as psroi_pool
from graphopt.fluid.layers.detection import roi_align as roi_align
from graphopt.fluid.layers.detection import roi_perspective_transform as roi_perspective_transform
from graphopt.fluid.layers.detection import roi_pool as roi_pool
from graphopt.fluid.layers.detection import sigmoid_focal_loss as sigmoid_focal_loss
from graphopt.fluid.layers.detection import yolo_box as yolo_box
from graphopt.fluid.layers.distributions import Categorical as Categorical
from graphopt.fluid.layers.distributions import MultivariateNormalDiag as MultivariateNormalDiag
from graphopt.fluid.layers.distributions import Normal as Normal
from graphopt.fluid.layers.distributions import Uniform as Uniform
from graphopt.fluid.layers.dynamic_rnn import DynamicRNN as DynamicRNN
from graphopt.fluid.layers.elementwise import addcmul as addcmul
from graphopt.fluid.layers.elementwise import elementwise_add as elementwise_add
from graphopt.fluid.layers.elementwise import elementwise_div as elementwise_div
from graphopt.fluid.layers.elementwise import elementwise_equal as elementwise_equal
from graphopt.fluid.layers.elementwise import elementwise_floordiv as elementwise_floordiv
from graphopt.fluid.layers.elementwise import elementwise_max as elementwise_max
from graphopt.fluid.layers.elementwise import elementwise_min as elementwise_min
from graphopt.fluid.layers.elementwise import elementwise_mod as elementwise_mod
from graphopt.fluid.layers.elementwise import elementwise_mul as elementwise_mul
from graphopt.fluid.layers.elementwise import elementwise_pow as elementwise_pow
from graphopt.fluid.layers.elementwise import elementwise_sub as elementwise_sub
from graphopt.fluid.layers.elementwise import equal as equal
from graphopt.fluid.layers.elementwise import greater_equal as greater_equal
from graphopt.fluid.layers.elementwise import greater_than as greater_than
from graphopt.fluid.layers.elementwise import less_equal as less_equal
from graphopt.fluid.layers.elementwise import less_than as less_than
from graphopt.fluid.layers.elementwise import logical_and as logical_and
from graphopt.fluid.layers.elementwise import logical_not as logical_not
from graphopt.fluid.layers.elementwise import logical_or as logical_or
from graphopt.fluid.layers.elementwise import logical_xor as logical_xor
from graphopt.fluid.layers.elementwise import matmul as matmul
from graphopt.fluid.layers.elementwise import mul as mul
from graphopt.fluid.layers.elementwise import multiplex as multiplex
from graphopt.fluid.layers.elementwise import not_equal as not_equal
from graphopt.fluid.layers.image import add_position_encoding as add_position_encoding
from graphopt.fluid.layers.image import affine_channel as affine_channel
from graphopt.fluid.layers.image import affine_grid as affine_grid
from graphopt.fluid.layers.image import fsp_matrix as fsp_matrix
from graphopt.fluid.layers.image import grid_sampler as grid_sampler
from graphopt.fluid.layers.image import image_resize as image_resize
from graphopt.fluid.layers.image import image_resize_short as image_resize_short
from graphopt.fluid.layers.image import interpolate as interpolate
from graphopt.fluid.layers.image import lrn as lrn
from graphopt.fluid.layers.image import pixel_shuffle as pixel_shuffle
from graphopt.fluid.layers.image import resize_bilinear as resize_bilinear
from graphopt.fluid.layers.image import resize_nearest as resize_nearest
from graphopt.fluid.layers.image import resize_trilinear as resize_trilinear
from graphopt.fluid.layers.image import shuffle_channel as shuffle_channel
from graphopt.fluid.layers.image import space_to_depth as space_to_depth
from graphopt.fluid.layers.image import temporal_shift as temporal_shift
from graphopt.fluid.layers.image import unfold as unfold
from graphopt.fluid.layers.io import data as data
from graphopt.fluid.layers.learning_rate_scheduler import (
    autoincreased_step_counter as autoincreased_step_counter,
)
from graphopt.fluid.layers.learning_rate_scheduler import cosine_decay as cosine_decay
from graphopt.fluid.layers.learning_rate_scheduler import exponential_decay as exponential_decay
from graphopt.fluid.layers.learning_rate_scheduler import inverse_time_decay as inverse_time_decay
from graphopt.fluid.layers.learning_rate_scheduler import linear_lr_warmup as linear_lr_warmup
from graphopt.fluid.layers.learning_rate_scheduler import natural_exp_decay as natural_exp_decay
from graphopt.fluid.layers.learning_rate_scheduler import noam_decay as noam_decay
from graphopt.fluid.layers.learning_rate_scheduler import piecewise_decay as piecewise_decay
from graphopt.fluid.layers.learning_rate_scheduler import polynomial_decay as polynomial_decay
from graphopt.fluid.layers.loss import bpr_loss as bpr_loss
from graphopt.fluid.layers.loss import center_loss as center_loss
from graphopt.fluid.layers.loss import cos_sim as cos_sim
from graphopt.fluid.layers.loss import cross_entropy as cross_entropy
from graphopt.fluid.layers.loss import dice_loss as dice_loss
from graphopt.fluid.layers.loss import huber_loss as huber_loss
from graphopt.fluid.layers.loss import kldiv_loss as kldiv_loss
from graphopt.fluid.layers.loss import label_smooth as label_smooth
from graphopt.fluid.layers.loss import log_loss as log_loss
from graphopt.fluid.layers.loss import margin_rank_loss as margin_rank_loss
from graphopt.fluid.layers.loss import mse_loss as mse_loss
from graphopt.fluid.layers.loss import npair_loss as npair_loss
from graphopt.fluid.layers.loss import rank_loss as rank_loss
from graphopt.fluid.layers.loss import (
    sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
)
from graphopt.fluid.layers.loss import smooth_l1 as smooth_l1
from graphopt.fluid.layers.loss import softmax_with_cross_entropy as softmax_with_cross_entropy
from graphopt.fluid.layers.loss import square_error_cost as square_error_cost
from graphopt.fluid.layers.loss import teacher_student_sigmoid_loss as teacher_student_sigmoid_loss
from graphopt.fluid.layers.metric_op import accuracy as accuracy
from graphopt.fluid.layers.metric_op import mean_iou as mean_iou
from graphopt.fluid.layers.ops import abs as abs
from graphopt.fluid.layers.ops import acos as acos
from graphopt.fluid.layers.ops import asin as asin
from graphopt.fluid.layers.ops import atan as atan
from graphopt.fluid.layers.ops import brelu as brelu
from graphopt.fluid.layers.ops import ceil as ceil
from graphopt.fluid.layers.ops import clamp as clamp
from graphopt.fluid.layers.ops import clip as clip
from graphopt.fluid.layers.ops import clip_by_norm as clip_by_norm
from graphopt.fluid.layers.ops import cos as cos
from graphopt.fluid.layers.ops import cumsum as cumsum
from graphopt.fluid.layers.ops import elu as elu
from graphopt.fluid.layers.ops import erf as erf
from graphopt.fluid.layers.ops import exp as exp
from graphopt.fluid.layers.ops import floor as floor
from graphopt.fluid.layers.ops import gelu as gelu
from graphopt.fluid.layers.ops import hard_shrink as hard_shrink
from graphopt.fluid.layers.ops import hard_sigmoid as hard_sigmoid
from graphopt.fluid.layers.ops import hard_swish as hard_swish
from graphopt.fluid.layers.ops import l2_normalize as l2_normalize
from graphopt.fluid.layers.ops import leaky_relu as leaky_relu
from graphopt.fluid.layers.ops import log as log
from graphopt.fluid.layers.ops import log1p as log1p
from graphopt.fluid.layers.ops import log_softmax as log_softmax
from graphopt.fluid.layers.ops import logsigmoid as logsigmoid
from graphopt.fluid.layers.ops import maxout as maxout
from graphopt.fluid.layers.ops import mish as mish
from graphopt.fluid.layers.ops import pow as pow
from graphopt.fluid.layers.ops import reciprocal as reciprocal
from graphopt.fluid.layers.ops import relu as relu
from graphopt.fluid.layers.ops import relu6 as relu6
from graphopt.fluid.layers.ops import round as round
from graphopt.fluid.layers.ops import rsqrt as rsqrt
from graphopt.fluid.layers.ops import selu as selu
from graphopt.fluid.layers.ops import sigmoid as sigmoid
from graphopt.fluid.layers.ops import sign as sign
from graphopt.fluid.layers.ops import sin as sin
from graphopt.fluid.layers.ops import soft_relu as soft_relu
from graphopt.fluid.layers.ops import softmax as softmax
from graphopt.fluid.layers.ops import softplus as softplus
from graphopt.fluid.layers.ops import softshrink as softshrink
from graphopt.fluid.layers.ops import softsign as softsign
from graphopt.fluid.layers.ops import sqrt as sqrt
from graphopt.fluid.layers.ops import square as square
from graphopt.fluid.layers.ops import stanh as stanh
from graphopt.fluid.layers.ops import swish as swish
from graphopt.fluid.layers.ops import tanh as tanh
from graphopt.fluid.layers.ops import tanh_shrink as tanh_shrink
from graphopt.fluid.layers.ops import thresholded_relu as thresholded_relu
from graphopt.fluid.layers.parametric import batch_norm as batch_norm
from graphopt.fluid.layers.parametric import conv2d as conv2d
from graphopt.fluid.layers.parametric import dropout as dropout
from graphopt.fluid.layers.parametric import embedding as embedding
from graphopt.fluid.layers.parametric import fc as fc
from graphopt.fluid.layers.parametric import hsigmoid as hsigmoid
from graphopt.fluid.layers.parametric import inplace_abn as inplace_abn
from graphopt.fluid.layers.parametric import instance_norm as instance_norm
from graphopt.fluid.layers.parametric import layer_norm as layer_norm
from graphopt.fluid.layers.pooling import adaptive_pool2d as adaptive_pool2d
from graphopt.fluid.layers.pooling import adaptive_pool3d as adaptive_pool3d
from graphopt.fluid.layers.pooling import pool2d as pool2d
from graphopt.fluid.layers.pooling import pool3d as pool3d
from graphopt.fluid.layers.products import addmm as addmm
from graphopt.fluid.layers.products import allclose as allclose
from graphopt.fluid.layers.products import dist as dist
from graphopt.fluid.layers.products import dot as dot
from graphopt.fluid.layers.products import trace as trace
from graphopt.fluid.layers.proposals import box_decoder_and_assign as box_decoder_and_assign
from graphopt.fluid.layers.proposals import detection_output as detection_output
from graphopt.fluid.layers.proposals import matrix_nms as matrix_nms
from graphopt.fluid.layers.proposals import multiclass_nms as multiclass_nms
from graphopt.fluid.layers.proposals import yolov3_loss as yolov3_loss
from graphopt.fluid.layers.random import gaussian_random as gaussian_random
from graphopt.fluid.layers.random import (
    gaussian_random_batch_size_like as gaussian_random_batch_size_like,
)
from graphopt.fluid.layers.random import random_crop as random_crop
from graphopt.fluid.layers.random import sampling_id as sampling_id
from graphopt.fluid.layers.random import uniform_random as uniform_random
from graphopt.fluid.layers.random import (
    uniform_random_batch_size_like as uniform_random_batch_size_like,
)
from graphopt.fluid.layers.rank_tables import (
    reorder_lod_tensor_by_rank as reorder_lod_tensor_by_rank,
)
from graphopt.fluid.layers.readers import create_py_reader_by_data as create_py_reader_by_data
from graphopt.fluid.layers.readers import double_buffer as double_buffer
from graphopt.fluid.layers.readers import py_reader as py_reader
from graphopt.fluid.layers.readers import read_file as read_file
from graphopt.fluid.layers.reduction import has_inf as has_inf
from graphopt.fluid.layers.reduction import has_nan as has_nan
from graphopt.fluid.layers.reduction import isfinite as isfinite
from graphopt.fluid.layers.reduction import mean as mean
from graphopt.fluid.layers.reduction import reduce_all as reduce_all
from graphopt.fluid.layers.reduction import reduce_any as reduce_any
from graphopt.fluid.layers.reduction import reduce_max as reduce_max
from graphopt.fluid.layers.reduction import reduce_mean as reduce_mean
from graphopt.fluid.layers.reduction import reduce_min as reduce_min
from graphopt.fluid.layers.reduction import reduce_prod as reduce_prod
from graphopt.fluid.layers.reduction import reduce_sum as reduce_sum
from graphopt.fluid.layers.rnn import GRUCell as GRUCell
from graphopt.fluid.layers.rnn import LSTMCell as LSTMCell
from graphopt.fluid.layers.rnn import RNNCell as RNNCell
from graphopt.fluid.layers.rnn import gru_unit as gru_unit
from graphopt.fluid.layers.rnn import lstm as lstm
from graphopt.fluid.layers.rnn import lstm_unit as lstm_unit
from graphopt.fluid.layers.rnn import rnn as rnn
from graphopt.fluid.layers.sampled import (
    sampled_softmax_with_cross_entropy as sampled_softmax_with_cross_entropy,
)
from graphopt.fluid.layers.sampled import similarity_focus as similarity_focus
from graphopt.fluid.layers.sequence_lod import im2sequence as im2sequence
from graphopt.fluid.layers.sequence_lod import lod_append as lod_append
from graphopt.fluid.layers.sequence_lod import lod_reset as lod_reset
from graphopt.fluid.layers.sequence_lod import sequence_concat as sequence_concat
from graphopt.fluid.layers.sequence_lod import sequence_conv as sequence_conv
from graphopt.fluid.layers.sequence_lod import sequence_enumerate as sequence_enumerate
from graphopt.fluid.layers.sequence_lod import sequence_expand as sequence_expand
from graphopt.fluid.layers.sequence_lod import sequence_expand_as as sequence_expand_as
from graphopt.fluid.layers.sequence_lod import sequence_first_step as sequence_first_step
from graphopt.fluid.layers.sequence_lod import sequence_last_step as sequence_last_step
from graphopt.fluid.layers.sequence_lod import sequence_pad as sequence_pad
from graphopt.fluid.layers.sequence_lod import sequence_pool as sequence_pool
from graphopt.fluid.layers.sequence_lod import sequence_reshape as sequence_reshape
from graphopt.fluid.layers.sequence_lod import sequence_reverse as sequence_reverse
from graphopt.fluid.layers.sequence_lod import sequence_scatter as sequence_scatter
from graphopt.fluid.layers.sequence_lod import sequence_slice as sequence_slice
from graphopt.fluid.layers.sequence_lod import sequence_softmax as sequence_softmax
from graphopt.fluid.layers.sequence_lod import sequence_unpad as sequence_unpad
from graphopt.fluid.layers.sequence_rnn import dynamic_gru as dynamic_gru
from graphopt.fluid.layers.sequence_rnn import dynamic_lstm as dynamic_lstm
from graphopt.fluid.layers.sequence_rnn import dynamic_lstmp as dynamic_lstmp
from graphopt.fluid.layers.shaping import crop as crop
from graphopt.fluid.layers.shaping import crop_tensor as crop_tensor
from graphopt.fluid.layers.shaping import expand as expand
from graphopt.fluid.layers.shaping import expand_as as expand_as
from graphopt.fluid.layers.shaping import flatten as flatten
from graphopt.fluid.layers.shaping import gather as gather
from graphopt.fluid.layers.shaping import gather_nd as gather_nd
from graphopt.fluid.layers.shaping import nonzero as nonzero
from graphopt.fluid.layers.shaping import one_hot as one_hot
from graphopt.fluid.layers.shaping import pad as pad
from graphopt.fluid.layers.shaping import pad2d as pad2d
from graphopt.fluid.layers.shaping import pad_constant_like as pad_constant_like
from graphopt.fluid.layers.shaping import reshape as reshape
from graphopt.fluid.layers.shaping import scatter as scatter
from graphopt.fluid.layers.shaping import scatter_nd as scatter_nd
from graphopt.fluid.layers.shaping import scatter_nd_add as scatter_nd_add
from graphopt.fluid.layers.shaping import sequence_mask as sequence_mask
from graphopt.fluid.layers.shaping import slice as slice
from graphopt.fluid.layers.shaping import split as split
from graphopt.fluid.layers.shaping import squeeze as squeeze
from graphopt.fluid.layers.shaping import stack as stack
from graphopt.fluid.layers.shaping import strided_slice as strided_slice
from graphopt.fluid.layers.shaping import topk as topk
from graphopt.fluid.layers.shaping import transpose as transpose
from graphopt.fluid.layers.shaping import unbind as unbind
from graphopt.fluid.layers.shaping import unique as unique
from graphopt.fluid.layers.shaping import unique_with_counts as unique_with_counts
from graphopt.fluid.layers.shaping import unsqueeze as unsqueeze
from graphopt.fluid.layers.shaping import unstack as unstack
from graphopt.fluid.layers.shaping import where as where
from graphopt.fluid.layers.tagged import filter_by_instag as filter_by_instag
from graphopt.fluid.layers.tagged import hash as hash
from graphopt.fluid.layers.tagging import chunk_eval as chunk_eval
from graphopt.fluid.layers.tagging import crf_decoding as crf_decoding
from graphopt.fluid.layers.tagging import linear_chain_crf as linear_chain_crf
from graphopt.fluid.layers.tensor import argmax as argmax
from graphopt.fluid.layers.tensor import argmin as argmin
from graphopt.fluid.layers.tensor import argsort as argsort
from graphopt.fluid.layers.tensor import assign as assign
from graphopt.fluid.layers.tensor import cast as cast
from graphopt.fluid.layers.tensor import concat as concat
from graphopt.fluid.layers.tensor import create_global_var as create_global_var
from graphopt.fluid.layers.tensor import create_parameter as create_parameter
from graphopt.fluid.layers.tensor import create_tensor as create_tensor
from graphopt.fluid.layers.tensor import diag as diag
from graphopt.fluid.layers.tensor import eye as eye
from graphopt.fluid.layers.tensor import fill_constant as fill_constant
from graphopt.fluid.layers.tensor import (
    fill_constant_batch_size_like as fill_constant_batch_size_like,
)
from graphopt.fluid.layers.tensor import increment as increment
from graphopt.fluid.layers.tensor import is_empty as is_empty
from graphopt.fluid.layers.tensor import linspace as linspace
from graphopt.fluid.layers.tensor import ones as ones
from graphopt.fluid.layers.tensor import ones_like as ones_like
from graphopt.fluid.layers.tensor import range as range
from graphopt.fluid.layers.tensor import rank as rank
from graphopt.fluid.layers.tensor import reverse as reverse
from graphopt.fluid.layers.tensor import scale as scale
from graphopt.fluid.layers.tensor import shape as shape
from graphopt.fluid.layers.tensor import size as size
from graphopt.fluid.layers.tensor import sum as sum
from graphopt.fluid.layers.tensor import sums as sums
from graphopt.fluid.layers.tensor import tensor_array_to_tensor as tensor_array_to_tensor
from graphopt.fluid.layers.tensor import zeros as zeros
from graphopt.fluid.layers.tensor import zeros_like as zeros_like
from graphopt.frontend import lazy as _lazy
from graphopt.frontend.calls import publish as _publish
from graphopt.frontend.missing import public_names as _public_names

_ELSEWHERE = {
    "Variable": ("graphopt.ir.program", "Variable"),
    "collective": ("graphopt.fluid.layers.collective", ""),
    "core": ("graphopt.fluid.core", ""),
}
_lazy.attach(globals(), {**elsewhere.SOURCES, **_ELSEWHERE}, refused=refused.LAYERS)
_publish(globals(), __name__)
_lazy.keep_functions(__name__)


def _is_layer(name: str, found: Any) -> bool:
    """True for functions and classes of graphopt; modules have no `__module__`."""
    own = getattr(found, "__module__", None) or ""
    return not name.startswith("_") and own.startswith("graphopt.")


__all__ = sorted(  # pyright: ignore[reportUnsupportedDunderAll]
    {
        *(name for name, found in globals().items() if _is_layer(name, found)),
        *elsewhere.SOURCES,
        *refused.LAYERS,
    }
)


def _find(module: str, name: str) -> Any:
    """A layer, wherever a script looks for it; KeyError for another name."""
    if name == "__all__":
        return sorted(_public_names()[module] & set(__all__))
    if name not in __all__:
        raise KeyError(name)
    return getattr(sys.modules[__name__], name)


# Scripts import layers from the modules among which 1.8 divides them; here each has them all.
for _name in (
    *("control_flow", "detection", "io", "loss", "metric_op", "nn", "ops", "rnn"),
    *("sequence_lod", "tensor"),
):
    _space = vars(import_module(f"{__name__}.{_name}"))  # the layer `rnn` hides a module
    _lazy.attach(_space, find=partial(_find, f"paddle.fluid.layers.{_name}"))
