"""Exchange of values with other libraries by DLPack (paddle.utils.dlpack)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.frontend.calls import publish
from graphopt.frontend.constants import constant_of
from graphopt.frontend.lod_tensor import LoDTensor
from graphopt.ir.program import Variable
from graphopt.runtime.state.slots import Tensor


class _Capsule:
    """A capsule in the form that NumPy accepts: its values are on the host."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_dlpack(x: Any) -> Any:
    """Copy a scope's tensor, a fetched LoDTensor or a constant into a capsule.

    TypeError for other types: an array of NumPy has `__dlpack__` itself. Paddle page:
    paddle.utils.dlpack.to_dlpack.
    """
    found = constant_of(x) if isinstance(x, Variable) else None
    if isinstance(x, Tensor):
        found = np.array(x)
    if found is None:
        what = f"'{x.name}', which a run computes: fetch it" if isinstance(x, Variable) else x
        raise TypeError(
            f"to_dlpack(): 'x' should be a tensor of a scope or a fetched LoDTensor, found {what}"
        )
    return found.__dlpack__()


def from_dlpack(dlpack: Any) -> LoDTensor:
    """Copy the contents of a capsule to a tensor; TypeError for another type.

    Values on a GPU have to be copied to the host first. Paddle page:
    paddle.utils.dlpack.from_dlpack.
    """
    if type(dlpack).__name__ != "PyCapsule":
        raise TypeError(
            f"from_dlpack(): 'dlpack' should be a capsule of DLPack, found {type(dlpack).__name__}"
        )
    return LoDTensor(np.from_dlpack(_Capsule(dlpack)))


publish(globals(), __name__)
