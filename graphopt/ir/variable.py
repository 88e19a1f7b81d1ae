"""Variables: the named tensors of a program's blocks (Paddle pages: static.Variable, Parameter)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphopt.errors import ProgramError
from graphopt.ir.dtypes import DType, as_dtype

if TYPE_CHECKING:
    from graphopt.ir.program import Block

GRAD_SUFFIX = "@GRAD"


class VarKind:
    """The kinds of variable that saved programs declare (Paddle: VarType.Type)."""

    DENSE_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    TENSOR_ARRAY = 13
    READER = 15
    RAW = 17


class Variable:
    """A named tensor of a block.

    `shape` is a tuple with -1 for a dimension known only when the program runs; `dtype` is a
    `DType`. `stop_gradient=True` keeps gradients from flowing through it. `saved` is the bytes
    that a loaded variable was declared with, which the writer repeats if nothing was changed.
    """

    saved: bytes | None = None

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        *,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
        is_parameter: bool = False,
        lod_level: int = 0,
        kind: int = VarKind.DENSE_TENSOR,
        belong_to_optimizer: bool = False,
        error_clip: Any = None,
    ) -> None:
        self.block = block
        self.name = name
        self._shape = None if shape is None else tuple(int(d) for d in shape)
        self._dtype = None if dtype is None else as_dtype(dtype)
        self.persistable = persistable
        self.stop_gradient = stop_gradient
        self.is_data = is_data
        self.need_check_feed = need_check_feed
        self.is_parameter = is_parameter
        self.lod_level = lod_level
        self.kind = kind
        self.belong_to_optimizer = belong_to_optimizer
        self.error_clip = error_clip

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, -1 where unknown until run time."""
        if self._shape is None:
            raise ProgramError(f"the shape of variable '{self.name}' is not known yet")
        return self._shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._shape = tuple(int(d) for d in shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        if self._dtype is None:
            raise ProgramError(f"the dtype of variable '{self.name}' is not known yet")
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self._dtype = as_dtype(dtype)

    @property
    def has_type(self) -> bool:
        """True when both shape and dtype are known."""
        return self._shape is not None and self._dtype is not None

    @property
    def grad_name(self) -> str:
        """The name of this variable's gradient."""
        return self.name + GRAD_SUFFIX

    def copy_to(self, block: Block) -> Variable:
        """A variable like this one that belongs to `block`."""
        twin = copy.copy(self)
        twin.block = block
        return twin

    def __repr__(self) -> str:
        shape = "?" if self._shape is None else ", ".join(map(str, self._shape))
        flags = "".join(
            f", {flag}" for flag in ("persistable", "stop_gradient") if getattr(self, flag)
        )
        return f"var {self.name} : [{shape}] {self._dtype}{flags}"

    @property
    def type(self) -> int:
        """The number of the kind of variable in Paddle's `VarType.Type` enumeration."""
        return self.kind

    def set_error_clip(self, error_clip: Any) -> None:
        """Note how to clip the gradient of this variable; it has no effect, as in Paddle 2."""
        self.error_clip = error_clip

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The variable as text; both arguments are accepted for compatibility."""
        return repr(self)


class Parameter(Variable):
    """A persistable variable that optimizers update.

    `trainable`, `optimize_attr` (its `learning_rate` multiplies the optimizer's), `regularizer`
    and `need_clip` steer `Optimizer.minimize`, `do_model_average` the averages for evaluation.
    """

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        *,
        trainable: bool = True,
        optimize_attr: Mapping[str, Any] | None = None,
        regularizer: Any = None,
        need_clip: bool = True,
        do_model_average: bool = True,
        is_distributed: bool = False,
    ) -> None:
        super().__init__(
            block,
            name,
            shape,
            dtype,
            persistable=True,
            stop_gradient=not trainable,
            is_parameter=True,
        )
        self.trainable = trainable
        self.optimize_attr = dict(optimize_attr or {"learning_rate": 1.0})
        self.regularizer = regularizer
        self.need_clip = need_clip
        self.do_model_average = do_model_average
        self.is_distributed = is_distributed
