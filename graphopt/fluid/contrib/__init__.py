"""Additions to Paddle 1.8 (paddle.fluid.contrib): half precision."""

from graphopt.fluid.contrib import mixed_precision as mixed_precision
from graphopt.frontend.missing import explain as _explain

_explain(globals())
