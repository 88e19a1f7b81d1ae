"""Maxima over windows together with their places, numbers in a channel's flattened space."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import squeeze, unsqueeze


def indexed_pool(
    x: Any, function: str, attrs: dict[str, Any], name: str | None
) -> tuple[Variable, Variable]:
    """The maxima of images or volumes with channels second, and their int32 places."""
    arguments.variable(x, "x", function)
    kind = f"max_pool{len(attrs['ksize'])}d_with_index"
    helper = LayerHelper(function, name)
    shared = {"global_pooling": False}
    out, mask = helper.emit_all(kind, {"X": x}, {**shared, **attrs}, ("Out", "Mask"))
    mask.stop_gradient = True
    return out, mask


def check_layout(data_format: str, function: str) -> None:
    """ValueError when the channels are not second."""
    if not data_format.startswith("NC"):
        raise ValueError(
            f"{function}(): return_mask=True needs channels second, but received {data_format}"
        )


def indexed_pool1d(
    x: Any, function: str, window: dict[str, Any], name: str | None
) -> tuple[Variable, Variable]:
    """Of sequences, as images of height 1."""
    arguments.variable(x, "x", function)
    wide = {key: [1, *window[key]] for key in ("ksize", "strides") if key in window}
    if "paddings" in window:
        wide["paddings"] = [*[0] * len(window["paddings"]), *window["paddings"]]
    out, mask = indexed_pool(unsqueeze(x, [2]), function, {**window, **wide}, name)
    places = squeeze(mask, [2])
    places.stop_gradient = True
    return squeeze(out, [2]), places
