"""Losses with margins, distances and densities as layers; the functions have the formulas."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.nn.functional import distance, likelihood, margin
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.loss import _Loss


class _Fixed(Layer):
    """A loss of several tensors with fixed arguments."""

    function: Any

    def __init__(self, reduction: str, **given: Any) -> None:
        super().__init__()
        kind = type(self).__name__
        self.reduction = arguments.choice(reduction, "reduction", kind, ("mean", "sum", "none"))
        self._arguments = {"reduction": reduction, **given}

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return type(self).function(*inputs, **kwargs, **self._arguments)


class CosineEmbeddingLoss(_Fixed):
    """1 - cosine for the label 1, the cosine above a margin for -1 (paddle.nn.CosineEmbeddingLoss).

    Raises ValueError when the margin is outside [-1, 1].
    """

    function = staticmethod(distance.cosine_embedding_loss)

    def __init__(self, margin: float = 0, reduction: str = "mean", name: str | None = None) -> None:
        if not -1 <= margin <= 1:
            raise ValueError(f"CosineEmbeddingLoss(): 'margin' should be in [-1, 1], not {margin}")
        super().__init__(reduction, margin=margin, name=name)


class HingeEmbeddingLoss(_Loss):
    """The input for the label 1, its distance below a margin for -1 (nn.HingeEmbeddingLoss)."""

    function = staticmethod(distance.hinge_embedding_loss)

    def __init__(
        self, margin: float = 1.0, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction, margin=margin, name=name)


class MultiLabelMarginLoss(_Loss):
    """The hinge of each class of a row against the others (paddle.nn.MultiLabelMarginLoss)."""

    function = staticmethod(margin.multi_label_margin_loss)

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(reduction, name=name)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-label * input)) (paddle.nn.SoftMarginLoss)."""

    function = staticmethod(likelihood.soft_margin_loss)

    def __init__(self, reduction: str = "mean", name: str | None = None) -> None:
        super().__init__(reduction, name=name)


class MultiLabelSoftMarginLoss(_Loss):
    """The mean cross entropy of sigmoid(input) over classes (nn.MultiLabelSoftMarginLoss)."""

    function = staticmethod(margin.multi_label_soft_margin_loss)

    def __init__(
        self, weight: Any = None, reduction: str = "mean", name: str | None = None
    ) -> None:
        super().__init__(reduction, weight=weight, name=name)


class MultiMarginLoss(_Loss):
    """The margins that wrong classes violate (paddle.nn.MultiMarginLoss)."""

    function = staticmethod(margin.multi_margin_loss)

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, p=p, margin=margin, weight=weight, name=name)


class GaussianNLLLoss(_Fixed):
    """The negative log-likelihood of normal labels (paddle.nn.GaussianNLLLoss)."""

    function = staticmethod(likelihood.gaussian_nll_loss)

    def __init__(
        self,
        full: bool = False,
        epsilon: float = 1e-6,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, full=full, epsilon=epsilon, name=name)


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of Poisson labels (paddle.nn.PoissonNLLLoss)."""

    function = staticmethod(likelihood.poisson_nll_loss)

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        epsilon: float = 1e-8,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        super().__init__(reduction, log_input=log_input, full=full, epsilon=epsilon, name=name)


class TripletMarginLoss(_Fixed):
    """Margin by which the positive is nearer than the negative (paddle.nn.TripletMarginLoss)."""

    function = staticmethod(margin.triplet_margin_loss)

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        epsilon: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        given = {"margin": margin, "p": p, "epsilon": epsilon, "swap": swap}
        super().__init__(reduction, name=name, **given)


class TripletMarginWithDistanceLoss(_Fixed):
    """TripletMarginLoss with a distance of one's own (paddle.nn.TripletMarginWithDistanceLoss)."""

    function = staticmethod(margin.triplet_margin_with_distance_loss)

    def __init__(
        self,
        distance_function: Any = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
        name: str | None = None,
    ) -> None:
        given = {"distance_function": distance_function, "margin": margin, "swap": swap}
        super().__init__(reduction, name=name, **given)
