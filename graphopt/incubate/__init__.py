"""Names that Paddle keeps in `incubate` until they settle (paddle.incubate)."""

from graphopt.frontend import lazy as _lazy
from graphopt.frontend.calls import publish
from graphopt.geometric import segment_max as segment_max
from graphopt.geometric import segment_mean as segment_mean
from graphopt.geometric import segment_min as segment_min
from graphopt.geometric import segment_sum as segment_sum
from graphopt.incubate import nn as nn
from graphopt.incubate import optimizer as optimizer
from graphopt.incubate.operators import graph_send_recv as graph_send_recv
from graphopt.incubate.operators import identity_loss as identity_loss
from graphopt.incubate.operators import softmax_mask_fuse as softmax_mask_fuse
from graphopt.incubate.operators import (
    softmax_mask_fuse_upper_triangle as softmax_mask_fuse_upper_triangle,
)
from graphopt.optimizer.lookahead import LookAhead as LookAhead
from graphopt.optimizer.model_average import ModelAverage as ModelAverage

# these modules import paddle.fluid
_MODULES = {name: (f"graphopt.incubate.{name}", "") for name in ("layers", "passes")}
_lazy.attach(globals(), _MODULES)
publish(globals(), __name__)
