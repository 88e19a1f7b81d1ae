"""ParamAttr: the name, initializer and training options of a parameter (paddle.ParamAttr)."""

from __future__ import annotations

from typing import Any, cast

from graphopt.frontend.initializers.base import Initializer
from graphopt.frontend.regularizers import WeightDecayRegularizer


class ParamAttr:
    """The attributes of a parameter (Paddle page: paddle.ParamAttr).

    `learning_rate` multiplies the optimizer's; `regularizer` replaces the optimizer's;
    `trainable=False` freezes the parameter; `need_clip=False` leaves it out of gradient clipping.
    `do_model_average=False` keeps it out of the averages of ExponentialMovingAverage. Raises
    TypeError for arguments of the wrong kind.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        _check("name", name, str)
        _check("initializer", initializer, Initializer)
        _check("learning_rate", learning_rate, (int, float))
        _check("regularizer", regularizer, WeightDecayRegularizer)
        _check("trainable", trainable, bool)
        _check("do_model_average", do_model_average, bool)
        _check("need_clip", need_clip, bool)
        self.name = None if name == "" else name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    @staticmethod
    def _to_attr(arg: Any) -> Any:
        """Convert as `as_param_attr`, a list element by element; return False for False."""
        if isinstance(arg, (list, tuple)):
            return [ParamAttr._to_attr(item) for item in cast("list[Any]", arg)]
        return as_param_attr(arg) or False

    def parameter_options(self) -> dict[str, Any]:
        """Collect the keyword arguments of `Block.create_parameter`."""
        return {
            "trainable": self.trainable,
            "optimize_attr": {"learning_rate": self.learning_rate},
            "regularizer": self.regularizer,
            "need_clip": self.need_clip,
            "do_model_average": self.do_model_average,
        }


class WeightNormParamAttr(ParamAttr):
    """A weight as a length times a direction (Salimans and Kingma, 2016).

    The layer's weight is g * v / norm(v), with the parameters `<name>_g` and `<name>_v`; the norm
    is over all axes but `dim`, or over all. The initializer sets v, and g starts as v's norm.
    Paddle page: paddle.static.WeightNormParamAttr.
    """

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: WeightDecayRegularizer | None = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        super().__init__(
            name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip
        )
        _check("dim", dim, int)
        self.dim = dim


def _check(name: str, value: Any, kinds: Any) -> None:
    if value is not None and not isinstance(value, kinds):
        raise TypeError(
            f"ParamAttr(): the argument '{name}' has the wrong type {type(value).__name__}"
        )


def as_param_attr(spec: Any) -> ParamAttr | None:
    """Convert a layer's `weight_attr` or `bias_attr` to a ParamAttr; None for False.

    A string is a name; an initializer or a regularizer becomes an attribute with only that;
    None and True mean the defaults. Raises TypeError for other values.
    """
    if spec is None or spec is True:
        return ParamAttr()
    if spec is False:
        return None
    if isinstance(spec, ParamAttr):
        return spec
    if isinstance(spec, str):
        return ParamAttr(name=spec)
    if isinstance(spec, Initializer):
        return ParamAttr(initializer=spec)
    if isinstance(spec, WeightDecayRegularizer):
        return ParamAttr(regularizer=spec)
    raise TypeError(f"a {type(spec).__name__} cannot be used as a ParamAttr")


def as_weight_attr(spec: Any, function: str) -> ParamAttr:
    """Convert as `as_param_attr`, for a required parameter; raise ValueError for False."""
    attr = as_param_attr(spec)
    if attr is None:
        raise ValueError(f"{function}(): the weight's ParamAttr should not be False")
    return attr
