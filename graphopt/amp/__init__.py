"""The dtypes in which devices compute (paddle.amp); mixed precision is in `paddle.static.amp`."""

from __future__ import annotations

from graphopt.fluid import core as _core
from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.runtime.devices.places import Place, as_place, default_place

_DYNAMIC = "it is for dynamic mode"
_STATIC = "paddle.static.amp.decorate, or paddle.cast where it pays"


def is_float16_supported(device: str | None = None) -> bool:
    """True for a GPU, as in Paddle; graphopt itself computes float16 on every device.

    `device` is "cpu", "gpu" or "gpu:<n>", by default the device of executors without an explicit
    place.
    """
    return _core.is_float16_supported(_place(device))


def is_bfloat16_supported(device: str | None = None) -> bool:
    """True for a GPU, as `is_float16_supported`."""
    return _core.is_bfloat16_supported(_place(device))


def _place(device: str | None) -> Place:
    return default_place() if device is None else as_place(device)


lazy.attach(
    globals(),
    {"debugging": ("graphopt.amp.debugging", "")},
    refused={
        "GradScaler": (_DYNAMIC, _STATIC),
        "auto_cast": (_DYNAMIC, _STATIC),
        "amp_guard": (_DYNAMIC, _STATIC),
        "decorate": (_DYNAMIC, _STATIC),
        "amp_decorate": (_DYNAMIC, _STATIC),
    },
)
publish(globals(), __name__)
