"""Matrix products and convolutions by oneDNN, which is part of jaxlib for CPUs on x86.

XLA runs custom calls of these names by oneDNN, on threads of its own. They are not documented, and
a configuration that oneDNN does not know ends the process: `runtime/compile/kernel_forms.py` tries
each form in another process first. `passes/target/choose_kernel.py` chooses the ops. XLA computes
all other forms.

An executable with such a call cannot be serialized.
"""

from __future__ import annotations

import functools
import json
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels.convolution import (
    FILTER_GRADIENTS,
    WAYS,
    FilterWindow,
    pads_back,
    xla_convolution,
)
from graphopt.lowering.kernels.onednn_here import why_not_half, why_not_here

Array = jax.Array
ONEDNN = "onednn"
_PRODUCT, _CONVOLUTION = "__onednn$matmul", "__onednn$convolution"


def matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    """Multiply x [..., m, k] by y [k, n] or [..., k, n], in float32 or bfloat16.

    In float32 oneDNN computes only products with a transposed left operand, where XLA is slow: in a
    program that trains, the gradient of y. In bfloat16 it computes all.
    """
    if not _has_form(x, y, transpose_x, transpose_y):
        return plain(x, y, transpose_x, transpose_y)
    if y.ndim == 2 and x.ndim > 2:
        out: Array = _product(transpose_x, transpose_y, x.reshape(-1, x.shape[-1]), y)
        return out.reshape(*x.shape[:-1], out.shape[-1])
    return _product(transpose_x, transpose_y, x, y)


def _has_form(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> bool:
    if why_not_here() or x.dtype != y.dtype or x.dtype not in (jnp.float32, jnp.bfloat16):
        return False
    if x.dtype == jnp.bfloat16 and why_not_half():
        return False
    if x.ndim < 2 or y.ndim < 2 or x.size == 0 or y.size == 0 or (transpose_x and transpose_y):
        return False
    if y.ndim == 2:
        return x.ndim == 2 or not transpose_x
    return x.ndim == y.ndim and x.shape[:-2] == y.shape[:-2]


def plain(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    """Multiply matrices by XLA."""
    return jnp.matmul(x.mT if transpose_x else x, y.mT if transpose_y else y)


def _product_by_kind(transpose_x: bool, transpose_y: bool, x: Array, y: Array) -> Array:
    if transpose_x or x.dtype == jnp.bfloat16:
        return _called_product(transpose_x, transpose_y)(x, y)
    return plain(x, y, transpose_x, transpose_y)


_product: Any = jax.custom_vjp(_product_by_kind, nondiff_argnums=(0, 1))


def _product_forward(
    transpose_x: bool, transpose_y: bool, x: Array, y: Array
) -> tuple[Array, tuple[Array, Array]]:
    return _product(transpose_x, transpose_y, x, y), (x, y)


def _product_backward(
    transpose_x: bool, transpose_y: bool, saved: tuple[Array, Array], cotangent: Array
) -> tuple[Array, Array]:
    x, y = saved
    if transpose_x:
        return _product(False, True, y, cotangent), _product(False, False, x, cotangent)
    if transpose_y:
        return _product(False, False, cotangent, y), _product(True, False, cotangent, x)
    return _product(False, True, cotangent, y), _product(True, False, x, cotangent)


_product.defvjp(_product_forward, _product_backward)


@functools.cache
def _called_product(transpose_x: bool, transpose_y: bool) -> Any:
    """Build the custom call of a product; under `vmap` XLA computes it."""
    config = json.dumps(
        {"onednn_matmul_config": {"transpose_a": transpose_x, "transpose_b": transpose_y}}
    )

    def call(x: Array, y: Array) -> Array:
        rows, columns = x.shape[-1 if transpose_x else -2], y.shape[-2 if transpose_y else -1]
        return _custom_call(_PRODUCT, (*x.shape[:-2], rows, columns), config, x, y)

    return _or_plain(call, lambda x, y: plain(x, y, transpose_x, transpose_y))


def convolve(x: Array, w: Array, window: FilterWindow, algorithm: str = "") -> Array:
    """Convolve images [batch, height, width, channels], in one group and float32.

    Filters are [height, width, in, out]. For strides of 1, the gradient of the images is such a
    convolution, too. `algorithm` names the way to compute the gradient of the filter: a key of
    `FILTER_GRADIENTS`, or "" for XLA's way.
    """
    sizes = (*x.shape, *w.shape, *out_sizes(x.shape[1:3], window))
    if why_not_here() or x.dtype != jnp.float32 or w.dtype != jnp.float32 or 0 in sizes:
        return xla_convolution(x, w, window)
    return _convolution(window, algorithm, x, w)


def out_sizes(sizes: tuple[int, ...], window: FilterWindow) -> tuple[int, ...]:
    """Compute the result's height and width from the height and width of the images."""
    geometry = zip(sizes, window.kernel, window.strides, window.pads, window.dilations, strict=True)
    return tuple(
        max((size + sum(pad) - dilation * (kernel - 1) - 1) // stride + 1, 0)
        for size, kernel, stride, pad, dilation in geometry
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _convolution(window: FilterWindow, algorithm: str, x: Array, w: Array) -> Array:
    return _called_convolution(window)(x, w)


def _convolution_forward(
    window: FilterWindow, algorithm: str, x: Array, w: Array
) -> tuple[Array, tuple[Array, Array]]:
    return _convolution(window, algorithm, x, w), (x, w)


def _convolution_backward(
    window: FilterWindow, algorithm: str, saved: tuple[Array, Array], cotangent: Array
) -> tuple[Array, Array]:
    x, w = saved
    pads = pads_back(window)
    if set(window.strides) == {1} and min(map(min, pads)) >= 0:
        mirrored = lax.rev(w, (0, 1)).swapaxes(2, 3)
        back = FilterWindow(window.kernel, window.strides, pads, window.dilations)
        of_images = convolve(cotangent, mirrored, back)
    else:
        (of_images,) = jax.vjp(lambda images: xla_convolution(images, w, window), x)[1](cotangent)
    if algorithm:
        return of_images, FILTER_GRADIENTS[algorithm](x, cotangent, window)
    (of_filter,) = jax.vjp(lambda filters: xla_convolution(x, filters, window), w)[1](cotangent)
    return of_images, of_filter


_convolution.defvjp(_convolution_forward, _convolution_backward)


def convolve_groups(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve as `convolve`, in groups; filters are [height, width, in / groups, out]."""
    sizes = (*x.shape, *w.shape, *out_sizes(x.shape[1:3], window))
    if why_not_here() or x.dtype != jnp.float32 or w.dtype != jnp.float32 or 0 in sizes:
        return WAYS["groups"](x, w, window)
    return _in_groups(window, x, w)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _in_groups(window: FilterWindow, x: Array, w: Array) -> Array:
    return _called_convolution(window, x.shape[3] // w.shape[2])(x, w)


def _in_groups_backward(
    window: FilterWindow, saved: tuple[Array, Array], cotangent: Array
) -> tuple[Array, Array]:
    x, w = saved
    by_group = WAYS["groups"]
    of_images, of_filter = jax.vjp(lambda x, w: by_group(x, w, window), x, w)[1](cotangent)
    pads = pads_back(window)
    if set(window.strides) == {1} and min(map(min, pads)) >= 0:
        # swap the inputs and outputs of each group's filters
        own = w.shape[2]
        apart = w.reshape(*w.shape[:3], x.shape[3] // own, -1).swapaxes(2, 4)
        mirrored = lax.rev(apart.reshape(*w.shape[:2], apart.shape[2], -1), (0, 1))
        back = FilterWindow(window.kernel, window.strides, pads, window.dilations)
        of_images = convolve_groups(cotangent, mirrored, back)
    return of_images, of_filter


_in_groups.defvjp(lambda window, x, w: (_in_groups(window, x, w), (x, w)), _in_groups_backward)


class Epilogue(NamedTuple):
    """A convolution with filters [height, width, in, out], and the ops fused after it.

    `algorithm` is as for `convolve`.
    """

    window: FilterWindow
    filter: tuple[int, ...]
    relu: bool
    algorithm: str = ""


def convolve_and_add(
    epilogue: Epilogue, x: Array, w: Array, bias: Array, residual: Array | None
) -> Array:
    """Compute relu(convolution + bias + residual), or without the relu, in float32.

    `bias` has a number for each channel, `residual` the shape of the result. Packed filters have 5
    axes (`ops.fused.PACKED`), and no derivative.
    """
    added = (bias,) if residual is None else (bias, residual)
    sizes = (*x.shape, *w.shape, *out_sizes(x.shape[1:3], epilogue.window))
    if why_not_here() or {v.dtype for v in (x, w, *added)} != {np.dtype("float32")} or 0 in sizes:
        return plain_sum(epilogue, x, w, *added)
    return _sum(epilogue, x, w, *added)


def plain_sum(epilogue: Epilogue, x: Array, w: Array, *added: Array | None) -> Array:
    """Compute `convolve_and_add` by XLA."""
    out = xla_convolution(x, unpack_filters(w, epilogue.filter), epilogue.window)
    out = sum((each for each in added if each is not None), out)
    return jnp.where(out > 0, out, 0) if epilogue.relu else out


def unpack_filters(w: Array, sizes: tuple[int, ...]) -> Array:
    """Unpack filters to [height, width, in, out]; return filters that are not packed unchanged."""
    if w.ndim == len(sizes):
        return w
    return jnp.moveaxis(w, 0, 3).reshape(*sizes[:3], -1)[..., : sizes[3]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum(epilogue: Epilogue, x: Array, w: Array, *added: Array) -> Array:
    return called_sum(epilogue, len(added), w.ndim > len(epilogue.filter))(x, w, *added)


def _sum_forward(
    epilogue: Epilogue, x: Array, w: Array, *added: Array
) -> tuple[Array, tuple[Array, Array, Array, int]]:
    out: Array = _sum(epilogue, x, w, *added)
    return out, (x, w, out, len(added))


def _sum_backward(
    epilogue: Epilogue, saved: tuple[Array, Array, Array, int], cotangent: Array
) -> tuple[Array, ...]:
    x, w, out, count = saved
    if epilogue.relu:
        cotangent = jnp.where(out > 0, cotangent, 0)
    of_both = _convolution_backward(epilogue.window, epilogue.algorithm, (x, w), cotangent)
    return *of_both, jnp.sum(cotangent, (0, 1, 2)), *[cotangent] * (count - 1)


_sum.defvjp(_sum_forward, _sum_backward)


@functools.lru_cache(1024)
def called_sum(epilogue: Epilogue, added: int, is_packed: bool) -> Any:
    """Build the custom call of a convolution with its epilogue; under `vmap` XLA computes it.

    If the filter `is_packed`, oneDNN reads it in blocks whose size it does not check.
    """
    window, sizes = epilogue.window, epilogue.filter
    config = _configure(window)
    steps = ["BIAS", "BINARY_ADD"][:added] + ["RELU"] * epilogue.relu
    config["fusions"] = {"ops": steps}
    if is_packed:
        config["optimization_config"] = {"weights_prepacked": True}
        config["kernel"]["filter"]["shape"] = [str(size) for size in sizes]
    text = json.dumps({"onednn_conv_config": config})

    def call(x: Array, w: Array, *added: Array) -> Array:
        shape = (x.shape[0], *out_sizes(x.shape[1:3], window), sizes[3])
        return _custom_call(_CONVOLUTION, shape, text, x, w.ravel() if is_packed else w, *added)

    return _or_plain(call, functools.partial(plain_sum, epilogue))


@functools.lru_cache(1024)
def _called_convolution(window: FilterWindow, groups: int | None = None) -> Any:
    """Build the custom call of a convolution, maybe in groups; under `vmap` XLA computes it."""
    config = json.dumps({"onednn_conv_config": _configure(window, groups or 1)})
    plain = WAYS["groups"] if groups else xla_convolution

    def call(x: Array, w: Array) -> Array:
        shape = (x.shape[0], *out_sizes(x.shape[1:3], window), w.shape[3])
        return _custom_call(_CONVOLUTION, shape, config, x, w)

    return _or_plain(call, lambda x, w: plain(x, w, window))


def _configure(window: FilterWindow, groups: int = 1) -> dict[str, Any]:
    """Build the configuration of a convolution."""

    def texts(numbers: Any) -> list[str]:
        return [str(number) for number in numbers]

    images = {"batch_dim": "0", "feature_dim": "3", "spatial_dims": ["1", "2"]}
    filters = {"input_feature_dim": "2", "output_feature_dim": "3", "spatial_dims": ["0", "1"]}
    around = {
        "size": [],
        "pad_left": texts(before for before, _ in window.pads),
        "pad_right": texts(after for _, after in window.pads),
        "strides": texts(window.strides),
        "window_dilations": texts(window.dilations),
    }
    return {
        "dims": "4",
        "feature_groups": str(groups),
        "input": {"data": images},
        "kernel": {"filter": filters},
        "output": {"data": images},
        "window": around,
    }


def _custom_call(name: str, shape: tuple[int, ...], config: str, *operands: Array) -> Array:
    result = jax.ShapeDtypeStruct(shape, np.dtype(operands[0].dtype))
    return jax.ffi.ffi_call(name, result, custom_call_api_version=1, legacy_backend_config=config)(
        *operands
    )


def _or_plain(call: Any, other: Any) -> Any:
    """Wrap `call` so that it is `other` under `vmap`, for which oneDNN has no form."""
    made = jax.custom_batching.custom_vmap(call)

    @made.def_vmap
    def _(axis_size: int, batched: list[bool], *operands: Array) -> tuple[Array, bool]:
        axes = [0 if each else None for each in batched]
        return jax.vmap(other, in_axes=axes, axis_size=axis_size)(*operands), True

    return made
