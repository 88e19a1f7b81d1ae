"""Gradients and updates of whole programs (paddle.autograd.backward_mode)."""

from graphopt.fluid.backward import gradients_with_optimizer as gradients_with_optimizer
from graphopt.frontend import lazy
from graphopt.frontend.calls import publish

lazy.attach(
    globals(),
    refused={
        "backward": (
            "it is for dynamic mode",
            "paddle.static.append_backward and paddle.static.gradients",
        )
    },
)
publish(globals(), __name__)
