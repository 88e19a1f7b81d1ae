"""An optimizer wrapped by a DistributedStrategy, and the execution of its programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.distributed.fleet.base.distributed_strategy import DistributedStrategy
from graphopt.distributed.fleet.base.role_maker import RoleMakerBase
from graphopt.errors import UnsupportedError
from graphopt.ir.program import Operator, Program, Variable, undo
from graphopt.optimizer import Adam, AdamW, Lamb, LarsMomentum, Momentum
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.recompute import RecomputeOptimizer
from graphopt.optimizer.wrapping import WrappingOptimizer
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy
from graphopt.static import amp
from graphopt.static.gradient_merge import GradientMergeOptimizer


class DistributedOptimizer(WrappingOptimizer):
    """An optimizer whose programs all trainers run together; `distributed_optimizer` makes it.

    `minimize` wraps the optimizer by the strategy, in Paddle's order: lars or lamb, recompute, amp,
    gradient_merge. From then on `Executor.run` of the program itself obeys the strategy: in a job
    of several trainers it averages gradients over the devices of all of them, and a lone process
    uses the executor's device.
    """

    def __init__(
        self, optimizer: Optimizer, strategy: DistributedStrategy, role: RoleMakerBase
    ) -> None:
        self.user_defined_optimizer = optimizer
        self.user_defined_strategy = strategy
        self._role = role
        self._amp: amp.decorator.OptimizerWithMixedPrecision | None = None
        self._made: Any = None
        self._loss: Variable | None = None

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Append the backward pass by the strategy; return (parameter, gradient) pairs.

        Raises ValueError for recompute without checkpoints.
        """
        if self._loss is not None:
            self._made = None  # another loss needs new wrappers
        self._loss = loss
        return super().backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append the updates by the strategy, and let executors obey it.

        Returns the operators that update. Raises AssertionError before `backward`.
        """
        strategy, loss = self.user_defined_strategy, self._loss
        assert loss is not None, "Please call backward() first."
        operators = self._made.apply_gradients(params_grads)
        run_as(
            loss.block.program,
            for_trainers(strategy.to_build_strategy(), self._role),
            strategy.execution_strategy,
            loss.name,
            several=self._role.worker_num() > 1,
        )
        return operators

    @property
    def inner_opt(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The optimizer wrapped by the strategy."""
        if self._made is None:
            self._made = self._wrap(self.user_defined_strategy)
        return self._made

    def _wrap(self, strategy: DistributedStrategy) -> Any:
        made: Any = self.user_defined_optimizer
        if strategy.lars:
            made = _as_lars(made, strategy.lars_configs)
        if strategy.lamb:
            made = _as_lamb(made, strategy.lamb_configs)
        if strategy.recompute:
            checkpoints = list(strategy.recompute_configs["checkpoints"])
            if not checkpoints:
                raise ValueError(
                    "strategy.recompute needs strategy.recompute_configs = {'checkpoints': [...]}"
                )
            made = RecomputeOptimizer(made)
            made._set_checkpoints(checkpoints)
        if strategy.amp:
            made = self._amp = _as_amp(made, strategy.amp_configs)
        if strategy.gradient_merge:
            configs = strategy.gradient_merge_configs
            made = GradientMergeOptimizer(made, configs["k_steps"], configs["avg"])
        return made

    def _require_amp(self) -> amp.decorator.OptimizerWithMixedPrecision:
        if self._amp is None:
            raise RuntimeError("this needs strategy.amp = True, and minimize before")
        return self._amp

    def get_loss_scaling(self) -> Variable:
        """Get the loss scaling factor, with `strategy.amp`; RuntimeError without."""
        return self._require_amp().get_loss_scaling()

    def amp_init(self, *args: Any, **kwargs: Any) -> None:
        """Cast half-precision parameters' values, with `strategy.amp`; RuntimeError without."""
        self._require_amp().amp_init(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Get other attributes from the optimizer: get_lr, set_lr, …"""
        if name == "user_defined_optimizer":
            raise AttributeError(name)
        return getattr(self.user_defined_optimizer, name)


def for_trainers(strategy: BuildStrategy, role: RoleMakerBase) -> BuildStrategy:
    """Set the trainers of a user-defined role in a BuildStrategy, and return it."""
    endpoints = role.get_trainer_endpoints()
    if role.worker_num() > 1 and endpoints:
        strategy.num_trainers = role.worker_num()
        strategy.trainer_id = role.worker_index()
        strategy.trainers_endpoints = endpoints
    return strategy


def run_as(
    program: Program,
    strategy: BuildStrategy,
    execution: ExecutionStrategy,
    loss_name: str,
    *,
    several: bool,
) -> None:
    """Let executors run a program by this strategy, over the devices of `several` trainers."""
    made: dict[int, CompiledProgram] = {}

    def compile_program() -> CompiledProgram:
        if program.version not in made:
            made.clear()
            found = CompiledProgram(program, strategy)
            if several:
                found.with_data_parallel(loss_name, exec_strategy=execution)
            made[program.version] = found
        return made[program.version]

    undo.note_attributes(program, "runs_as")
    program.runs_as = compile_program
    if several:
        compile_program()  # join the job before JAX starts


def _as_lars(optimizer: Any, configs: dict[str, Any]) -> Any:
    """Convert Momentum to LARS, with a rate for each layer; else UnsupportedError."""
    if not isinstance(optimizer, Momentum):
        raise UnsupportedError(
            f"strategy.lars goes with Momentum, found {type(optimizer).__name__}; leave it out"
        )
    return LarsMomentum(
        optimizer._learning_rate,
        optimizer._momentum,
        configs["lars_coeff"],
        configs["lars_weight_decay"],
        optimizer._parameter_list,
        optimizer.regularization,
        optimizer._grad_clip,
        optimizer._name,
        configs["exclude_from_weight_decay"],
        configs["epsilon"],
    )


def _as_lamb(optimizer: Any, configs: dict[str, Any]) -> Any:
    """Convert Adam to LAMB, scaled to each parameter's length; else UnsupportedError."""
    if not isinstance(optimizer, Adam) or isinstance(optimizer, AdamW):
        raise UnsupportedError(
            f"strategy.lamb goes with Adam, found {type(optimizer).__name__}; leave it out"
        )
    excluded = list(configs["exclude_from_weight_decay"])
    return Lamb(
        optimizer._learning_rate,
        configs["lamb_weight_decay"],
        optimizer._beta1,
        optimizer._beta2,
        optimizer._epsilon,
        optimizer._parameter_list,
        optimizer._grad_clip,
        lambda parameter: any(name in parameter.name for name in excluded),
        name=optimizer._name,
    )


def _as_amp(optimizer: Any, configs: dict[str, Any]) -> Any:
    bf16 = bool(configs["use_pure_bf16"])
    lists = amp.AutoMixedPrecisionLists(
        configs["custom_white_list"],
        configs["custom_black_list"],
        configs["custom_black_varnames"],
        dtype="bfloat16" if bf16 else "float16",
    )
    return amp.decorate(
        optimizer,
        lists,
        float(configs["init_loss_scaling"]),
        configs["incr_every_n_steps"],
        configs["decr_every_n_nan_or_inf"],
        configs["incr_ratio"],
        configs["decr_ratio"],
        configs["use_dynamic_loss_scaling"] and not bf16,
        use_pure_fp16=configs["use_pure_fp16"] or bf16,
        use_fp16_guard=configs["use_fp16_guard"],
        use_bf16=bf16,
    )
