"""The older spelling of a data-parallel program (paddle.fluid.parallel_executor)."""

from graphopt.fluid.compiler import BuildStrategy as BuildStrategy
from graphopt.fluid.compiler import ExecutionStrategy as ExecutionStrategy
from graphopt.fluid.core import ParallelExecutor as ParallelExecutor
