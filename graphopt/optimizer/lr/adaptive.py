"""Schedules that wrap another one, or follow a metric (paddle.optimizer.lr)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.optimizer.lr.base import LRScheduler, at_least


class LinearWarmup(LRScheduler):
    """From start_lr to end_lr in warmup_steps, then a constant rate or another schedule.

    The other schedule starts from its beginning after the warm-up and must not be stepped itself.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(learning_rate, (int, float, LRScheduler)):
            raise TypeError(
                "LinearWarmup(): the type of learning rate must be float or LRScheduler, found "
                f"{type(learning_rate).__name__}"
            )
        if not end_lr > start_lr:
            raise ValueError(f"LinearWarmup(): end_lr {end_lr} must be greater than {start_lr}")
        self.learning_rate = learning_rate
        self.warmup_steps = at_least(warmup_steps, 0, "warmup_steps", self)
        self.start_lr, self.end_lr = start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            share = self.last_epoch / self.warmup_steps
            return (self.end_lr - self.start_lr) * share + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return float(self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler) and "LinearWarmup_LR" in state_dict:
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])

    set_dict = set_state_dict


class ReduceOnPlateau(LRScheduler):
    """Times factor when a metric has not improved for `patience` epochs.

    `step(metrics)` takes the metric of the epoch. Better means smaller ('min') or larger ('max')
    than the best so far by `threshold`, relative to it ('rel') or not ('abs'). After a cut,
    `cooldown` epochs do not count. Changes of `epsilon` or less are not made.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode.lower() not in ("min", "max"):
            raise ValueError(f"ReduceOnPlateau(): mode {mode} is unknown; use min or max")
        if threshold_mode.lower() not in ("rel", "abs"):
            raise ValueError(f"ReduceOnPlateau(): threshold mode {threshold_mode} is unknown")
        if factor >= 1.0:
            raise ValueError("ReduceOnPlateau(): factor should be < 1.0")
        self.mode, self.threshold_mode = mode.lower(), threshold_mode.lower()
        self.factor, self.patience, self.threshold = factor, patience, threshold
        self.cooldown, self.min_lr, self.epsilon = cooldown, min_lr, epsilon
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: float | None = None
        super().__init__(learning_rate, verbose=verbose)

    def get_lr(self) -> float:
        return self.last_lr

    def state_keys(self) -> list[str]:
        return ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    # as in Paddle's signature, the metric comes first
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, metrics: Any = None, epoch: int | None = None
    ) -> None:
        """Take the metric of one more epoch (a number, or an array of one)."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if metrics is None:
            if self.last_epoch > 0:
                raise TypeError("ReduceOnPlateau.step() needs the argument 'metrics'")
            return
        value = np.asarray(metrics)
        if value.size != 1 or value.dtype.kind not in "biuf":
            raise TypeError("ReduceOnPlateau.step(): 'metrics' must be a number or an array of one")
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        self._count(float(value.item()))

    def _count(self, metric: float) -> None:
        if self.best is None or self._is_better(metric, self.best):
            self.best = metric
            self.num_bad_epochs = 0
            return
        self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            lower = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - lower > self.epsilon:
                self.last_lr = lower

    def _is_better(self, metric: float, best: float) -> bool:
        margin = best * self.threshold if self.threshold_mode == "rel" else self.threshold
        return metric < best - margin if self.mode == "min" else metric > best + margin
