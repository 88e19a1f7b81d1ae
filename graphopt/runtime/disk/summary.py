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
from graphopt.passes.padding.masked import Masked
from graphopt.passes.padding.records import masked_of, masked_record
from graphopt.runtime.compile.compiled import Compiled

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


@dataclass(frozen=True)
class ProgramSummary:
    """The facts of a module that steps need. `size` is its number of operators, about."""

    plan: Plan
    is_random: bool
    has_barriers: bool
    size: int
    wants_sizes: bool
    deciding: tuple[str, ...]
    bounds: Mapping[str, tuple[IndexBound, ...]]
    masked: Masked | None
    reads: tuple[Port, ...]
    steps: HostSteps | None

    @classmethod
    def of(cls, compiled: Compiled) -> ProgramSummary:
        """That of a program on one device, which does not call Python.

        `steps` are None where XLA computes `@prepare`.
        """
        plan, prepare = compiled.plan, compiled.prepare
        return cls(
            *(plan, compiled.is_random, compiled.has_barriers, compiled.size),
            *(compiled.wants_sizes, compiled.deciding, compiled.bounds, compiled.masked),
            () if prepare is None else prepare.reads,
            None if prepare is None else prepare.steps,
        )

    def record(self) -> dict[str, Any]:
        """The summary as JSON has it."""
        return {
            "plan": {name: list(map(_port_record, getattr(self.plan, name))) for name in _GROUPS},
            "random": self.is_random,
            "barriers": self.has_barriers,
            "size": self.size,
            "wants_sizes": self.wants_sizes,
            "deciding": self.deciding,
            "bounds": {name: list(map(asdict, each)) for name, each in self.bounds.items()},
            "masked": None if self.masked is None else masked_record(self.masked),
            "reads": list(map(_port_record, self.reads)),
            "steps": None if self.steps is None else self.steps.record(),
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ProgramSummary:
        """The summary of a record; whatever a malformed one leads to is raised."""
        masked, steps = record["masked"], record["steps"]
        updated, read_only, feeds, fetches, written, prepared = (
            _ports(record["plan"][name]) for name in _GROUPS
        )
        return cls(
            Plan(updated, read_only, feeds, fetches, written, prepared=prepared),
            bool(record["random"]),
            bool(record["barriers"]),
            int(record["size"]),
            bool(record["wants_sizes"]),
            tuple(map(str, record["deciding"])),
            {n: tuple(IndexBound(**b) for b in each) for n, each in record["bounds"].items()},
            None if masked is None else masked_of(masked),
            _ports(record["reads"]),
            None if steps is None else HostSteps.of_record(steps),
        )


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
