"""Parameters under the names that another release of Paddle has.

1.8 has `index_select(input, index, dim)`, 2.x has `index_select(x, index, axis)`, and 3.3 takes
PyTorch's names in addition to its own. They mean the same in every function with such a
parameter, so one list serves all functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # tensors
    **dict.fromkeys(("A", "elements", "obj", "tensors", "x1"), ("x",)),
    **dict.fromkeys(("B", "exponent", "other", "vec2", "x2"), ("y",)),
    "boundaries": ("sorted_sequence",),
    "input": ("x", "arr", "values"),
    "target": ("label",),
    "test_elements": ("test_x",),
    # axes and sizes
    "dim": ("axis", "axes"),
    "dimension": ("axis",),
    "dims": ("axis", "repeat_times"),
    "end_dim": ("stop_axis",),
    "m": ("num_columns",),
    "n": ("num_rows",),
    "size": ("shape",),
    "sizes": ("shape",),
    "start_dim": ("start_axis",),
    # windows
    "dilation": ("dilations",),
    "kernel_size": ("kernel_sizes",),
    "output_size": ("output_sizes",),
    "padding": ("paddings",),
    "return_indices": ("return_mask",),
    "stride": ("strides",),
    # numbers
    "end": ("stop",),
    "eps": ("epsilon",),
    "lambd": ("threshold",),
    "ord": ("p",),
    "steps": ("num",),
    # layers and optimizers
    "module": ("sublayer",),
    "modules": ("sublayers",),
    "persistent": ("persistable",),
    "recurse": ("include_sublayers",),
    "stat_dict": ("state_dict",),
}
"""A parameter's name in another release -> its possible names here."""


def with_own_names(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Rename the keyword arguments of a call to the function's own names; None if that cannot help.

    It cannot help where the function has all the names, or lacks one that has no synonym.
    """
    parameters = signature(function).parameters
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
        return None
    found = {name: value for name, value in given.items() if name in parameters}
    for name in given.keys() - found.keys():
        free = (own for own in SYNONYMS.get(name, ()) if own in parameters and own not in found)
        own = next(free, None)
        if own is None:
            return None
        found[own] = given[name]
    return found if len(found) == len(given) and found.keys() != given.keys() else None
