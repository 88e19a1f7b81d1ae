"""Schedules that follow a cosine or go up and down (paddle.optimizer.lr)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from graphopt.optimizer.lr.base import LRScheduler, at_least


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from learning_rate to eta_min in T_max epochs (Loshchilov and Hutter, 2017)."""

    def __init__(
        self,
        learning_rate: float,
        T_max: int,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.T_max = at_least(T_max, 1, "T_max", self)
        self.eta_min = float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch, angle = self.last_epoch, math.pi / self.T_max
        if epoch == 0:
            return self.base_lr
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            return self.last_lr + (self.base_lr - self.eta_min) * (1 - math.cos(angle)) / 2
        ratio = (1 + math.cos(angle * epoch)) / (1 + math.cos(angle * (epoch - 1)))
        return ratio * (self.last_lr - self.eta_min) + self.eta_min

    def get_lr_at(self, epoch: int) -> float:
        swing = (1 + math.cos(math.pi * epoch / self.T_max)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * swing


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines from learning_rate to eta_min: T_0 epochs, then T_mult times more, and so on."""

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.T_0 = at_least(T_0, 1, "T_0", self)
        self.T_mult = at_least(T_mult, 1, "T_mult", self)
        self.eta_min = float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        position, length = self.last_epoch, self.T_0
        while position >= length:
            position -= length
            length *= self.T_mult
        swing = (1 + math.cos(math.pi * position / length)) / 2
        return self.eta_min + (self.base_lr - self.eta_min) * swing


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (math.cos(math.pi * share) + 1) / 2


def _linear(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


class OneCycleLR(LRScheduler):
    """Up to max_learning_rate in the first phase_pct of total_steps, then down (Smith, 2018).

    It starts at max_learning_rate / divide_factor and ends at end_learning_rate; with
    `three_phase` the way down first mirrors the way up.
    """

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.total_steps = at_least(total_steps, 1, "total_steps", self)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "OneCycleLR(): 'anneal_strategy' must be 'cos' or 'linear', found "
                f"{anneal_strategy!r}"
            )
        if not 0 <= phase_pct <= 1:
            raise ValueError(f"OneCycleLR(): 'phase_pct' must be between 0 and 1, got {phase_pct}")
        if three_phase and phase_pct >= 0.5:
            raise ValueError("OneCycleLR(): 'phase_pct' must be less than 0.5 with three_phase")
        self._anneal = _cosine if anneal_strategy == "cos" else _linear
        first, peak, last = max_learning_rate / divide_factor, max_learning_rate, end_learning_rate
        up = phase_pct * total_steps - 1
        if three_phase:
            down = 2 * phase_pct * total_steps - 2
            self._corners = [(0.0, first), (up, peak), (down, first), (total_steps - 1.0, last)]
        else:
            self._corners = [(0.0, first), (up, peak), (total_steps - 1.0, last)]
        super().__init__(first, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch = self.last_epoch
        if epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {epoch} times. However the number of total steps is "
                f"{self.total_steps}"
            )
        corners = self._corners
        for (begin, start), (finish, end) in pairwise(corners):
            if epoch <= finish or finish == corners[-1][0]:
                return self._anneal(start, end, (epoch - begin) / (finish - begin))
        raise AssertionError("the last corner ends the loop")


class CyclicLR(LRScheduler):
    """Up from base_learning_rate to max_learning_rate and down again (Smith, 2017).

    `triangular2` halves the height each cycle, `exp_range` multiplies it by exp_gamma each step,
    and `scale_fn` may define another height, of the cycle or of the iteration (`scale_mode`).
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        up = at_least(step_size_up, 1, "step_size_up", self)
        down = up if step_size_down is None else at_least(step_size_down, 1, "step_size_down", self)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(f"CyclicLR(): 'mode' is invalid: {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError("CyclicLR(): 'scale_mode' must be one of 'cycle' or 'iterations'")
        self.cycle_size, self.step_up_pct = up + down, up / (up + down)
        self.max_lr = float(max_learning_rate)
        self.amplitude = self.max_lr - base_learning_rate
        scales: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 1 / 2.0 ** (cycle - 1), "cycle"),
            "exp_range": (lambda iteration: exp_gamma**iteration, "iterations"),
        }
        self._height, self._height_of = (scale_fn, scale_mode) if scale_fn else scales[mode]
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        cycle = 1 + self.last_epoch // self.cycle_size
        position = 1.0 + self.last_epoch / self.cycle_size - cycle
        if position <= self.step_up_pct:
            share = position / self.step_up_pct
        else:
            share = (1 - position) / (1 - self.step_up_pct)
        argument = cycle if self._height_of == "cycle" else self.last_epoch
        return self.base_lr + self.amplitude * share * self._height(argument)
