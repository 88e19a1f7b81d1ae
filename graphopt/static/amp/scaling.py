"""Operators of loss scaling: gradients back to their size, and the next factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable, unique_name
from graphopt.tensor.creation import create_global_var


def check_finite_and_unscale(
    x: Sequence[Variable], scale: Variable, name: str | None = None
) -> tuple[Sequence[Variable], Variable]:
    """Divide gradients by `scale`, in place; they, and a bool [1]: True unless all are finite."""
    helper = LayerHelper("check_finite_and_unscale", name)
    found = helper.temporary(stop_gradient=True)
    outputs = {"Out": list(x), "FoundInfinite": found}
    helper.append_op("check_finite_and_unscale", {"X": list(x), "Scale": scale}, outputs)
    return x, found


@dataclass
class DynamicScale:
    """The rule of the factor: it grows after finite steps in a row, and shrinks after others."""

    incr_every_n_steps: int
    decr_every_n_nan_or_inf: int
    incr_ratio: float
    decr_ratio: float

    def start(self) -> None:
        """Make the counters of steps, which the startup program sets to 0."""
        self.good, self.bad = (
            create_global_var(
                [1], 0, "int32", persistable=True, name=unique_name.generate(f"num_{kind}_steps")
            )
            for kind in ("good", "bad")
        )

    def update(
        self, x: Sequence[Variable], found: Variable, scale: Variable, *, stop: bool = False
    ) -> None:
        """Make gradients zeros where one was not finite, and then the factor smaller or larger.

        With `stop` only the gradients change.
        """
        inputs = {
            "X": list(x),
            "FoundInfinite": found,
            "PrevLossScaling": scale,
            "InGoodSteps": self.good,
            "InBadSteps": self.bad,
        }
        outputs = {
            "Out": list(x),
            "LossScaling": scale,
            "OutGoodSteps": self.good,
            "OutBadSteps": self.bad,
        }
        attrs = {
            "incr_every_n_steps": self.incr_every_n_steps,
            "decr_every_n_nan_or_inf": self.decr_every_n_nan_or_inf,
            "incr_ratio": self.incr_ratio,
            "decr_ratio": self.decr_ratio,
            "stop_update": stop,
        }
        LayerHelper("update_loss_scaling").append_op("update_loss_scaling", inputs, outputs, attrs)
