"""Boxes in fixed numbers: anchors at each pixel, offsets from them, overlaps."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers, number, numbers, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp, TwoTensors
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    like,
    product,
    rank_of,
    same_dtype,
    shape_of,
    show,
)


def image_size(what: str, value: Tensor) -> tuple[int, int]:
    """Return the height and width of images [n, c, h, w]."""
    if rank_of(value) != 4:
        raise ProgramError(f"'{what}' should be [n, c, h, w], found {show(value)}")
    return shape_of(value)[2], shape_of(value)[3]


def _check_boxes(what: str, value: Tensor, rank: int = 2) -> None:
    if rank_of(value) != rank or shape_of(value)[-1] not in (4, UNKNOWN):
        dims = ", ".join(["n", "m"][: rank - 1])
        raise ProgramError(f"'{what}' should be boxes [{dims}, 4], found {show(value)}")


def all_ratios(aspect_ratios: Sequence[float], flip: bool) -> list[float]:
    """List 1 and every other ratio once, each with its inverse if `flip`."""
    ratios = [1.0]
    for ratio in aspect_ratios:
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, 1.0 / ratio] if flip else [ratio]
    return ratios


def _positive(what: str, values: Sequence[float]) -> None:
    if any(not value > 0 for value in values):
        raise ProgramError(f"'{what}' should be above 0, found {list(values)}")


@irdl_op_definition
class PriorBox(OpaqueOp):
    """Boxes of several sizes and shapes at each pixel, in fractions of an image, and variances.

    Paddle: prior_box.
    """

    name = "pd.prior_box"
    input = operand_def(TENSOR)
    image = operand_def(TENSOR)
    boxes = result_def(TENSOR)
    variances_out = result_def(TENSOR)
    min_sizes = numbers()
    max_sizes = numbers(())
    aspect_ratios = numbers((1.0,))
    variances = numbers((0.1, 0.1, 0.2, 0.2))
    flip = flag(False)
    clip = flag(False)
    step_w = number(0.0)
    step_h = number(0.0)
    offset = number(0.5)
    min_max_aspect_ratios_order = flag(False)

    @staticmethod
    def infer(
        input: Tensor,
        image: Tensor,
        min_sizes: Sequence[float],
        max_sizes: Sequence[float],
        aspect_ratios: Sequence[float],
        variances: Sequence[float],
        flip: bool,
    ) -> tuple[Tensor, Tensor]:
        image_size("image", image)
        _positive("aspect_ratios", aspect_ratios)
        if len(variances) != 4 or (max_sizes and len(max_sizes) != len(min_sizes)):
            raise ProgramError("prior_box needs 4 variances, and a max_size for each min_size")
        count = len(all_ratios(aspect_ratios, flip)) * len(min_sizes) + len(max_sizes)
        made = like(input, shape=(*image_size("input", input), count, 4))
        return made, made


@irdl_op_definition
class DensityPriorBox(OpaqueOp):
    """density² boxes of each fixed size and ratio around each pixel. Paddle: density_prior_box."""

    name = "pd.density_prior_box"
    input = operand_def(TENSOR)
    image = operand_def(TENSOR)
    boxes = result_def(TENSOR)
    variances_out = result_def(TENSOR)
    densities = integers()
    fixed_sizes = numbers()
    fixed_ratios = numbers()
    variances = numbers((0.1, 0.1, 0.2, 0.2))
    clip = flag(False)
    flatten_to_2d = flag(False)
    step_w = number(0.0)
    step_h = number(0.0)
    offset = number(0.5)

    @staticmethod
    def infer(
        input: Tensor,
        image: Tensor,
        densities: Sequence[int],
        fixed_sizes: Sequence[float],
        fixed_ratios: Sequence[float],
        variances: Sequence[float],
        flatten_to_2d: bool,
    ) -> tuple[Tensor, Tensor]:
        image_size("image", image)
        _positive("fixed_ratios", fixed_ratios)
        _positive("densities", densities)
        if len(variances) != 4 or len(densities) != len(fixed_sizes) or max(densities) > 64:
            raise ProgramError(
                "density_prior_box needs 4 variances, and a density up to 64 for each fixed size"
            )
        count = len(fixed_ratios) * sum(density**2 for density in densities)
        shape = (*image_size("input", input), count)
        made = like(input, shape=(product(shape), 4) if flatten_to_2d else (*shape, 4))
        return made, made


@irdl_op_definition
class AnchorGenerator(OpaqueOp):
    """Anchors of several sizes and ratios at each pixel, in pixels. Paddle: anchor_generator."""

    name = "pd.anchor_generator"
    input = operand_def(TENSOR)
    anchors = result_def(TENSOR)
    variances_out = result_def(TENSOR)
    anchor_sizes = numbers()
    aspect_ratios = numbers()
    variances = numbers((0.1, 0.1, 0.2, 0.2))
    stride = numbers()
    offset = number(0.5)

    @staticmethod
    def infer(
        input: Tensor,
        anchor_sizes: Sequence[float],
        aspect_ratios: Sequence[float],
        variances: Sequence[float],
        stride: Sequence[float],
    ) -> tuple[Tensor, Tensor]:
        _positive("aspect_ratios", aspect_ratios)
        _positive("stride", stride)
        if len(variances) != 4 or len(stride) != 2:
            raise ProgramError("anchor_generator needs 4 variances and a stride (width, height)")
        count = len(anchor_sizes) * len(aspect_ratios)
        made = like(input, shape=(*image_size("input", input), count, 4))
        return made, made


@irdl_op_definition
class BoxCoder(OpaqueOp):
    """Boxes as offsets from others [m, 4], or back. Paddle: box_coder."""

    name = "pd.box_coder"
    prior_box = operand_def(TENSOR)
    prior_box_var = opt_operand_def(TENSOR)
    target_box = operand_def(TENSOR)
    out = result_def(TENSOR)
    code_type = string("encode_center_size", of=("encode_center_size", "decode_center_size"))
    box_normalized = flag(True)
    axis = integer(0)
    variance = numbers(())

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        prior_box: Tensor,
        prior_box_var: Tensor | None,
        target_box: Tensor,
        code_type: str,
        axis: int,
        variance: Sequence[float],
    ) -> Tensor:
        _check_boxes("prior_box", prior_box)
        if code_type not in ("encode_center_size", "decode_center_size"):
            raise ProgramError(f"unknown code_type '{code_type}'")
        if len(variance) not in (0, 4) or axis not in (0, 1):
            raise ProgramError("box_coder needs no variance or 4, and axis 0 or 1")
        if prior_box_var is not None:
            _check_boxes("prior_box_var", prior_box_var)
        if code_type.startswith("encode"):
            _check_boxes("target_box", target_box)
            rows, columns = shape_of(target_box)[0], shape_of(prior_box)[0]
            return like(target_box, shape=(rows, columns, 4))
        _check_boxes("target_box", target_box, 3)
        pair = shape_of(target_box)[1 - axis], shape_of(prior_box)[0]
        if UNKNOWN not in pair and pair[0] != pair[1]:
            raise ProgramError(
                f"axis {1 - axis} of 'target_box' {show(target_box)} needs one of the "
                f"{pair[1]} priors for each index"
            )
        return target_box


@irdl_op_definition
class IouSimilarity(TwoTensors, OpaqueOp):
    """The part of their union that two boxes share: [n, 4] and [m, 4] give [n, m].

    Paddle: iou_similarity.
    """

    name = "pd.iou_similarity"
    box_normalized = flag(True)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        same_dtype(x, y)
        _check_boxes("x", x)
        _check_boxes("y", y)
        return like(x, shape=(shape_of(x)[0], shape_of(y)[0]))
