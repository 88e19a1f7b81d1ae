"""Names that Paddle keeps apart until they settle (paddle.incubate)."""

from graphopt.frontend.calls import publish
from graphopt.incubate import optimizer as optimizer
from graphopt.optimizer.lookahead import LookAhead as LookAhead
from graphopt.optimizer.model_average import ModelAverage as ModelAverage

publish(globals(), __name__)
