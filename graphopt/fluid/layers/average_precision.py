"""Mean average precision of detected boxes (paddle.fluid.layers.detection)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import LENGTHS, Variable, unique_name
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.creation import create_global_var

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
    out_states: Sequence[Variable] | None = None,
    ap_version: str = "integral",
) -> Variable:
    """Compute the mean average precision of detections over classes, [1].

    Detections are rows (class, score, x, y, x, y), labels rows (class, difficult, x, y, x, y) or
    (class, x, y, x, y); both are sequences, one for each image. A detection finds the label that it
    overlaps most, if by more than `overlap_threshold`, and if no earlier detection found it.
    `out_states` are the variables that get the states for the next batch. As in 1.8.5,
    `background_label` has no effect. Paddle page: fluid.layers.detection_map.
    """
    arguments.integer(background_label, "background_label", _FUNCTION)
    return averages(
        *(detect_res, label, class_num, 0, overlap_threshold),
        *(evaluate_difficult, has_state, input_states, out_states, ap_version),
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
    out_states: Sequence[Variable] | None = None,
    ap_version: str = "integral",
) -> tuple[Variable, ...]:
    """Compute `detection_map`, and the three states for the next batch.

    The states are the number of labels of each class, and the right and the wrong detections of
    each class.
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
    mean = helper.temporary(stop_gradient=True)
    states = (
        [helper.temporary(stop_gradient=True) for _ in range(3)]
        if out_states is None
        else arguments.variables(out_states, "out_states", _FUNCTION)
    )
    count, right, wrong = states
    lengths = [_lengths_of(helper, state) for state in (right, wrong)]
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


def _lengths_of(helper: LayerHelper, state: Variable) -> Variable:
    """Return the variable for a state's detection counts by class: its own, or a new one."""
    levels = levels_of(state)
    if len(levels) == 1 and isinstance(levels[0], str):
        found = state.block.find_var(levels[0])
        if found is not None and found.persistable:
            return found
    return helper.temporary(stop_gradient=True)


def states_of(name: str, class_num: int) -> tuple[Variable, list[Variable]]:
    """Create persistable variables for a switch, 0 at first, and for the three states of batches.

    They have Paddle's names: `<name>_<number>_accum_pos_count`, and so on. The lengths of a state
    are a separate variable.
    """
    classes = arguments.integer(class_num, "class_num", _FUNCTION)
    count = _create_state(name, "accum_pos_count", [classes, 1], "int32")
    marks: list[Variable] = []
    for suffix in ("accum_true_pos", "accum_false_pos"):
        state = _create_state(name, suffix, [0, 2], "float32")
        # a run stores a row for each detection
        state.shape = (-1, 2)
        own = create_global_var([classes], 0, "int64", True, name=state.name + LENGTHS)
        marks.append(note(state, [own.name]))
    return _create_state(name, "has_state", [1], "int32"), [count, *marks]


def _create_state(name: str, suffix: str, shape: list[int], dtype: str) -> Variable:
    own = f"{unique_name.generate(name)}_{suffix}"
    return create_global_var(shape, 0, dtype, True, name=own)
