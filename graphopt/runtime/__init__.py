"""The runtime: scopes, places, strategies and executors (JAX is imported when something runs).

Names are imported on first use: the launcher needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphopt.runtime.compiled_program import CompiledProgram as CompiledProgram
    from graphopt.runtime.devices.places import CPUPlace as CPUPlace
    from graphopt.runtime.devices.places import CUDAPinnedPlace as CUDAPinnedPlace
    from graphopt.runtime.devices.places import CUDAPlace as CUDAPlace
    from graphopt.runtime.devices.places import TPUPlace as TPUPlace
    from graphopt.runtime.devices.places import XPUPlace as XPUPlace
    from graphopt.runtime.devices.places import cpu_places as cpu_places
    from graphopt.runtime.devices.places import cuda_places as cuda_places
    from graphopt.runtime.executor import Executor as Executor
    from graphopt.runtime.parallel_executor import ParallelExecutor as ParallelExecutor
    from graphopt.runtime.settings.strategies import BuildStrategy as BuildStrategy
    from graphopt.runtime.settings.strategies import ExecutionStrategy as ExecutionStrategy
    from graphopt.runtime.state.generator import seed as seed
    from graphopt.runtime.state.scope import Scope as Scope
    from graphopt.runtime.state.scope import global_scope as global_scope
    from graphopt.runtime.state.scope import scope_guard as scope_guard

_NAMES = {
    "compiled_program": ("CompiledProgram",),
    "devices.places": (
        *("CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "TPUPlace", "XPUPlace"),
        *("cpu_places", "cuda_places"),
    ),
    "executor": ("Executor",),
    "parallel_executor": ("ParallelExecutor",),
    "settings.strategies": ("BuildStrategy", "ExecutionStrategy"),
    "state.generator": ("seed",),
    "state.scope": ("Scope", "global_scope", "scope_guard"),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name for names in _NAMES.values() for name in names)})
