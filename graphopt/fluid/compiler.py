"""Compiled programs and their strategies (paddle.fluid.compiler)."""

from graphopt.frontend.calls import publish
from graphopt.runtime.compiled_program import CompiledProgram as CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy as BuildStrategy
from graphopt.runtime.settings.strategies import ExecutionStrategy as ExecutionStrategy

publish(globals(), __name__)
