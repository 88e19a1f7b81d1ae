"""LRScheduler: a learning rate that changes with the number of `step()` calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphopt.display.facts import WithFacts
from graphopt.frontend import arguments


class LRScheduler(WithFacts):
    """Base of the schedules (Paddle page: paddle.optimizer.lr.LRScheduler).

    Calling a schedule returns the current rate; `step()` advances to the next epoch. The executor
    writes the current rate into the program before each run; it never calls `step()` itself.
    """

    def __init__(
        self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise TypeError(
                f"{type(self).__name__}(): the type of learning rate must be float, but received "
                f"{type(learning_rate).__name__}"
            )
        if learning_rate < 0:
            raise ValueError(
                f"{type(self).__name__}(): Invalid learning rate: {learning_rate}; it should not "
                "be negative"
            )
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """Return the current learning rate."""
        return self.last_lr

    def _facts(self) -> Mapping[str, str]:
        """Format the current rate and epoch."""
        return {"last_lr": repr(self.last_lr), "last_epoch": repr(self.last_epoch)}

    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch, or jump to `epoch`."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr() if epoch is None else self.get_lr_at(epoch)
        if self.verbose:
            print(
                f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to "
                f"{self.last_lr}."
            )

    def get_lr(self) -> float:
        """Compute the rate of `last_epoch`; `last_lr` is then the rate of the epoch before.

        Each schedule defines it; NotImplementedError for a class without one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get_lr(); define it")

    def get_lr_at(self, epoch: int) -> float:
        """Compute the rate of an epoch to which `step(epoch)` jumped."""
        return self.get_lr()

    def state_keys(self) -> list[str]:
        """List the attributes that `state_dict` saves."""
        return ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a schedule can resume."""
        return {key: getattr(self, key) for key in self.state_keys()}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from the result of `state_dict`; RuntimeError when an entry is missing."""
        for key in self.state_keys():
            if key not in state_dict:
                raise RuntimeError(
                    "Please check whether state_dict is correct for optimizer. "
                    f"Can't find [ {key} ]"
                )
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


def at_least(value: Any, least: int, name: str, scheduler: LRScheduler) -> int:
    """Check an integer argument with a lower bound; TypeError or ValueError otherwise."""
    kind = type(scheduler).__name__
    number = arguments.integer(value, name, kind)
    if number < least:
        raise ValueError(f"{kind}(): '{name}' should be at least {least}, found {number}")
    return number
