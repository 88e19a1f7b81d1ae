"""The paddings that convolutions and pools accept, in one form."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments


def padding_attrs(padding: Any, spatial: int, channels_last: bool, function: str) -> dict[str, Any]:
    """Convert a padding in any form to the attributes `paddings` and `padding_algorithm`.

    A padding is SAME, VALID, one number, one or two (before, after) per spatial dimension, or a
    pair for every dimension. Raises ValueError for other forms.
    """
    if isinstance(padding, str):
        name = padding.upper()
        arguments.choice(name, "padding", function, ("SAME", "VALID"))
        return {"paddings": [0] * spatial, "padding_algorithm": name}
    if isinstance(padding, (list, tuple)) and padding and isinstance(padding[0], (list, tuple)):
        numbers = _from_pairs(padding, spatial, channels_last, function)
    else:
        numbers = arguments.integers(padding, "padding", function)
    if len(numbers) == 1:
        numbers *= spatial
    if len(numbers) == 2 * (spatial + 2):
        pairs = [numbers[i : i + 2] for i in range(0, len(numbers), 2)]
        numbers = _from_pairs(pairs, spatial, channels_last, function)
    arguments.at_least(0, numbers, "padding", function)
    if len(numbers) not in (spatial, 2 * spatial):
        raise ValueError(
            f"{function}(): the argument 'padding' should have {spatial}, {2 * spatial} or "
            f"{2 * (spatial + 2)} numbers, found {padding}"
        )
    return {"paddings": numbers, "padding_algorithm": "EXPLICIT"}


def _from_pairs(pairs: Any, spatial: int, channels_last: bool, function: str) -> list[int]:
    """Select the spatial ones of a pair for every dimension, or of spatial pairs alone."""
    flat = [arguments.integers(pair, "padding", function) for pair in pairs]
    if len(flat) == spatial + 2:
        first = 1 if channels_last else 2
        rest = [flat[0], flat[-1 if channels_last else 1]]
        if any(any(pair) for pair in rest):
            raise ValueError(
                f"{function}(): the batch and channel dimensions cannot be padded, found {pairs}"
            )
        flat = flat[first : first + spatial]
    return [number for pair in flat for number in pair]


def is_channels_last(data_format: Any, function: str, formats: tuple[str, str]) -> bool:
    """True for the second of two layouts; raise ValueError for a layout that is neither."""
    return arguments.choice(data_format, "data_format", function, formats) == formats[1]
