"""Rewrites that a script describes (paddle.incubate.passes): accepted, not applied."""

from graphopt.frontend.calls import publish
from graphopt.incubate.passes import ir as ir

publish(globals(), __name__)
