"""Gradients (paddle.fluid.backward)."""

from graphopt.frontend.backward import append_backward as append_backward
from graphopt.frontend.backward import gradients as gradients
from graphopt.frontend.calls import publish

publish(globals(), __name__)
