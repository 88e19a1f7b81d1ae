"""Weights of layers that are computed from other parameters before each call."""

from __future__ import annotations

import math
from typing import Any

from graphopt.errors import ProgramError
from graphopt.frontend.initializers.fill import Normal
from graphopt.frontend.parameters import ParamAttr
from graphopt.ir.program import (
    Parameter,
    Variable,
    default_startup_program,
    program_guard,
    undo,
)
from graphopt.nn.functional.common import normalize
from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.conv import Conv1DTranspose, Conv2DTranspose, Conv3DTranspose
from graphopt.nn.layer.layers import Layer
from graphopt.tensor.creation import assign
from graphopt.tensor.linalg import dot, matmul, mv, transpose
from graphopt.tensor.manipulation import reshape
from graphopt.tensor.math import divide, multiply, sqrt, square, sum


class _WeightNorm:
    """Computes `<name>` of a layer from the parameters `<name>_v` and `<name>_g`.

    Each index along `axis` has its own norm; None means one norm over all axes.
    """

    def __init__(self, name: str, axis: int | None) -> None:
        self.name = name
        self.axis = axis

    def norm(self, v: Variable) -> Variable:
        """Compute the norms, in a shape that broadcasts over v."""
        axes = [axis for axis in range(len(v.shape)) if self.axis not in (None, axis)]
        return sqrt(sum(square(v), axes or None, keepdim=self.axis is not None))

    def weight(self, layer: Layer) -> Variable:
        v, g = getattr(layer, f"{self.name}_v"), getattr(layer, f"{self.name}_g")
        sizes = [1] * len(v.shape)
        if self.axis is not None:
            sizes[self.axis] = v.shape[self.axis]
        return multiply(v, divide(reshape(g, sizes), self.norm(v)))

    def __call__(self, layer: Layer, inputs: Any) -> None:
        object.__setattr__(layer, self.name, self.weight(layer))


class _SpectralNorm:
    """Computes `<name>` of a layer as `<name>_orig` over its largest singular value.

    The weight is a matrix of axis `axis` by the others; `<name>_u` and `<name>_v` are vectors
    that `steps` of the power iteration update in each run that trains.
    """

    def __init__(self, name: str, axis: int, steps: int, epsilon: float) -> None:
        self.name = name
        self.axis = axis
        self.steps = steps
        self.epsilon = epsilon

    def matrix(self, weight: Variable) -> Variable:
        rank = len(weight.shape)
        order = [self.axis, *(axis for axis in range(rank) if axis != self.axis)]
        return reshape(transpose(weight, order), [weight.shape[self.axis], -1])

    def direction(self, vector: Variable) -> Variable:
        return normalize(vector, axis=0, epsilon=self.epsilon)

    def weight(self, layer: Layer) -> Variable:
        weight = getattr(layer, f"{self.name}_orig")
        u, v = getattr(layer, f"{self.name}_u"), getattr(layer, f"{self.name}_v")
        matrix = self.matrix(weight)
        if layer.training:
            new_u, new_v = u, v
            for _ in range(self.steps):
                new_v = self.direction(matmul(matrix, new_u, transpose_x=True))
                new_u = self.direction(matmul(matrix, new_v))
            new_u.stop_gradient = new_v.stop_gradient = True
            assign(new_u, output=u)
            assign(new_v, output=v)
            u, v = new_u, new_v
        return divide(weight, dot(u, mv(matrix, v)))

    def __call__(self, layer: Layer, inputs: Any) -> None:
        object.__setattr__(layer, self.name, self.weight(layer))


_Hook = _WeightNorm | _SpectralNorm


def _parameter(layer: Layer, name: str, kind: type[_Hook], function: str) -> Parameter:
    """Return the parameter to reparametrize.

    Raises RuntimeError if it is reparametrized already, ProgramError if the program reads it
    already, ValueError if there is none.
    """
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, kind) and hook.name == name:
            raise RuntimeError(f"{function}(): '{name}' has this already")
    found = layer._parameters.get(name)
    if not isinstance(found, Parameter):
        raise ValueError(f"{function}(): {type(layer).__name__} has no parameter '{name}'")
    for op in found.block.ops:
        if found.name in op.input_arg_names:
            raise ProgramError(
                f"{function}(): the program reads '{found.name}' already; call {function}() before "
                "the layer"
            )
    return found


def weight_norm(layer: Layer, name: str = "weight", dim: int | None = 0) -> Layer:
    """Let a layer compute its weight as g * v / norm(v), and train g and v (Salimans and Kingma).

    Each index along `dim` has its own norm; None and -1 mean one norm over all axes. v starts as
    the weight, g as its norm. Returns the layer. Paddle page: paddle.nn.utils.weight_norm.
    """
    found = _parameter(layer, name, _WeightNorm, "weight_norm")
    rank = len(found.shape)
    if dim is not None and not -rank <= dim < rank:
        raise ValueError(f"weight_norm(): 'dim' should be in [{-rank}, {rank}), found {dim}")
    hook = _WeightNorm(name, None if dim in (None, -1) else dim % rank)
    sizes = [] if hook.axis is None else [found.shape[hook.axis]]
    v = layer.create_parameter(list(found.shape), dtype=found.dtype)
    g = layer.create_parameter(sizes, dtype=found.dtype)
    assert v is not None and g is not None
    startup = default_startup_program().global_block()
    with program_guard(startup.program, startup.program):
        first = startup.var(found.name)
        assign(first, output=startup.var(v.name))
        assign(reshape(hook.norm(first), sizes), output=startup.var(g.name))
    first.persistable = False
    # the weight is no longer a parameter
    undo.note(found.block.vars.__setitem__, found.name, found)
    del found.block.vars[found.name], layer._parameters[name]
    layer.add_parameter(f"{name}_v", v)
    layer.add_parameter(f"{name}_g", g)
    object.__setattr__(layer, name, hook.weight(layer))
    layer.register_forward_pre_hook(hook)
    return layer


def spectral_norm(
    layer: Layer,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Layer:
    """Let a layer divide its weight by its largest singular value; train the original weight.

    The weight is a matrix of axis `dim` by the others. `dim` is by default 1 for Linear and
    transposed convolutions, 0 for others; steps of the power iteration find the value. Raises
    ValueError unless there is at least one step. Returns the layer. Paddle page:
    paddle.nn.utils.spectral_norm.
    """
    found = _parameter(layer, name, _SpectralNorm, "spectral_norm")
    if n_power_iterations < 1:
        raise ValueError(
            f"spectral_norm(): 'n_power_iterations' should be 1 or more, found {n_power_iterations}"
        )
    if dim is None:
        dim = int(isinstance(layer, (Linear, Conv1DTranspose, Conv2DTranspose, Conv3DTranspose)))
    hook = _SpectralNorm(name, dim, n_power_iterations, eps)
    height = found.shape[dim]
    startup = default_startup_program()
    for suffix, size in (("u", height), ("v", math.prod(found.shape) // height)):
        made: Any = layer.create_parameter(
            [size], ParamAttr(trainable=False), found.dtype, default_initializer=Normal(0.0, 1.0)
        )
        made.stop_gradient = True
        with program_guard(startup, startup):
            first = startup.global_block().var(made.name)
            assign(hook.direction(first), output=first)
        layer.register_buffer(f"{name}_{suffix}", made)
    del layer._parameters[name]
    layer.add_parameter(f"{name}_orig", found)
    object.__setattr__(layer, name, hook.weight(layer))
    layer.register_forward_pre_hook(hook)
    return layer
