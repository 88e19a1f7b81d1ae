"""Fleet: this process among the trainers, and optimizers for all of them."""

from __future__ import annotations

import os
from typing import Any

from graphopt.distributed.fleet.base.distributed_strategy import DistributedStrategy
from graphopt.distributed.fleet.base.role_maker import (
    NO_SERVERS,
    PaddleCloudRoleMaker,
    RoleMakerBase,
)
from graphopt.distributed.fleet.base.util_factory import UtilBase
from graphopt.distributed.fleet.optimizer import DistributedOptimizer
from graphopt.distributed.parallel import barrier, init_parallel_env
from graphopt.errors import UnsupportedError
from graphopt.frontend.mode import require_static
from graphopt.ir.program import Program, Variable, default_main_program
from graphopt.runtime.distributed.world import world_of_environment
from graphopt.static import variable_files
from graphopt.static.io import save_inference_model as save_model
from graphopt.static.state import load


class Fleet:
    """The functions of `paddle.distributed.fleet`, in collective mode."""

    def __init__(self) -> None:
        self.util = UtilBase()
        self._role: RoleMakerBase | None = None
        self._optimizer: DistributedOptimizer | None = None
        self._strategy: DistributedStrategy | None = None

    def init(
        self,
        role_maker: RoleMakerBase | None = None,
        is_collective: bool = False,
        strategy: DistributedStrategy | None = None,
        log_level: Any = "INFO",
    ) -> None:
        """Find this process among the trainers, and join them if the environment names several.

        It must come before any program runs. `log_level` has no effect. Raises UnsupportedError
        where the environment or the role names parameter servers, WorldError (ValueError) for
        variables that do not fit together.
        """
        self._role = role_maker or PaddleCloudRoleMaker(is_collective=is_collective)
        self._strategy = strategy
        self.util._set_role_maker(self._role)
        if world_of_environment() is not None:
            init_parallel_env()

    def _require_role(self) -> RoleMakerBase:
        if self._role is None:
            raise RuntimeError("call fleet.init() before other functions of fleet")
        return self._role

    # -- trainers ------------------------------------------------------------------------------

    def is_first_worker(self) -> bool:
        """Return True for trainer 0."""
        return self._require_role().is_first_worker()

    def worker_index(self) -> int:
        """Return the number of this trainer, from 0."""
        return self._require_role().worker_index()

    def worker_num(self) -> int:
        """Return the number of trainers."""
        return self._require_role().worker_num()

    def worker_endpoints(self, to_string: bool = False) -> Any:
        """Return host:port of each trainer, as a list or one text."""
        found = self._require_role().get_trainer_endpoints()
        return ",".join(found) if to_string else found

    def node_num(self) -> int:
        """Count the machines in the endpoints, at least 1."""
        hosts = {endpoint.rpartition(":")[0] for endpoint in self.worker_endpoints()}
        return max(len(hosts), 1)

    def local_rank(self) -> int:
        """Return this trainer's number on its machine (PADDLE_RANK_IN_NODE), else among all."""
        text = os.environ.get("PADDLE_RANK_IN_NODE", "")
        return int(text) if text.isdigit() else self.worker_index()

    def is_worker(self) -> bool:
        """Return True: every process trains."""
        return True

    def is_server(self) -> bool:
        """Return False: there is no parameter server."""
        return False

    def server_num(self) -> int:
        """Return 0: there is no parameter server."""
        return 0

    def server_endpoints(self, to_string: bool = False) -> Any:
        """Return no endpoints: there is no parameter server."""
        return "" if to_string else []

    def barrier_worker(self) -> None:
        """Wait until every trainer reaches the barrier."""
        barrier()

    def all_reduce(self, input: Any, mode: str = "sum") -> Any:
        """Reduce an array over all trainers to its sum, minimum or maximum, a NumPy array."""
        return self.util.all_reduce(input, mode)

    def init_worker(self, scopes: Any = None) -> None:
        """Do nothing: a trainer has no server to connect to."""

    def stop_worker(self) -> None:
        """Do nothing: a trainer has no server to leave."""

    def init_server(self, *args: Any, **kwargs: Any) -> None:
        """Raise UnsupportedError: there is no parameter server."""
        raise UnsupportedError(NO_SERVERS)

    def run_server(self) -> None:
        """Raise UnsupportedError: there is no parameter server."""
        raise UnsupportedError(NO_SERVERS)

    # -- training ------------------------------------------------------------------------------

    def distributed_optimizer(
        self, optimizer: Any, strategy: DistributedStrategy | None = None
    ) -> DistributedOptimizer:
        """Wrap an optimizer by a strategy, for all trainers (see `DistributedOptimizer`)."""
        require_static()
        self._strategy = strategy or self._strategy or DistributedStrategy()
        self._optimizer = DistributedOptimizer(optimizer, self._strategy, self._require_role())
        return self._optimizer

    def distributed_model(self, model: Any) -> Any:
        """Raise UnsupportedError: it is for dynamic mode."""
        raise UnsupportedError(
            "fleet.distributed_model() is for dynamic mode; call distributed_optimizer and minimize"
        )

    def _require_optimizer(self) -> DistributedOptimizer:
        if self._optimizer is None:
            raise RuntimeError("call fleet.distributed_optimizer() before")
        return self._optimizer

    def minimize(self, loss: Variable, *args: Any, **kwargs: Any) -> Any:
        """Minimize with the latest distributed optimizer."""
        return self._require_optimizer().minimize(loss, *args, **kwargs)

    def get_loss_scaling(self) -> Variable:
        """Get the loss scaling factor, with `strategy.amp`."""
        return self._require_optimizer().get_loss_scaling()

    def amp_init(self, *args: Any, **kwargs: Any) -> None:
        """Cast the values of half-precision parameters, with `strategy.amp` (see static.amp)."""
        self._require_optimizer().amp_init(*args, **kwargs)

    def _final_strategy(self) -> DistributedStrategy | None:
        return self._strategy

    # -- files ---------------------------------------------------------------------------------

    def save_persistables(
        self, executor: Any, dirname: str, main_program: Program | None = None, mode: int = 0
    ) -> None:
        """Write every persistable variable to a folder, one file each; `mode` has no effect."""
        variable_files.save_persistables(executor, dirname, main_program or default_main_program())

    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: Any,
        target_vars: Any,
        main_program: Program | None = None,
        export_for_deployment: bool = True,
        mode: int = 0,
    ) -> None:
        """Write the part of a program from feeds to targets (fluid.io.save_inference_model)."""
        program = main_program or default_main_program()
        variable_files.save_inference_model(
            dirname, feeded_var_names, target_vars, executor, program, None, None
        )

    def save(self, dirname: str, feed: Any = (), fetch: Any = (), **configs: Any) -> None:
        """Write a model from `feed` to `fetch` (Variables or names), or else all persistables.

        Raises ValueError for a name that is no variable.
        """
        program = configs.get("program") or default_main_program()
        executor = configs.get("executor")
        if feed and fetch:
            find = program.global_block().var
            feeds, fetches = (
                [find(v) if isinstance(v, str) else v for v in group] for group in (feed, fetch)
            )
            save_model(os.path.join(dirname, "model"), feeds, fetches, executor, program=program)
        else:
            self.save_persistables(executor, dirname, program)

    def load_model(self, path: str, mode: Any = None) -> None:
        """Read the persistables that `static.save` wrote; `mode` has no effect."""
        load(default_main_program(), path)
