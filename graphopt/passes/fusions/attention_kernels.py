"""Attention that a library's own kernel computes, on GPUs (cuDNN) and TPUs (Pallas).

The limits are the limits that the kernels state. Where nothing is measured, XLA computes short
attention: kernels are then used from lengths of two (cuDNN) and four (Pallas) of their tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.ir import Attribute, OpResult, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.rearrange import TriangleOf
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.types import UNKNOWN, Tensor, dtype_of, like, rank_of, shape_of
from graphopt.passes.engine.fusion import Reason

# a kernel adds a boolean mask as 0 and large negative numbers; a fill up to this is equivalent
HIDDEN = -1e4
# the widest heads of cuDNN, on Hopper and later; elsewhere the measurement refuses them
WIDEST = 256


@dataclass(frozen=True)
class Kernel:
    """Limits of a kernel. Widths are the sizes of a head, lengths the numbers of queries and keys.

    `name` is the value of the property `algorithm` of `pd.fused_dot_product_attention`.
    """

    name: str
    dtypes: tuple[str, ...]
    widest: int
    width_step: int
    least_length: int
    length_step: int
    masked_length_step: int
    """The limit for attention with a differentiated mask; 0 if the kernel takes no mask."""
    most_scores: int = 0
    """The most bytes of all scores in float32, for a kernel that needs them at once; otherwise 0.

    Such a kernel also takes dropout.
    """
    is_causal: bool = False
    """The kernel itself hides all later keys, and computes nothing for them."""

    def with_measured_limits(self) -> Kernel:
        """Relax the limits for measured kernels: any length, and the widths of all devices."""
        return replace(self, least_length=1, widest=max(self.widest, WIDEST))


KERNELS: Mapping[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("cudnn", ("float16", "bfloat16"), 128, 8, 256, 1, 2),
        Kernel("cudnn-causal", ("float16", "bfloat16"), 128, 8, 256, 1, 1, is_causal=True),
        Kernel("pallas", ("float32", "bfloat16"), 128, 64, 512, 128, 0),
        Kernel("xla", ("float16", "bfloat16", "float32"), 2**16, 1, 1, 1, 1, 2**29),
    )
}


def rivals_of(platform: str, library: str) -> tuple[str, ...]:
    """List the kernels to measure on a platform whose devices have `library`, if any."""
    own = kernels_of(library)
    return (*own, "xla") if platform == "gpu" else own


def kernels_of(library: str) -> tuple[str, ...]:
    """List the kernels of a library; the causal one, which computes least, comes first."""
    return tuple(n for n in (f"{library}-causal", library) if n in KERNELS)


@dataclass(frozen=True)
class Asked:
    """Attention of q [..., t, d], k [..., s, d] and v [..., s, e]: types, mask and dropout.

    `fill` is the score where a boolean mask is false.
    """

    q: Attribute
    k: Attribute
    v: Attribute
    mask: Attribute | None
    fill: float
    drops: bool
    is_causal: bool = False
    """The mask is known to hide exactly all later keys."""

    @property
    def lengths(self) -> tuple[int, int]:
        """The numbers of queries and keys."""
        return shape_of(self.q)[-2], shape_of(self.k)[-2]


def refusal_by(kernel: Kernel, asked: Asked) -> Reason | None:
    """Return the reason why a kernel cannot compute this attention, else None."""
    if asked.drops and not kernel.most_scores:
        text = f"the kernel of {kernel.name} does not draw the random numbers of pd.dropout"
        return Reason("kernel-dropout", text, "leave out the dropout of the weights")
    dtype = dtype_of(asked.q)
    if dtype not in kernel.dtypes:
        text = f"the queries have the dtype {dtype}, but the kernel of {kernel.name} takes "
        return Reason("kernel-dtype", text + " and ".join(kernel.dtypes), "use amp.auto_cast")
    if kernel.most_scores:
        return _of_scores(kernel, asked)
    return _of_shape(kernel, asked) or _of_mask(kernel, asked)


def _of_scores(kernel: Kernel, asked: Asked) -> Reason | None:
    """Return the reason not to have all scores in memory at once, else None."""
    batch = shape_of(asked.q)[:-2]
    if UNKNOWN in (*batch[1:], *asked.lengths):
        text = "the number of scores is known only when the program runs"
        return Reason("kernel-length", text, "declare the data with known lengths")
    held = 4 * math.prod(abs(size) for size in (*batch, *asked.lengths))
    if held > kernel.most_scores:
        text = f"all scores together take {held} bytes, more than the limit of {kernel.most_scores}"
        return Reason("kernel-scores", text)
    return None


def _of_shape(kernel: Kernel, asked: Asked) -> Reason | None:
    ranks = {rank_of(x) for x in (asked.q, asked.k, asked.v)}
    if max(ranks) > 4:
        return Reason(
            "kernel-rank", "attention has more dimensions than batch, heads, length and width"
        )
    widths = {shape_of(x)[-1] for x in (asked.q, asked.k, asked.v)}
    width = min(widths)
    if len(widths) > 1 or width < 1 or width > kernel.widest or width % kernel.width_step:
        found = " and ".join("?" if w == UNKNOWN else str(w) for w in sorted(widths))
        text = f"heads are {found} wide; the kernel of {kernel.name} takes one width, "
        text += f"a multiple of {kernel.width_step} up to {kernel.widest}"
        return Reason("kernel-width", text)
    return _of_length(kernel, asked.lengths, kernel.length_step)


def _of_length(kernel: Kernel, lengths: tuple[int, int], step: int) -> Reason | None:
    if UNKNOWN in lengths:
        text = "the numbers of queries and keys are known only when the program runs"
        return Reason("kernel-length", text, "declare the data with known lengths")
    if min(lengths) < kernel.least_length or any(length % step for length in lengths):
        text = f"there are {lengths[0]} queries and {lengths[1]} keys; the kernel of {kernel.name} "
        text += f"takes {kernel.least_length} and more"
        text += f", in steps of {step}" if step > 1 else ""
        fix = "pad the sequences" if step > 1 else "none: XLA computes short attention as fast"
        return Reason("kernel-length", text, fix)
    return None


def _of_mask(kernel: Kernel, asked: Asked) -> Reason | None:
    if kernel.is_causal:
        text = f"no mask hides exactly all later keys, as the kernel of {kernel.name} does"
        return None if asked.is_causal else Reason("not-causal", text)
    if asked.mask is None:
        return None
    if not kernel.masked_length_step:
        return Reason("kernel-mask", f"the kernel of {kernel.name} would need the whole mask")
    if dtype_of(asked.mask) == "bool" and asked.fill > HIDDEN:
        score = f"{asked.fill:g}"
        text = f"the hidden elements have the score {score}, which is not below all others"
        return Reason("kernel-mask", text, "mask scores with -1e9 or -inf")
    return _of_length(kernel, asked.lengths, kernel.masked_length_step)


def keys_of(k: Any, transposed: bool) -> Tensor:
    """Return the type of keys as [..., s, d]; transposed keys are [..., d, s]."""
    if not transposed:
        return k
    *batch, width, length = shape_of(k)
    return like(k, shape=(*batch, length, width))


def drops(op: PdOp, rate: str, implementation: str) -> bool:
    """True when the dropout of an op, by these names of its properties, changes a weight."""
    scales = op.attr(implementation) != "upscale_in_train"
    return bool(op.attr(rate)) and (scales or not op.attr("is_test"))


def is_causal(mask: SSAValue | None, fill: float) -> bool:
    """True for a mask that is known to hide all later keys, and nothing else."""
    while isinstance(mask, OpResult) and isinstance(mask.owner, (Cast, Reshape)):
        mask = mask.owner.operands[0]
    if mask is None:
        return False
    shape, op = shape_of(mask.type), mask.owner
    if len(shape) < 2 or shape[-1] != shape[-2] or set(shape[:-2]) - {1}:
        return False
    is_bool = dtype_of(mask.type) == "bool"
    if isinstance(op, TriangleOf) and isinstance(op.x.owner, Full):
        value, kind = op.x.owner.attr("value"), (op.attr("lower"), op.attr("diagonal"))
        if is_bool:
            return kind == (True, 0) and bool(value) and fill <= HIDDEN
        return kind == (False, 1) and value <= HIDDEN
    if not isinstance(op, AssignValue) or (is_bool and fill > HIDDEN):
        return False
    *_, length = shape
    seen = np.tri(length, dtype=bool)
    held = np.asarray(op.attr("values")).reshape(seen.shape)
    if is_bool:
        return np.array_equal(held.astype(bool), seen)
    return bool(np.all(np.where(seen, held == 0, held <= HIDDEN)))
