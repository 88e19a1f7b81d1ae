"""Programs that an earlier process compiled, found on disk by content, without a module.

Where the executable of a step is on disk too (`known`), a process neither parses the program nor
runs passes nor traces. The module is made when something else needs it: another size, a report.
A program that cannot take padding is noted, too, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from graphopt.errors import ProgramError
from graphopt.ir.dialect.index_bound import IndexBound
from graphopt.ir.dtypes import DType
from graphopt.lowering.host_steps import HostSteps
from graphopt.lowering.plan import Plan, Replicated
from graphopt.passes.padding.dims import CannotPad
from graphopt.passes.padding.records import masked_of, masked_record
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.directory import most_bytes, our_directory
from graphopt.runtime.disk.entries import read_entry, write_entry
from graphopt.runtime.disk.own_code import code_settings, rules_are_ours
from graphopt.runtime.disk.program_key import key_of
from graphopt.runtime.state.prepare import Device, Prepare

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.dialect.signature import Port
    from graphopt.passes.table.report import Report

FOLDER = "programs"
_CANNOT_PAD = "cannot pad"
_GROUPS = ("updated", "read_only", "feeds", "fetches", "written", "prepared")


def compile_program(compilation: Compilation) -> Compiled:
    """Parse and optimize a program; imports the passes on the first call."""
    from graphopt.runtime.compile import compiling

    return compiling.compile_program(compilation)


def compiled_or_known(compilation: Compilation) -> Compiled:
    """Compile a program, or load its summary from disk; raise as `compile_program`.

    A CannotPad is noted, and raised again in later processes.
    """
    directory, key = our_directory(), key_on_disk(compilation)
    if directory is None or key is None:
        compiled = compile_program(compilation)
        compiled.is_new = directory is None
        return compiled
    file = directory / FOLDER / key
    found = read_entry(file, partial(_of_entry, compilation, key))
    if isinstance(found, CannotPad):
        raise found
    if found is not None:
        return found
    try:
        compiled = compile_program(compilation)
    except CannotPad as error:
        record = {_CANNOT_PAD: [error.reason.name, error.reason.text]}
        write_entry(file, json.dumps(record).encode(), most_bytes())
        raise
    compiled.key = key
    compiled.is_new = has_summary(compiled)
    return compiled


def key_on_disk(compilation: Compilation) -> str | None:
    """Compute the key of a program on disk; None if nothing is kept of it."""
    if our_directory() is None or not rules_are_ours():
        return None
    return key_of(compilation, code_settings())


def is_on_disk(compilation: Compilation) -> bool:
    """Return whether an earlier process compiled a program."""
    directory, key = our_directory(), key_on_disk(compilation)
    return directory is not None and key is not None and (directory / FOLDER / key).exists()


def _of_entry(compilation: Compilation, key: str, payload: bytes) -> Summarized | CannotPad:
    record = json.loads(payload)
    if _CANNOT_PAD in record:
        name, text = map(str, record[_CANNOT_PAD])
        return CannotPad(name, text)
    return Summarized(compilation, record, key)


def has_summary(compiled: Compiled) -> bool:
    """Return whether a summary holds all that the steps of a program need."""
    prepare = compiled.prepare
    if compiled.calls_python or compiled.per_replica or compiled.is_startup:
        return False
    return prepare is None or prepare.steps is not None


def note_program(compiled: Compiled, directory: Path) -> None:
    """Write the summary of a program whose executable is on disk, for later processes.

    They look up the program with open sizes first, so its summary is written too.
    """
    if compiled.open_sizes is not None:
        note_program(compiled.open_sizes, directory)
    if compiled.key is None or isinstance(compiled, Summarized):
        return
    compiled.is_new, file = False, directory / FOLDER / compiled.key
    if has_summary(compiled) and not file.exists():
        write_entry(file, json.dumps(record_of(compiled)).encode(), most_bytes())


class Summarized(Compiled):
    """A Compiled known by its record, whose module is compiled when something needs it.

    `prepare` computes the part of `@prepare` that needs XLA; a record has NumPy steps only.
    """

    def __init__(
        self,
        compilation: Compilation,
        record: Mapping[str, Any],
        key: str | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        fields = fields_of(record, partial(device_of, compilation.places[0]))
        fields["prepare"] = fields["prepare"] or prepare
        absent: Any = None
        super().__init__(compilation, absent, absent, key=key, **fields)
        del self.module, self.report
        self.size, self.convolutions = int(record["size"]), int(record["convolutions"])
        self._version = compilation.program.version

    @cached_property
    def whole(self) -> Compiled:
        """The program, compiled here; ProgramError when it was changed meanwhile.

        If flags have changed since, the module differs from the summary, and no executable of it is
        kept.
        """
        program = self.compilation.program
        made = compile_program(self.compilation)
        if program.version != self._version:
            raise ProgramError("the program was changed while it was being compiled")
        if key_of(self.compilation, code_settings()) != self.key:
            self.key = None
        return made

    @cached_property
    def module(self) -> ModuleOp:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.module

    @cached_property
    def report(self) -> Report:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = self.whole.report
        found.parts += self.parts
        self.parts = found.parts
        return found

    def make_alone(self, *, donate: bool) -> Any:
        """Compile the whole program, and build its function as Compiled does."""
        return self.whole.make_alone(donate=donate)

    @property
    def op_by_op(self) -> Replicated:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.op_by_op


@dataclass(frozen=True)
class KnownPort:
    """A port of a step on one device, like `signature.Port` but without a module."""

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
        """The names of the port's variables, several for a stack."""
        return self.stack_of or (self.name,)


def record_of(compiled: Compiled) -> dict[str, Any]:
    """Encode a program as JSON; it must run on one device and not call Python.

    The record has no steps where XLA computes `@prepare`.
    """
    plan, masked, prepare = compiled.plan, compiled.masked, compiled.prepare
    steps = None if prepare is None else prepare.steps
    return {
        "plan": {name: list(map(_port_record, getattr(plan, name))) for name in _GROUPS},
        "random": compiled.is_random,
        "barriers": compiled.has_barriers,
        "convolves": compiled.convolves,
        "size": compiled.size,
        "convolutions": compiled.convolutions,
        "wants_sizes": compiled.wants_sizes,
        "deciding": compiled.deciding,
        "bounds": {name: list(map(asdict, each)) for name, each in compiled.bounds.items()},
        "masked": None if masked is None else masked_record(masked),
        "reads": [] if prepare is None else list(map(_port_record, prepare.reads)),
        "steps": None if steps is None else steps.record(),
    }


def fields_of(record: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Decode the fields of a Compiled; errors of a malformed record are raised unchanged."""
    masked, steps = record["masked"], record["steps"]
    updated, read_only, feeds, fetches, written, prepared = (
        _ports(record["plan"][name]) for name in _GROUPS
    )
    reads = _ports(record["reads"])
    return {
        "plan": Plan(updated, read_only, feeds, fetches, written, prepared=prepared),
        "is_random": bool(record["random"]),
        "has_barriers": bool(record["barriers"]),
        "convolves": bool(record["convolves"]),
        "wants_sizes": bool(record["wants_sizes"]),
        "deciding": tuple(map(str, record["deciding"])),
        "bounds": {n: tuple(IndexBound(**b) for b in each) for n, each in record["bounds"].items()},
        "masked": None if masked is None else masked_of(masked),
        "prepare": None
        if steps is None
        else Prepare.on_host(reads, HostSteps.of_record(steps), device),
    }


def _port_record(port: Port) -> list[Any]:
    return [port.kind, port.name, port.shape, f"{port.dtype}", port.stack_of, port.order]


def _ports(records: Sequence[Any]) -> tuple[Port, ...]:
    found = [
        KnownPort(
            *(str(kind), str(name), tuple(map(int, shape)), DType(dtype)),
            *(tuple(map(str, stack)), tuple(map(int, order))),
        )
        for kind, name, shape, dtype, stack, order in records
    ]
    return cast("tuple[Port, ...]", tuple(found))
