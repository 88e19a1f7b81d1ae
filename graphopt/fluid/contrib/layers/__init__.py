"""Layers that Paddle 1.8 kept apart (paddle.fluid.contrib.layers)."""

from graphopt.fluid.contrib.layers import nn as nn
from graphopt.fluid.contrib.layers import rnn_impl as rnn_impl
from graphopt.fluid.contrib.layers.matching import match_matrix_tensor as match_matrix_tensor
from graphopt.fluid.contrib.layers.matching import tree_conv as tree_conv
from graphopt.fluid.contrib.layers.nn import ctr_metric_bundle as ctr_metric_bundle
from graphopt.fluid.contrib.layers.nn import fused_elemwise_activation as fused_elemwise_activation
from graphopt.fluid.contrib.layers.nn import multiclass_nms2 as multiclass_nms2
from graphopt.fluid.contrib.layers.nn import partial_concat as partial_concat
from graphopt.fluid.contrib.layers.nn import partial_sum as partial_sum
from graphopt.fluid.contrib.layers.nn import shuffle_batch as shuffle_batch
from graphopt.fluid.contrib.layers.ranking import rank_attention as rank_attention
from graphopt.fluid.contrib.layers.ranking import tdm_child as tdm_child
from graphopt.fluid.contrib.layers.ranking import tdm_sampler as tdm_sampler
from graphopt.fluid.contrib.layers.rnn_impl import BasicGRUUnit as BasicGRUUnit
from graphopt.fluid.contrib.layers.rnn_impl import BasicLSTMUnit as BasicLSTMUnit
from graphopt.fluid.contrib.layers.rnn_impl import basic_gru as basic_gru
from graphopt.fluid.contrib.layers.rnn_impl import basic_lstm as basic_lstm
from graphopt.frontend.missing import explain as _explain

_explain(globals())
