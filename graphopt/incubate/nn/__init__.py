"""Layers that Paddle computes by one kernel (paddle.incubate.nn); passes and XLA fuse them here."""

from graphopt.frontend.calls import publish
from graphopt.incubate.nn import functional as functional
from graphopt.incubate.nn.layers import (
    FusedBiasDropoutResidualLayerNorm as FusedBiasDropoutResidualLayerNorm,
)
from graphopt.incubate.nn.layers import FusedDropoutAdd as FusedDropoutAdd
from graphopt.incubate.nn.layers import FusedFeedForward as FusedFeedForward
from graphopt.incubate.nn.layers import FusedLinear as FusedLinear

publish(globals(), __name__)
