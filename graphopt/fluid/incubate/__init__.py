"""Names that Paddle 1.8 kept apart until they settled (paddle.fluid.incubate)."""

from graphopt.fluid.incubate import data_generator as data_generator
from graphopt.fluid.incubate import fleet as fleet
from graphopt.frontend.missing import explain as _explain

_explain(globals())
