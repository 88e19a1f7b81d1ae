"""Reparametrized weights, and parameters as one vector (paddle.nn.utils)."""

from collections.abc import Mapping

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.nn.utils.reparametrised import spectral_norm as spectral_norm
from graphopt.nn.utils.reparametrised import weight_norm as weight_norm
from graphopt.nn.utils.vector import parameters_to_vector as parameters_to_vector
from graphopt.nn.utils.vector import vector_to_parameters as vector_to_parameters

_GRADIENTS = "the gradients of a static program belong to its optimizer"
_REFUSED: Mapping[str, lazy.Refusal] = {
    "clip_grad_norm_": (_GRADIENTS, "grad_clip=paddle.nn.ClipGradByGlobalNorm(clip_norm)"),
    "clip_grad_value_": (_GRADIENTS, "grad_clip=paddle.nn.ClipGradByValue(clip_value)"),
    "remove_weight_norm": (
        "a program does not read the values that a weight has in a scope",
        "the layer unchanged: what depends on constant parameters alone is computed once",
    ),
}
lazy.attach(globals(), refused=_REFUSED)
publish(globals(), __name__)
