"""The sum of squared normal numbers (paddle.distribution of Paddle 3)."""

# Variables get their operators when graphopt.tensor is imported.
# pyright: reportOperatorIssue=false

from __future__ import annotations

from typing import Any

from graphopt.distribution.base import parameters
from graphopt.distribution.gamma import Gamma
from graphopt.frontend.missing import explain
from graphopt.tensor.creation import full_like


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers (paddle.distribution.Chi2)."""

    def __init__(self, df: Any) -> None:
        (self.df,) = parameters("Chi2", df=df)
        super().__init__(self.df * 0.5, full_like(self.df, 0.5))


explain(globals())
