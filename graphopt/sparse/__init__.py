"""Sparse tensors (paddle.sparse), which are refused: the error for each name has a replacement."""

from graphopt.frontend import lazy as _lazy
from graphopt.sparse import nn as nn
from graphopt.sparse.refused import FUNCTIONS as _FUNCTIONS

_lazy.attach(globals(), {"creation": ("graphopt.sparse.creation", "")}, refused=_FUNCTIONS)
