"""The ops that are one call: in Paddle's functions, and in JAX's.

An empty text is an op without a call of its own in that style. The functions without a module are
defined in `jax_functions`; a script contains those that it calls.
"""

from __future__ import annotations

from collections.abc import Mapping

INFIX: Mapping[str, str] = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "less_than": "<",
    "less_equal": "<=",
    "greater_than": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "bitwise_and": "&",
    "bitwise_or": "|",
}
"""By op: an operator of Python."""

_SAME = (
    "abs ceil cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2 sign sin sinh "
    "sqrt square tan tanh trunc conj real imag angle"
)
_ARC = "acos acosh asin asinh atan atanh"
_BOTH = "maximum minimum fmax fmin logical_and logical_or logical_xor gcd"
_REDUCED = "mean max min amax amin all any"
_ACTIVATIONS = "relu relu6 sigmoid silu mish selu log_sigmoid"

CALLS: Mapping[str, tuple[str, str]] = {
    **{name: (f"paddle.{name}({{x}})", f"jnp.{name}({{x}})") for name in _SAME.split()},
    **{n: (f"paddle.{n}({{x}})", f"jnp.arc{n.removeprefix('a')}({{x}})") for n in _ARC.split()},
    **{n: (f"paddle.{n}({{x}}, {{y}})", f"jnp.{n}({{x}}, {{y}})") for n in _BOTH.split()},
    **{
        name: (
            f"paddle.{name}({{x}}, axis={{axis=None}}, keepdim={{keepdim=False}})",
            f"jnp.{name}({{x}}, axis={{axis=None}}, keepdims={{keepdim=False}})",
        )
        for name in _REDUCED.split()
    },
    **{name: (f"F.{name}({{x}})", f"jax.nn.{name}({{x}})") for name in _ACTIVATIONS.split()},
    "logsumexp": (
        "paddle.logsumexp({x}, axis={axis=None}, keepdim={keepdim=False})",
        "jax.nn.logsumexp({x}, axis={axis=None}, keepdims={keepdim=False})",
    ),
    "add_n": ("paddle.add_n({inputs})", "sum({inputs})"),
    "argsort": ("paddle.argsort({x}, axis={axis=-1}, descending={descending=False})", ""),
    "assign": ("paddle.assign({x})", "{x}"),
    "atan2": ("paddle.atan2({x}, {y})", "jnp.arctan2({x}, {y})"),
    "bce_loss": (
        'F.binary_cross_entropy({x}, {label}, reduction="none")',
        "binary_cross_entropy({x}, {label})",
    ),
    "bitwise_not": ("paddle.bitwise_not({x})", "~{x}"),
    "bitwise_xor": ("paddle.bitwise_xor({x}, {y})", "jnp.bitwise_xor({x}, {y})"),
    "celu": ("F.celu({x}, alpha={alpha=1.0})", "jax.nn.celu({x}, alpha={alpha=1.0})"),
    "cumprod": ("paddle.cumprod({x}, {axis})", "jnp.cumprod({x}, axis={axis})"),
    "diagonal": (
        "paddle.diagonal({input}, offset={offset=0}, axis1={axis1=0}, axis2={axis2=1})",
        "jnp.diagonal({input}, offset={offset=0}, axis1={axis1=0}, axis2={axis2=1})",
    ),
    "elementwise_pow": ("paddle.pow({x}, {y})", "jnp.power({x}, {y})"),
    "elu": ("F.elu({x}, alpha={alpha=1.0})", "jax.nn.elu({x}, alpha={alpha=1.0})"),
    "equal_all": ("paddle.equal_all({x}, {y})", "jnp.array_equal({x}, {y})"),
    "erf": ("paddle.erf({x})", "lax.erf({x})"),
    "erfinv": ("paddle.erfinv({x})", "lax.erf_inv({x})"),
    "expand_as": ("paddle.expand_as({x}, {y})", "jnp.broadcast_to({x}, {y}.shape)"),
    "flatten": (
        "paddle.flatten({x}, start_axis={start_axis=0}, stop_axis={stop_axis=-1})",
        "flatten({x}, start_axis={start_axis=0}, stop_axis={stop_axis=-1})",
    ),
    "flip": ("paddle.flip({x}, axis={axis})", "jnp.flip({x}, axis={axis})"),
    "gather_nd": ("paddle.gather_nd({x}, {index})", "gather_nd({x}, {index})"),
    "gather_tree": ("F.gather_tree({ids}, {parents})", "gather_tree({ids}, {parents})"),
    "gelu": (
        "F.gelu({x}, approximate={approximate=False})",
        "jax.nn.gelu({x}, approximate={approximate})",
    ),
    "hardshrink": ("F.hardshrink({x}, threshold={threshold=0.5})", ""),
    "hardsigmoid": (
        "F.hardsigmoid({x}, slope={slope=0.1666667}, offset={offset=0.5})",
        "jnp.clip({x} * {slope} + {offset}, 0, 1)",
    ),
    "hardswish": ("F.hardswish({x})", "jax.nn.hard_swish({x})"),
    "index_sample": (
        "paddle.index_sample({x}, {index})",
        "jnp.take_along_axis({x}, {index}, axis=1)",
    ),
    "kron": ("paddle.kron({x}, {y})", "jnp.kron({x}, {y})"),
    "lerp": ("paddle.lerp({x}, {y}, {weight})", ""),
    "lgamma": ("paddle.lgamma({x})", "lax.lgamma({x})"),
    "digamma": ("paddle.digamma({x})", "lax.digamma({x})"),
    "logical_not": ("paddle.logical_not({x})", "jnp.logical_not({x})"),
    "numel": ("paddle.numel({x})", "jnp.array({x}.size)"),
    "array_read": (
        "paddle.index_select({array}, paddle.reshape({position}, [1])).squeeze(0)",
        "{array}[{position}.reshape(())]",
    ),
    "pixel_shuffle": (
        "F.pixel_shuffle({x}, {upscale_factor})",
        "pixel_shuffle({x}, {upscale_factor})",
    ),
    "reciprocal": ("paddle.reciprocal({x})", "1.0 / {x}"),
    "roll": (
        "paddle.roll({x}, {shifts}, axis={axis=None})",
        "jnp.roll({x}, {shifts}, axis={axis=None})",
    ),
    "rsqrt": ("paddle.rsqrt({x})", "lax.rsqrt({x})"),
    "softplus": (
        "F.softplus({x}, beta={beta=1.0}, threshold={threshold=20.0})",
        "softplus({x}, beta={beta=1.0}, threshold={threshold=20.0})",
    ),
    "shape": ("paddle.shape({input})", 'jnp.array({input}.shape, "int32")'),
    "softshrink": ("F.softshrink({x}, threshold={threshold=0.5})", ""),
    "softsign": ("F.softsign({x})", "jax.nn.soft_sign({x})"),
    "stack": ("paddle.stack({inputs}, axis={axis=0})", "jnp.stack({inputs}, axis={axis=0})"),
    "concat": (
        "paddle.concat({inputs}, axis={axis=0})",
        "jnp.concatenate({inputs}, axis={axis=0})",
    ),
    "take_along_axis": (
        "paddle.take_along_axis({x}, {index}, {axis})",
        "jnp.take_along_axis({x}, {index}, axis={axis})",
    ),
    "tanhshrink": ("F.tanhshrink({x})", "{x} - jnp.tanh({x})"),
    "tile": ("paddle.tile({x}, {repeat_times})", "jnp.tile({x}, {repeat_times})"),
    "trace": (
        "paddle.trace({input}, offset={offset=0}, axis1={axis1=0}, axis2={axis2=1})",
        "jnp.trace({input}, offset={offset=0}, axis1={axis1=0}, axis2={axis2=1})",
    ),
    "transpose": ("paddle.transpose({x}, {perm})", "jnp.transpose({x}, {perm})"),
    "where": ("paddle.where({condition}, {x}, {y})", "jnp.where({condition}, {x}, {y})"),
}
"""By op: its call in Paddle, and in JAX."""
