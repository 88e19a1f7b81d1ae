"""Names that Paddle keeps apart until they settle (paddle.incubate)."""

from graphopt.incubate import optimizer as optimizer
from graphopt.optimizer.lookahead import LookAhead as LookAhead
from graphopt.optimizer.model_average import ModelAverage as ModelAverage
