"""The summary of a compiled program: all that steps need in addition to executables, as JSON.

Nothing here imports the dialect or the passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from graphopt.ir.dialect.index_bound import IndexBound
from graphopt.ir.dtypes import DType
from graphopt.lowering.host_steps import HostSteps
from graphopt.lowering.plan import Plan
from graphopt.passes.padding.records import masked_of, masked_record
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.state.prepare import Device, Prepare

if TYPE_CHECKING:
    from graphopt.ir.dialect.signature import Port

_GROUPS = ("updated", "read_only", "feeds", "fetches", "written", "prepared")


@dataclass(frozen=True)
class KnownPort:
    """A port of a step on one device, as `signature.Port`, of which the module is not there."""

    kind: str
    name: str
    shape: tuple[int, ...]
    dtype: DType
    stack_of: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    per_replica = False
    whole = None
    cut = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that this is."""
        return self.stack_of or (self.name,)


def record_of(compiled: Compiled) -> dict[str, Any]:
    """The record of a program on one device, which does not call Python, as JSON has it.

    It has no steps where XLA computes `@prepare`.
    """
    plan, masked, prepare = compiled.plan, compiled.masked, compiled.prepare
    steps = None if prepare is None else prepare.steps
    return {
        "plan": {name: list(map(_port_record, getattr(plan, name))) for name in _GROUPS},
        "random": compiled.is_random,
        "barriers": compiled.has_barriers,
        "size": compiled.size,
        "wants_sizes": compiled.wants_sizes,
        "deciding": compiled.deciding,
        "bounds": {name: list(map(asdict, each)) for name, each in compiled.bounds.items()},
        "masked": None if masked is None else masked_record(masked),
        "reads": [] if prepare is None else list(map(_port_record, prepare.reads)),
        "steps": None if steps is None else steps.record(),
    }


def fields_of(record: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """The fields of a Compiled that a record has; whatever a malformed one leads to is raised."""
    masked, steps = record["masked"], record["steps"]
    updated, read_only, feeds, fetches, written, prepared = (
        _ports(record["plan"][name]) for name in _GROUPS
    )
    reads = _ports(record["reads"])
    return {
        "plan": Plan(updated, read_only, feeds, fetches, written, prepared=prepared),
        "is_random": bool(record["random"]),
        "has_barriers": bool(record["barriers"]),
        "wants_sizes": bool(record["wants_sizes"]),
        "deciding": tuple(map(str, record["deciding"])),
        "bounds": {n: tuple(IndexBound(**b) for b in each) for n, each in record["bounds"].items()},
        "masked": None if masked is None else masked_of(masked),
        "prepare": None
        if steps is None
        else Prepare.on_host(reads, HostSteps.of_record(steps), device),
    }


def _port_record(port: Port) -> list[Any]:
    return [port.kind, port.name, port.shape, str(port.dtype), port.stack_of, port.order]


def _ports(records: Sequence[Any]) -> tuple[Port, ...]:
    found = [
        KnownPort(
            *(str(kind), str(name), tuple(map(int, shape)), DType(dtype)),
            *(tuple(map(str, stack)), tuple(map(int, order))),
        )
        for kind, name, shape, dtype, stack, order in records
    ]
    return cast("tuple[Port, ...]", tuple(found))
