"""Gradients of static programs under their later names (paddle.autograd)."""

from graphopt.autograd import ir_backward as ir_backward
from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.frontend.grad_mode import enable_grad as enable_grad
from graphopt.frontend.grad_mode import is_grad_enabled as is_grad_enabled
from graphopt.frontend.grad_mode import no_grad as no_grad
from graphopt.frontend.grad_mode import set_grad_enabled as set_grad_enabled

_DYNAMIC = "it is for dynamic mode"
_GRADIENTS = "paddle.static.append_backward and paddle.static.gradients"
_PYLAYER = "paddle.static.nn.static_pylayer"
lazy.attach(
    globals(),
    {"backward_mode": ("graphopt.autograd.backward_mode", "")},
    refused={
        "backward": (_DYNAMIC, _GRADIENTS),
        "grad": (_DYNAMIC, _GRADIENTS),
        "hessian": (_DYNAMIC, "paddle.static.gradients, of gradients as well"),
        "jacobian": (_DYNAMIC, "paddle.static.gradients, with target_gradients"),
        "saved_tensors_hooks": (_DYNAMIC, "append_backward with checkpoints"),
        "PyLayer": (_DYNAMIC, _PYLAYER),
        "PyLayerContext": (_DYNAMIC, _PYLAYER),
    },
)
publish(globals(), __name__)
