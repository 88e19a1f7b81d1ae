"""Sums of gradients over trainers (paddle.fluid.transpiler.collective)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.fluid.transpiler.distribute_transpiler import LOCAL_SGD, transpile
from graphopt.frontend.calls import publish
from graphopt.ir.program import Program, default_main_program


class GradAllReduce:
    """A transpiler that averages the gradients of all trainers; `nrings` has no effect."""

    def __init__(self, nrings: int = 2) -> None:
        self.nrings = nrings

    def transpile(
        self,
        startup_program: Program | None,
        main_program: Program | None,
        rank: int,
        endpoints: Sequence[str] | str,
        current_endpoint: str,
        wait_port: bool | str = True,
    ) -> None:
        """Let executors run a program over the trainers at these endpoints.

        Raises ProgramError for a program without a derivative.
        """
        found = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
        transpile(main_program or default_main_program(), rank, found)


class LocalSGD:
    """Refused: trainers keep one value of each parameter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(LOCAL_SGD)


publish(globals(), __name__)
