"""Schedules that are a formula of the epoch (paddle.optimizer.lr)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from graphopt.errors import AssertedError
from graphopt.optimizer.lr.base import LRScheduler, at_least


class NoamDecay(LRScheduler):
    """learning_rate * d_model^-0.5 * min(epoch^-0.5, epoch * warmup_steps^-1.5).

    `d_model` and `warmup_steps` are any numbers, as in Paddle: scripts that state the rate at the
    end of the warm-up pass 1 / (rate^2 * warmup_steps) as `d_model`. Raises ValueError unless
    `d_model` is above 0.
    """

    def __init__(
        self,
        d_model: float,
        warmup_steps: float,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if d_model <= 0:
            raise ValueError(f"NoamDecay(): 'd_model' should be greater than 0, found {d_model}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        falling = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        rising = self.warmup_steps**-1.5 * self.last_epoch
        return self.base_lr * self.d_model**-0.5 * min(falling, rising)


class PiecewiseDecay(LRScheduler):
    """values[i] until epoch boundaries[i], the last value afterwards."""

    def __init__(
        self,
        boundaries: Sequence[int],
        values: Sequence[float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not boundaries:
            raise ValueError("PiecewiseDecay(): the boundaries cannot be empty")
        if len(values) <= len(boundaries):
            raise ValueError(
                f"PiecewiseDecay(): {len(boundaries)} boundaries need {len(boundaries) + 1} "
                f"values, found {len(values)}"
            )
        self.boundaries, self.values = boundaries, values
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        passed = sum(self.last_epoch >= boundary for boundary in self.boundaries)
        return float(self.values[passed])


class _Gamma(LRScheduler):
    """A formula of the epoch with one constant, which is between the limits of the class."""

    _limits = -math.inf, math.inf

    def __init__(
        self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        least, most = self._limits
        if not least < gamma < most:
            raise AssertedError(
                f"{type(self).__name__}(): 'gamma' must be in the interval ({least}, {most}) so "
                f"that the learning rate decays, found {gamma}"
            )
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)


class NaturalExpDecay(_Gamma):
    """learning_rate * e^(-gamma * epoch), gamma above 0."""

    _limits = 0.0, math.inf

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(_Gamma):
    """learning_rate / (1 + gamma * epoch)."""

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(_Gamma):
    """learning_rate * gamma^epoch, gamma in (0, 1)."""

    _limits = 0.0, 1.0

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class PolynomialDecay(LRScheduler):
    """From learning_rate to end_lr in decay_steps epochs; with `cycle` again and ever longer."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.decay_steps = at_least(decay_steps, 1, "decay_steps", self)
        if power <= 0:
            raise ValueError(f"PolynomialDecay(): 'power' must be greater than 0, found {power}")
        self.end_lr, self.power, self.cycle = end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch, steps = self.last_epoch, self.decay_steps
        if self.cycle:
            steps *= max(math.ceil(epoch / steps), 1)
        share = 1 - min(epoch, steps) / steps
        return (self.base_lr - self.end_lr) * share**self.power + self.end_lr


class MultiStepDecay(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(milestones, (list, tuple)):
            raise TypeError(
                f"MultiStepDecay(): 'milestones' must be a list or tuple, found "
                f"{type(milestones).__name__}"
            )
        if list(milestones) != sorted(set(milestones)):
            raise ValueError("MultiStepDecay(): the elements of 'milestones' must be increasing")
        if gamma >= 1.0:
            raise ValueError("MultiStepDecay(): gamma should be < 1.0")
        self.milestones, self.gamma = milestones, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        passed = sum(self.last_epoch >= milestone for milestone in self.milestones)
        return self.base_lr * self.gamma**passed


class StepDecay(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.step_size = at_least(step_size, 1, "step_size", self)
        if gamma >= 1.0:
            raise ValueError("StepDecay(): gamma should be < 1.0")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class _OfFunction(LRScheduler):
    """A rate that a function of the epoch decides."""

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not callable(lr_lambda):
            raise TypeError(
                f"{type(self).__name__}(): 'lr_lambda' should be callable, found "
                f"{type(lr_lambda).__name__}"
            )
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)


class LambdaDecay(_OfFunction):
    """learning_rate * lr_lambda(epoch)."""

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(_OfFunction):
    """learning_rate * lr_lambda(1) * … * lr_lambda(epoch)."""

    def get_lr(self) -> float:
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
        return rate


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the learning rate in equal steps, then constant.

    Each rate follows from the one before, as in Paddle, so a schedule that is set to another epoch
    continues from its present rate. Raises ValueError for a `start_factor` outside (0, 1], an
    `end_factor` outside [0, 1] and a `total_steps` of 0 or less. Paddle page:
    paddle.optimizer.lr.LinearLR.
    """

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "`start_factor` must be greater than 0 and less or equal to 1, but got "
                f"{start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(
                f"`end_factor` must be greater than 0 and less than 1, but got {end_factor}"
            )
        if total_steps <= 0:
            raise ValueError(f"`total_steps` must be greater than 0, but got {total_steps}")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_steps = total_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch == 0:
            return self.base_lr * self.start_factor
        if self.last_epoch > self.total_steps:
            return self.last_lr
        step = self.end_factor - self.start_factor
        before = self.total_steps * self.start_factor + (self.last_epoch - 1) * step
        return self.last_lr * (1.0 + step / before)
