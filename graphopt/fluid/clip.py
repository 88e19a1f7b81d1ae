"""Gradient clipping under the names of 1.8 (paddle.fluid.clip)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend.missing import explain
from graphopt.ir.program import OpRole, Parameter, Program, default_main_program, undo
from graphopt.ir.program.location import caller_level
from graphopt.nn.clip import ClipGradBase as GradientClipBase
from graphopt.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue, Pair, noted_clip

Chooser = Callable[[Parameter], bool] | None


class _Chosen(GradientClipBase):
    """A clip from which `need_clip(parameter)` may exclude parameters."""

    _need_clip: Chooser = None

    def clips(self, parameter: Parameter) -> bool:
        wanted = self._need_clip is None or self._need_clip(parameter)
        return wanted and super().clips(parameter)

    def _choose(self, need_clip: Chooser) -> None:
        chosen: Any = need_clip
        if chosen is not None and not callable(chosen):
            raise TypeError("'need_clip' must be a function of a parameter")
        self._need_clip = need_clip


class GradientClipByValue(_Chosen, ClipGradByValue):
    """A clip of each element to [min, max] (Paddle page: fluid.clip.GradientClipByValue)."""

    def __init__(self, max: float, min: float | None = None, need_clip: Chooser = None) -> None:
        super().__init__(max, min)
        self._choose(need_clip)


class GradientClipByNorm(_Chosen, ClipGradByNorm):
    """A clip of each gradient to a norm of `clip_norm` (fluid.clip.GradientClipByNorm)."""

    def __init__(self, clip_norm: float, need_clip: Chooser = None) -> None:
        super().__init__(clip_norm)
        self._choose(need_clip)


class GradientClipByGlobalNorm(_Chosen, ClipGradByGlobalNorm):
    """A clip that scales all gradients by one number (fluid.clip.GradientClipByGlobalNorm).

    As in 1.8 the clipped gradients have their own names; `<parameter>@GRAD` is not clipped.
    """

    in_place = False

    def __init__(
        self, clip_norm: float, group_name: str = "default_group", need_clip: Chooser = None
    ) -> None:
        super().__init__(clip_norm, group_name)
        self._choose(need_clip)


ClipByValue = GradientClipByValue
ClipByNorm = GradientClipByNorm
ClipByGlobalNorm = GradientClipByGlobalNorm


def set_gradient_clip(
    clip: GradientClipBase,
    param_list: Sequence[Parameter | str] | None = None,
    program: Program | None = None,
) -> None:
    """Clip the gradients of parameters in every later `minimize` (fluid.clip.set_gradient_clip).

    `param_list` has parameters or their names, by default all parameters of `program`. As in 1.8
    nothing is clipped if one of the minimized parameters has no clip, the last parameter's clip
    holds for all, `need_clip` has no effect, and the optimizer's `grad_clip` takes precedence.
    """
    given: object = clip
    if not isinstance(given, GradientClipBase):
        raise TypeError("'clip' should be an instance of GradientClipBase's derived class")
    block = (program or default_main_program()).global_block()
    if any(op.role & OpRole.OPTIMIZE for op in block.ops):
        warnings.warn(
            "set_gradient_clip() has no effect on the 'minimize' before it",
            stacklevel=caller_level(),
        )
    own = copy.copy(given)
    if isinstance(own, _Chosen):
        own._choose(None)
    chosen = block.all_parameters() if param_list is None else param_list
    for item in [block.var(p) if isinstance(p, str) else p for p in chosen]:
        if not isinstance(item, Parameter):
            raise TypeError("'param_list' should be a list of Parameter or basestring")
        undo.note_attributes(item, "gradient_clip_attr")
        item.gradient_clip_attr = own


def append_gradient_clip_ops(param_grads: list[Pair]) -> list[Pair]:
    """Clip gradients as `set_gradient_clip` noted; without a clip, return the pairs unchanged."""
    clip = noted_clip(param_grads)
    return param_grads if clip is None else clip(param_grads)


class ErrorClipByValue:
    """Unsupported: gradients between layers cannot be clipped (fluid.clip.ErrorClipByValue)."""

    def __init__(self, max: float, min: float | None = None) -> None:
        raise UnsupportedError(
            "fluid.clip.ErrorClipByValue is not supported; clip the activations, or give the "
            "optimizer `grad_clip=`"
        )


explain(globals())
