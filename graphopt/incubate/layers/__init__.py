"""Layers that Paddle 2 keeps in `incubate` (paddle.incubate.layers)."""

from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain as _explain
from graphopt.incubate.layers import nn as nn
from graphopt.incubate.layers.nn import batch_fc as batch_fc
from graphopt.incubate.layers.nn import fused_seqpool_cvm as fused_seqpool_cvm
from graphopt.incubate.layers.nn import multiclass_nms2 as multiclass_nms2
from graphopt.incubate.layers.nn import partial_concat as partial_concat
from graphopt.incubate.layers.nn import partial_sum as partial_sum
from graphopt.incubate.layers.nn import rank_attention as rank_attention
from graphopt.incubate.layers.nn import shuffle_batch as shuffle_batch
from graphopt.incubate.layers.nn import tdm_child as tdm_child
from graphopt.incubate.layers.nn import tdm_sampler as tdm_sampler

_explain(globals())
publish(globals(), __name__)
