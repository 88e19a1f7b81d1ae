"""Losses as layers; the functions have the formulas."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.nn.functional import distance, likelihood
from graphopt.nn.functional import loss as functional
from graphopt.nn.layer.layers import Layer

_REDUCTIONS = ("mean", "sum", "none")


class CrossEntropyLoss(Layer):
    """The cross entropy of softmax(input) along `axis` (paddle.nn.CrossEntropyLoss)."""

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__()
        arguments.choice(reduction, "reduction", "CrossEntropyLoss", _REDUCTIONS)
        self._arguments = {
            "weight": weight,
            "ignore_index": ignore_index,
            "reduction": reduction,
            "soft_label": soft_label,
            "axis": axis,
            "use_softmax": use_softmax,
            "label_smoothing": label_smoothing,
            "name": name,
        }

    def forward(self, input: Any, label: Any) -> Any:
        return functional.cross_entropy(input, label, **self._arguments)


class MSELoss(Layer):
    """The squared error (paddle.nn.MSELoss)."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = arguments.choice(reduction, "reduction", "MSELoss", _REDUCTIONS)

    def forward(self, input: Any, label: Any) -> Any:
        return functional.mse_loss(input, label, self.reduction)


class L1Loss(Layer):
    """The absolute error (paddle.nn.L1Loss)."""

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__()
        self.reduction = arguments.choice(reduction, "reduction", "L1Loss", _REDUCTIONS)
        self.name = name

    def forward(self, input: Any, label: Any) -> Any:
        return functional.l1_loss(input, label, self.reduction, self.name)


class MarginRankingLoss(Layer):
    """max(0, -label * (input - other) + margin) (paddle.nn.MarginRankingLoss)."""

    def __init__(
        self, margin: float = 0.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__()
        self.reduction = arguments.choice(reduction, "reduction", "MarginRankingLoss", _REDUCTIONS)
        self.margin, self.name = margin, name

    def forward(self, input: Any, other: Any, label: Any) -> Any:
        return functional.margin_ranking_loss(
            input, other, label, self.margin, self.reduction, self.name
        )


class _Loss(Layer):
    """A function of an input and a label with fixed arguments."""

    function: Any
    reductions = _REDUCTIONS

    def __init__(self, reduction: str, **given: Any) -> None:
        super().__init__()
        kind = type(self).__name__
        self.reduction = arguments.choice(reduction, "reduction", kind, self.reductions)
        self._arguments = {"reduction": reduction, **given}

    def forward(self, input: Any, label: Any) -> Any:
        return type(self).function(input, label, **self._arguments)


class BCELoss(_Loss):
    """The cross entropy of probabilities with labels from 0 to 1 (paddle.nn.BCELoss)."""

    function = staticmethod(likelihood.binary_cross_entropy)

    def __init__(
        self, weight: Any = None, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction, weight=weight, name=name)


class BCEWithLogitsLoss(_Loss):
    """The cross entropy of sigmoid(logit) with labels (paddle.nn.BCEWithLogitsLoss)."""

    function = staticmethod(likelihood.binary_cross_entropy_with_logits)

    def __init__(
        self,
        weight: Any = None,
        reduction: str = "mean",
        pos_weight: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, weight=weight, pos_weight=pos_weight, name=name)


class NLLLoss(_Loss):
    """The negated log-probability of each label (paddle.nn.NLLLoss)."""

    function = staticmethod(likelihood.nll_loss)

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, weight=weight, ignore_index=ignore_index, name=name)


class KLDivLoss(_Loss):
    """label * (log(label) - input), for log-probabilities (paddle.nn.KLDivLoss)."""

    function = staticmethod(likelihood.kl_div)
    reductions = (*_REDUCTIONS, "batchmean")

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, log_target=log_target)


class SmoothL1Loss(_Loss):
    """Half the squared error, linear from an error of delta on (paddle.nn.SmoothL1Loss).

    It is divided by delta unless `is_huber`.
    """

    function = staticmethod(distance.smooth_l1_loss)

    def __init__(
        self,
        reduction: str = "mean",
        delta: float = 1.0,
        is_huber: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, delta=delta, is_huber=is_huber, name=name)


lazy.join_package(globals())
