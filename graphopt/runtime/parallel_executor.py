"""ParallelExecutor: the older spelling of a data-parallel CompiledProgram with its own executor.

Paddle page: paddle.static.ParallelExecutor.
"""

from __future__ import annotations

import sys

from graphopt.ir.program import Program, default_main_program
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.devices.places import CPUPlace, CUDAPlace
from graphopt.runtime.executor import Executor
from graphopt.runtime.feeds.fetch import Results
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy
from graphopt.runtime.state.arrays import Feed, FetchList
from graphopt.runtime.state.scope import Scope, global_scope


class ParallelExecutor:
    """Runs a program data-parallel on all CPU devices (CPU_NUM) or all visible GPUs.

    Raises TypeError when `share_vars_from` is not a ParallelExecutor, and the errors of
    `CompiledProgram.with_data_parallel`.
    """

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: ParallelExecutor | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
    ) -> None:
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError("The share_vars_from should be ParallelExecutor.")
        build_strategy = build_strategy or BuildStrategy()
        if num_trainers != 1 and build_strategy.num_trainers != num_trainers:
            sys.stderr.write("The value of build_strategy.num_trainers is overwritten.\n")
            build_strategy.num_trainers = num_trainers
            build_strategy.trainer_id = trainer_id
        if share_vars_from is not None and scope is not None:
            sys.stderr.write("share_vars_from is set, scope is ignored.\n")
        shared = share_vars_from
        self._scope = shared._scope if shared else scope or global_scope()
        self._executor = Executor(CUDAPlace(0) if use_cuda else CPUPlace())
        self._program = CompiledProgram(main_program or default_main_program())
        self._program.with_data_parallel(
            loss_name=loss_name,
            build_strategy=build_strategy,
            exec_strategy=exec_strategy,
            share_vars_from=shared._program if shared else None,
        )

    @property
    def device_count(self) -> int:
        """The number of devices that the program runs on."""
        parallel = self._program._parallel
        assert parallel is not None
        return len(parallel.places(self._executor.place))

    def run(
        self,
        fetch_list: FetchList,
        feed: Feed = None,
        feed_dict: Feed = None,
        return_numpy: bool = True,
    ) -> Results:
        """Run one step; join fetches of all devices on axis 0. `feed_dict` is the older `feed`."""
        return self._executor.run(
            self._program,
            feed=feed_dict if feed is None else feed,
            fetch_list=fetch_list,
            scope=self._scope,
            return_numpy=return_numpy,
        )

    def drop_local_exe_scopes(self) -> None:
        """Release cached temporaries; XLA keeps none between steps, so this only checks.

        Raises RuntimeError before the first run.
        """
        runner = self._program._runner
        if runner is None or not runner.runs:
            raise RuntimeError("drop_local_exe_scopes needs a program that has run")
