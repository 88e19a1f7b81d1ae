"""The peak FLOP/s of this machine, measured for the form of an op's own products."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp


class ProductForm(NamedTuple):
    """The form of an instruction that multiplies: a `dot` or a `convolution`, of a dtype."""

    opcode: str
    dtype: str

    def __str__(self) -> str:
        kind = "product" if self.opcode == "dot" else self.opcode
        return f"{kind} of {_NUMPY.get(self.dtype, self.dtype)}"


Work = tuple[Counter[ProductForm], float]
"""The FLOPs of an op by form, and its seconds."""

# Sizes of which one fits in a cache, and takes less time than a time slice of the scheduler.
_PRODUCTS = (128, 256, 1024)
_IMAGES = ((1, 14, 64), (4, 28, 128))
_ENOUGH = 0.15
_NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64", "s32": "int32", "s64": "int64"}
_NUMPY |= {
    "bf16": "bfloat16",
    "s8": "int8",
    "u8": "uint8",
    "c64": "complex64",
    "c128": "complex128",
}


def peaks(work: Sequence[Work]) -> Mapping[ProductForm, float]:
    """Find the peak FLOP/s of each form: measured here, or reached by one of these ops.

    So no op exceeds the peak, whatever else the machine did meanwhile.
    """
    found = {form: peak_flops(form) for flops, _ in work for form in flops}
    for flops, seconds in work:
        faster = seconds_at(flops, found) / seconds if seconds else 0.0
        if faster > 1:
            found.update({form: found[form] * faster for form in flops})
    return found


def seconds_at(flops: Mapping[ProductForm, int], rates: Mapping[ProductForm, float]) -> float:
    """Compute the time of these FLOPs at the rates of their forms."""
    return sum(count / rates[form] for form, count in flops.items())


@functools.cache
def peak_flops(form: ProductForm) -> float:
    """Measure the peak FLOP/s of a form, the best of some rounds, in a fraction of a second.

    A convolution is assumed to be no slower than a product.
    """
    with jax.enable_x64(True):
        best = max(_rate(_product(size, form.dtype)) for size in _PRODUCTS)
        if form.opcode == "convolution":
            best = max(best, *(_rate(_convolution(*sizes, form.dtype)) for sizes in _IMAGES))
    return best


class _PeakCall(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    flops: int


def _product(size: int, dtype: str) -> _PeakCall:
    x = _numbers((size, size), dtype)
    return _PeakCall(jnp.matmul, (x, x), 2 * size**3)


def _convolution(rows: int, side: int, channels: int, dtype: str) -> _PeakCall:
    """Build a 3 by 3 convolution without padding."""
    image = _numbers((rows, side + 2, side + 2, channels), dtype)
    filter = _numbers((3, 3, channels, channels), dtype)
    convolve = functools.partial(
        lax.conv_general_dilated,
        window_strides=(1, 1),
        padding="VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return _PeakCall(convolve, (image, filter), 2 * rows * side**2 * 9 * channels**2)


def _numbers(shape: Sequence[int], dtype: str) -> Any:
    numbers = np.random.default_rng(0).integers(1, 4, shape)
    return jnp.asarray(numbers).astype(_NUMPY.get(dtype, "float32"))


def _rate(call: _PeakCall) -> float:
    """Measure a call's FLOP/s in the best round."""
    function = jax.jit(call.function)
    function(*call.arguments).block_until_ready()
    best, end = float("inf"), time.perf_counter() + _ENOUGH / len(_PRODUCTS)
    while (start := time.perf_counter()) < end or best == float("inf"):
        function(*call.arguments).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return call.flops / best
