"""Seeds of the default programs (paddle.framework.random)."""

from __future__ import annotations

from graphopt.ir.program import default_main_program, default_startup_program


def _manual_program_seed(seed: int) -> None:
    """Set `random_seed` of the default programs, and of all programs created from now on."""
    default_main_program().global_seed(seed)
    default_startup_program().global_seed(seed)
