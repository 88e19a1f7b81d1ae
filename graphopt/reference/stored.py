"""State as a module stores it (stacked, or with its axes in another order) and by variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.signature import signature_of

Array = np.ndarray[Any, Any]


def stored_inputs(module: ModuleOp, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Convert inputs to the state of a module: stacked, or with its axes in another order."""
    ports, found = signature_of(module).arguments, dict(inputs)
    found |= {p.name: inputs[p.name].transpose(p.order) for p in ports if p.order}
    stacks = [port for port in ports if port.stack_of]
    return found | {p.name: np.stack([inputs[name] for name in p.stack_of]) for p in stacks}


def by_variable(module: ModuleOp, results: Mapping[str, Array]) -> dict[str, Array]:
    """Convert results of a module back to state by variable."""
    found = dict(results)
    for port in signature_of(module).results:
        if port.order:
            name = f"{port.kind} {port.name}"
            found[name] = found[name].transpose(np.argsort(port.order))
        if port.stack_of:
            items = found.pop(f"{port.kind} {port.name}")
            found |= {f"{port.kind} {n}": a for n, a in zip(port.stack_of, items, strict=True)}
    return found
