"""The state of an optimizer: accumulators, master weights, their names and their values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.initializers.fill import Constant
from graphopt.ir.dtypes import DType, as_dtype
from graphopt.ir.program import (
    Parameter,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    undo,
    unique_name,
)
from graphopt.ir.program.location import caller_level
from graphopt.optimizer.lr.base import LRScheduler
from graphopt.runtime.state.scope import global_scope

FLOAT32 = DType("float32")
MASTERS, SCHEDULER = "master_weights", "LR_Scheduler"


class State:
    """The variables that one optimizer keeps, by program and parameter."""

    def __init__(self, kind: str, prefix: str | None) -> None:
        self.kind = kind
        self.prefix = prefix
        self._accumulators: dict[tuple[int, str, str], Variable] = {}
        self._masters: dict[tuple[int, str], Variable] = {}
        self._warned = False

    def accumulator(
        self,
        kind: str,
        parameter: Parameter,
        value: float,
        shape: Sequence[int] | None,
        dtype: Any,
        widen: bool,
    ) -> Variable:
        """See `Optimizer.accumulator`."""
        key = (*_key(parameter), kind)
        if key not in self._accumulators:
            master = self.master(parameter)
            owner = parameter if master is None else master
            name = unique_name.generate(f"{owner.name}_{self._accumulator_name(kind)}")
            element = owner.dtype if dtype is None else as_dtype(dtype)
            if widen and is_half(element):
                element = FLOAT32
            sizes = list(parameter.shape if shape is None else shape)
            made = persistable(name, sizes, element, value, parameter.block.program)
            undo.put(self._accumulators, key, made)
        return self._accumulators[key]

    def _accumulator_name(self, kind: str) -> str:
        return f"{self.prefix}_{kind}" if self.prefix else kind

    def find(self, kind: str, parameter: Parameter) -> Variable:
        """Get the accumulator of this kind; ValueError when there is none.

        A parameter of a program that was not minimized, such as a clone, has the accumulator of the
        parameter of the same name, as in Paddle.
        """
        found = self._accumulators.get((*_key(parameter), kind))
        if found is None:
            found = self.by_kind().get(kind, {}).get(parameter.name)
        if found is None:
            raise ValueError(f"Accumulator {kind} does not exist for parameter {parameter.name}")
        return found

    def make_master(self, parameter: Parameter) -> None:
        """Give a half-precision parameter its float32 master weight, a copy at the start."""
        key = _key(parameter)
        if key in self._masters:
            return
        name = unique_name.generate(f"{parameter.name}_fp32_master")
        flags = {"persistable": True, "stop_gradient": True}
        main = parameter.block.program.global_block()
        made = main.create_var(name, parameter.shape, FLOAT32, **flags)
        start = default_startup_program().global_block()
        twin = start.create_var(name, parameter.shape, FLOAT32, **flags)
        if not start.has_var(parameter.name):
            start.create_var(parameter.name, parameter.shape, parameter.dtype, persistable=True)
        attrs = {"in_dtype": parameter.dtype.code, "out_dtype": FLOAT32.code}
        start.append_op("cast", {"X": parameter.name}, {"Out": twin}, attrs)
        undo.put(self._masters, key, made)

    def master(self, parameter: Any) -> Variable | None:
        """Get the master weight of a parameter; None without one."""
        return self._masters.get(_key(parameter)) if isinstance(parameter, Variable) else None

    def warn_half(self) -> None:
        """Warn, once, that half-precision parameters are updated without master weights."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                "Accumulating with FP16 or BF16 in optimizer can lead to poor accuracy or slow "
                f"convergence. Consider using multi_precision=True option of {self.kind}.",
                stacklevel=caller_level(),
            )

    def variables(self) -> Iterator[Variable]:
        """Iterate over the accumulators in creation order."""
        yield from self._accumulators.values()

    def forget(self) -> None:
        """Start over with new accumulators."""
        self._accumulators = {}

    def by_kind(self) -> dict[str, dict[str, Variable]]:
        """Map each kind to accumulators by parameter name; the latest program has precedence."""
        found: dict[str, dict[str, Variable]] = {}
        for (_, parameter, kind), variable in self._accumulators.items():
            found.setdefault(kind, {})[parameter] = variable
        return found

    def values(self, rate: Any) -> dict[str, Any]:
        """See `Optimizer.state_dict`."""
        found = {v.name: _value(v) for v in self.variables()}
        state: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
        masters = {name: _value(v) for (_, name), v in self._masters.items()}
        if masters:
            state[MASTERS] = {name: value for name, value in masters.items() if value is not None}
        if isinstance(rate, LRScheduler):
            state[SCHEDULER] = rate.state_dict()
        return state

    def load(self, given: Mapping[str, Any], rate: Any) -> None:
        """See `Optimizer.set_state_dict`."""
        if isinstance(rate, LRScheduler) and SCHEDULER in given:
            rate.set_state_dict(given[SCHEDULER])
        masters = given.get(MASTERS, {})
        wanted = [(v, v.name, given) for v in self.variables()]
        wanted += [(v, n, masters) for (_, n), v in self._masters.items() if n in masters]
        for variable, name, source in wanted:
            if name not in source:
                raise ValueError(f"optimizer Tensor {name} not found in the state dict")
            _put(variable, np.asarray(source[name]))


def _key(parameter: Variable) -> tuple[int, str]:
    """Key a parameter by its program and name, independent of the default program."""
    return parameter.block.program.serial, parameter.name


def _value(variable: Variable) -> Any:
    slot = global_scope().find_var(variable.name)
    return None if slot is None or not slot.is_initialized() else np.array(slot.get_tensor())


def _put(variable: Variable, value: Any) -> None:
    if value.shape != variable.shape or value.dtype != variable.dtype.numpy:
        raise ValueError(
            f"the state '{variable.name}' is {list(variable.shape)} {variable.dtype}, but the "
            f"state dict has {list(value.shape)} {value.dtype}"
        )
    global_scope().var(variable.name).get_tensor().set(value)


def is_half(dtype: DType) -> bool:
    """True for float16 and bfloat16."""
    return dtype in ("float16", "bfloat16")


def persistable(
    name: str,
    shape: Sequence[int],
    dtype: DType,
    value: float,
    program: Program | None = None,
) -> Variable:
    """Create a state variable of a program that the startup program sets to `value`.

    The default is the main program.
    """
    flags = {"persistable": True, "stop_gradient": True}
    main = (program or default_main_program()).global_block()
    made = main.create_var(name, shape, dtype, **flags)
    block = default_startup_program().global_block()
    Constant(value)(block.create_var(name, shape, dtype, **flags), block)
    return made
