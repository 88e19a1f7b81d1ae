"""Learning rates as operators over a step counter (paddle.fluid.layers.learning_rate_scheduler).

Each function returns a Variable of shape [1] to give an optimizer. A persistable counter, shared by
all of them, counts the runs of the program; `clone(for_test=True)` leaves these operators out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from graphopt.fluid.layers.tensor import fill_constant
from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Constant
from graphopt.frontend.missing import explain
from graphopt.ir.program import OpRole, Variable, default_main_program, default_startup_program
from graphopt.tensor.creation import assign, create_global_var, full_like
from graphopt.tensor.elementary import ceil, cos, floor
from graphopt.tensor.logic import less_than
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import binary, divide, exp, maximum, minimum, pow, scale
from graphopt.tensor.search import where

_COUNTER = "@LR_DECAY_COUNTER@"


def autoincreased_step_counter(
    counter_name: str | None = None, begin: int = 1, step: int = 1
) -> Variable:
    """Create a counter, int64 [1], that is `begin` in the first run and grows by `step` with each.

    Counters of the same name are one counter. Paddle page: fluid.layers.autoincreased_step_counter.
    """
    name = counter_name or "@STEP_COUNTER@"
    program, startup = default_main_program(), default_startup_program()
    block = program.global_block()
    if name in block.vars:
        return block.vars[name]
    flags = {"persistable": True, "stop_gradient": True}
    counter = block.create_var(name, [1], "int64", **flags)
    first = arguments.integer(begin, "begin", "autoincreased_step_counter") - 1
    Constant(first)(
        startup.global_block().create_var(name, [1], "int64", **flags), startup.global_block()
    )
    attrs = {"step": arguments.number(step, "step", "autoincreased_step_counter")}
    block._insert_op(0, "increment", {"X": counter}, {"Out": counter}, attrs)
    return counter


def _mark_schedule(function: Callable[..., Variable]) -> Callable[..., Variable]:
    """Mark the operators of a schedule as such: they are not part of a program for testing."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Variable:
        with default_main_program().role(OpRole.LR_SCHEDULE):
            rate = function(*args, **kwargs)
        rate.stop_gradient = True
        return rate

    return wrapper


def _decay_step_counter(begin: int = 0) -> Variable:
    """Count the runs so far, float32 [1], from `begin` in the first one."""
    return cast(autoincreased_step_counter(_COUNTER, begin), "float32")


def _numbers(function: str, **given: Any) -> list[float]:
    return [arguments.number(value, name, function) for name, value in given.items()]


@_mark_schedule
def noam_decay(d_model: Any, warmup_steps: Any, learning_rate: float = 1.0) -> Variable:
    """Compute learning_rate * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5).

    Steps count from 1. Paddle page: fluid.layers.noam_decay.
    """
    width, warmup, rate = _numbers(
        "noam_decay", d_model=d_model, warmup_steps=warmup_steps, learning_rate=learning_rate
    )
    step = _decay_step_counter(1)
    least = minimum(pow(step, -0.5), scale(step, warmup**-1.5))
    return scale(least, rate * width**-0.5)


def _periods(decay_steps: Any, staircase: bool, function: str) -> Variable:
    periods = scale(
        _decay_step_counter(), 1.0 / arguments.number(decay_steps, "decay_steps", function)
    )
    return floor(periods) if staircase else periods


@_mark_schedule
def exponential_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """Compute learning_rate * decay_rate^(step / decay_steps) (fluid.layers.exponential_decay).

    `staircase` rounds the exponent down.
    """
    rate, base = _numbers("exponential_decay", learning_rate=learning_rate, decay_rate=decay_rate)
    periods = _periods(decay_steps, staircase, "exponential_decay")
    return scale(binary("elementwise_pow", full_like(periods, base), periods), rate)


@_mark_schedule
def natural_exp_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """Compute learning_rate * exp(-decay_rate * step / decay_steps) (natural_exp_decay)."""
    rate, speed = _numbers("natural_exp_decay", learning_rate=learning_rate, decay_rate=decay_rate)
    periods = _periods(decay_steps, staircase, "natural_exp_decay")
    return scale(exp(scale(periods, -speed)), rate)


@_mark_schedule
def inverse_time_decay(
    learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
) -> Variable:
    """Compute learning_rate / (1 + decay_rate * step / decay_steps) (inverse_time_decay)."""
    rate, speed = _numbers("inverse_time_decay", learning_rate=learning_rate, decay_rate=decay_rate)
    slowed = scale(_periods(decay_steps, staircase, "inverse_time_decay"), speed, 1.0)
    return divide(full_like(slowed, rate), slowed)


@_mark_schedule
def polynomial_decay(
    learning_rate: float,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
) -> Variable:
    """Decay from learning_rate to end_learning_rate by (1 - step / decay_steps)^power.

    Afterwards the rate stays there; with `cycle` it starts again over twice, three times, … the
    steps. Paddle page: fluid.layers.polynomial_decay.
    """
    rate, last, exponent, period = _numbers(
        "polynomial_decay",
        learning_rate=learning_rate,
        end_learning_rate=end_learning_rate,
        power=power,
        decay_steps=decay_steps,
    )
    step = _decay_step_counter()
    if cycle:
        rounds = ceil(scale(step, 1.0 / period))
        share = divide(step, scale(maximum(rounds, full_like(rounds, 1.0)), period))
    else:
        share = scale(minimum(step, full_like(step, period)), 1.0 / period)
    return scale(pow(scale(share, -1.0, 1.0), exponent), rate - last, last)


@_mark_schedule
def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Variable:
    """Select values[i] for the steps below boundaries[i], and the last value after all of them.

    Raises ValueError unless there is one more value than boundaries. Paddle page:
    fluid.layers.piecewise_decay.
    """
    if len(values) - len(boundaries) != 1:
        raise ValueError("piecewise_decay(): 'values' should have one item more than 'boundaries'")
    step = _decay_step_counter()
    rates = [arguments.number(value, "values", "piecewise_decay") for value in values]
    rate = fill_constant([1], "float32", rates[-1])
    for limit, value in reversed(list(zip(boundaries, rates, strict=False))):
        below = less_than(step, fill_constant([1], "float32", limit))
        rate = where(below, fill_constant([1], "float32", value), rate)
    return _keep_rate(rate, "learning_rate")


@_mark_schedule
def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Variable:
    """Compute learning_rate * (cos(pi * epoch / epochs) + 1) / 2 (fluid.layers.cosine_decay)."""
    rate, steps, last = _numbers(
        "cosine_decay", learning_rate=learning_rate, step_each_epoch=step_each_epoch, epochs=epochs
    )
    epoch = floor(scale(_decay_step_counter(), 1.0 / steps))
    return scale(cos(scale(epoch, math.pi / last)), 0.5 * rate, 0.5 * rate)


@_mark_schedule
def linear_lr_warmup(
    learning_rate: Any, warmup_steps: int, start_lr: float, end_lr: float
) -> Variable:
    """Warm up from start_lr to end_lr over the first steps, then use `learning_rate`.

    `learning_rate` is a number or a Variable. Paddle page: fluid.layers.linear_lr_warmup.
    """
    first, last, steps = _numbers(
        "linear_lr_warmup", start_lr=start_lr, end_lr=end_lr, warmup_steps=warmup_steps
    )
    if not isinstance(learning_rate, Variable):
        number = arguments.number(learning_rate, "learning_rate", "linear_lr_warmup")
        learning_rate = fill_constant([1], "float32", number)
    step = _decay_step_counter()
    rising = scale(step, (last - first) / steps, first)
    below = less_than(step, fill_constant([1], "float32", steps))
    return _keep_rate(where(below, rising, learning_rate), "learning_rate_warmup")


def _keep_rate(rate: Variable, name: str) -> Variable:
    """Copy the rate to a persistable variable of this name, where scripts look it up."""
    made = create_global_var([1], 0.0, "float32", persistable=True, name=name)
    return assign(rate, made)


explain(globals())
