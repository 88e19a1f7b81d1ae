"""CompiledProgram: a program with the optimizations of a BuildStrategy, on one device or many.

Paddle page: paddle.static.CompiledProgram.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from graphopt.display.facts import WithFacts
from graphopt.display.table import Page
from graphopt.display.units import several
from graphopt.errors import FetchError
from graphopt.ir.program import Operator, Program
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import Place, as_place, likely_place
from graphopt.runtime.distributed.job import job_of
from graphopt.runtime.executor import Executor
from graphopt.runtime.feeds.feed import names_fed
from graphopt.runtime.feeds.fetch import Results, as_results, fetch_names, merge_replicas
from graphopt.runtime.feeds.losses import (
    check_customized_seed,
    check_loss_name,
    has_backward,
    is_customized,
)
from graphopt.runtime.runners.data_parallel import DataParallel, as_places
from graphopt.runtime.runners.runner import Runner
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy
from graphopt.runtime.state.arrays import Feed, Stats, counters
from graphopt.runtime.state.scope import Scope, global_scope, values_in

if TYPE_CHECKING:
    from graphopt.passes.table.added import GivenPass
    from graphopt.runtime.compile.compiled import Compiled
    from graphopt.runtime.explain import Explanation
    from graphopt.runtime.profiling.profile import Profile


class CompiledProgram(WithFacts):
    """A snapshot of `program`, to be optimized as `build_strategy` says.

    Operators appended to the program later are not part of it. Raises TypeError unless it is a
    Program. With `strict`, an enabled flag that does nothing to the program raises StrictError at
    the first run. `passes` (names, classes or instances of ModulePass) run after the fusions, and
    after the passes of enclosing `adding` blocks; TypeError or ValueError for no pass.
    """

    def __init__(
        self,
        program_or_graph: Program,
        build_strategy: BuildStrategy | None = None,
        *,
        strict: bool = False,
        passes: Sequence[GivenPass] = (),
    ) -> None:
        if not isinstance(program_or_graph, Program):
            raise TypeError(
                "The type of program_to_graph parameter is wrong, expected Graph or Program, but "
                f"received {type(program_or_graph)}"
            )
        from graphopt.passes.table.added import as_passes, of_block

        self._source = program_or_graph
        self._program = program_or_graph.clone()
        self._program.lr_schedulers = program_or_graph.lr_schedulers
        self._strategy = build_strategy or BuildStrategy()
        self._strict = strict
        self._added = of_block() + as_passes(passes)
        self._parallel: DataParallel | None = None
        self._shared: CompiledProgram | None = None
        self._runner: Runner | None = None
        self._bound: tuple[Scope, Place] | None = None
        self._wants_seed = False

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: object = None,
        *,
        sample_weighted: bool = False,
    ) -> CompiledProgram:
        """Run on several devices: feeds are split by rows, gradients averaged; return self.

        `loss_name` is required when the program has a backward part. `places` is a list of places,
        by default CPU_NUM places or the visible GPUs. `build_strategy` replaces the constructor's.
        All replicas share one value of each parameter, so `share_vars_from` only checks that it
        names a data-parallel program.

        Where the rows do not divide evenly, Paddle averages the devices' gradients whatever their
        number of rows, and so does this. With `sample_weighted` each device is weighted by its
        rows, which for a loss that is a mean over rows gives the gradient of the whole batch's
        mean.

        Raises AssertionError when called twice or without a required loss name, TypeError or
        ValueError for a loss name that is no variable, ValueError for no places.
        """
        assert self._parallel is None, "Already compiled with parallel, cannot be recompiled."
        if loss_name is not None and not isinstance(loss_name, str):
            raise TypeError(
                "loss_name must be the name of the loss (loss.name), found "
                f"{type(loss_name).__name__}"
            )
        training = has_backward(self._program)
        if training:
            check_loss_name(self._program, loss_name)
        if build_strategy is not None:
            self._strategy = build_strategy
        self._shared = share_vars_from
        self._parallel = DataParallel(
            training,
            None if places is None else as_places(places),
            exec_strategy or ExecutionStrategy(),
            sample_weighted,
            self._program.communicates,
        )
        if training and self._strategy.trainers_endpoints:
            job_of(self._strategy)  # if possible, before the startup program runs
        return self

    @property
    def stats(self) -> Stats:
        """The mapper and the number of devices of the latest run, and counters."""
        return self._runner.stats if self._runner is not None else {}

    def explain(self, flag: str = "") -> str:
        """Report on the optimizer: rewrites, refusals with reasons, near misses.

        Covers the programs compiled so far; before the first run there is no report, but
        `graphopt.explain` needs no run. It ends with the form in which each size runs, and the
        measurement that decided it. With `flag`, report only on that flag or pass.
        """
        found = self.explanations()
        if not found:
            return "nothing was compiled yet: run the program first"
        parts = [item.text(flag) for item in found]
        if not flag:
            parts += self._forms()
        if self._parallel is not None and not flag:
            parts += self._mappers() + self._parallel.execution.explain()
        return "\n\n".join(parts)

    def text(self, form: str = "pd") -> str:
        """Return the text of all compiled programs in a form.

        The forms are the optimized module (`pd`), XLA's input (`stablehlo`) or its output (`hlo`).
        ValueError for another form.
        """
        made = self._runner.executables() if self._runner is not None else []
        if form == "pd":
            from graphopt.ir.dialect.text import text_of

            return "\n".join(text_of(compiled.module) for compiled in self._compiled_programs())
        if form == "stablehlo":
            return "\n".join(executable.stablehlo() for executable in made)
        if form == "hlo":
            return "\n".join(executable.hlo() for executable in made)
        raise ValueError(f"form must be 'pd', 'stablehlo' or 'hlo', found {form!r}")

    def report(
        self,
        path: str | PathLike[str],
        title: str = "CompiledProgram",
        *,
        against: Program | CompiledProgram | None = None,
        feed: Feed = None,
        fetch_list: Any = None,
        steps: int = 5,
    ) -> None:
        """Write a page with the graph before and after each pass, and the passes' report.

        It covers the programs compiled so far. A path that ends in `.json` gets the data for Model
        Explorer. With `against`, another program, the page has the differences from it as well: it
        fetches the variables of the same names, or else its outputs. With `feed` some steps are
        measured as by `profile`, and the page has the time and memory of each op; `fetch_list`
        defaults to the fetches of the run with the same feeds.

        Raises RuntimeError before the first run, TypeError when `against` is no program, OSError
        when the path cannot be written, and for `feed` the errors of `profile`.
        """
        from graphopt.report.stages import optimization
        from graphopt.report.write import write_report
        from graphopt.runtime.explain import other_for
        from graphopt.runtime.measured import measured_step

        compiled = [(each.compilation, each.report) for each in self._compiled_programs()]
        if not compiled:
            raise RuntimeError("CompiledProgram.report: nothing was compiled yet: run it first")
        run, profile = None, None
        if feed is not None:
            run, profile = self._profile_compilation(feed, fetch_list, steps)
            if not any(run.is_called_as(each) for each, _ in compiled):
                compiled.append((run, run.optimize(near=True).report))
        several = len(compiled) > 1
        programs = [
            optimization(
                f"program {number}" if several else title,
                each.parse,
                report.context,
                compiled=report,
                other=None if against is None else other_for(against, each),
                measured=measured_step(profile)
                if run and profile and run.is_called_as(each)
                else None,
            )
            for number, (each, report) in enumerate(compiled, 1)
        ]
        # The page opens on the measured program.
        programs.sort(key=lambda each: each.measured is None)
        write_report(path, programs, title)

    def profile(self, feed: Feed, fetch_list: Any = None, steps: int = 5) -> Profile:
        """Measure the time of a step by op and by source line, on one device.

        The program is compiled once more, and some steps of it run under JAX's profiler, on copies
        of the values in its scope, so the startup program must have run. `fetch_list` are the
        variables that a run fetches, by default the losses and the values without readers.

        Raises the errors of `Executor.run` for the feed, FetchError for an unknown fetch,
        RuntimeError while JAX's profiler is in use, and UnsupportedError for a program that XLA
        cannot compile as a whole or where the profiler of the device does not name instructions.
        """
        from graphopt.ir.translate.interface import output_names

        names = output_names(self._program) if fetch_list is None else fetch_list
        return self._profile_compilation(feed, names, steps)[1]

    def _profile_compilation(
        self, feed: Feed, fetch_list: Any, steps: int
    ) -> tuple[Compilation, Profile]:
        """Build the compilation to profile, and profile it.

        `fetch_list` defaults to the fetches of the latest run with the same feeds.
        """
        from graphopt.ir.translate.interface import output_names
        from graphopt.runtime.feeds.feed import single_feed
        from graphopt.runtime.profiling.run import profile_compilation

        place = self._bound[1] if self._bound is not None else likely_place()
        scope = self._bound[0] if self._bound is not None else global_scope()
        feeds = single_feed(self._program, feed)
        if fetch_list is None:
            runs = (each.compilation for each in reversed(self._compiled_programs()))
            like = (each.fetches for each in runs if {*each.feeds} == {*feeds})
            fetch_list = next(like, None) or output_names(self._program)
        names = fetch_names(fetch_list)
        compilation = Compilation(
            self._program,
            tuple(sorted(feeds)),
            tuple(names),
            self._strategy.with_passes(self._added),
            (place,),
        )
        state = [v.name for v in self._program.list_vars() if v.persistable]
        return compilation, profile_compilation(compilation, values_in(scope, state), feeds, steps)

    def _facts(self) -> Mapping[str, str]:
        """Summarize the program, its strategy and places, and the compilations and runs."""
        found = {**self._program.facts(), "build_strategy": repr(self._strategy)}
        if self._parallel is not None and self._bound is not None:
            found["places"] = str(len(self._parallel.places(self._bound[1])))
        return {**found, **counters(self.stats)}

    def _page(self) -> Page:
        """Build a page of the facts, and a report for each compiled set of feeds and fetches."""
        reports = [part for item in self.explanations() for part in item.page().parts]
        return Page([*super()._page().parts, *reports])

    def _forms(self) -> list[str]:
        """Describe the forms in which sizes of feeds run, a line for each with the reason."""
        tiers = self._runner.stats.get("tiers", {}) if self._runner is not None else {}
        found = [(form.partition(": "), count) for form, count in sorted(tiers.items())]
        return [
            f"{several(count, 'size')} of feeds in the {name} form{colon}{why}"
            for (name, colon, why), count in found
        ]

    def _mappers(self) -> list[str]:
        """Describe the mappers of the compiled programs, a line for each."""
        made = self._runner.executables() if self._runner is not None else []
        found = [executable.replicated for executable in made]
        return list(dict.fromkeys(f"mapper: {r.name}, as {r.why}" for r in found))

    def explanations(self) -> list[Explanation]:
        """Build the explanations as objects, one for each compiled set of feeds and fetches."""
        from graphopt.runtime.explain import Explanation

        return [Explanation(item.explain()) for item in self._compiled_programs()]

    def _compiled_programs(self) -> list[Compiled]:
        return self._runner.all_made() if self._runner else []

    def _compile(self, scope: Scope, place: object) -> CompiledProgram:
        """Bind the program to a scope and a place, as its first run would.

        Raises ValueError when it is bound to others; XLA compiles at the first run.
        """
        self._bind(scope, as_place(place))
        return self

    def _run(
        self,
        executor: Executor,
        feed: Feed,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
        updates: tuple[Operator, ...] | None,
    ) -> Results:
        """Run a step for `Executor.run`; with `updates` prune to them and the fetches."""
        self._bind(scope, executor.place)
        if self._strict:
            self._check_strict(names)
        if self._runner is None:
            self._runner = self._new_runner(executor)
        if self._wants_seed and self._parallel is None:
            check_customized_seed(self._program, self._strategy, feed)
        program = self._program
        if updates is not None:
            needed = names_fed(feed), names, tuple(self._own(op) for op in updates)
            program = self._runner.find_pruned(program, *needed, executor._prune_program)
        fetches = self._runner.step(program, feed, names, scope, wait=return_numpy)
        if not return_merged:
            return [as_results(values, return_numpy=return_numpy) for values in fetches]
        if self._parallel is None:
            return as_results([value for (value,) in fetches], return_numpy=return_numpy)
        merged = [*map(merge_replicas, names, fetches)]
        return as_results(merged, return_numpy=return_numpy)

    def _runner_alone(self, executor: Executor, scope: Scope) -> Runner | None:
        """Find the runner of steps on one device that need no checks; None without one.

        The first run binds the program to a scope and a place, and makes the checks.
        """
        if self._bound is None or self._parallel is not None or self._wants_seed:
            return None
        bound_scope, place = self._bound
        return self._runner if bound_scope is scope and place is executor.place else None

    def _own(self, op: Operator) -> Operator:
        """Map an operator of the program to its copy in the snapshot."""
        made_from, own = self._source.global_block().ops, self._program.global_block().ops
        for other, found in zip(made_from, own, strict=False):
            if other is op and found.outputs == op.outputs:
                return found
        raise FetchError(
            f"the operator {op.type} that writes {', '.join(op.output_arg_names)} is not part of "
            "the CompiledProgram; compile the program after minimize()"
        )

    def _new_runner(self, executor: Executor) -> Runner:
        """Make the runner; ValueError if its places do not fit the executor or a shared program."""
        if self._parallel is None:
            return executor.new_runner(self._strategy)
        places = self._parallel.places(executor.place)
        if self._shared is not None:
            self._shared._check_shares(len(places))
        return Runner(places, self._strategy, self._parallel)

    def _check_shares(self, count: int) -> None:
        """Raise ValueError unless this program has run, data-parallel on so many places."""
        if self._parallel is None:
            raise ValueError(
                "The shared Program is not data parallel, cannot share variables from it."
            )
        if self._runner is None or not self._runner.runs:
            raise ValueError(
                "The shared Program is not compiled and executed, so there is no variables to "
                "share."
            )
        shared = len(self._runner.places)
        if shared != count:
            raise ValueError(
                f"the number of places ({count}) is not equal to the number of places of the "
                f"shared program ({shared})"
            )

    def _count(self, place: Place) -> int:
        """Count the devices of a run, which each take a feed."""
        return 1 if self._parallel is None else len(self._parallel.places(place))

    def _compilation(self, feeds: tuple[str, ...], fetches: tuple[str, ...]) -> Compilation:
        """Build the compilation for these feeds and fetches; before a run, on a likely place."""
        place = self._bound[1] if self._bound is not None else likely_place()
        strategy = self._strategy.with_passes(self._added)
        if self._parallel is None:
            return Compilation(self._program, feeds, fetches, strategy, (place,))
        places = self._parallel.places_like(place)
        return self._parallel.compilation(self._program, feeds, fetches, strategy, places)

    def _check_strict(self, names: tuple[str, ...]) -> None:
        """Raise StrictError for a flag that does nothing, before anything is compiled."""
        from graphopt.runtime.explain import explain

        explain(self, fetch_list=list(names), strict=True)
        self._strict = False

    def _bind(self, scope: Scope, place: Place) -> None:
        if self._bound is None:
            self._bound = scope, place
            # flags set from now on have no effect
            self._strategy, self._added = self._strategy.with_passes(self._added), ()
            self._wants_seed = is_customized(self._strategy)
        elif self._bound[0] is not scope:
            raise ValueError(
                "Cannot compile program with different scope. A CompiledProgram keeps the scope of "
                "its first run; make another CompiledProgram of the program for this scope, or run "
                "both in one static.scope_guard"
            )
        elif self._bound[1] is not place and self._bound[1] != place:
            raise ValueError("Cannot compile program with different place.")


def _for_trainers(program: Program, place: Place) -> CompiledProgram:
    return CompiledProgram(program).with_data_parallel(places=[place])


Executor.compiled_for_trainers = staticmethod(_for_trainers)
