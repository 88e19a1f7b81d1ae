"""An optimizer for float16 as in Paddle 1.8: casts by operator lists, and a scaled loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.fluid import layers
from graphopt.frontend.mixed_precision.lists import (
    AutoMixedPrecisionListsFluid as AutoMixedPrecisionLists,
)
from graphopt.frontend.mixed_precision.neighbours import ByNeighbours
from graphopt.ir.dtypes import float16
from graphopt.ir.program import (
    Operator,
    OpRole,
    Program,
    Variable,
    default_main_program,
    unique_name,
)
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.wrapping import WrappingOptimizer
from graphopt.static import amp
from graphopt.tensor.blocks import Switch
from graphopt.tensor.operators import operate


class OptimizerWithMixedPrecision(WrappingOptimizer):
    """An optimizer whose `minimize` rewrites the program for float16; `decorate` makes it.

    White operators compute in float16, with float32 parameters. The loss is multiplied by a factor
    before it is differentiated, and gradients are divided by it after. The factor of dynamic loss
    scaling is state of the program, `loss_scaling_0`: operators of branches change it. A step with
    a gradient that is not finite updates with zeros.
    """

    kind = "mixed precision"

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionLists,
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int,
        incr_ratio: float,
        decr_ratio: float,
    ) -> None:
        super().__init__(optimizer)
        self._amp_lists = amp_lists
        self._train_program = default_main_program()
        self._scaled_loss: Variable | None = None
        self._loss_scaling = _state("loss_scaling", init_loss_scaling, "float32")
        self._use_dynamic_loss_scaling = use_dynamic_loss_scaling
        self._ratios = (incr_ratio, decr_ratio)
        if use_dynamic_loss_scaling:
            self._limits = tuple(
                layers.fill_constant([1], "int32", count)
                for count in (incr_every_n_steps, decr_every_n_nan_or_inf)
            )
            self._good = _state("num_good_steps", 0, "int32")
            self._bad = _state("num_bad_steps", 0, "int32")

    def get_loss_scaling(self) -> Variable:
        """Return the loss scaling factor, float32 [1]."""
        return self._loss_scaling

    def get_scaled_loss(self) -> Variable | None:
        """Return the scaled loss, which is differentiated; None before `minimize`."""
        return self._scaled_loss

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Rewrite the program, scale the loss and append its gradients; return the unscaled pairs.

        Raises ValueError for a loss of another program than the factor, which `decorate` has put
        into the default main program.
        """
        if loss.block.program is not self._train_program:
            raise ValueError(
                f"'{loss.name}' is a variable of another program than the loss scaling: call "
                "decorate() inside of program_guard(main_program, startup_program), too"
            )
        ByNeighbours(self._train_program, self._amp_lists, float16).run()
        self._scaled_loss = scaled = operate("elementwise_mul", loss, self._loss_scaling)
        pairs = self.inner_opt.backward(
            scaled, startup_program, parameter_list, no_grad_set, callbacks
        )
        with self._train_program.role(OpRole.OPTIMIZE):
            return [(p, operate("elementwise_div", g, self._loss_scaling)) for p, g in pairs]

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append the operators that check gradients and change the factor, and the updates.

        Returns the update operators.
        """
        if self._use_dynamic_loss_scaling:
            with self._train_program.role(OpRole.OPTIMIZE):
                self._check([gradient for _, gradient in params_grads])
        return self.inner_opt.apply_gradients(params_grads)

    def _check(self, gradients: Sequence[Variable]) -> None:
        total = layers.reduce_sum(layers.concat([layers.reduce_sum(g) for g in gradients]))
        finite = layers.isfinite(total)
        self._change(finite)
        with Switch() as switch:
            with switch.case(finite):
                pass
            with switch.default():
                for gradient in gradients:
                    layers.assign(layers.zeros_like(gradient), gradient)

    def _change(self, finite: Variable) -> None:
        """Grow the factor after consecutive finite steps, and shrink it after other steps."""
        zero = layers.fill_constant([1], "int32", 0)
        (grow, shrink), scaling = self._ratios, self._loss_scaling
        to_grow, to_shrink = self._limits

        def counts(good: Variable | None, bad: Variable | None) -> None:
            for counter, value in ((self._good, good), (self._bad, bad)):
                if value is None:
                    layers.increment(counter)
                else:
                    layers.assign(value, counter)

        with Switch() as switch:
            with switch.case(finite):
                due = layers.less_than(to_grow, operate("elementwise_add", self._good, 1))
                with Switch() as steps:
                    with steps.case(due):
                        grown = operate("elementwise_mul", scaling, grow)
                        with Switch() as limit:
                            with limit.case(layers.isfinite(grown)):
                                layers.assign(grown, scaling)
                            with limit.default():
                                pass
                        counts(zero, zero)
                    with steps.default():
                        counts(None, zero)
            with switch.default():
                due = layers.less_than(to_shrink, operate("elementwise_add", self._bad, 1))
                with Switch() as steps:
                    with steps.case(due):
                        shrunk = operate("elementwise_mul", scaling, shrink)
                        least = layers.fill_constant([1], "float32", 1.0)
                        with Switch() as limit:
                            with limit.case(layers.less_than(shrunk, least)):
                                layers.assign(least, scaling)
                            with limit.default():
                                layers.assign(shrunk, scaling)
                        counts(zero, zero)
                    with steps.default():
                        counts(zero, None)


def _state(name: str, value: float, dtype: str) -> Variable:
    """Create a persistable variable of one number."""
    found = unique_name.generate(name)
    return layers.create_global_var([1], value, dtype, persistable=True, name=found)


def decorate(
    optimizer: Optimizer,
    amp_lists: Any = None,
    init_loss_scaling: float = 2**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    **later: Any,
) -> Any:
    """Wrap an optimizer to train in float16 (fluid.contrib.mixed_precision.decorate).

    `later` has arguments of Paddle 2.x, such as `use_pure_fp16`; with any of them, the result comes
    from `paddle.static.amp.decorate`.
    """
    scaling = (incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio)
    if later:
        later.setdefault("use_pure_fp16", False)
        return amp.decorate(
            optimizer, amp_lists, init_loss_scaling, *scaling, use_dynamic_loss_scaling, **later
        )
    lists = amp_lists or AutoMixedPrecisionLists()
    return OptimizerWithMixedPrecision(
        optimizer, lists, init_loss_scaling, use_dynamic_loss_scaling, *scaling
    )
