"""Choice of a parameter's initializer: its own, the global one, the layer's, or the usual one."""

from __future__ import annotations

from graphopt.frontend.initializers.base import Initializer
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.initializers.scaled import XavierUniform

_global: dict[str, Initializer | None] = {"weight": None, "bias": None}


def set_global_initializer(
    weight_init: Initializer | None, bias_init: Initializer | None = None
) -> None:
    """Set the initializers of parameters whose ParamAttr has none; None restores the defaults.

    Raises TypeError for arguments other than initializers. Paddle page:
    paddle.nn.initializer.set_global_initializer.
    """
    for name, value in (("weight_init", weight_init), ("bias_init", bias_init)):
        if value is not None and not isinstance(value, Initializer):
            raise TypeError(f"set_global_initializer(): '{name}' must be an Initializer")
    _global.update(weight=weight_init, bias=bias_init)


def default_initializer_of(
    own: Initializer | None, is_bias: bool, layer_default: Initializer | None
) -> Initializer:
    """Choose the initializer of a parameter; `own` is the initializer of its ParamAttr.

    Raises TypeError if the layer's default is no Initializer.
    """
    given: object = layer_default
    if given is not None and not isinstance(given, Initializer):
        raise TypeError(
            f"'default_initializer' must be an Initializer, found {type(given).__name__}"
        )
    usual: Initializer = Constant(0.0) if is_bias else XavierUniform()
    shared = _global["bias" if is_bias else "weight"]
    return own or shared or layer_default or usual
