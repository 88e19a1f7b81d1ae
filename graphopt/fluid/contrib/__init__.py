"""Additions to Paddle 1.8 (paddle.fluid.contrib): layers, half precision, memory."""

from graphopt.fluid.contrib import layers as layers
from graphopt.fluid.contrib import memory_usage_calc as memory_usage_calc
from graphopt.fluid.contrib import mixed_precision as mixed_precision
from graphopt.fluid.contrib import reader as reader
from graphopt.fluid.contrib.layers import ctr_metric_bundle as ctr_metric_bundle
from graphopt.fluid.contrib.layers import fused_elemwise_activation as fused_elemwise_activation
from graphopt.fluid.contrib.layers import match_matrix_tensor as match_matrix_tensor
from graphopt.fluid.contrib.layers import multiclass_nms2 as multiclass_nms2
from graphopt.fluid.contrib.layers import partial_concat as partial_concat
from graphopt.fluid.contrib.layers import partial_sum as partial_sum
from graphopt.fluid.contrib.layers import rank_attention as rank_attention
from graphopt.fluid.contrib.layers import shuffle_batch as shuffle_batch
from graphopt.fluid.contrib.layers import tdm_child as tdm_child
from graphopt.fluid.contrib.layers import tdm_sampler as tdm_sampler
from graphopt.fluid.contrib.layers import tree_conv as tree_conv
from graphopt.fluid.contrib.memory_usage_calc import memory_usage as memory_usage
from graphopt.fluid.contrib.reader import distributed_batch_reader as distributed_batch_reader
from graphopt.frontend.missing import explain as _explain

_explain(globals())
