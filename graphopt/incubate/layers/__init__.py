"""Layers that Paddle 2 keeps apart (paddle.incubate.layers)."""

from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain as _explain
from graphopt.incubate.layers import nn as nn
from graphopt.incubate.layers.nn import multiclass_nms2 as multiclass_nms2
from graphopt.incubate.layers.nn import partial_concat as partial_concat
from graphopt.incubate.layers.nn import partial_sum as partial_sum
from graphopt.incubate.layers.nn import shuffle_batch as shuffle_batch

_explain(globals())
publish(globals(), __name__)
