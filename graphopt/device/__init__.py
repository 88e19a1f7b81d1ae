"""The available devices, and the default one (paddle.device)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from graphopt.device import cuda as cuda
from graphopt.frontend import lazy
from graphopt.runtime.devices.places import (
    Place,
    as_place,
    check_place,
    choose_place,
    chosen_place,
    devices_of,
)
from graphopt.runtime.devices.places import XPUPlace as XPUPlace
from graphopt.runtime.settings.flags import replaces_gpus

_CUDA_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


def is_compiled_with_cuda() -> bool:
    """True when the installed JAX supports NVIDIA GPUs (paddle.device.is_compiled_with_cuda).

    Also True with FLAGS_graphopt_cuda_place=best, which maps CUDAPlace to the best available
    device: scripts check this before they use a GPU.
    """
    return _supports_cuda() or replaces_gpus()


def _supports_cuda() -> bool:
    return any(find_spec(plugin) is not None for plugin in _CUDA_PLUGINS)


def is_compiled_with_rocm() -> bool:
    """True when the installed JAX supports AMD GPUs (paddle.device.is_compiled_with_rocm)."""
    return any(find_spec(f"jax_rocm{version}_plugin") is not None for version in (60, 7))


def is_compiled_with_xpu() -> bool:
    """False: JAX has no backend for it (paddle.device.is_compiled_with_xpu)."""
    return False


def get_cudnn_version() -> int | None:
    """Return None: XLA chooses its own libraries (paddle.device.get_cudnn_version)."""
    return None


def set_device(device: str) -> Place:
    """Set the default device of executors, 'cpu' or 'gpu:<n>' (paddle.device.set_device).

    An Executor with an explicit place keeps it. Raises TypeError or ValueError for other arguments,
    DeviceError (ValueError) for a device that the installed JAX does not support.
    """
    if not isinstance(device, (str, Place)):
        raise TypeError(f"set_device(): 'device' must be a str, found {type(device).__name__}")
    try:
        place = as_place(device)
    except TypeError:
        raise ValueError(
            f"set_device(): The device must be a string such as 'cpu' or 'gpu:0', got {device!r}"
        ) from None
    check_place(place)
    choose_place(place)
    return place


def _convert_to_place(device: str | Place) -> Place:
    """Convert a device such as 'cpu' or 'gpu:0' to a place, without making it the default."""
    place = as_place(device)
    check_place(place)
    return place


def get_device() -> str:
    """Return the device that was set, else the first GPU when JAX supports it, else 'cpu'."""
    place = chosen_place()
    if place is None:
        return "gpu:0" if _supports_cuda() else "cpu"
    return "cpu" if place.platform == "cpu" else f"{place.platform}:{place.index}"


def is_compiled_with_custom_device(device_type: str) -> bool:
    """False: JAX has no devices of Paddle's plug-ins."""
    return False


def is_compiled_with_cinn() -> bool:
    """False: programs are compiled by XLA (paddle.device.is_compiled_with_cinn)."""
    return False


def is_compiled_with_distribute() -> bool:
    """True: every build can train with several processes."""
    return True


def is_compiled_with_ipu() -> bool:
    """False: JAX has no backend for it (paddle.device.is_compiled_with_ipu)."""
    return False


def get_all_device_type() -> list[str]:
    """List the kinds of devices: 'cpu', and 'gpu' or 'tpu' (paddle.device.get_all_device_type)."""
    return [kind for kind in ("cpu", "gpu", "tpu") if devices_of(kind)]


def get_available_device() -> list[str]:
    """List the devices by name, such as 'gpu:0' (paddle.device.get_available_device)."""
    kinds = [(kind, len(devices_of(kind))) for kind in ("gpu", "tpu")]
    return ["cpu", *(f"{kind}:{i}" for kind, count in kinds for i in range(count))]


def get_all_custom_device_type() -> list[str]:
    """Return no kinds: JAX has no devices of Paddle's plug-ins."""
    return []


def get_available_custom_device() -> list[str]:
    """Return no devices: JAX has none of Paddle's plug-ins."""
    return []


def synchronize(device: Any = None) -> None:
    """Wait until the devices have finished their work (paddle.device.synchronize)."""
    cuda.synchronize(device)


_BY_XLA = ("XLA decides in which order and on which stream operators run", "nothing")
_REFUSED: Mapping[str, lazy.Refusal] = {
    **dict.fromkeys(("Stream", "Event", "current_stream", "set_stream", "stream_guard"), _BY_XLA),
    "IPUPlace": ("JAX has no backend for it", "paddle.CPUPlace"),
}
lazy.attach(globals(), refused=_REFUSED)
