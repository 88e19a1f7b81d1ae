"""Places: which device something runs on, in Paddle's words, and the JAX device that it means.

Paddle pages: paddle.CPUPlace, CUDAPlace, static.cpu_places, static.cuda_places.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from graphopt.errors import UnsupportedError
from graphopt.runtime.distributed.group import join


@dataclass(frozen=True)
class Place:
    """A device of some kind; `index` counts the devices of that kind."""

    index: int = 0
    platform: ClassVar[str] = "cpu"

    def get_device_id(self) -> int:
        """The number of the device."""
        return self.index

    def __repr__(self) -> str:
        return f"Place({self.platform}:{self.index})"


@dataclass(frozen=True, repr=False)
class CPUPlace(Place):
    """The host. All CPU places are one; several replicas may share it."""

    index: int = 0
    platform: ClassVar[str] = "cpu"


@dataclass(frozen=True, repr=False)
class CUDAPlace(Place):
    """A GPU by number."""

    platform: ClassVar[str] = "gpu"


@dataclass(frozen=True, repr=False)
class TPUPlace(Place):
    """A TPU core by number (graphopt only)."""

    platform: ClassVar[str] = "tpu"


@dataclass(frozen=True, repr=False)
class CUDAPinnedPlace(Place):
    """Page-locked host memory; XLA manages its own, so this is the host."""


@dataclass(frozen=True, repr=False)
class XPUPlace(Place):
    """A Kunlun XPU; JAX has no backend for it."""

    platform: ClassVar[str] = "xpu"


def start_backend() -> None:
    """Do what JAX allows only before its first use.

    Make the host look like `CPU_NUM` devices, and join the job that the environment describes.
    """
    _make_cpu_devices()
    join()


def _make_cpu_devices() -> None:
    count = os.environ.get("CPU_NUM", "")
    if not count.isdigit() or int(count) < 2:
        return
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", int(count))
    except RuntimeError:
        # the backend is up with another number; replicas then share a device (mappers.vmap)
        return


@cache
def devices_of(platform: str) -> tuple[Any, ...]:
    """This process's JAX devices of a platform, () when JAX has no such backend."""
    start_backend()
    import jax

    try:
        return tuple(jax.local_devices(backend=platform))
    except RuntimeError:
        return ()


def device_of(place: Place) -> Any:
    """The JAX device of a place; UnsupportedError when this machine has none."""
    devices = devices_of(place.platform)
    index = 0 if place.platform == "cpu" else place.index
    if index >= len(devices):
        raise UnsupportedError(
            f"{place!r} does not exist here: JAX sees {len(devices)} {place.platform} devices; "
            "use CPUPlace(), or install JAX with support for that device"
        )
    return devices[index]


def about(place: Place) -> dict[str, Any]:
    """What passes are told about the devices: fields of their `Setup`."""
    from graphopt.lowering.attention_kernels import kernel_of

    return {
        "platform": place.platform,
        "attention_kernel": kernel_of(place.platform, devices_of(place.platform)),
    }


def distinct_devices(places: Sequence[Place]) -> tuple[Any, ...] | None:
    """One device for each place, or None when places must share a device."""
    if all(place.platform == "cpu" for place in places):
        devices = devices_of("cpu")[: len(places)]
    else:
        devices = tuple(device_of(place) for place in places)
    return devices if len(set(devices)) == len(places) else None


def as_place(spec: Any) -> Place:
    """A place for a place or a string such as 'cpu' or 'gpu:1'; TypeError otherwise."""
    if isinstance(spec, Place):
        return spec
    if isinstance(spec, str):
        kind, _, index = spec.lower().partition(":")
        kinds = {"cpu": CPUPlace, "gpu": CUDAPlace, "cuda": CUDAPlace, "tpu": TPUPlace}
        if kind in kinds and (not index or index.isdigit()):
            return kinds[kind](int(index or 0))
    raise TypeError(f"expected a place such as CPUPlace() or 'gpu:0', found {spec!r}")


_chosen: list[Place] = []


def choose_place(place: Place) -> None:
    """Let this be the default place from now on."""
    _chosen[:] = [place]


def chosen_place() -> Place | None:
    """The place that was chosen, if one was."""
    return _chosen[0] if _chosen else None


def default_place() -> Place:
    """The place that was chosen, else the GPU or TPU when JAX has one, else the host."""
    if _chosen:
        return _chosen[0]
    import jax

    start_backend()
    return {"gpu": CUDAPlace(0), "tpu": TPUPlace(0)}.get(jax.default_backend(), CPUPlace())


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """`device_count` host places, by default as many as the environment variable CPU_NUM says.

    When CPU_NUM is not set, it is set to 1 with a notice, as Paddle does.
    """
    if device_count is None:
        device_count = _cpu_num()
    return [CPUPlace()] * device_count


def _cpu_num() -> int:
    if "CPU_NUM" not in os.environ:
        if (os.cpu_count() or 1) > 1:
            sys.stderr.write(
                "CPU_NUM is not set: running on one CPU device. Set CPU_NUM, or pass places, to "
                "run on several.\n"
            )
        os.environ["CPU_NUM"] = "1"
    return int(os.environ["CPU_NUM"])


def cuda_places(device_ids: Sequence[int] | None = None) -> list[CUDAPlace]:
    """GPU places for these numbers, by default for FLAGS_selected_gpus or all visible ones."""
    if device_ids is None:
        selected = os.environ.get("FLAGS_selected_gpus")
        if selected:
            device_ids = [int(number) for number in selected.split(",")]
        else:
            device_ids = range(len(devices_of("gpu")))
    return [CUDAPlace(number) for number in device_ids]
