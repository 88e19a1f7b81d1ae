"""Rewrites of whole programs (paddle.fluid.transpiler): for several trainers, and for memory."""

from __future__ import annotations

import warnings
from typing import Any

from graphopt.fluid.transpiler import collective as collective
from graphopt.fluid.transpiler.distribute_transpiler import (
    DistributeTranspiler as DistributeTranspiler,
)
from graphopt.fluid.transpiler.distribute_transpiler import (
    DistributeTranspilerConfig as DistributeTranspilerConfig,
)
from graphopt.frontend.calls import publish
from graphopt.ir.program.location import caller_level


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
