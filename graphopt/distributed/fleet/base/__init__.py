"""Roles, strategies and tools of fleet (paddle.distributed.fleet.base)."""

from graphopt.frontend.missing import explain as _explain

_explain(globals())
