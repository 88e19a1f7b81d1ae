"""Activations whose constants saved operators state in other ways than `pd` ops."""

from __future__ import annotations

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.activation import Hardswish, Hardtanh, Softplus
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.table import BY_TYPE


@translates("swish")
def swish(emit: Emitter) -> Written:
    """With beta 1 it is the silu that fusions know."""
    plain = emit.attr("beta", 1.0) == 1.0
    return emit.by_row(row=BY_TYPE["silu" if plain else "swish"])


@translates("relu6")
def relu6(emit: Emitter) -> Written:
    """The bound may be another one than 6."""
    bound = emit.attr("threshold", 6.0)
    if bound == 6.0:
        return emit.by_row()
    return emit.results(Out=emit(Hardtanh, emit.input("X"), t_min=0.0, t_max=bound))


_HARD_SWISH = {"threshold": 6.0, "scale": 6.0, "offset": 3.0}


@translates("hard_swish")
def hard_swish(emit: Emitter) -> Written:
    if any(emit.attr(name, usual) != usual for name, usual in _HARD_SWISH.items()):
        raise UnsupportedError(
            "hard_swish with other constants than threshold 6, scale 6, offset 3"
        )
    return emit.results(Out=emit(Hardswish, emit.input("X")))


@translates("soft_relu")
def soft_relu(emit: Emitter) -> Written:
    """log(1 + exp(x)) of x kept within ± threshold."""
    limit = emit.attr("threshold", 40.0)
    x = emit(Hardtanh, emit.input("X"), t_min=-limit, t_max=limit)
    return emit.results(Out=emit(Softplus, x, threshold=limit))
