"""Data parallelism as `with_data_parallel` requests it: the places, and the split of feeds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphopt.errors import FeedError
from graphopt.ir.program import Program
from graphopt.ir.program.location import caller_level
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import Place, as_place, cpu_places, cuda_places
from graphopt.runtime.distributed.job import job_of
from graphopt.runtime.feeds.losses import check_customized_seed, check_weighted
from graphopt.runtime.feeds.split import SplitFeed, split_feed
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy
from graphopt.runtime.state.arrays import Feed

if TYPE_CHECKING:
    from graphopt.runtime.runners.all_trainers import Session


@dataclass
class DataParallel:
    """The request of `with_data_parallel`; its places are fixed at the first run."""

    training: bool
    fixed: tuple[Place, ...] | None
    execution: ExecutionStrategy
    sample_weighted: bool = False
    communicates: bool = False
    """True when the program has operators that need the values of all trainers."""
    _warned: bool = field(default=False, init=False)

    def places(self, place: Place) -> tuple[Place, ...]:
        """Choose the places for an executor on this place.

        Raise ValueError when there are none, or when they are of another kind.
        """
        found = self.places_like(place)
        if not found:
            raise ValueError("No places for execution.")
        if any(other.platform != place.platform for other in found):
            raise ValueError(
                f"Place type not match: the executor runs on {place!r}, the program on "
                f"{', '.join(map(repr, found))}"
            )
        self.fixed = found
        return found

    def places_like(self, place: Place) -> tuple[Place, ...]:
        """Return the requested places, else the environment's places of this kind."""
        if self.fixed is not None:
            return self.fixed
        return tuple(cpu_places() if place.platform == "cpu" else cuda_places())

    def devices_each(self, strategy: BuildStrategy | None) -> int:
        """Return the number of places of a replica."""
        return 1 if strategy is None else strategy.tensor_parallel_degree

    def replicas(self, places: tuple[Place, ...], strategy: BuildStrategy) -> int:
        """Count the replicas, which each take rows; ValueError where places are left over."""
        each = self.devices_each(strategy)
        if len(places) % each:
            raise ValueError(
                f"tensor_parallel_degree = {each} does not divide the {len(places)} places: a "
                f"replica is {each} of them; give a multiple of {each} places (or CPU_NUM)"
            )
        return len(places) // each

    def session(self, strategy: BuildStrategy) -> Session | None:
        """Open a session with a job's trainers, if the program trains or has collectives."""
        group = job_of(strategy) if self.training or self.communicates else None
        if group is None:
            return None
        import_jax()
        from graphopt.runtime.runners.all_trainers import Session

        return Session(group, strategy)

    def split(
        self,
        program: Program,
        strategy: BuildStrategy,
        feed: Feed,
        count: int,
        *,
        any_shape: bool = False,
    ) -> SplitFeed:
        """Check and split the feeds of a run on up to `count` places.

        With `any_shape`, variables that take any shape are not checked. Raise FeedError for feeds
        that do not fit, ValueError for a strategy that does not.
        """
        check_customized_seed(program, strategy, feed)
        if self.sample_weighted:
            check_weighted(strategy)
        steps = self.execution.num_iteration_per_run
        parts = split_feed(
            program, feed, count, training=self.training, steps=steps, any_shape=any_shape
        )
        self._check_rows(parts)
        return parts

    def _check_rows(self, parts: SplitFeed) -> None:
        """Warn, once, if feeds have different numbers of rows, as each is split by itself.

        Raise FeedError if devices are to be weighted by rows on which their feeds disagree.
        """
        shown = ", ".join(f"{name} {count}" for name, count in parts.samples.items())
        if self.sample_weighted and self.training and len(set(parts.rows.values())) > 1:
            raise FeedError(
                "sample_weighted=True weights each device by its rows, but the feeds have "
                f"different numbers of rows: {shown}"
            )
        if len(set(parts.samples.values())) > 1 and not self._warned:
            self._warned = True
            warnings.warn(
                f"the feeds have different numbers of rows ({shown}), and each feed is split over "
                f"{parts.count} devices separately; feed the same number of rows to variables "
                "whose rows belong together",
                stacklevel=caller_level(),
            )

        self._warn_of_unequal_parts(parts)

    def _warn_of_unequal_parts(self, parts: SplitFeed) -> None:
        """Warn, once, if some devices get fewer rows, which then weigh more."""
        uneven = [name for name, size in parts.samples.items() if size % parts.count]
        if uneven and self.training and not self.sample_weighted and not self._warned:
            self._warned = True
            warnings.warn(
                f"the {parts.samples[uneven[0]]} rows of '{uneven[0]}' are split over "
                f"{parts.count} devices unequally. Gradients are averaged over devices, as in "
                "Paddle, so a row on a device with fewer rows has more weight. Feed a multiple of "
                f"{parts.count} rows, as with drop_last=True, or set sample_weighted",
                stacklevel=caller_level(),
            )

    def compilation(
        self,
        program: Program,
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        strategy: BuildStrategy | None,
        places: tuple[Place, ...],
        *,
        stacked: frozenset[str] = frozenset(),
    ) -> Compilation:
        """Build the compilation of a program for these places."""
        return Compilation(
            program,
            feeds,
            fetches,
            strategy,
            places,
            data_parallel=True,
            steps=self.execution.num_iteration_per_run,
            stacked=stacked,
            sample_weighted=self.sample_weighted and self.training,
            mapper=self.execution.chosen_mapper(),
        )


def as_places(spec: object) -> tuple[Place, ...]:
    """Convert one place or several to a tuple; ValueError for none."""
    if isinstance(spec, (list, tuple)):
        if not spec:
            raise ValueError("No places for execution.")
        return tuple(as_place(item) for item in spec)
    return (as_place(spec),)
