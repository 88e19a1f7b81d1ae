"""The runtime: scopes, places, strategies and executors (JAX is imported when something runs)."""

from graphopt.runtime.compiled_program import CompiledProgram as CompiledProgram
from graphopt.runtime.executor import Executor as Executor
from graphopt.runtime.generator import seed as seed
from graphopt.runtime.parallel_executor import ParallelExecutor as ParallelExecutor
from graphopt.runtime.places import CPUPlace as CPUPlace
from graphopt.runtime.places import CUDAPinnedPlace as CUDAPinnedPlace
from graphopt.runtime.places import CUDAPlace as CUDAPlace
from graphopt.runtime.places import TPUPlace as TPUPlace
from graphopt.runtime.places import XPUPlace as XPUPlace
from graphopt.runtime.places import cpu_places as cpu_places
from graphopt.runtime.places import cuda_places as cuda_places
from graphopt.runtime.scope import Scope as Scope
from graphopt.runtime.scope import global_scope as global_scope
from graphopt.runtime.scope import scope_guard as scope_guard
from graphopt.runtime.strategies import BuildStrategy as BuildStrategy
from graphopt.runtime.strategies import ExecutionStrategy as ExecutionStrategy
