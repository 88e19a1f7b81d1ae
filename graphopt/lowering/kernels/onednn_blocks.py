"""The blocks in which oneDNN reads packed filters, found by trying them.

oneDNN chooses the block by the sizes, the processor and the number of threads, and does not report
its choice. So each block is tried on random numbers, in this process: the block whose result equals
the one of unpacked filters serves all further calls of these sizes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from graphopt.ir.dialect.ops.conv import explicit_pads, used_dilations
from graphopt.lowering.kernels import onednn
from graphopt.lowering.kernels.convolution import FilterWindow
from graphopt.lowering.kernels.onednn import Epilogue
from graphopt.lowering.kernels.onednn_here import why_not_here

HostArray = np.ndarray[Any, Any]
Ints = tuple[int, ...]
BLOCKS = (64, 48, 32, 24, 16, 8)
"""The numbers of output channels in a block, in order of trial."""
LARGEST = 128
CLOSE = 1e-4
"""The relative tolerance; with a wrong block, errors are as large as the results."""


class KernelCall(NamedTuple):
    """A call of oneDNN: the sizes of the images, the epilogue, and the number of addends."""

    images: tuple[int, ...]
    epilogue: Epilogue
    added: int


def call_of(
    images: tuple[int, ...],
    filter: tuple[int, ...],
    geometry: tuple[Ints, Ints, str, Ints],
    relu: bool,
    added: int,
) -> KernelCall:
    """Build the call of an op; `filter` is [height, width, in, out].

    `geometry` has the strides, paddings, padding algorithm and dilations.
    """
    strides, paddings, algorithm, dilations = geometry
    dilations = used_dilations(dilations, algorithm)
    pads = explicit_pads(paddings, algorithm, images[1:3], filter[:2], strides, dilations)
    window = FilterWindow(filter[:2], tuple(strides), pads, dilations)
    return KernelCall(images, Epilogue(window, filter, relu), added)


_FOUND: dict[KernelCall, int] = {}


def block_of(call: KernelCall) -> int:
    """Find the block of these calls, tried at the first request; 0 where no block is right."""
    if why_not_here():
        return 0
    if call not in _FOUND:
        _FOUND[call] = _find_right_block(call)
    return _FOUND[call]


def is_right(call: KernelCall, block: int) -> bool:
    """True for the block of these calls if it was found in this process."""
    return block > 0 and _FOUND.get(call) == block


def pack_filters(w: HostArray, block: int) -> HostArray:
    """Pack filters [height, width, in, out] as [out / block, height, width, in, block]."""
    whole = np.pad(w, [(0, 0)] * 3 + [(0, -w.shape[3] % block)])
    return np.moveaxis(whole.reshape(*w.shape[:3], -1, block), 3, 0)


def _find_right_block(call: KernelCall) -> int:
    images, epilogue, added = call
    random, outs = np.random.default_rng(0), epilogue.filter[3]
    places = onednn.out_sizes(images[1:3], epilogue.window)
    shapes = [images, epilogue.filter, (outs,), (images[0], *places, outs)][: 2 + added]
    x, w, *more = (random.standard_normal(shape, "float32") for shape in shapes)
    plain = _result(call, x, w, *more)
    # a larger block than the true one reads past the end of the filters
    room = np.zeros(LARGEST * w.size // outs, "float32")
    # calls of one program often have the same block
    recent = next(reversed(_FOUND.values()), 0)
    for block in sorted(BLOCKS, key=lambda block: block != recent):
        found = _result(call, x, np.concatenate([pack_filters(w, block).ravel(), room]), *more)
        if np.max(np.abs(found - plain)) <= CLOSE * max(np.max(np.abs(plain)), 1):
            return block
    return 0


def _result(call: KernelCall, x: HostArray, w: HostArray, *more: HostArray) -> HostArray:
    """Compute a call by oneDNN, with an executable that is not kept."""
    computed = jax.jit(onednn.called_sum(call.epilogue, call.added, w.ndim == 1))
    return np.asarray(computed.lower(x, w, *more).compile()(x, w, *more))
