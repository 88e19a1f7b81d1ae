"""An optimizer whose backward pass recomputes activations instead of keeping them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend.backward import recompute
from graphopt.ir.program import Program, Variable
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.wrapping import WrappingOptimizer


class RecomputeOptimizer(WrappingOptimizer):
    """The inner optimizer, with a backward pass that keeps fewer activations.

    It trains to the same numbers. `_set_checkpoints` names the values that Paddle keeps. Here the
    compiler chooses the cuts that keep the fewest bytes (pass `recompute-activations`): the
    checkpoints are only checked. Paddle page: paddle.incubate.optimizer.RecomputeOptimizer.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer)
        self._checkpoints: list[Variable | str] | None = None

    def _set_checkpoints(self, checkpoints: Sequence[Variable | str]) -> None:
        assert isinstance(checkpoints, list), (
            "_checkpoints should be a list of Variable or a list of String"
        )
        for item in checkpoints:
            assert isinstance(item, (Variable, str)), (
                "_checkpoints should be a list of Variable or a list of String"
            )
        self._checkpoints = list(checkpoints)

    def _enable_offload(self) -> None:
        raise UnsupportedError(
            "RecomputeOptimizer._enable_offload(): kept values are not moved to the host here; "
            "leave it out"
        )

    def load(self, state_dict: Any) -> None:
        """Raise NotImplementedError, as Paddle does: load the state of the program instead."""
        error = NotImplementedError("load function is not supported by Recompute Optimizer for now")
        error.add_note("Load the program with paddle.static.load.")
        raise error

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Append the backward pass; return the (parameter, gradient) pairs.

        Raises AssertionError before `_set_checkpoints`.
        """
        assert self._checkpoints is not None, "You should call _set_checkpoints first"
        pairs = super().backward(loss, startup_program, parameter_list, no_grad_set, callbacks)
        if self._checkpoints:
            recompute(loss.block, self._checkpoints)
        return pairs
