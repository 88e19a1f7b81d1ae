"""The functions that make sparse tensors (paddle.sparse.creation), which are refused."""

from graphopt.frontend import lazy as _lazy
from graphopt.sparse.refused import FUNCTIONS as _FUNCTIONS

_MAKERS = ("sparse_coo_tensor", "sparse_csr_tensor")
_lazy.attach(globals(), refused={name: _FUNCTIONS[name] for name in _MAKERS})
