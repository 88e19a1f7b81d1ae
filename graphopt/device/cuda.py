"""Facts about GPUs (paddle.device.cuda). XLA manages their memory and streams."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from graphopt.frontend import lazy
from graphopt.runtime.devices.places import CUDAPlace, Place, as_place, device_of, devices_of
from graphopt.runtime.devices.places import start_backend as _start


def device_count() -> int:
    """Count the GPUs, 0 without (paddle.device.cuda.device_count)."""
    return len(devices_of("gpu"))


def synchronize(device: Any = None) -> None:
    """Wait until all started work on the devices is done (paddle.device.cuda.synchronize)."""
    _start()
    import jax

    jax.effects_barrier()
    for array in jax.live_arrays():
        array.block_until_ready()


def empty_cache() -> None:
    """Do nothing: XLA keeps the memory of a device (paddle.device.cuda.empty_cache)."""


def memory_allocated(device: Any = None) -> int:
    """Return the bytes in use on a GPU (paddle.device.cuda.memory_allocated).

    DeviceError (ValueError) when there is no such device, as in the other functions here.
    """
    return _memory(device, "bytes_in_use")


def max_memory_allocated(device: Any = None) -> int:
    """Return the peak bytes in use on a GPU (paddle.device.cuda.max_memory_allocated)."""
    return _memory(device, "peak_bytes_in_use")


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that XLA holds on a GPU (paddle.device.cuda.memory_reserved)."""
    return _memory(device, "pool_bytes")


def max_memory_reserved(device: Any = None) -> int:
    """Return the peak bytes that XLA held on a GPU (paddle.device.cuda.max_memory_reserved)."""
    return _memory(device, "peak_pool_bytes")


def get_device_name(device: Any = None) -> str:
    """Return the name of a GPU (paddle.device.cuda.get_device_name)."""
    return str(_device(device).device_kind)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the (major, minor) compute capability (paddle.device.cuda.get_device_capability)."""
    major, _, minor = str(_device(device).compute_capability).partition(".")
    return int(major), int(minor or 0)


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """Return `name`, `major`, `minor`, `total_memory`, `multi_processor_count` of a GPU."""
    found = _device(device)
    major, minor = get_device_capability(device)
    return SimpleNamespace(
        name=get_device_name(device),
        major=major,
        minor=minor,
        total_memory=_memory(device, "bytes_limit"),
        multi_processor_count=int(found.core_count),
    )


def _device(device: Any) -> Any:
    """Find the JAX device of a place, a number or a name; the first GPU for None."""
    if device is None or isinstance(device, int):
        return device_of(CUDAPlace(device or 0))
    place: Place = as_place(device)
    if place.platform != "gpu":
        raise ValueError(f"expected a GPU such as 'gpu:0', found {device!r}")
    return device_of(place)


def _memory(device: Any, what: str) -> int:
    return int((_device(device).memory_stats() or {}).get(what, 0))


_REFUSED: Mapping[str, lazy.Refusal] = dict.fromkeys(
    ("Stream", "Event", "current_stream", "stream_guard"),
    ("XLA decides in which order and on which stream operators run", "nothing"),
)
lazy.attach(globals(), refused=_REFUSED)
