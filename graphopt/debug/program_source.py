"""The subjects of `graphopt bisect`: a program of any kind, its inputs, and the passes to run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.search import steps_named
from graphopt.display.units import shape
from graphopt.errors import FeedError, OpenSizeError, PassError
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.signature import FEED, Port, signature_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.models.feeds import BATCH, OTHER, Sizes, load_arrays, random_feed
from graphopt.passes.engine import replay_file
from graphopt.passes.engine.crash import PassStep
from graphopt.passes.engine.fusion import FusionPass
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.parts import PARSE, CompilationPart
from graphopt.passes.table.pipeline import passes_of
from graphopt.passes.table.report import Report
from graphopt.passes.table.schedule import steps as steps_of
from graphopt.runtime.compile.compilation import Compilation, pass_context_for
from graphopt.runtime.devices.places import likely_place
from graphopt.runtime.settings.strategy_text import strategy_of
from graphopt.runtime.state.arrays import numbers_in

if TYPE_CHECKING:
    from graphopt.ir.formats.model import LoadedModel

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Subject:
    """A program with the inputs and passes that its file or its script has."""

    origin: str
    module: ModuleOp
    known: Mapping[str, Array]
    """The parameters, or all inputs of a script's step."""
    steps: tuple[PassStep, ...] | None = None
    seed: int = 7
    report: Report | None = None
    """The report on the passes, for a script's program."""
    parts: tuple[CompilationPart, ...] = ()
    """The times of reading the program without its parameters, for a file."""
    compilation: Compilation | None = None
    """The compilation, for a program of Paddle's operators."""

    def context_or(self, given: PassContext, *, by_flags: bool = False) -> PassContext:
        """Return the context with which a script ran it; the given one without a script.

        `by_flags` replaces the flags of the script's strategy by the flags of the given context.
        """
        if self.report is None:
            return given
        ran = self.report.context
        if not by_flags:
            return ran
        flags = {**given.flags, "num_trainers": ran.trainers}
        return replace(ran, flags=flags, asked=given.asked)


def subjects(
    path: str, arguments: Sequence[str], *, plain: bool, inputs: Inputs | None = None
) -> list[Subject]:
    """Read the programs of a file, or run a script and collect its programs.

    A script's programs are those that run with a strategy, and others that passes change, or with
    `plain` all, each with the inputs of its first step. A model whose program depends on its sizes
    is read for the sizes of `inputs`. Raises as the readers of the formats do.
    """
    if path.endswith(".py"):
        return _of_script(path, arguments, plain)
    if arguments:
        raise ValueError(
            f"arguments ({' '.join(arguments)}) are for scripts, and {path} is not a script"
        )
    if path == "-":
        return [_of_text(sys.stdin.read(), "<stdin>")]
    if path.endswith(".mlir"):
        return [_of_text(Path(path).read_text("utf-8"), path)]
    return [_of_model(path, inputs)]


def _of_text(text: str, source: str) -> Subject:
    if replay_file.is_replay_file(text):
        found = replay_file.read(text, source)
        found.module.verify()
        return Subject(source, found.module, found.arrays(), steps_of_file(found), found.seed)
    start = time.perf_counter()
    module = parse_text(text, source)
    parse = CompilationPart(PARSE, time.perf_counter() - start)
    module.verify()
    return Subject(source, module, {}, parts=(parse,))


def _of_model(path: str, inputs: Inputs | None) -> Subject:
    from graphopt.ir.translate.blocks.program import parse_program
    from graphopt.models.model import read_parameters, read_program_only

    start = time.perf_counter()
    read = read_program_only(path)
    names = tuple(read.fed_names), tuple(read.fetch_names)
    compilation = Compilation(read.program, *names, None, (likely_place(),), in_one=True)
    try:
        module = parse_program(read.program, read.fed_names, read.fetch_names, in_one=True)
    except OpenSizeError:
        if inputs is None:
            raise
        compilation, module = parse_for_feeds(compilation, inputs.feeds_of(read))
    parse = CompilationPart(PARSE, time.perf_counter() - start)
    known = read_parameters(read, None) or {}
    return Subject(str(read.path), module, known, parts=(parse,), compilation=compilation)


def parse_for_feeds(
    compilation: Compilation, feeds: Mapping[str, Array]
) -> tuple[Compilation, ModuleOp]:
    """Specialize a compilation to the sizes of these feeds, and parse its module.

    Feeds of a few numbers that decide sizes are constants there. Raises as `parse_program`.
    """
    sized = compilation.for_feeds(feeds)
    while sized is not None:
        try:
            return sized, sized.parse()
        except OpenSizeError as error:
            if not set(error.feeds) - {name for name, _ in sized.numbers}:
                raise
            sized = sized.with_numbers({name: numbers_in(feeds[name]) for name in error.feeds})
    return compilation, compilation.parse()


def _of_script(path: str, arguments: Sequence[str], plain: bool) -> list[Subject]:
    from graphopt.frontend.script import run_script
    from graphopt.runtime.steps.run_hook import watching

    # an entry keeps its compiled program alive, so that the id is not reused
    found: dict[int, tuple[Any, Subject]] = {}
    seen = False

    def watch(compiled: Any, inputs: dict[str, Any], key: Any) -> None:
        nonlocal seen
        seen = True
        if id(compiled) in found or not (plain or _is_changed(compiled)):
            return
        module = compiled.compilation.parse()
        ports = {port.name: port for port in signature_of(module).arguments}
        known = {name: _one(np.array(a), ports[name]) for name, a in inputs.items()}
        report = compiled.report
        steps, seed = tuple(steps_of(report.context.alone().quiet())), int(key[0])
        origin = f"program {len(found) + 1} of {path}"
        # the program of a plain run no longer exists when the script has ended
        program = compiled.compilation.program.clone()
        program.lr_schedulers = compiled.compilation.program.lr_schedulers
        compilation = replace(compiled.compilation, program=program)
        subject = Subject(origin, module, known, steps, seed, report, compilation=compilation)
        found[id(compiled)] = compiled, subject

    if not Path(path).exists():
        raise FileNotFoundError(f"script not found: {path}")
    with watching(watch):
        status = run_script(path, arguments)
    if status and not seen:
        raise ValueError(f"{path} ended with exit status {status} before it ran a program")
    if not seen:
        raise ValueError(
            f"{path} ended with exit status {status} and ran no program; run one with "
            "static.Executor.run (graphopt supports only static mode, not dynamic mode)"
        )
    if not found:
        raise ValueError(
            f"{path} ended with exit status {status} and ran no program that a pass changes; give "
            "--build-strategy or -p, which apply to all programs"
        )
    return [subject for _, subject in found.values()]


def _is_changed(compiled: Any) -> bool:
    """True for a program with a strategy, and for one that the passes of its platform change."""
    report = compiled.report
    return compiled.compilation.strategy is not None or any(map(report.times, report.ran))


def _one(array: Array, port: Port) -> Array:
    """Return the value of the first replica, where each has its own."""
    return array[0] if array.ndim > len(shape_of(port.type)) else array


@dataclass(frozen=True)
class Inputs:
    """The inputs of programs that do not have their own: a file, sizes, a seed for random ones."""

    data: str | None = None
    sizes: Sizes = None
    seed: int = 0

    def feeds_of(self, model: LoadedModel) -> dict[str, Array]:
        """Collect the feeds of a model, from the file or else at random."""
        loaded = load_arrays(Path(self.data)) if self.data else {}
        given = {n: loaded[n] for n in model.fed_names if n in loaded} if loaded else {}
        sizes = self.sizes
        if not isinstance(sizes, int):
            shapes = {**(sizes or {}), **{name: array.shape for name, array in given.items()}}
            sizes = {name: shapes[name] for name in model.fed_names if name in shapes}
        return {**random_feed(model, sizes, self.seed), **given}


def load_imports(names: Sequence[str]) -> None:
    """Import modules that register passes, by name or as files; PassError when one fails."""
    for name in names:
        try:
            if name.endswith(".py"):
                stem = f"_graphopt_import_{Path(name).stem}"
                spec = importlib.util.spec_from_file_location(stem, name)
                assert spec is not None and spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[stem] = module
                spec.loader.exec_module(module)
            else:
                importlib.import_module(name)
        except Exception as error:
            raise PassError(f"--import {name}: {type(error).__name__}: {error}") from error


def steps_for(strategy: str | None, passes: str, platform: str) -> tuple[PassStep, ...]:
    """Build the steps of `--build-strategy` on a platform, then the steps of `-p`.

    ValueError for an unknown pass.
    """
    steps: list[PassStep] = []
    if strategy is not None:
        steps += steps_of(pass_context_for(strategy_of(strategy), platform).quiet())
    return *steps, *steps_named(passes_of(passes))


def steps_of_file(file: replay_file.ReplayFile) -> tuple[PassStep, ...]:
    """Build the steps that a replay file names."""
    steps: list[PassStep] = []
    for texts in file.steps:
        passes = tuple(made for text in texts for made in passes_of(text))
        steps.append(
            PassStep(passes, together=any(isinstance(made, FusionPass) for made in passes))
        )
    return tuple(steps)


def complete(subject: Subject, given: Inputs) -> tuple[dict[str, Array], list[str]]:
    """Collect all inputs of a program, and the names of the random ones.

    The file may have parameters too. Raises FeedError for an input that does not fit.
    """
    data = given.data
    loaded = load_arrays(Path(data)) if data else {}
    ports = signature_of(subject.module).arguments
    if not isinstance(loaded, dict):
        raise FeedError(f"{data}: expected an .npz file with inputs by name")
    if loaded and not {port.name for port in ports} & set(loaded):
        raise FeedError(
            f"{data} contains none of the inputs {', '.join(port.name for port in ports)}; "
            f"found {', '.join(loaded)}"
        )
    rng = np.random.default_rng(given.seed)
    inputs: dict[str, Array] = {}
    made_up: list[str] = []
    for port in ports:
        value = loaded.get(port.name, subject.known.get(port.name))
        if value is None:
            value = _random(port, rng, given.sizes)
            made_up.append(f"{port.name} {shape(value.shape)}")
        inputs[port.name] = _fitting(port, value)
    return inputs, made_up


def _fitting(port: Port, value: Array) -> Array:
    wanted, dtype = shape_of(port.type), dtype_of(port.type)
    if dtype == "bfloat16" and value.dtype == np.uint16:
        value = value.view(dtype.numpy)
    fits = value.ndim == len(wanted) and all(
        want in (UNKNOWN, have) for want, have in zip(wanted, value.shape, strict=True)
    )
    if not fits or value.dtype != dtype.numpy:
        raise FeedError(
            f"the input '{port.name}' should be {dtype} {shape(wanted)}, found "
            f"{value.dtype} {shape(value.shape)}"
        )
    return value


def _random(port: Port, rng: np.random.Generator, sizes: Sizes) -> Array:
    """Draw numbers of the usual size in networks; integers 0 and 1."""
    declared, dtype = shape_of(port.type), dtype_of(port.type)
    dims = tuple(
        dim if dim != UNKNOWN else OTHER if at else BATCH for at, dim in enumerate(declared)
    )
    if isinstance(sizes, int):
        dims = tuple(sizes if dim == UNKNOWN else dim for dim in declared)
    elif sizes is not None and port.name in sizes:
        dims = sizes[port.name]
    if not dtype.is_differentiable:
        return rng.integers(0, 2, dims).astype(dtype.numpy)
    numbers = rng.standard_normal(dims)
    if "variance" in port.name or "pow" in port.name or port.name.endswith(".w_2"):
        numbers = 0.5 + np.abs(numbers) / 2
    elif port.kind != FEED and len(dims) > 1:
        # so that values in deep networks neither grow nor vanish
        numbers /= max(np.prod(dims[1:]) if len(dims) > 2 else dims[0], 1) ** 0.5
    return numbers.astype(dtype.numpy)
