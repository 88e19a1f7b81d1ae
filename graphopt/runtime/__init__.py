"""The runtime: scopes, places, strategies and executors (JAX is imported when something runs)."""

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
