"""Attention by the kernels of libraries: cuDNN's through `jax.nn` on NVIDIA GPUs, Pallas' on TPUs.

On GPUs there is XLA's own as well: all scores at once, with products in the dtype of the operands.

`passes/fusions/attention_kernels.py` has their limits. A program that is lowered for another
platform than the kernel's computes by tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels.attention import (
    Array,
    AttentionOperands,
    ScoreWeighing,
    drop_weights,
)
from graphopt.lowering.kernels.mosaic import with_short_indices

# cuDNN's kernel needs the tensor cores of this compute capability (Ampere)
LEAST_CAPABILITY = 8.0
# tile sizes of the TPU's kernel; the largest divisor of the sequence length is used
TPU_TILES = (512, 256, 128)


def kernel_of(platform: str, devices: Sequence[Any]) -> str:
    """Name the kernel that all of these devices have; "" for none."""
    if platform == "tpu" and devices:
        return "pallas"
    if platform != "gpu" or not devices or not has_cudnn():
        return ""
    capabilities = [getattr(device, "compute_capability", "0") for device in devices]
    return "cudnn" if min(map(float, capabilities)) >= LEAST_CAPABILITY else ""


@cache
def has_cudnn() -> bool:
    """True when JAX finds cuDNN in this process; otherwise it could not even trace a call."""
    half = jax.ShapeDtypeStruct((1, 8, 1, 8), jnp.bfloat16)
    try:
        jax.eval_shape(partial(jax.nn.dot_product_attention, implementation="cudnn"), *[half] * 3)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def by_kernel(
    name: str,
    operands: AttentionOperands,
    how: ScoreWeighing,
    otherwise: Callable[[AttentionOperands], Array],
) -> Array:
    """Compute [..., t, d] by a kernel of `KERNELS` on its platform, else by `otherwise`."""
    if name.startswith("cudnn") and not has_cudnn():
        return otherwise(operands)
    platform, run = KERNELS[name]
    return lax.platform_dependent(operands, default=otherwise, **{platform: partial(run, how=how)})


def _whole(operands: AttentionOperands) -> AttentionOperands:
    """Reshape to four dimensions, batch, heads, length and width; the mask keeps its sizes."""
    q, k, v, mask, keep = operands
    batch = jnp.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if mask is not None:
        batch = jnp.broadcast_shapes(batch, mask.shape[:-2])
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    batch = (1,) * (2 - len(batch)) + batch
    q, k, v = (jnp.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    return AttentionOperands(q, k, v, mask, keep)


def _narrow(whole: Array, operands: AttentionOperands) -> Array:
    """Remove the leading dimensions that `_whole` added."""
    rank = max(x.ndim for x in operands if x is not None)
    return whole.reshape(whole.shape[4 - rank :])


def _cudnn(operands: AttentionOperands, how: ScoreWeighing, *, is_causal: bool = False) -> Array:
    q, k, v, mask, _ = _whole(operands)
    bias, seen = None, None
    if mask is not None and not is_causal:
        mask = jnp.broadcast_to(mask, (*mask.shape[:2], q.shape[-2], k.shape[-2]))
        if mask.dtype == np.bool_:
            seen = mask
        else:
            # float32 values may exceed the range of a half type
            limit = jnp.finfo(q.dtype)
            bias = jnp.clip(mask, float(limit.min), float(limit.max)).astype(q.dtype)
    out = jax.nn.dot_product_attention(
        *(x.swapaxes(1, 2) for x in (q, k, v)),
        bias=bias,
        mask=seen,
        scale=how.scale,
        is_causal=is_causal,
        implementation="cudnn",
    ).swapaxes(1, 2)
    if seen is not None and how.fill == -np.inf:
        # a fully masked row has no softmax
        out = jnp.where(jnp.any(seen, -1, keepdims=True), out, jnp.asarray(np.nan, out.dtype))
    return _narrow(out, operands)


def _xla(operands: AttentionOperands, how: ScoreWeighing) -> Array:
    """Compute at once, with products in the operands' dtype, accumulated in float32."""
    q, k, v, mask, keep = operands
    scores = jnp.matmul(q, k.mT, preferred_element_type=np.float32) * np.float32(how.scale)
    if mask is not None and mask.dtype == np.bool_:
        scores = jnp.where(mask, scores, np.float32(how.fill))
    elif mask is not None:
        scores = scores + mask.astype(np.float32)
    weights = drop_weights(jax.nn.softmax(scores), keep, how).astype(v.dtype)
    return jnp.matmul(weights, v, preferred_element_type=np.float32).astype(q.dtype)


def _pallas(operands: AttentionOperands, how: ScoreWeighing) -> Array:
    q, k, v, _, _ = _whole(operands)
    return _narrow(_flash(q, k, v, how), operands)


def _mosaic(q: Array, k: Array, v: Array, how: ScoreWeighing) -> Array:
    # a late import: it is slow, and few programs need it
    from jax.experimental.pallas.ops.tpu import flash_attention as tpu

    rows, columns = (next(size for size in TPU_TILES if x.shape[-2] % size == 0) for x in (q, k))
    by_rows = ("block_q", "block_q_major_dkv", "block_q_dkv", "block_q_dq")
    by_columns = (
        "block_k_major",
        "block_k",
        "block_k_major_dkv",
        "block_k_dkv",
        "block_k_major_dq",
        "block_k_dq",
    )
    sizes = dict.fromkeys(by_rows, rows) | dict.fromkeys(by_columns, columns)
    blocks = tpu.BlockSizes(block_b=1, **sizes)
    return tpu.flash_attention(q, k, v, sm_scale=how.scale, block_sizes=blocks)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _flash(q: Array, k: Array, v: Array, how: ScoreWeighing) -> Array:
    """Call the kernel on [b, n, t, d]; its derivative is lowered alone, too."""
    return with_short_indices(partial(_mosaic, how=how), q, k, v)


def _flash_saving(q: Array, k: Array, v: Array, how: ScoreWeighing) -> tuple[Array, Any]:
    trees: list[Any] = []

    def forward(q: Array, k: Array, v: Array) -> tuple[Array, list[Array]]:
        out, pull = jax.vjp(partial(_mosaic, how=how), q, k, v)
        saved, tree = jax.tree.flatten(pull)
        trees.append(tree)
        return out, saved

    out, saved = with_short_indices(forward, q, k, v)
    return out, jax.tree.unflatten(trees[0], saved)


def _flash_pulled_back(how: ScoreWeighing, pull: Any, of_out: Array) -> tuple[Array, Array, Array]:
    saved, tree = jax.tree.flatten(pull)

    def backward(of_out: Array, *saved: Array) -> tuple[Array, Array, Array]:
        return jax.tree.unflatten(tree, saved)(of_out)

    return with_short_indices(backward, of_out, *saved)


_flash.defvjp(_flash_saving, _flash_pulled_back)

# kernel -> JAX's platform name, and the function
KERNELS: Mapping[str, tuple[str, Callable[..., Array]]] = {
    "cudnn": ("cuda", _cudnn),
    "cudnn-causal": ("cuda", partial(_cudnn, is_causal=True)),
    "pallas": ("tpu", _pallas),
    "xla": ("cuda", _xla),
}
