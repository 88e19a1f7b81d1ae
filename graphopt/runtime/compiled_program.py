"""CompiledProgram: a program with the optimisations of a BuildStrategy, on one device or many.

Paddle page: paddle.static.CompiledProgram.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import FeedError
from graphopt.ir.gradients.explicit import base_name, is_gradient
from graphopt.ir.gradients.types import is_zero
from graphopt.ir.legacy.special import GRAD_TYPE
from graphopt.ir.program import GRAD_SUFFIX, Operator, Program
from graphopt.runtime.distributed.job import job_of
from graphopt.runtime.executor import Executor, Runner, write_learning_rates
from graphopt.runtime.explain import Explanation, explain
from graphopt.runtime.feed import Parts, split_feed
from graphopt.runtime.fetch import as_result, merge_replicas, split_replicas
from graphopt.runtime.places import Place, as_place, cpu_places, cuda_places
from graphopt.runtime.scope import Scope
from graphopt.runtime.strategies import (
    BuildStrategy,
    ExecutionStrategy,
    GradientScaleStrategy,
)


class CompiledProgram:
    """A snapshot of `program`, to be optimised as `build_strategy` says.

    Operators appended to the program later are not part of it. Raises TypeError for anything but
    a Program. With `strict`, a flag that is switched on and does nothing to the program raises
    StrictError at the first run.
    """

    def __init__(
        self,
        program_or_graph: Any,
        build_strategy: BuildStrategy | None = None,
        *,
        strict: bool = False,
    ) -> None:
        if not isinstance(program_or_graph, Program):
            raise TypeError(
                "The type of program_to_graph parameter is wrong, expected Graph or Program, but "
                f"received {type(program_or_graph)}"
            )
        self._source = program_or_graph
        self._program = program_or_graph.clone()
        self._program.lr_schedulers = program_or_graph.lr_schedulers
        self._strategy = build_strategy or BuildStrategy()
        self._exec_strategy = ExecutionStrategy()
        self._strict = strict
        self._data_parallel: DataParallel | None = None
        self._runner: Runner | None = None
        self._bound: tuple[Scope, Place] | None = None

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: CompiledProgram | None = None,
        places: Any = None,
        *,
        sample_weighted: bool = False,
    ) -> CompiledProgram:
        """Run on several devices: feeds are split by rows, gradients averaged; returns self.

        `loss_name` is needed when the program has a backward part. `places` is a list of places,
        by default those of CPU_NUM or the visible GPUs. `build_strategy` replaces the
        constructor's. All replicas share one value of each parameter, so `share_vars_from` only
        checks that it names a data-parallel program.

        Where the rows do not divide evenly, Paddle averages the devices' gradients whatever their
        number of rows, and so does this. With `sample_weighted` each device counts by its rows,
        which for a loss that is a mean over rows gives the gradient of the whole batch's mean.

        Raises AssertionError when called twice or without a needed loss name, TypeError or
        ValueError for a loss name that is no variable, ValueError for no places.
        """
        assert self._data_parallel is None, "Already compiled with parallel, cannot be recompiled."
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
        if exec_strategy is not None:
            self._exec_strategy = exec_strategy
        self._data_parallel = DataParallel(
            loss_name,
            training,
            share_vars_from,
            None if places is None else as_places(places),
            sample_weighted=sample_weighted,
        )
        if training and self._strategy.trainers_endpoints:
            job_of(self._strategy)  # before the startup program runs, if it is to be possible
        return self

    @property
    def stats(self) -> dict[str, Any]:
        """What ran: the mapper and the number of devices of the latest run, and counters."""
        found: dict[str, Any] = {**self._runner.stats} if self._runner else {}
        if self._data_parallel:
            found |= self._data_parallel.stats
        return found

    def explain(self, flag: str = "") -> str:
        """What the optimizer did to this program, what it left alone and why, what was near.

        Covers the programs compiled so far; before the first run there is nothing to tell, but
        `graphopt.explain` needs no run. With `flag` only what that flag or pass did.
        """
        found = self.explanations()
        if not found:
            return "nothing was compiled yet: run the program first"
        parts = [item.text(flag) for item in found]
        return "\n\n".join([*parts, *([] if flag else self._exec_strategy.explain())])

    def explanations(self) -> list[Explanation]:
        """The same as objects, one for each set of feeds and fetches that was compiled."""
        return [Explanation(item.explained()) for item in self._compiled()]

    def _compiled(self) -> list[Any]:
        if self._data_parallel is not None:
            return list(self._data_parallel.compiled.values())
        return list(self._runner._compiled.values()) if self._runner else []

    def _run(
        self,
        executor: Executor,
        feed: Any,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """Called by `Executor.run`."""
        self._bind(scope, executor.place)
        if self._strict:
            self._check_strict(names)
        if self._data_parallel is not None:
            return self._data_parallel.run(
                self, executor, feed, names, scope, return_numpy, return_merged
            )
        if self._runner is None:
            self._runner = Runner((executor.place,), self._strategy)
        check_customized_seed(self._program, self._runner.strategy, feed)
        fetches = self._runner.step(self._program, feed, names, scope, wait=return_numpy)
        results = [as_result(array, return_numpy=return_numpy) for array in fetches]
        return results if return_merged else [[result] for result in results]

    def _check_strict(self, names: tuple[str, ...]) -> None:
        """StrictError, before anything is compiled or changed, for a flag that does nothing."""
        explain(self._program, self._strategy, list(names), strict=True)
        self._strict = False

    def _bind(self, scope: Scope, place: Place) -> None:
        if self._bound is None:
            self._bound = scope, place
            # flags that are set from now on change nothing
            self._strategy = self._strategy._copy()
        elif self._bound[0] is not scope:
            raise ValueError("Cannot compile program with different scope.")
        elif self._bound[1] != place:
            raise ValueError("Cannot compile program with different place.")


class DataParallel:
    """The data-parallel side of a CompiledProgram: places, splitting, merging."""

    def __init__(
        self,
        loss_name: str | None,
        training: bool,
        share_vars_from: CompiledProgram | None,
        places: tuple[Place, ...] | None,
        *,
        sample_weighted: bool = False,
    ) -> None:
        self.loss_name = loss_name
        self.training = training
        self.share_vars_from = share_vars_from
        self.places = places
        self.sample_weighted = sample_weighted
        self.compiled: dict[Any, Any] = {}
        self.stats: dict[str, Any] = {"runs": 0}
        self.session: Any = None

    def run(
        self,
        owner: CompiledProgram,
        executor: Executor,
        feed: Any,
        names: tuple[str, ...],
        scope: Scope,
        return_numpy: bool,
        return_merged: bool,
    ) -> list[Any]:
        """One step on all devices."""
        places = self._places(executor.place)
        program = owner._program
        strategy = self._strategy(owner)
        check_customized_seed(program, strategy, feed)
        if self.sample_weighted:
            check_weighted(strategy)
        steps = max(owner._exec_strategy.num_iteration_per_run, 1)
        parts = split_feed(program, feed, len(places), training=self.training, steps=steps)
        write_learning_rates(program, scope)
        per_fetch = self._step(owner, program, strategy, places, parts, names, scope)
        self.stats["runs"] += 1
        if not return_merged:
            return [
                [as_result(value, return_numpy=return_numpy) for value in values]
                for values in per_fetch
            ]
        return [
            as_result(merge_replicas(name, values), return_numpy=return_numpy)
            for name, values in zip(names, per_fetch, strict=True)
        ]

    def _strategy(self, owner: CompiledProgram) -> BuildStrategy:
        """The strategy; of a training program of several trainers, as their job wants it."""
        if self.session is None and self.training:
            group = job_of(owner._strategy)
            if group is not None:
                from graphopt.runtime.distributed.step import Session

                self.session = Session(group, owner._strategy)
        return owner._strategy if self.session is None else self.session.strategy

    def _step(
        self,
        owner: CompiledProgram,
        program: Program,
        strategy: BuildStrategy,
        places: tuple[Place, ...],
        parts: Parts,
        names: tuple[str, ...],
        scope: Scope,
    ) -> list[list[Any]]:
        """The values of every fetch on every replica."""
        from graphopt.runtime.compile import Request, compile_program

        if self.session is not None:
            self.session.check(parts, len(places))
        even = parts.whole is not None
        # in sorted order, so that dicts of another order share what was compiled
        fed = tuple(sorted(parts.whole if parts.whole is not None else parts.chunks[0]))
        key = (fed, names, parts.count, parts.stacked)
        compiled = self.compiled.get(key)
        if compiled is None:
            steps = max(owner._exec_strategy.num_iteration_per_run, 1)
            request = Request(
                program,
                fed,
                names,
                strategy,
                places[: parts.count],
                data_parallel=True,
                steps=steps,
                stacked=parts.stacked,
                sample_weighted=self.sample_weighted and self.training,
            )
            compiled = self.compiled[key] = compile_program(request)
        arrays = [parts.whole] if parts.whole is not None else list(parts.chunks)
        shapes = tuple(tuple((part[n].shape, part[n].dtype) for n in fed) for part in arrays)
        if self.session is not None:
            whole = {name: array.copy() for name, array in (parts.whole or {}).items()}
            fetches, mapper = self.session.run(compiled, shapes, whole, scope)
            self.stats |= {"mapper": mapper, "devices": parts.count}
            return fetches
        executable = compiled.executable(shapes, parts.count, even=even)
        if parts.whole is not None:
            feeds: Any = {name: array.copy() for name, array in parts.whole.items()}
        else:
            feeds = {name: [chunk[name].copy() for chunk in parts.chunks] for name in fed}
        fetches = executable(feeds, scope)
        self.stats |= {"mapper": executable.mapped.name, "devices": parts.count}
        if executable.mapped.name in ("alone", "by_op"):
            return [[value] for value in fetches]
        return [
            list(value) if isinstance(value, (list, tuple)) else split_replicas(value)
            for value in fetches
        ]

    def _places(self, place: Place) -> tuple[Place, ...]:
        """The places of this program, resolved at the first run, and the checks that need them."""
        if self.places is None:
            self.places = tuple(cpu_places() if place.platform == "cpu" else cuda_places())
        if not self.places:
            raise ValueError("No places for execution.")
        if any(other.platform != place.platform for other in self.places):
            raise ValueError(
                f"Place type not match: the executor runs on {place!r}, the program on "
                f"{', '.join(map(repr, self.places))}"
            )
        self._check_sharing(self.places)
        return self.places

    def _check_sharing(self, places: Sequence[Place]) -> None:
        source = self.share_vars_from
        if source is None:
            return
        if source._data_parallel is None:
            raise ValueError(
                "The shared Program is not data parallel, cannot share variables from it."
            )
        if not source._data_parallel.stats["runs"]:
            raise ValueError(
                "The shared Program is not compiled and executed, so there is no variables to "
                "share."
            )
        shared = source._data_parallel.places or ()
        if len(shared) != len(places):
            raise ValueError(
                f"the number of places ({len(places)}) is not equal to that of the shared program "
                f"({len(shared)})"
            )


def as_places(spec: Any) -> tuple[Place, ...]:
    """One place or several as a tuple; ValueError for none."""
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ValueError("No places for execution.")
        return tuple(as_place(item) for item in spec)
    return (as_place(spec),)


def has_backward(program: Program) -> bool:
    """True when some operator type ends in `_grad`."""
    return any(op.type.endswith("_grad") for block in program.blocks for op in block.ops)


def losses(program: Program) -> list[str]:
    """The names of the variables that the program differentiates."""
    ops = program.global_block().ops
    found = {name for op in ops if op.type == GRAD_TYPE for name in op.input("Y")}
    if any(is_gradient(op) for op in ops):
        found.update(filter(None, map(_seeded, ops)))
    return sorted(found)


def _seeded(op: Operator) -> str | None:
    """What a constant is the gradient of, in a program with explicit gradient operators."""
    if op.type not in ("fill_constant", "fill_any_like") or is_zero(op):
        return None
    names = [base_name(name) for name in op.output("Out")]
    known = [name for name in names if name and op.block.find_var(name) is not None]
    return known[0] if known else None


def check_loss_name(program: Program, loss_name: str | None) -> None:
    """AssertionError or ValueError unless it names the variable that is differentiated."""
    assert loss_name is not None, (
        "The loss name should be set, because the program contains a backward part."
    )
    found, variable = losses(program), program.global_block().find_var(loss_name)
    other = bool(found) and loss_name not in found
    # a saved program may scale its loss before it differentiates it
    if variable is not None and other and any(map(is_gradient, program.global_block().ops)):
        other = variable.shape not in ((), (1,))
    if variable is None or other:
        raise ValueError(
            f"loss_name '{loss_name}' is not the variable that the program differentiates"
            + (f"; that is {', '.join(found)}" if found else "")
        )


def check_weighted(strategy: BuildStrategy) -> None:
    """ValueError unless the strategy averages gradients, which weights by rows can then do."""
    if strategy.gradient_scale_strategy is not GradientScaleStrategy.CoeffNumDevice:
        raise ValueError(
            "sample_weighted goes with gradient_scale_strategy = CoeffNumDevice only, found "
            f"{strategy.gradient_scale_strategy.name}"
        )


def check_customized_seed(program: Program, strategy: BuildStrategy, feed: Any) -> None:
    """FeedError when the strategy wants the loss gradient to be fed and it is not."""
    if strategy.gradient_scale_strategy is not GradientScaleStrategy.Customized:
        return
    if not has_backward(program):
        return
    elements = feed if isinstance(feed, (list, tuple)) else [feed]
    if all(any(name.endswith(GRAD_SUFFIX) for name in element or ()) for element in elements):
        return
    wanted = " or ".join(f"'{name}{GRAD_SUFFIX}'" for name in losses(program))
    raise FeedError(
        "gradient_scale_strategy is Customized, so the gradient of the loss must be fed: the "
        f"name of loss@GRAD is {wanted}"
    )
