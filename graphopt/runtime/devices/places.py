"""Places: the device that runs a program, by Paddle's names, and the JAX device for it.

Paddle pages: paddle.CPUPlace, CUDAPlace, static.cpu_places, static.cuda_places.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from operator import index
from pathlib import Path
from typing import Any, ClassVar, SupportsIndex

from graphopt.display.units import several
from graphopt.errors import DeviceError, OperandError, ProgramError
from graphopt.ir.program.location import caller_level
from graphopt.runtime.devices.threads import give_xla_its_threads
from graphopt.runtime.distributed.job import join
from graphopt.runtime.settings.flags import CUDA_PLACE, replaces_gpus
from graphopt.runtime.settings.jax_import import import_jax

# platform -> plugin modules, of which JAX needs one
_PLUGINS: Mapping[str, tuple[str, ...]] = {
    "gpu": ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "jax_rocm7_plugin"),
    "tpu": ("libtpu",),
}
# the first driver with CUDA 13, and the file with the driver's version
_CUDA_13, _DRIVER = 580, Path("/proc/driver/nvidia/version")


# Paddle's numbers of the kinds
_NUMBERS: Mapping[str, int] = {"gpu": 0, "cpu": 1, "xpu": 3}


@dataclass(frozen=True)
class Place:
    """A device of some kind; `index` counts the devices of that kind."""

    index: int = 0
    platform: ClassVar[str] = "cpu"

    def __post_init__(self) -> None:
        if not isinstance(self.index, SupportsIndex) or isinstance(self.index, bool):
            found = type(self.index).__name__
            raise OperandError(f"{type(self).__name__}(): the number must be an int, found {found}")
        if index(self.index) < 0:
            raise ProgramError(
                f"{type(self).__name__}(): the number must be 0 or more, found {self.index}"
            )

    def get_device_id(self) -> int:
        """Return the number of the device."""
        return self.index

    def set_place(self, place: Place) -> None:
        """Become another place, as Paddle's general places do."""
        object.__setattr__(self, "__class__", type(place))
        object.__setattr__(self, "index", place.index)

    def _type(self) -> int:
        """Return Paddle's number for the kind of place, -1 for a kind that Paddle lacks."""
        return _NUMBERS.get(self.platform, -1)

    def _equals(self, other: Place) -> bool:
        return self == other

    def is_cpu_place(self) -> bool:
        """True for the host."""
        return self.platform == "cpu" and not self.is_cuda_pinned_place()

    def is_gpu_place(self) -> bool:
        """True for a GPU."""
        return self.platform == "gpu"

    def is_cuda_pinned_place(self) -> bool:
        """True for page-locked host memory."""
        return isinstance(self, CUDAPinnedPlace)

    def gpu_device_id(self) -> int:
        """Return the number of the GPU."""
        return self.index

    def __repr__(self) -> str:
        return f"Place({self.platform}:{self.index})"


@dataclass(frozen=True, repr=False)
class CPUPlace(Place):
    """The host. All CPU places are equal; several replicas may share it."""

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


_KINDS: Mapping[str, type[Place]] = {
    "cpu": CPUPlace,
    "gpu": CUDAPlace,
    "cuda": CUDAPlace,
    "tpu": TPUPlace,
}


def start_backend() -> None:
    """Configure what JAX allows only before its first use.

    Set the number of XLA's threads, make the host look like `CPU_NUM` devices, and join the job
    that the environment describes.
    """
    give_xla_its_threads()
    _make_cpu_devices()
    join()


def _make_cpu_devices() -> None:
    count = os.environ.get("CPU_NUM", "")
    if not count.isdigit() or int(count) < 2:
        return
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    import_jax()
    import jax

    try:
        jax.config.update("jax_num_cpu_devices", int(count))
    except RuntimeError:
        # the backend has started with another count; replicas then share a device
        # (replication.vmap)
        return


@cache
def devices_of(platform: str) -> tuple[Any, ...]:
    """List this process's JAX devices of a platform, () when JAX has no such backend."""
    start_backend()
    import_jax()
    import jax

    try:
        return tuple(jax.local_devices(backend=platform))
    except RuntimeError:
        return ()


def device_of(place: Place) -> Any:
    """Return the JAX device of a place; DeviceError when this machine has none."""
    devices = devices_of(place.platform)
    number = 0 if place.platform == "cpu" else place.index
    if number >= len(devices):
        raise _no_device(place, len(devices))
    return devices[number]


def check_place(place: Place) -> None:
    """Raise DeviceError, with a package to install, when JAX has no backend for a place.

    Whether a device of a supported kind exists only shows when a program runs.
    """
    if place.platform != "cpu" and not supports(place.platform):
        raise _no_device(place, 0)


def supports(platform: str) -> bool:
    """Return whether the installed JAX has a backend of this platform."""
    return any(find_spec(name) is not None for name in _PLUGINS.get(platform, ()))


def _no_device(place: Place, count: int) -> DeviceError:
    text = f"{place!r} does not exist here: JAX sees {several(count, f'{place.platform} device')}"
    if place.platform not in _PLUGINS:
        return DeviceError(f"{text}, and has no backend for them; use CPUPlace()")
    if supports(place.platform):
        return DeviceError(f"{text}; check the driver and CUDA_VISIBLE_DEVICES, or use CPUPlace()")
    return DeviceError(
        f"{text}; install its backend with {_installation(place.platform)}, or use CPUPlace()"
    )


def _installation(platform: str) -> str:
    """Compose the command that installs JAX's backend of a platform by graphopt's extras."""
    if platform != "gpu":
        return f"pip install -U 'graphopt[{platform}]'"
    driver = _driver()
    extra = "cuda12" if 0 < driver < _CUDA_13 else "cuda13"
    command = f"pip install -U 'graphopt[{extra}]'"
    if driver:
        return f"{command} (the driver is {driver})"
    return f"{command} ('graphopt[cuda12]' for drivers before {_CUDA_13})"


def _driver() -> int:
    """Read the major version of NVIDIA's driver; 0 without a driver."""
    try:
        found = re.search(r"Module\D*? (\d+)\.\d", _DRIVER.read_text("utf-8", "replace"))
    except OSError:
        return 0
    return int(found[1]) if found else 0


def distinct_devices(places: Sequence[Place]) -> tuple[Any, ...] | None:
    """Return one device for each place, or None when places must share a device."""
    if all(place.platform == "cpu" for place in places):
        devices = devices_of("cpu")[: len(places)]
    else:
        devices = tuple(device_of(place) for place in places)
    return devices if len(set(devices)) == len(places) else None


def as_place(spec: Any) -> Place:
    """Convert a place or a string such as 'cpu' or 'gpu:1'; TypeError otherwise.

    See `FLAGS_graphopt_cuda_place` for missing GPUs.
    """
    if isinstance(spec, Place):
        return _there(spec)
    if isinstance(spec, str):
        kind, _, index = spec.lower().partition(":")
        if kind in _KINDS and (not index or index.isdigit()):
            return _there(_KINDS[kind](int(index or 0)))
    raise TypeError(f"expected a place such as CPUPlace() or 'gpu:0', found {spec!r}")


def _there(place: Place) -> Place:
    """Return the place; FLAGS_graphopt_cuda_place may replace a missing GPU by the best device."""
    if place.platform != "gpu" or not replaces_gpus() or devices_of("gpu"):
        return place
    found = TPUPlace(place.index) if devices_of("tpu") else CPUPlace()
    warnings.warn(
        f"{place!r} does not exist here; {found!r} is used instead, because {CUDA_PLACE}=best",
        stacklevel=caller_level(),
    )
    return found


_chosen: list[Place] = []


def choose_place(place: Place) -> None:
    """Make this the default place from now on."""
    _chosen[:] = [place]


def chosen_place() -> Place | None:
    """Return the place of `choose_place`, None before its first call."""
    return _chosen[0] if _chosen else None


def default_place() -> Place:
    """Return the chosen place, else a GPU or TPU if JAX has one, else the host."""
    if _chosen:
        return _chosen[0]
    import_jax()
    import jax

    start_backend()
    return {"gpu": CUDAPlace(0), "tpu": TPUPlace(0)}.get(jax.default_backend(), CPUPlace())


def likely_place() -> Place:
    """Find the default place, without JAX where that is possible.

    Take the first platform in JAX_PLATFORMS, else the host. Ask JAX only if it has a plugin for
    other devices.
    """
    if _chosen:
        return _chosen[0]
    first = os.environ.get("JAX_PLATFORMS", "").partition(",")[0].strip().lower()
    if first in _KINDS:
        return _KINDS[first](0)
    if not first and not any(map(supports, _PLUGINS)):
        return CPUPlace()
    return default_place()


def place_of(given: object) -> Place:
    """Convert a place, or None to the likely one."""
    return likely_place() if given is None else as_place(given)


def cpu_places(device_count: int | None = None) -> list[CPUPlace]:
    """List `device_count` host places, by default CPU_NUM of them (paddle.static.cpu_places).

    If the environment variable CPU_NUM is not set, set it to 1 with a notice, as Paddle does.
    """
    if device_count is None:
        device_count = _cpu_num()
    if not isinstance(device_count, SupportsIndex):
        raise OperandError(
            "cpu_places(): the argument 'device_count' must be an int, found "
            f"{type(device_count).__name__}"
        )
    if index(device_count) < 1:
        raise ProgramError(
            f"cpu_places(): the argument 'device_count' must be 1 or more, found {device_count}"
        )
    return [CPUPlace()] * index(device_count)


def _cpu_num() -> int:
    if "CPU_NUM" not in os.environ:
        if (os.cpu_count() or 1) > 1:
            sys.stderr.write(
                "CPU_NUM is not set: running on one CPU device. Set CPU_NUM, or pass places, to "
                "run on several.\n"
            )
        os.environ["CPU_NUM"] = "1"
    count = os.environ["CPU_NUM"]
    if not count.strip().isdigit() or int(count) < 1:
        raise ProgramError(
            f"the environment variable CPU_NUM should be a number of devices, 1 or more, found "
            f"{count!r}"
        )
    return int(count)


def cuda_places(device_ids: Sequence[int] | None = None) -> list[Place]:
    """List GPU places by number, by default FLAGS_selected_gpus or all visible GPUs."""
    if device_ids is None:
        selected = os.environ.get("FLAGS_selected_gpus")
        if selected:
            device_ids = _numbers("FLAGS_selected_gpus", selected)
        else:
            device_ids = range(len(devices_of("gpu")))
        if not device_ids and replaces_gpus():
            return [as_place(CUDAPlace(0))]
    return [CUDAPlace(number) for number in device_ids]


def _numbers(name: str, text: str) -> list[int]:
    if not all(number.strip().isdigit() for number in text.split(",")):
        raise ProgramError(f"{name} should be numbers separated by commas, found {text!r}")
    return [int(number) for number in text.split(",")]
