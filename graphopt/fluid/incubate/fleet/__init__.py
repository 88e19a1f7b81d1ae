"""Training with several processes in Paddle 1.8 (paddle.fluid.incubate.fleet)."""

from graphopt.fluid.incubate.fleet import base as base
from graphopt.fluid.incubate.fleet import collective as collective
from graphopt.frontend.missing import explain as _explain

_explain(globals())
