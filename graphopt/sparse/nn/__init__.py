"""Layers of sparse tensors (paddle.sparse.nn), which are refused."""

from graphopt.frontend import lazy as _lazy
from graphopt.sparse.nn import functional as functional
from graphopt.sparse.refused import LAYERS as _LAYERS

_lazy.attach(globals(), refused=_LAYERS)
