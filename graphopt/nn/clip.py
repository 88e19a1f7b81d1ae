"""Gradient clipping: rewrites of (parameter, gradient) pairs before regularization and updates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.mode import current_op_attrs, op_attrs
from graphopt.ir.program import Parameter, Variable, default_main_program, program_guard
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import cast, reshape
from graphopt.tensor.math import add_n, clip, divide, maximum, multiply, sqrt, square, sum

_OLDER = (
    *("GradientClipBase", "GradientClipByValue", "GradientClipByNorm", "GradientClipByGlobalNorm"),
    *("ErrorClipByValue", "append_gradient_clip_ops", "set_gradient_clip"),
)
lazy.attach(globals(), {name: ("graphopt.fluid.clip", name) for name in _OLDER})

Pair = tuple[Parameter, Variable | None]


class ClipGradBase(ABC):
    """Base of the clips. Gradients of parameters with `need_clip=False` stay unchanged."""

    def __call__(self, params_grads: list[Pair]) -> list[Pair]:
        """Append the operators that clip; return the pairs with a gradient, each with a new one."""
        given = [(p, g) for p, g in params_grads if g is not None]
        chosen = [(p, g) for p, g in given if self.clips(p)]
        if not chosen:
            return [*given]
        with program_guard(chosen[0][1].block.program):
            clipped = dict(zip((p.name for p, _ in chosen), self.clip(chosen), strict=True))
        return [(p, clipped.get(p.name, g)) for p, g in given]

    def clips(self, parameter: Parameter) -> bool:
        """True if the gradient of this parameter is to be clipped."""
        return getattr(parameter, "need_clip", True)

    @abstractmethod
    def clip(self, chosen: list[tuple[Parameter, Variable]]) -> list[Variable]:
        """Clip the gradients of these parameters."""


def noted_clip(pairs: Sequence[Pair]) -> ClipGradBase | None:
    """Return the last clip set on the parameters (`gradient_clip_attr`), if all have one."""
    noted = [getattr(p, "gradient_clip_attr", None) for p, g in pairs if g is not None]
    return noted[-1] if noted and all(noted) else None


def _roles(parameter: Parameter, grad: Variable) -> Any:
    """Record on the operators which parameter and gradient they belong to."""
    return op_attrs(op_role_var=[parameter.name, grad.name])


class ClipGradByValue(ClipGradBase):
    """Clips each element to [min, max]; min is -max by default.

    Paddle page: paddle.nn.ClipGradByValue.
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = arguments.number(max, "max", type(self).__name__)
        if min is None:
            min = -self.max
        self.min = arguments.number(min, "min", type(self).__name__)

    def clip(self, chosen: list[tuple[Parameter, Variable]]) -> list[Variable]:
        made: list[Variable] = []
        for parameter, grad in chosen:
            with _roles(parameter, grad):
                made.append(clip(grad, self.min, self.max))
        return made


class ClipGradByNorm(ClipGradBase):
    """Scales each gradient down to a Euclidean norm of at most `clip_norm`.

    Paddle page: paddle.nn.ClipGradByNorm.
    """

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = arguments.number(clip_norm, "clip_norm", type(self).__name__)

    def clip(self, chosen: list[tuple[Parameter, Variable]]) -> list[Variable]:
        made: list[Variable] = []
        for parameter, grad in chosen:
            with _roles(parameter, grad):
                norm = sqrt(sum(square(grad)))
                made.append(_scale_gradient(grad, _share(norm, self.clip_norm)))
        return made


def _share(norm: Variable, limit: float) -> Variable:
    """Compute limit / max(norm, limit): 1 for norms that need no clipping."""
    bound = full(norm.shape, limit, norm.dtype)
    return divide(bound, maximum(norm, bound))


def _scale_gradient(grad: Variable, share: Variable) -> Variable:
    """Multiply a gradient by a number; a sparse one stays sparse."""
    made = multiply(grad, share)
    made.kind = grad.kind
    return made


def _scale_in_place(grad: Variable, share: Variable) -> Variable:
    inputs = {"X": grad, "Y": share}
    block = default_main_program().current_block()
    block.append_op("elementwise_mul", inputs, {"Out": grad}, current_op_attrs())
    return grad


# half type -> whether the global norm of gradients, all of this type, stays in this type
_pure = {"float16": False, "bfloat16": False}


def _allow(dtype: str, *args: bool) -> bool:
    if len(args) > 1 or not all(isinstance(arg, bool) for arg in args):
        raise TypeError(
            f"the switch for norms of gradients in {dtype} takes one bool, found {args}"
        )
    before = _pure[dtype]
    if args:
        _pure[dtype] = args[0]
    return before


def _allow_pure_fp16_global_norm_clip(*args: bool) -> bool:
    """Get, or set by an argument, whether the norm of float16 gradients is float16."""
    return _allow("float16", *args)


def _allow_pure_bf16_global_norm_clip(*args: bool) -> bool:
    """Get, or set by an argument, whether the norm of bfloat16 gradients is bfloat16."""
    return _allow("bfloat16", *args)


def _dtype_of_norm(squares: Sequence[Variable]) -> str:
    dtypes = {f"{square.dtype}" for square in squares}
    pure = [dtype for dtype, allowed in _pure.items() if allowed and dtypes == {dtype}]
    return pure[0] if pure else "float64" if "float64" in dtypes else "float32"


class ClipGradByGlobalNorm(ClipGradBase):
    """Scales all gradients by one number, so that their global norm is at most `clip_norm`.

    The gradients are scaled in place, as Paddle does: `<parameter>@GRAD` is the clipped one. (The
    other clips give the clipped gradient a name of its own.) `group_name` and `auto_skip_clip` are
    accepted for compatibility: an optimizer clips all its gradients together. Paddle page:
    paddle.nn.ClipGradByGlobalNorm.
    """

    in_place: ClassVar[bool] = True

    def __init__(
        self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False
    ) -> None:
        self.clip_norm = arguments.number(clip_norm, "clip_norm", type(self).__name__)
        self.group_name = group_name
        self.auto_skip_clip = auto_skip_clip

    def __call__(self, params_grads: list[Pair]) -> list[Pair]:
        """Clip the gradients; return all pairs if there is none to clip, as in Paddle."""
        if not any(g is not None and self.clips(p) for p, g in params_grads):
            return params_grads
        return super().__call__(params_grads)

    def clip(self, chosen: list[tuple[Parameter, Variable]]) -> list[Variable]:
        squares: list[Variable] = []
        for parameter, grad in chosen:
            with _roles(parameter, grad):
                squares.append(emit("squared_l2_norm", {"X": grad}))
        wide = _dtype_of_norm(squares)
        common = [s if s.dtype == wide else cast(s, wide) for s in squares]
        share = _share(sqrt(add_n(common)), self.clip_norm)
        made: list[Variable] = []
        for parameter, grad in chosen:
            with _roles(parameter, grad):
                own = share if share.dtype == grad.dtype else cast(share, grad.dtype)
                scaled = _scale_in_place if self.in_place else _scale_gradient
                made.append(scaled(grad, own if grad.shape else reshape(own, [])))
        return made


def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """Return the gradient: gradients are dense, with each row once (layers.merge_selected_rows)."""
    inputs = {"X": arguments.variable(x, "x", "merge_selected_rows")}
    return emit("merge_selected_rows", inputs, name=name)


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """Return the gradient: gradients are dense (layers.get_tensor_from_selected_rows)."""
    inputs = {"X": arguments.variable(x, "x", "get_tensor_from_selected_rows")}
    return emit("get_tensor_from_selected_rows", inputs, name=name)
