"""`@prepare` as steps of NumPy, which need neither a module nor XLA."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from graphopt.lowering.denormals import flushed_denormals

HostArray: TypeAlias = "np.ndarray[Any, Any]"
# the rule's name, the numbers of its operands, and its other arguments
Step: TypeAlias = "tuple[str, tuple[int, ...], tuple[Any, ...]]"


@dataclass(frozen=True)
class HostSteps:
    """Steps in order: the arguments are the first values, and each step appends one.

    `results` are indices of values. `RULES` has the rules.
    """

    arguments: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def __call__(self, state: Sequence[Any]) -> tuple[HostArray, ...]:
        """Compute the results for these arrays, in memory of their own."""
        values: list[HostArray] = list(map(np.asarray, state))
        with np.errstate(all="ignore"), flushed_denormals():
            for name, operands, parameters in self.steps:
                values.append(RULES[name](*(values[at] for at in operands), *parameters))
        # copies: a step that owns a parameter may overwrite its buffer
        return tuple(np.array(values[at], order="C") for at in self.results)

    def record(self) -> list[Any]:
        """Write the steps as JSON."""
        return [self.arguments, self.steps, self.results]

    @classmethod
    def of_record(cls, record: Sequence[Any]) -> HostSteps:
        """Read steps from JSON; raise ValueError, TypeError or LookupError if malformed."""
        count, steps, results = int(record[0]), [], tuple(map(int, record[2]))
        for at, (name, operands, parameters) in enumerate(record[1], count):
            numbers = tuple(map(int, operands))
            if name not in RULES or not all(0 <= number < at for number in numbers):
                raise ValueError(f"step {at} is {name} of {numbers}")
            steps.append((str(name), numbers, tuple(map(_plain, parameters))))
        if not all(0 <= number < count + len(steps) for number in results):
            raise ValueError(f"the results are {results}")
        return cls(count, tuple(steps), results)


def _plain(parameter: Any) -> Any:
    return tuple(map(int, parameter)) if isinstance(parameter, list) else parameter


def _scale(x: HostArray, scale: float, bias: float, after: bool) -> HostArray:
    factor, offset = np.asarray(scale, x.dtype), np.asarray(bias, x.dtype)
    if offset == 0:
        return x * factor
    return x * factor + offset if after else (x + offset) * factor


def _rsqrt(x: HostArray) -> HostArray:
    return np.asarray(1.0, x.dtype) / np.sqrt(x)


RULES: Mapping[str, Callable[..., HostArray]] = {
    "reshape": lambda x, shape: x.reshape(shape),
    "transpose": lambda x, perm: x.transpose(perm),
    "pad": lambda x, paddings, value: np.pad(
        x, np.reshape(paddings, (-1, 2)), constant_values=np.asarray(value, x.dtype)
    ),
    "scale": _scale,
    "rsqrt": _rsqrt,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}
"""The rules; each one rounds as XLA does in float32 and float64."""
