"""The roles of processes (paddle.fluid.incubate.fleet.base)."""

from graphopt.fluid.incubate.fleet.base import role_maker as role_maker
from graphopt.frontend.missing import explain as _explain

_explain(globals())
