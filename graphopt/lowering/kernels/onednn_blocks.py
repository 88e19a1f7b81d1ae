"""The blocks in which oneDNN reads packed filters, found by trying them.

oneDNN chooses the block by the sizes, the processor and the number of threads, and nothing says
which it is. So each is tried on random numbers, in this process: the one that gives the numbers of
the filters as they are is that of all further calls of these sizes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.conv import explicit_pads, used_dilations
from graphopt.lowering.kernels import onednn
from graphopt.lowering.kernels.convolution import Window
from graphopt.lowering.kernels.onednn import Epilogue
from graphopt.lowering.kernels.onednn_here import why_not_here

Ints = tuple[int, ...]
BLOCKS = (64, 48, 32, 16)
"""The numbers of output channels in a block, in the order in which they are tried."""
LARGEST = 128
CLOSE = 1e-4
"""Filters in other blocks give numbers that are as far away as the results are large."""


class Call(NamedTuple):
    """A call of oneDNN: the sizes of the images, what it computes, and how much it adds."""

    images: tuple[int, ...]
    epilogue: Epilogue
    added: int


def call_of(
    images: tuple[int, ...],
    filter: tuple[int, ...],
    geometry: tuple[Ints, Ints, str, Ints],
    relu: bool,
    added: int,
) -> Call:
    """The call of an op: `filter` is [height, width, in, out].

    `geometry` are the strides, paddings, padding algorithm and dilations.
    """
    strides, paddings, algorithm, dilations = geometry
    dilations = used_dilations(dilations, algorithm)
    pads = explicit_pads(paddings, algorithm, images[1:3], filter[:2], strides, dilations)
    window = Window(filter[:2], tuple(strides), pads, dilations)
    return Call(images, Epilogue(window, filter, relu), added)


_FOUND: dict[Call, int] = {}


def block_of(call: Call) -> int:
    """The block of these calls, tried at the first request; 0 where no block is the right one."""
    if why_not_here():
        return 0
    if call not in _FOUND:
        _FOUND[call] = _tried(call)
    return _FOUND[call]


def is_right(call: Call, block: int) -> bool:
    """True for the block of these calls if it was found in this process."""
    return block > 0 and _FOUND.get(call) == block


def _tried(call: Call) -> int:
    images, epilogue, added = call
    random = np.random.default_rng(0)
    outs = epilogue.filter[3]
    places = onednn.out_sizes(images[1:3], epilogue.window)
    shapes = [images, epilogue.filter, (outs,), (images[0], *places, outs)][: 2 + added]
    x, w, *more = (jnp.asarray(random.normal(size=shape), "float32") for shape in shapes)
    plain = np.asarray(_run(call, False)(x, w, *more))
    for block in BLOCKS:
        packed = onednn.packed(w, block)
        # room for the largest block, which would be read beyond the end of these
        room = np.zeros(LARGEST * w.size // outs, "float32")
        found = np.asarray(_run(call, True)(x, jnp.concatenate([packed.ravel(), room]), *more))
        if np.max(np.abs(found - plain)) <= CLOSE * max(np.max(np.abs(plain)), 1):
            return block
    return 0


def _run(call: Call, packed: bool) -> Any:
    return jax.jit(onednn.called_sum(call.epilogue, call.added, packed))
