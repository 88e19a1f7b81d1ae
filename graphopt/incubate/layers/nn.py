"""Layers of fluid.contrib.layers that Paddle 2 keeps in `incubate` (paddle.incubate.layers.nn)."""

from graphopt.fluid.contrib.layers.nn import multiclass_nms2 as multiclass_nms2
from graphopt.fluid.contrib.layers.nn import partial_concat as partial_concat
from graphopt.fluid.contrib.layers.nn import partial_sum as partial_sum
from graphopt.fluid.contrib.layers.nn import shuffle_batch as shuffle_batch
from graphopt.fluid.contrib.layers.ranking import batch_fc as batch_fc
from graphopt.fluid.contrib.layers.ranking import fused_seqpool_cvm as fused_seqpool_cvm
from graphopt.fluid.contrib.layers.ranking import rank_attention as rank_attention
from graphopt.fluid.contrib.layers.ranking import tdm_child as tdm_child
from graphopt.fluid.contrib.layers.ranking import tdm_sampler as tdm_sampler
from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain as _explain

_explain(globals())
publish(globals(), __name__)
