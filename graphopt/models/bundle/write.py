"""Writing of a bundle: a model's program compiled for chosen sizes of its inputs."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export
from xdsl.dialects.builtin import ModuleOp

from graphopt.display.units import several
from graphopt.errors import UnsupportedError
from graphopt.frontend.version import OWN
from graphopt.ir.dialect.signature import prepare_function
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.model import LoadedModel, decode_model
from graphopt.ir.formats.tensor_stream import write_tensor
from graphopt.ir.program import Program
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.dynamic import NeedsData
from graphopt.lowering.locations import for_files
from graphopt.lowering.replication import replica_function
from graphopt.models.bundle.layout import Pieces
from graphopt.models.bundle.load import compiled_stablehlo
from graphopt.models.bundle.sizes import Shapes
from graphopt.models.export.paddle import saved_program
from graphopt.passes.padding import records
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.devices.machine import this_machine
from graphopt.runtime.devices.places import Place, device_of
from graphopt.runtime.disk.summaries import record_of
from graphopt.runtime.feeds.buckets import Buckets
from graphopt.runtime.runners.bucketed import BucketedRunner
from graphopt.runtime.settings.flags import for_other_machines
from graphopt.runtime.settings.progress import announce
from graphopt.runtime.state.arrays import Array


class BundledStep(NamedTuple):
    """A compiled program, the feeds to call it with, and the sizes of its axes."""

    compiled: Compiled
    feeds: Mapping[str, Array]
    sizes: dict[str, int]


def write_bundle(
    model: LoadedModel,
    path: str | os.PathLike[str],
    sets: Sequence[Shapes],
    place: Place,
    buckets: Buckets | None = None,
    *,
    padding: float = 0.0,
) -> list[str]:
    """Compile a model for some sets of shapes of its inputs, and write it as one file.

    With `buckets` the inputs of a run are padded to these sizes, at most by the share `padding`.
    Returns notes on omitted sets. Raises UnsupportedError for a program that updates variables,
    calls Python, or has sizes that depend on data; ValueError when no set is left; OSError.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(file.parent, os.W_OK):  # checked before anything is compiled
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
    saved, variables = saved_program(model)
    read = decode_model(saved, file)
    names = read.fed_names, tuple(read.fetch_names)
    with (
        for_other_machines(),
        announce(lambda: f"preparing a program for {several(len(sets), 'size')}", files=False),
    ):
        steps, notes = _steps(read.program, *names, sets, place, buckets)
    if not steps:
        raise ValueError(f"nothing to compile: {'; '.join(notes) or 'no sizes are given'}")
    compiled = steps[0].compiled
    check_pure(compiled)
    pieces, device = Pieces(), device_of(place)
    tensors = b"".join(write_tensor(model.parameters[v.name]) for v in variables)
    entries: list[dict[str, Any]] = []
    with announce(lambda: f"compiling size {len(entries) + 1} of {len(steps)}", files=False):
        for step in steps:
            entries.append(_entry(step, pieces, device))
    record: dict[str, Any] = {
        "graphopt": OWN,
        "platform": place.platform,
        "machine": this_machine(device).record(),
        "padding": None if buckets is None else {"share": padding, "reuse": buckets.reuse},
        "program": pieces.add(saved),
        "parameters": pieces.add(tensors),
        "summary": record_of(compiled),
        "prepare": pieces.add(_prepare_text(compiled).encode()),
        "axes": records.axes_record(compiled.compilation.axes or {}),
        "options": compiled.options() or {},
        "executables": entries,
    }
    write_files({file: pieces.file(record)})
    return notes


def _prepare_text(compiled: Compiled) -> str:
    """Print the `@prepare` that XLA computes; "" if the summary describes it completely."""
    if compiled.prepare is None or compiled.prepare.steps is not None:
        return ""
    function = prepare_function(compiled.module)
    assert function is not None
    return text_of(ModuleOp([function.clone()]))


def _steps(
    program: Program,
    feeds: Sequence[str],
    fetches: tuple[str, ...],
    sets: Sequence[Shapes],
    place: Place,
    buckets: Buckets | None,
) -> tuple[list[BundledStep], list[str]]:
    """Compile the steps of all sets; omit sets that cannot be padded, with a note."""
    block = program.global_block()
    given = [
        {name: np.zeros(shapes[name], block.var(name).dtype.numpy) for name in feeds}
        for shapes in sets
    ]
    if buckets is None:
        names = tuple(sorted(feeds))
        compiled = compile_program(Compilation(program, names, fetches, None, (place,)))
        made = for_sizes(compiled, given) or [compiled] * len(given)
        return [BundledStep(each, feed, {}) for each, feed in zip(made, given, strict=True)], []
    runner = BucketedRunner((place,), buckets)
    found: list[BundledStep] = []
    notes: list[str] = []
    for shapes, each in zip(sets, given, strict=True):
        fitted = runner.find_fitting(program, each, fetches, alone=True)
        if fitted is None:
            notes.append(
                f"not for {_show_shapes(shapes)}: {'; '.join(runner.stats.get('exact', ()))}"
            )
            continue
        sizes = {dim: size for dim, (_, size) in fitted.rows.items()}
        if all(sizes != step.sizes for step in found):
            found.append(BundledStep(fitted.executables.compiled, fitted.feeds, sizes))
    return found, notes


def for_sizes(compiled: Compiled, given: Sequence[Mapping[str, Array]]) -> list[Compiled]:
    """Compile the program for the sizes of each set of feeds, which some passes depend on.

    Returns [] where the passes need no sizes, and where the sets need different prepared state: all
    executables of a bundle share it.
    """
    made: list[Compiled] = []
    for feeds in given if compiled.wants_sizes else ():
        compilation = compiled.compilation.for_feeds(feeds)
        if compilation is None:
            return []
        made.append(compile_program(compilation))
        made[-1].plan = replace(made[-1].plan, feeds=compiled.plan.feeds)
    return made if all(_is_like(made[0], each) for each in made[1:]) else []


def _is_like(one: Compiled, other: Compiled) -> bool:
    """True if two programs read the same state, prepared in the same way."""
    if (one.plan.read_only, one.plan.prepared) != (other.plan.read_only, other.plan.prepared):
        return False
    if one.prepare is None or other.prepare is None:
        return one.prepare is other.prepare
    return one.prepare.is_like(other.prepare)


def _show_shapes(shapes: Shapes) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())


def check_pure(compiled: Compiled) -> None:
    """Raise UnsupportedError for a program whose steps are not a function of arrays."""
    if compiled.plan.written:
        names = ", ".join(port.name for port in compiled.plan.written[:3])
        raise UnsupportedError(
            f"the program updates variables ({names} ...), which a bundle does not support; save "
            "the program for inference first"
        )
    if compiled.callers:
        raise UnsupportedError(
            f"{next(iter(compiled.callers)).name} calls back into Python, which a bundle does not "
            "support; save the program without this operator"
        )


def _entry(step: BundledStep, pieces: Pieces, device: Any) -> dict[str, Any]:
    """Compile one executable, add its pieces, and return its manifest record."""
    compiled = step.compiled
    plan = compiled.plan
    ports = (*plan.read_only, *plan.prepared)
    state = [jax.ShapeDtypeStruct(shape_of(p.type), dtype_of(p.type).numpy) for p in ports]
    assert all(UNKNOWN not in type_.shape for type_ in state)
    feeds = [step.feeds[port.name] for port in plan.feeds]
    types = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in feeds]
    replica = replica_function(compiled.module, plan, ALONE)

    def flat(*arrays: Any) -> Any:
        count = len(state)
        return replica((), arrays[:count], arrays[count:-1], arrays[-1])[0]

    # keep every argument, whether it is read or not
    jitted: Any = jax.jit(flat, keep_unused=True)
    key = jax.ShapeDtypeStruct((2,), np.uint32)
    try:
        with jax.enable_x64(True), for_files():
            artifact = export.export(jitted, platforms=(device.platform,))(*state, *types, key)
    except NeedsData as error:
        raise UnsupportedError(f"the program cannot be compiled as a whole: {error}") from None
    stablehlo = artifact.mlir_module_serialized
    executable = compiled_stablehlo(stablehlo, compiled.options() or {}, device)
    shapes = {n: [a.dtype.name, list(a.shape)] for n, a in step.feeds.items()}
    return {
        "feeds": shapes,
        "sizes": step.sizes,
        "executable": pieces.add(executable.serialize()),
        "stablehlo": pieces.add(stablehlo),
    }
