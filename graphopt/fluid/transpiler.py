"""Rewrites of whole programs (paddle.fluid.transpiler): there is nothing left for them to do."""

from __future__ import annotations

import warnings
from typing import Any

from graphopt.fluid import refused
from graphopt.frontend.calls import publish
from graphopt.frontend.refused import refuse
from graphopt.ir.program.location import caller_level

DistributeTranspiler = refuse("fluid", "DistributeTranspiler", refused.FLUID)
DistributeTranspilerConfig = refuse("fluid", "DistributeTranspilerConfig", refused.FLUID)


def memory_optimize(
    input_program: Any,
    skip_opt_set: Any = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Warn that it has no effect, as in 1.8: XLA plans the memory (fluid.memory_optimize)."""
    _warn("memory_optimize")


def release_memory(input_program: Any, skip_opt_set: Any = None) -> None:
    """Warn that it has no effect, as in 1.8: XLA plans the memory (fluid.release_memory)."""
    _warn("release_memory")


def _warn(name: str) -> None:
    warnings.warn(
        f"fluid.{name}() has no effect: XLA decides about memory by itself; "
        "BuildStrategy.memory_optimize trades time for it",
        stacklevel=caller_level(),
    )


publish(globals(), __name__)
