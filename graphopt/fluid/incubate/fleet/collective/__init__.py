"""Training by collectives in Paddle 1.8 (paddle.fluid.incubate.fleet.collective)."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from typing import Any

from graphopt.distributed.fleet.base.role_maker import RoleMakerBase
from graphopt.distributed.fleet.fleet import Fleet
from graphopt.distributed.fleet.optimizer import for_trainers
from graphopt.errors import UnsupportedError
from graphopt.fluid import io
from graphopt.fluid.contrib.mixed_precision.decorator import OptimizerWithMixedPrecision, decorate
from graphopt.frontend.calls import publish
from graphopt.ir.program import (
    Operator,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    program_guard,
)
from graphopt.ir.program.location import caller_level
from graphopt.optimizer.optimizer import Pairs
from graphopt.optimizer.recompute import RecomputeOptimizer
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy

_CHECKPOINT = "__paddle_fleet_checkpoint__"
_PARAMETERS, _STATUS = "_paddle_fleet_param__", "fleet_train_status"
_NO_EFFECT = {
    "nccl_comm_num": 1,
    "use_hierarchical_allreduce": False,
    "hierarchical_allreduce_inter_nranks": 0,
    "mode": "nccl2",
    "collective_mode": None,
    "dist_fc_config": None,
}
_REFUSED = {
    "use_local_sgd": "trainers keep one value of each parameter",
    "use_dist_fc": "a program is not cut into parts for several devices",
}


class TrainStatus:
    """The number of the last epoch that was completed, -1 for none."""

    def __init__(self, epoch_no: int = -1) -> None:
        self._epoch_no = epoch_no

    def next(self) -> int:
        """Return the number of the epoch to train now."""
        return self._epoch_no + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainStatus) and self._epoch_no == other._epoch_no

    def __hash__(self) -> int:
        return hash(self._epoch_no)


class DistributedStrategy(BuildStrategy):
    """A BuildStrategy with further settings, such as `forward_recompute` and `use_amp`.

    A setting without effect warns when it is changed; a refused one raises UnsupportedError.
    """

    def __init__(self) -> None:
        super().__init__()
        own: dict[str, Any] = {
            **_NO_EFFECT,
            **dict.fromkeys(_REFUSED, False),
            "forward_recompute": False,
            "recompute_checkpoints": [],
            "use_amp": False,
            "amp_loss_scaling": 2**15,
            "exec_strategy": ExecutionStrategy(),
        }
        object.__setattr__(self, "own", own)

    def __getattr__(self, name: str) -> Any:
        own: dict[str, Any] = self.__dict__.get("own", {})
        if name in own:
            return own[name]
        raise AttributeError(f"DistributedStrategy has no setting '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own: dict[str, Any] = self.__dict__.get("own", {})
        if name not in own:
            super().__setattr__(name, value)
            return
        if name in _REFUSED and value:
            raise UnsupportedError(f"DistributedStrategy.{name}: {_REFUSED[name]}")
        if name in _NO_EFFECT and value not in (_NO_EFFECT[name], own[name]):
            warnings.warn(
                f"DistributedStrategy.{name} has no effect: XLA owns the communicators, and "
                "gradients are summed in one way",
                stacklevel=caller_level(),
            )
        own[name] = value


class CollectiveOptimizer:
    """An optimizer extended by a strategy; `minimize` sets `fleet.main_program`.

    The strategy's half precision wraps its recomputation.
    """

    def __init__(
        self,
        optimizer: Any,
        strategy: DistributedStrategy | None = None,
        home: Collective | None = None,
    ) -> None:
        self._optimizer, self._fleet = optimizer, home or fleet
        self._strategy = strategy or DistributedStrategy()

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append the backward pass and the updates, and compile the program for all trainers.

        Returns the update operators and the pairs of parameters and gradients. Raises ValueError
        for recomputation without checkpoints, and for an optimizer with a wrapper that the strategy
        requests, too.
        """
        strategy = self._strategy
        made: Any = self._optimizer
        self._check_wrapped("forward_recompute", OptimizerWithMixedPrecision)
        self._check_wrapped("forward_recompute", RecomputeOptimizer)
        self._check_wrapped("use_amp", OptimizerWithMixedPrecision)
        if strategy.forward_recompute:
            if not strategy.recompute_checkpoints:
                raise ValueError(
                    "please set strategy.recompute_checkpoints when set "
                    "strategy.forward_recompute as True"
                )
            recomputing = RecomputeOptimizer(made)
            recomputing._set_checkpoints(list(strategy.recompute_checkpoints))
            made = recomputing
        main = loss.block.program
        if strategy.use_amp:
            scaling = strategy.amp_loss_scaling
            with program_guard(main, startup_program):
                made = decorate(made, init_loss_scaling=scaling)
        result = made.minimize(loss, startup_program, parameter_list, no_grad_set)
        self._fleet.compile(main, startup_program, loss, strategy)
        return result

    def _check_wrapped(self, setting: str, kind: type[Any]) -> None:
        if getattr(self._strategy, setting) and isinstance(self._optimizer, kind):
            raise ValueError(
                f"can not use {kind.__name__} when you set DistStrategy.{setting} as True"
            )

    def __getattr__(self, name: str) -> Any:
        """Get other attributes from the optimizer: get_lr, backward, apply_gradients, …

        Raises UnsupportedError for the steps of `minimize` where the strategy adds to them.
        """
        if name in ("_optimizer", "_strategy"):
            raise AttributeError(name)
        strategy = self._strategy
        if name in _STEPS and (strategy.use_amp or strategy.forward_recompute):
            raise UnsupportedError(
                f"CollectiveOptimizer.{name}() would leave out mixed precision and recomputation, "
                "which the strategy has; call minimize()"
            )
        return getattr(self._optimizer, name)


_STEPS = ("backward", "apply_gradients", "apply_optimize")


class Collective(Fleet):
    """The functions of Paddle 1.8's fleet, in collective mode.

    `main_program` is the program to run, compiled for all devices of all trainers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.main_program: CompiledProgram | None = None
        self.startup_program: Program | None = None
        self._origin_program: Program | None = None

    def init(self, role_maker: RoleMakerBase | None = None) -> None:  # pyright: ignore
        """Find this process among the trainers (see `paddle.distributed.fleet.init`).

        Raises TypeError if `role_maker` is no role maker.
        """
        if role_maker is not None and not isinstance(role_maker, RoleMakerBase):
            raise TypeError("role_maker must be an instance of RoleMakerBase")
        super().init(role_maker, is_collective=True)

    def distributed_optimizer(  # pyright: ignore
        self, optimizer: Any, strategy: DistributedStrategy | None = None
    ) -> CollectiveOptimizer:
        """Extend an optimizer by a strategy, for all trainers."""
        self._require_role()
        return CollectiveOptimizer(optimizer, strategy, self)

    def compile(
        self,
        main: Program,
        startup: Program | None,
        loss: Variable,
        strategy: DistributedStrategy,
    ) -> None:
        """Set `main_program` to a training program, for the devices of all trainers."""
        built = for_trainers(strategy._copy(), self._require_role())
        self._origin_program = main.clone()
        self.startup_program = startup or default_startup_program()
        self.main_program = CompiledProgram(main).with_data_parallel(
            loss.name, build_strategy=built, exec_strategy=strategy.exec_strategy
        )

    def split_files(self, files: Sequence[str]) -> list[str]:
        """Select this trainer's part of a list of files."""
        return self.util.get_file_shard(files)

    # -- checkpoints ---------------------------------------------------------------------------

    def _program(self, given: Program | None) -> Program:
        return given or self._origin_program or default_main_program()

    def save_persistables(  # pyright: ignore
        self,
        executor: Any,
        dirname: str,
        main_program: Program | None = None,
        filename: str | None = None,
    ) -> None:
        """Write every persistable variable (fluid.io.save_persistables)."""
        io.save_persistables(executor, dirname, self._program(main_program), filename)

    def save_inference_model(  # pyright: ignore
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: Any = None,
        target_vars: Any = None,
        main_program: Program | None = None,
        export_for_deployment: bool = True,
    ) -> None:
        """Write the part of a program from feeds to targets (fluid.io.save_inference_model)."""
        program = self._program(main_program)
        io.save_inference_model(dirname, feeded_var_names, target_vars, executor, program)

    def save_check_point(
        self,
        executor: Any,
        path: str,
        train_status: TrainStatus,
        main_program: Program | None = None,
        fs: Any = None,
        local_cache_path: str = ".cache",
        remain_all_checkpoint: bool = True,
    ) -> None:
        """Write the persistables and the epoch as the next checkpoint in a local folder.

        The checkpoint gets its name when it is complete. Unless `remain_all_checkpoint`, older ones
        are removed.
        """
        number = max(_checkpoints(path), default=-1) + 1
        final = os.path.join(path, f"{_CHECKPOINT}.{number}")
        draft = f"{final}.tmp"
        shutil.rmtree(draft, ignore_errors=True)
        os.makedirs(draft)
        self.save_persistables(executor, draft, main_program, _PARAMETERS)
        with open(os.path.join(draft, _STATUS), "w", encoding="utf-8") as file:
            json.dump({"epoch_no": train_status._epoch_no}, file)
        os.rename(draft, final)
        if not remain_all_checkpoint:
            self.clean_redundant_check_points(path)

    def load_check_point(
        self,
        executor: Any,
        path: str,
        trainer_id: int,
        main_program: Program | None = None,
        fs: Any = None,
        local_cache_path: str = ".cache",
        ignore_empty: bool = True,
    ) -> TrainStatus | None:
        """Read the last checkpoint of a folder; return its epoch, or None without a checkpoint.

        Raises AssertionError for an empty folder unless `ignore_empty`.
        """
        numbers = _checkpoints(path)
        assert numbers or ignore_empty, f"Can't find checkpoint in {path}"
        if not numbers:
            return None
        folder = os.path.join(path, f"{_CHECKPOINT}.{max(numbers)}")
        io.load_persistables(executor, folder, self._program(main_program), _PARAMETERS)
        with open(os.path.join(folder, _STATUS), encoding="utf-8") as file:
            return TrainStatus(int(json.load(file)["epoch_no"]))

    def clean_redundant_check_points(
        self, root_path: str, fs: Any = None, checkpoint_num: int = 1
    ) -> None:
        """Remove all checkpoints of a folder but the last `checkpoint_num`."""
        numbers = sorted(_checkpoints(root_path))
        for number in numbers[: -max(checkpoint_num, 1)]:
            shutil.rmtree(os.path.join(root_path, f"{_CHECKPOINT}.{number}"))


def _checkpoints(path: str) -> list[int]:
    """List the numbers of the complete checkpoints in a folder."""
    names = os.listdir(path) if os.path.isdir(path) else []
    found = (re.fullmatch(rf"{re.escape(_CHECKPOINT)}\.(\d+)", name) for name in names)
    return [int(match[1]) for match in found if match]


publish(globals(), __name__)

fleet = Collective()
