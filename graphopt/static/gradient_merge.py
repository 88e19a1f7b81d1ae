"""Accumulation of the gradients of several batches before an optimizer updates with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend.mode import current_op_attrs
from graphopt.ir.program import (
    Block,
    Operator,
    OpRole,
    Program,
    Variable,
    VarKind,
    default_main_program,
    program_guard,
    unique_name,
)
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.state import persistable
from graphopt.optimizer.wrapping import WrappingOptimizer
from graphopt.static.nn.control_flow import cond
from graphopt.tensor.creation import create_global_var


class GradientMergeOptimizer(WrappingOptimizer):
    """An optimizer that updates in every k-th step, with the sum or the mean of k gradients.

    The sums are state, `<parameter>@GRAD@GradientMerge`; a branch of the program updates and resets
    them to zeros. Devices of a data-parallel program average the gradients of each step, as without
    merging. Raises AssertionError unless `k_steps` is a positive integer, and for the sparse
    gradient of an embedding. Paddle page: paddle.incubate.optimizer.GradientMergeOptimizer.
    """

    kind = "merged gradients"

    def __init__(self, inner_optimizer: Optimizer, k_steps: int = 1, avg: bool = True) -> None:
        super().__init__(inner_optimizer)
        assert inner_optimizer is not None, "inner optimizer can not be None"
        assert isinstance(k_steps, int) and k_steps > 0, "k_steps should be a positive integer"
        self.k_steps, self.avg = k_steps, avg
        self.type = "gradient_merge"

    def _set_k_steps(self, k_steps: int) -> None:
        self.k_steps = k_steps

    def _set_avg(self, avg: bool) -> None:
        self.avg = avg

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Append the inner optimizer's backward pass; return the gradient pairs of one step.

        Raises AssertionError for a `parameter_list` or `no_grad_set`, as Paddle does.
        """
        for name, value in (("parameter_list", parameter_list), ("no_grad_set", no_grad_set)):
            assert value is None, f"The {name} should be None when using GradientMergeOptimizer"
        return super().backward(loss, startup_program)

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append the sums, and the branch that updates; return the update operators."""
        for _, gradient in params_grads:
            assert gradient.kind != VarKind.SELECTED_ROWS, (
                "SELECTED_ROWS is not supported in GradientMergeOptimizer: make the embedding of "
                f"'{gradient.name}' with sparse=False"
            )
        program = params_grads[0][0].block.program if params_grads else default_main_program()
        block = program.global_block()
        with program_guard(program), program.role(OpRole.OPTIMIZE):
            due = self._count_steps(block)
            sums: Pairs = []
            for parameter, gradient in params_grads:
                name = f"{parameter.name}@GRAD@GradientMerge"
                total = persistable(name, parameter.shape, gradient.dtype, 0.0)
                _append(block, "elementwise_add", {"X": gradient, "Y": total}, total, axis=-1)
                sums.append((parameter, total))
            made: list[Operator] = []
            cond(due, lambda: made.extend(self._update(sums)), None)
        return made

    def _count_steps(self, block: Block) -> Variable:
        """Append a counter of steps modulo k; return a flag, True in the steps that update.

        A second optimizer in the program has its own counter.
        """
        k, zero, step = (
            create_global_var([1], value, "int32", persistable=True, name=_own(block, name))
            for name, value in (("k", self.k_steps), ("zero", 0), ("step", 0))
        )
        due = block.create_var(_own(block, "cond"), [1], "bool", stop_gradient=True)
        _append(block, "increment", {"X": step}, step, step=1.0)
        _append(block, "elementwise_mod", {"X": step, "Y": k}, step, axis=-1)
        _append(block, "equal", {"X": step, "Y": zero}, due)
        return due

    def _update(self, sums: Pairs) -> list[Operator]:
        """Append the updates to the branch, and the reset of the sums."""
        block = default_main_program().current_block()
        if self.avg:
            for _, total in sums:
                _append(block, "scale", {"X": total}, total, scale=1.0 / self.k_steps, bias=0.0)
        made = self.inner_opt.apply_gradients(sums)
        for _, total in sums:
            attrs = {"shape": list(total.shape), "dtype": total.dtype.code, "value": 0.0}
            _append(block, "fill_constant", {}, total, **attrs)
        return made


def _own(block: Block, name: str) -> str:
    """Return Paddle's name for a variable of the counter, or a new one if that is taken."""
    name = f"gradient_merge_{name}"
    while block.has_var(name):
        name = unique_name.generate(name)
    return name


def _append(block: Block, type: str, inputs: Any, out: Variable, **attrs: Any) -> Operator:
    return block.append_op(type, inputs, {"Out": out}, {**current_op_attrs(), **attrs})
