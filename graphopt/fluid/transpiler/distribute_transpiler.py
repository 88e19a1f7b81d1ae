"""DistributeTranspiler for collectives (paddle.fluid.transpiler.distribute_transpiler)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.distributed.fleet.base.role_maker import NO_SERVERS, RoleMakerBase
from graphopt.distributed.fleet.optimizer import for_trainers, run_as
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.frontend.calls import publish
from graphopt.ir.program import Program, default_main_program
from graphopt.runtime.feeds.losses import losses
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy


class DistributeTranspilerConfig:
    """The settings of DistributeTranspiler; only `mode` has an effect.

    It must be 'nccl2' or 'collective'; 'pserver', the default, is refused by `transpile`.
    """

    def __init__(self) -> None:
        self.mode = "pserver"
        self.collective_mode: str | None = None
        self.slice_var_up, self.min_block_size = True, 8192
        self.split_method: Any = None
        self.sync_mode, self.half_async, self.completely_not_async = True, False, False
        self.geo_sgd_mode, self.geo_sgd_need_push_nums = False, 100
        self.enable_dc_asgd = self.runtime_split_send_recv = self.print_log = False
        self.wait_port, self.nccl_comm_num = True, 1
        self.use_hierarchical_allreduce, self.hierarchical_allreduce_inter_nranks = False, 0


class DistributeTranspiler:
    """A transpiler of a program for several trainers, by collectives.

    After `transpile` executors run the program over the devices of all trainers, and average
    gradients. Raises UnsupportedError for parameter servers.
    """

    def __init__(self, config: DistributeTranspilerConfig | None = None) -> None:
        self.config = config or DistributeTranspilerConfig()

    def transpile(
        self,
        trainer_id: int,
        program: Program | None = None,
        pservers: str = "127.0.0.1:6174",
        trainers: Any = 1,
        sync_mode: bool = True,
        startup_program: Program | None = None,
        current_endpoint: str = "127.0.0.1:6174",
    ) -> None:
        """Let executors run a program over all trainers; `trainers` lists their endpoints.

        Raises UnsupportedError in the mode 'pserver' and for `collective_mode='local_sgd'`,
        ProgramError for a program without a derivative.
        """
        if self.config.mode not in ("nccl2", "collective"):
            raise UnsupportedError(
                f"DistributeTranspilerConfig.mode = '{self.config.mode}': {NO_SERVERS}, or "
                "mode = 'nccl2'"
            )
        if self.config.collective_mode == "local_sgd":
            raise UnsupportedError(LOCAL_SGD)
        endpoints = [part for part in str(trainers).split(",") if ":" in part]
        transpile(program or default_main_program(), trainer_id, endpoints)

    def get_trainer_program(self, wait_port: bool = True) -> Program:
        """Raise UnsupportedError: it belongs to parameter servers."""
        raise UnsupportedError(NO_SERVERS)

    def get_pserver_program(self, endpoint: str) -> Program:
        """Raise UnsupportedError: it belongs to parameter servers."""
        raise UnsupportedError(NO_SERVERS)


LOCAL_SGD = "LocalSGD: trainers keep one value of each parameter here; use GradAllReduce"


def transpile(program: Program, trainer: int, endpoints: Sequence[str]) -> None:
    """Let executors run a training program over the devices of all trainers.

    Raises ProgramError for a program without a derivative.
    """
    found = losses(program)
    if not found:
        raise ProgramError("the program to transpile has no derivative: call minimize before")
    role = RoleMakerBase(trainer, len(endpoints) or 1, endpoints)
    strategy = for_trainers(BuildStrategy(), role)
    several = len(endpoints) > 1
    run_as(program, strategy, ExecutionStrategy(), found[0], several=several)


publish(globals(), __name__)
