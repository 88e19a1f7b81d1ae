"""Functions of sparse tensors (paddle.sparse.nn.functional), which are refused."""

from graphopt.frontend import lazy as _lazy
from graphopt.sparse.refused import LAYER_FUNCTIONS as _FUNCTIONS

_lazy.attach(globals(), refused=_FUNCTIONS)
