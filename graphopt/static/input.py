"""Entry of data into a program: `data` and `InputSpec`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphopt.errors import ProgramError
from graphopt.frontend import arguments
from graphopt.frontend.mode import get_default_dtype, require_static
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Variable, default_main_program

# Paddle stores a dimension in 64 bits.
MOST = 2**63


def data(name: str, shape: Any, dtype: Any = None, lod_level: int = 0) -> Variable:
    """Declare a variable that is fed at each run (paddle.static.data).

    None or -1 in `shape` is a dimension that each feed may choose; a feed must match all others,
    and the dtype (the default one unless given). Gradients are not taken with respect to it unless
    `stop_gradient` is set to False.

    Raises TypeError for a name that is not a string, ValueError for a dimension that is no size
    and when the program already has another variable of this name.
    """
    require_static()
    if not isinstance(name, str):
        raise TypeError(f"data(): the argument 'name' must be a str, found {type(name).__name__}")
    sizes = tuple(arguments.shape(shape, "data"))
    for dim in sizes:
        if not -1 <= dim < MOST:
            raise ValueError(
                f"data(): '{name}' cannot have a dimension of {dim}; give the size of the "
                "dimension, or None or -1 for a size that each feed chooses"
            )
    if math.prod(size for size in sizes if size > 0) >= 2**63:
        raise ProgramError(f"data(): '{name}' has too many elements: {list(sizes)}")
    element = get_default_dtype() if dtype is None else arguments.dtype(dtype, "dtype", "data")
    block = default_main_program().global_block()
    if name in block.vars:
        found = block.vars[name]
        if not found.is_data or (found.shape, found.dtype) != (sizes, element):
            raise ValueError(
                f"data(): the program already has another variable '{name}': {found}. Use another "
                "name; or, to build another network, start a new Program "
                "(with paddle.static.program_guard(Program()))"
            )
        return found
    return block.create_var(
        name,
        sizes,
        element,
        stop_gradient=True,
        is_data=True,
        need_check_feed=True,
        lod_level=lod_level,
    )


class InputSpec:
    """The shape, dtype and name of an input (Paddle page: paddle.static.InputSpec)."""

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: Any = "float32",
        name: str | None = None,
        stop_gradient: bool = False,
    ) -> None:
        self.shape = tuple(arguments.shape(shape, "InputSpec"))
        self.dtype = arguments.dtype(dtype, "dtype", "InputSpec")
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Variable, name: str | None = None) -> InputSpec:
        """Create the specification of a Variable."""
        arguments.variable(tensor, "tensor", "InputSpec.from_tensor")
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: Any, name: str | None = None) -> InputSpec:
        """Create the specification of an array."""
        return cls(ndarray.shape, as_dtype(ndarray.dtype), name)

    def batch(self, batch_size: int) -> InputSpec:
        """Insert a batch dimension before the others; return `self`."""
        self.shape = (arguments.integer(batch_size, "batch_size", "InputSpec.batch"), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Drop the first dimension; return `self`. Raises ValueError if there is none."""
        if not self.shape:
            raise ValueError("InputSpec.unbatch(): the shape is empty")
        self.shape = self.shape[1:]
        return self

    def __repr__(self) -> str:
        return f"InputSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.name
