"""Gradients (paddle.fluid.backward)."""

from graphopt.backward import append_backward as append_backward
from graphopt.backward import gradients as gradients
