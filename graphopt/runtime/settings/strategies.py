"""BuildStrategy and ExecutionStrategy as tables of settings.

`passes/table/flags.py` has the flags of BuildStrategy and their descriptions.
Paddle pages: paddle.static.BuildStrategy, paddle.static.ExecutionStrategy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphopt.passes.table.context import PassContext
from graphopt.passes.table.flags import BuildFlags, GradientScaleStrategy, ReduceStrategy
from graphopt.passes.table.settings import Setting, Settings, as_choice, as_count, as_size
from graphopt.runtime.settings.flags import MAPPERS, coalescing, left_out, mapper_flag

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


class BuildStrategy(BuildFlags):
    """The optimizations to apply to a program; defaults and checks are those of Paddle 2.6.

    Setting a wrong type raises TypeError, an unknown name AttributeError, and a frozen strategy
    RuntimeError. docs/reference/build-strategy.md has the flags.
    """

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    added_passes: tuple[ModulePass, ...] = ()
    """Passes that run after the fusions; `with_passes` sets them."""

    def _finalize_strategy_and_create_passes(self) -> list[str]:
        """Freeze the strategy and return the names of the passes that it selects, in order."""
        from graphopt.passes.table.schedule import select

        object.__setattr__(self, "is_finalized", True)
        return [made.name for _, made in select(self.pass_context())]

    def pass_context(self, **options: Any) -> PassContext:
        """Build the PassContext from the flags, with `options` about the run."""
        flags = {name: getattr(self, name) for name in self.all_settings()} | coalescing()
        return PassContext(
            flags,
            frozenset(self.values),
            without=left_out(),
            added=self.added_passes,
            **options,
        )

    def with_passes(self, passes: tuple[ModulePass, ...]) -> BuildStrategy:
        """Copy the strategy with these passes added; the copy is not finalized."""
        twin = self._copy()
        object.__setattr__(twin, "added_passes", self.added_passes + passes)
        return twin

    def key(self) -> tuple[Any, ...]:
        """Return a hashable copy of all values, and the added passes."""
        return *super().key(), self.added_passes

    def _copy(self) -> BuildStrategy:
        """Copy the strategy; the copy is not finalized."""
        twin = BuildStrategy()
        twin.values.update(self.values)
        object.__setattr__(twin, "added_passes", self.added_passes)
        return twin

    def _clear_finalized(self) -> None:
        object.__setattr__(self, "is_finalized", False)


class ExecutionStrategy(Settings):
    """The settings of a run; wrong types raise TypeError, too small numbers ValueError.

    A call runs `num_iteration_per_run` steps, and returns the fetches of the last one. They run on
    the same feed, or each on its own: an array of [steps, rows, …], one dimension more than its
    variable has, is a batch for each step. `mapper` chooses the function of JAX that maps replicas:
    `pmap`, `shard_map` or `vmap`; by default graphopt chooses. The other settings have no effect,
    as `CompiledProgram.explain` says.
    """

    num_threads = Setting(0, as_size, effect="no effect here (XLA has threads of its own)")
    num_iteration_per_drop_scope = Setting(
        100, as_count, effect="no effect here (XLA keeps no temporaries between steps)"
    )
    num_iteration_per_run = Setting(
        1, as_count, effect="steps in one call, on the same feed or on a batch for each"
    )
    allow_op_delay = Setting(False, effect="no effect here, nor in Paddle")
    use_experimental_executor = Setting(True, effect="no effect here (there is one executor)")
    use_thread_barrier = Setting(False, effect="no effect here (there is no parameter server)")
    use_cuda = Setting(True, effect="no effect here (the places decide)")
    mapper = Setting(
        "auto",
        as_choice(*MAPPERS),
        effect="what makes one replica several: `pmap`, `shard_map`, `vmap`, or `auto`, which "
        "takes `shard_map` where there is a device for each place and `vmap` elsewhere (not "
        "Paddle's)",
    )
    _dry_run = Setting(False, effect="no effect here")

    def chosen_mapper(self) -> str:
        """Return the mapper set here, else in FLAGS_graphopt_mapper; ValueError if unknown."""
        return self.mapper if "mapper" in self.values else mapper_flag()

    def explain(self) -> list[str]:
        """List the settings that were set, a line for each with its effect."""
        declared = self.declared_settings().items()
        return [f"{name}: {item.effect}" for name, item in declared if name in self.values]
