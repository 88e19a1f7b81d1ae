"""A model as a function of arrays in a fixed order, for other tools to call.

An inference model is `outputs = f(*inputs)`, with parameters inside the function or, on request, as
arguments before the inputs. A program that updates state, as a training step does, is `(*new_state,
*outputs) = f(*state, *inputs)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.display.units import several
from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.callback import Assert, Print, PrintGradient, PyFunc, PyFuncBackward
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.signature import FEED, Port
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of, tensor
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import replica_function

if TYPE_CHECKING:
    from graphopt.ir.formats.model import LoadedModel

Array = np.ndarray[Any, Any]
PARAMETERS = ("inside", "arguments")


@dataclass(frozen=True, eq=False)
class ExportedFunction:
    """A module with the order of its arguments and results.

    Arguments are `state`, then `feeds`, then the key data of a random generator (two uint32) when
    `takes_key`. Results are the new values of the first `len(updated)` state arguments, then the
    fetches. `inside` holds the parameters that are no arguments.
    """

    module: ModuleOp
    plan: Plan
    state: tuple[Port, ...]
    feeds: tuple[Port, ...]
    inside: Mapping[str, Array]
    takes_key: bool
    is_random: bool

    @property
    def updated(self) -> tuple[Port, ...]:
        """The state that the function updates."""
        return self.plan.updated

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Run the function on these arguments with JAX."""
        plan = self.plan
        names = [port.name for port in (*self.state, *self.feeds)]
        given = dict(zip(names, arrays, strict=False)) | dict(self.inside)
        key = arrays[-1] if self.takes_key else np.array([0, 1], np.uint32)
        fetches, written = replica_function(self.module, plan, ALONE)(
            tuple(given[port.name] for port in plan.updated),
            tuple(given[port.name] for port in plan.read_only),
            tuple(given[port.name] for port in plan.feeds),
            key,
        )
        new = {port.name: array for port, array in zip(plan.written, written, strict=True)}
        return (*(new[port.name] for port in plan.updated), *fetches)

    def describe(self) -> dict[str, Any]:
        """Describe names, dtypes and shapes of arguments and results; -1 is an open size."""
        arguments = [_entry("state", port) for port in self.state]
        arguments += [_entry("input", port) for port in self.feeds]
        if self.takes_key:
            arguments.append({"role": "key", "name": "", "dtype": "uint32", "shape": [2]})
        results = [_entry("state", port) for port in self.updated]
        results += [_entry("output", port) for port in self.plan.fetches]
        return {"arguments": arguments, "results": results}


def _entry(role: str, port: Port) -> dict[str, Any]:
    shape = [-1 if dim == UNKNOWN else dim for dim in shape_of(port.type)]
    return {"role": role, "name": port.name, "dtype": f"{dtype_of(port.type)}", "shape": shape}


def function_of(
    model: LoadedModel, module: ModuleOp, parameters: str | None = None
) -> ExportedFunction:
    """Build the function of a model's (optimized) module.

    `parameters` is "inside" (the default for inference models) or "arguments" (the default for
    programs that update state, and their only choice). Raises UnsupportedError for programs that
    print or check while they run, ValueError for another word.
    """
    for op in module.walk():
        if isinstance(op, (Print, PrintGradient, Assert, PyFunc, PyFuncBackward)):
            raise UnsupportedError(
                f"{op.name} calls back into Python, which an exported model does not support; "
                "export a program without this operator"
            )
    plan = Plan.of(module)
    if parameters is None:
        parameters = "arguments" if plan.written else "inside"
    if parameters not in PARAMETERS:
        raise ValueError(f"parameters is {parameters!r}; expected one of {', '.join(PARAMETERS)}")
    if plan.written and parameters == "inside":
        names = ", ".join(port.name for port in plan.written[:3])
        raise UnsupportedError(
            f"the program updates {several(len(plan.written), 'variable')} ({names} ...), so its "
            'state cannot be inside the exported function; use parameters="arguments"'
        )
    reads = (*plan.updated, *plan.read_only)
    _check_values(model, reads)
    is_random = any(_is_random(op) for op in module.walk())
    as_arguments = parameters == "arguments"
    return ExportedFunction(
        module,
        plan,
        state=reads if as_arguments else (),
        feeds=tuple(_feed_port(model, plan, name) for name in model.fed_names),
        inside={} if as_arguments else {port.name: model.parameters[port.name] for port in reads},
        takes_key=is_random and bool(plan.written),
        is_random=is_random,
    )


def _is_random(op: Operation) -> bool:
    """True for an op whose results differ between calls."""
    if all(seed for seed, _ in draws(op)) or not isinstance(op, PdOp):
        return False
    attrs = op.attr_values()
    return not (attrs.get("is_test") or attrs.get("p") == 0 or attrs.get("dropout_prob") == 0)


def _check_values(model: LoadedModel, reads: Sequence[Port]) -> None:
    missing = [port.name for port in reads if port.name not in model.parameters]
    if missing:
        raise UnsupportedError(
            f"the program reads {several(len(missing), 'variable')} without values in the model "
            f"({', '.join(missing[:3])}{' ...' if len(missing) > 3 else ''}); import it with params"
        )


def _feed_port(model: LoadedModel, plan: Plan, name: str) -> Port:
    """Find the port of an input; create one for an input that the program does not read."""
    for port in plan.feeds:
        if port.name == name:
            return port
    variable = model.program.global_block().var(name)
    return Port(FEED, name, tensor(variable.shape, variable.dtype))
