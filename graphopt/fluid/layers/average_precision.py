"""Mean average precision of detected boxes (paddle.fluid.layers.detection)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT

_FUNCTION = "detection_map"


def detection_map(
    detect_res: Variable,
    label: Variable,
    class_num: int,
    background_label: int = 0,
    overlap_threshold: float = 0.3,
    evaluate_difficult: bool = True,
    has_state: Variable | None = None,
    input_states: Sequence[Variable] | None = None,
    ap_version: str = "integral",
) -> Variable:
    """The mean average precision of detections over classes, [1].

    Detections are rows (class, score, x, y, x, y), labels rows (class, difficult, x, y, x, y) or
    (class, x, y, x, y); both are sequences, one for each image. A detection finds the label that it
    overlaps most with, if by more than `overlap_threshold`, and none did before. Paddle page:
    fluid.layers.detection_map.
    """
    states = has_state, input_states
    return averages(
        *(detect_res, label, class_num, background_label, overlap_threshold),
        *(evaluate_difficult, *states, ap_version),
    )[0]


def averages(
    detect_res: Variable,
    label: Variable,
    class_num: int,
    background_label: int = 0,
    overlap_threshold: float = 0.3,
    evaluate_difficult: bool = True,
    has_state: Variable | None = None,
    input_states: Sequence[Variable] | None = None,
    ap_version: str = "integral",
) -> tuple[Variable, ...]:
    """As `detection_map`, and the three states for the next batch.

    These are how many labels each class has, and the right and the wrong detections of each class.
    """
    inputs: dict[str, Any] = {
        "DetectRes": arguments.variable(detect_res, "detect_res", _FUNCTION),
        "Label": arguments.variable(label, "label", _FUNCTION),
        SLOT: [of_one_level(detect_res, _FUNCTION, "detect_res")],
    }
    inputs[SLOT].append(of_one_level(label, _FUNCTION, "label"))
    if has_state is not None and input_states is not None:
        count, right, wrong = arguments.variables(input_states, "input_states", _FUNCTION)
        inputs |= {"HasState": has_state, "PosCount": count, "TruePos": right, "FalsePos": wrong}
        inputs["StateLengths"] = [
            of_one_level(x, _FUNCTION, "input_states") for x in (right, wrong)
        ]
    attrs = {
        "class_num": arguments.integer(class_num, "class_num", _FUNCTION),
        "background_label": arguments.integer(background_label, "background_label", _FUNCTION),
        "overlap_threshold": arguments.number(overlap_threshold, "overlap_threshold", _FUNCTION),
        "evaluate_difficult": arguments.flag(evaluate_difficult, "evaluate_difficult", _FUNCTION),
        "ap_type": arguments.choice(ap_version, "ap_version", _FUNCTION, ("integral", "11point")),
    }
    helper = LayerHelper(_FUNCTION)
    made = [helper.temporary(stop_gradient=True) for _ in range(6)]
    mean, count, right, wrong, *lengths = made
    outputs = {
        "MAP": mean,
        "AccumPosCount": count,
        "AccumTruePos": right,
        "AccumFalsePos": wrong,
        "OutLengths": lengths,
    }
    helper.append_op(_FUNCTION, inputs, outputs, attrs)
    for value, own in zip((right, wrong), lengths, strict=True):
        note(value, [own.name])
    return mean, count, right, wrong
