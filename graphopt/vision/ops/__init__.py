"""Operators of detection (paddle.vision.ops)."""

from collections.abc import Mapping

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.vision.ops.boxes import box_coder as box_coder
from graphopt.vision.ops.boxes import distribute_fpn_proposals as distribute_fpn_proposals
from graphopt.vision.ops.boxes import generate_proposals as generate_proposals
from graphopt.vision.ops.boxes import matrix_nms as matrix_nms
from graphopt.vision.ops.boxes import nms as nms
from graphopt.vision.ops.boxes import prior_box as prior_box
from graphopt.vision.ops.boxes import yolo_box as yolo_box
from graphopt.vision.ops.boxes import yolo_loss as yolo_loss
from graphopt.vision.ops.regions import DeformConv2D as DeformConv2D
from graphopt.vision.ops.regions import PSRoIPool as PSRoIPool
from graphopt.vision.ops.regions import RoIAlign as RoIAlign
from graphopt.vision.ops.regions import RoIPool as RoIPool
from graphopt.vision.ops.regions import deform_conv2d as deform_conv2d
from graphopt.vision.ops.regions import psroi_pool as psroi_pool
from graphopt.vision.ops.regions import roi_align as roi_align
from graphopt.vision.ops.regions import roi_pool as roi_pool

_FILES = ("a program reads no files of images", "paddle.vision.image_load, and feed the array")
_REFUSED: Mapping[str, lazy.Refusal] = {"read_file": _FILES, "decode_jpeg": _FILES}
lazy.attach(globals(), refused=_REFUSED)
publish(globals(), __name__)
