"""An optimizer for half precision: casts, a scaled loss, master weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphopt.frontend.layer_helper import LayerHelper, emit, emit_as
from graphopt.frontend.mixed_precision.levels import LEVELS
from graphopt.frontend.mixed_precision.lists import AutoMixedPrecisionLists, half_dtype
from graphopt.ir.dtypes import as_dtype, float32
from graphopt.ir.program import (
    Operator,
    OpRole,
    Program,
    Variable,
    program_guard,
    unique_name,
)
from graphopt.ir.program.location import caller_level
from graphopt.optimizer.adam import Adam
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.state import is_half
from graphopt.optimizer.wrapping import WrappingOptimizer, innermost
from graphopt.runtime.state.scope import Scope
from graphopt.static.amp.fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16
from graphopt.tensor.creation import create_global_var
from graphopt.tensor.logic import any as any_of
from graphopt.tensor.manipulation import concat
from graphopt.tensor.operators import operate
from graphopt.tensor.scaled import cast_to


def check_finite_and_unscale(
    x: Sequence[Variable], scale: Variable, name: str | None = None
) -> tuple[Sequence[Variable], Variable]:
    """Divide gradients by `scale` in place; return them and a bool [1]: one is not finite."""
    helper = LayerHelper("check_finite_and_unscale", name)
    found = helper.temporary(stop_gradient=True)
    outputs = {"Out": list(x), "FoundInfinite": found}
    helper.append_op("check_finite_and_unscale", {"X": list(x), "Scale": scale}, outputs)
    return x, found


@dataclass
class DynamicScale:
    """The update rule of the loss scale: it grows after finite steps in a row, else shrinks."""

    incr_every_n_steps: int
    decr_every_n_nan_or_inf: int
    incr_ratio: float
    decr_ratio: float

    def start(self) -> None:
        """Create the counters of steps, which the startup program sets to 0."""
        self.good, self.bad = (
            create_global_var(
                [1], 0, "int32", persistable=True, name=unique_name.generate(f"num_{kind}_steps")
            )
            for kind in ("good", "bad")
        )

    def update(
        self, x: Sequence[Variable], found: Variable, scale: Variable, *, stop: bool = False
    ) -> None:
        """Zero the gradients if one was not finite, then shrink or grow the factor.

        With `stop` only the gradients change.
        """
        inputs = {
            "X": list(x),
            "FoundInfinite": found,
            "PrevLossScaling": scale,
            "InGoodSteps": self.good,
            "InBadSteps": self.bad,
        }
        outputs = {
            "Out": list(x),
            "LossScaling": scale,
            "OutGoodSteps": self.good,
            "OutBadSteps": self.bad,
        }
        attrs = {
            "incr_every_n_steps": self.incr_every_n_steps,
            "decr_every_n_nan_or_inf": self.decr_every_n_nan_or_inf,
            "incr_ratio": self.incr_ratio,
            "decr_ratio": self.decr_ratio,
            "stop_update": stop,
        }
        LayerHelper("update_loss_scaling").append_op("update_loss_scaling", inputs, outputs, attrs)


class OptimizerWithMixedPrecision(WrappingOptimizer):
    """An optimizer whose `minimize` rewrites the program for half precision.

    The loss is multiplied by a factor before it is differentiated, so that small gradients are not
    lost, and the gradients are divided by it. With dynamic loss scaling the factor is state of the
    program, `loss_scaling_0`. In a step with a gradient that is not finite all gradients are zeros,
    and Adam, AdamW and Lamb skip it. `decorate` creates it.
    """

    kind = "mixed precision"

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionLists,
        level: str,
        dtype: str,
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int,
        incr_ratio: float,
        decr_ratio: float,
        use_amp_guard: bool | None = None,
        use_master_grad: bool = False,
        use_promote: bool = False,
    ) -> None:
        super().__init__(optimizer)
        self._amp_lists = amp_lists
        self._level, self._dtype = level, as_dtype(dtype)
        self._guarded = bool(use_amp_guard) and level == "O2"
        self._promotes = use_promote
        self._master_grad = use_master_grad and level == "O2"
        self._factor = float(init_loss_scaling)
        self._dynamic: DynamicScale | None = None
        if use_dynamic_loss_scaling and dtype == "bfloat16":
            self._factor = 1.0
            warnings.warn(
                "Dynamic loss scaling for bfloat16 amp training is disabled, and the "
                "init_loss_scaling is changed to 1.0",
                stacklevel=caller_level(),
            )
        elif use_dynamic_loss_scaling:
            self._dynamic = DynamicScale(
                incr_every_n_steps, decr_every_n_nan_or_inf, incr_ratio, decr_ratio
            )
        self._train_program: Program | None = None
        self._loss_scaling: Variable | None = None
        self._scaled_loss: Variable | None = None
        self._half_names: set[str] = set()

    def get_loss_scaling(self) -> Variable:
        """Return the factor of the loss, float32 [1]; AssertionError before `minimize`."""
        assert self._loss_scaling is not None, (
            "Please call minimize() before calling get_loss_scaling()."
        )
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
        """Rewrite the program, scale the loss, append its gradients; return the pairs."""
        program = loss.block.program
        self._train_program = program
        with program_guard(program, startup_program):
            self._loss_scaling = create_global_var(
                [1],
                self._factor,
                "float32",
                persistable=True,
                name=unique_name.generate("loss_scaling"),
            )
            if self._dynamic is not None:
                self._dynamic.start()
            self._half_names = self._cast(program, guarded=self._guarded)
            if loss.dtype != "float32":
                loss = cast_to(loss, "float32")
            scaled = (
                loss if self._is_unscaled else operate("elementwise_mul", loss, self._loss_scaling)
            )
            self._scaled_loss = scaled
            return self.inner_opt.backward(
                scaled, startup_program, parameter_list, no_grad_set, callbacks
            )

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append the operators that unscale gradients, and update with them.

        Returns the update operators. Raises AssertionError before `backward`.
        """
        program, scaling = self._train_program, self._loss_scaling
        inner = innermost(self.inner_opt)
        assert program is not None and scaling is not None, "Please call backward() first."
        with program_guard(program), program.role(OpRole.OPTIMIZE):
            pairs = self._with_master_gradients(params_grads)
            if not self._is_unscaled:
                found = self._unscale(pairs, scaling)
                if isinstance(inner, Adam):
                    # Paddle's Adam reads it on the CPU
                    found = emit("memcpy", {"X": found}, {"dst_place_type": 0})
                inner.skip_update = found
        try:
            return self.inner_opt.apply_gradients(pairs)
        finally:
            inner.skip_update = None

    def amp_init(
        self,
        place: Any,
        scope: Scope | None = None,
        test_program: Program | None = None,
        use_fp16_test: bool = False,
        rewrite_master_weight: bool = False,
    ) -> None:
        """Cast the parameters in a scope (the global one), at O2, after the startup program.

        A `test_program` is rewritten as the training program was: at O2, or with `use_fp16_test`.
        Raises AssertionError before `minimize`, ValueError for a parameter without a value.
        """
        program = self._train_program
        assert program is not None, "Please call the minimize method first."
        if self._level == "O2":
            masters = {
                p.name: master
                for p in program.all_parameters()
                if (master := innermost(self.inner_opt).master_weight(p)) is not None
            }
            cast_parameters_to_fp16(
                place,
                program,
                scope,
                self._half_names,
                self._dtype,
                rewrite_master_weight,
                masters,
            )
        if test_program is not None and (self._level == "O2" or use_fp16_test):
            self._cast(test_program, guarded=self._guarded)

    # -- parts ---------------------------------------------------------------------------------

    @property
    def _is_unscaled(self) -> bool:
        return self._dynamic is None and self._factor == 1.0

    def _cast(self, program: Program, *, guarded: bool) -> set[str]:
        if self._level == "O0":
            return set()
        return cast_model_to_fp16(
            program, self._amp_lists, guarded, self._dtype, self._level, self._promotes
        )

    def _with_master_gradients(self, pairs: Pairs) -> Pairs:
        """Cast half gradients to float32 if `master_grad` is set."""
        if not self._master_grad:
            return pairs
        return [(p, _wide(g) if is_half(g.dtype) else g) for p, g in pairs]

    def _unscale(self, pairs: Pairs, scaling: Variable) -> Variable:
        """Append operators that unscale gradients; return a bool, True if one is not finite."""
        gradients = [gradient for _, gradient in pairs]
        full = [g for g in gradients if g.dtype == "float32"]
        half = [g for g in gradients if g.dtype != "float32"]
        groups = {"_fp32": full, "_fp16": half} if self._level == "O2" else {"": gradients}
        groups = {suffix: group for suffix, group in groups.items() if group}
        flags = [
            check_finite_and_unscale(group, scaling, f"find_infinite_scale{suffix}")[1]
            for suffix, group in groups.items()
        ]
        found = any_of(concat(flags)) if self._level == "O2" else flags[0]
        if self._dynamic is not None:
            for position, group in enumerate(groups.values()):
                self._dynamic.update(group, found, scaling, stop=position > 0)
        return found


def _wide(gradient: Variable) -> Variable:
    """Cast a gradient to float32."""
    name = unique_name.generate(f"{gradient.name}_fp32_master")
    attrs = {"in_dtype": gradient.dtype.code, "out_dtype": float32.code}
    return emit_as(name, "cast", {"X": gradient}, attrs)


def decorate(*args: Any, **kwargs: Any) -> OptimizerWithMixedPrecision:
    """Wrap an optimizer to train in half precision (paddle.static.amp.decorate).

    Today's arguments: `optimizer, amp_lists=None, level='O1', dtype='float16', master_weight=None,
    master_grad=False, init_loss_scaling=65536, incr_every_n_steps=2000, decr_every_n_nan_or_inf=1,
    incr_ratio=2.0, decr_ratio=0.5, use_dynamic_loss_scaling=None, use_amp_guard=False,
    use_promote=False`. The arguments of Paddle 2.0 to 2.4: `optimizer, amp_lists=None,
    init_loss_scaling=32768, incr_every_n_steps=1000, decr_every_n_nan_or_inf=2, incr_ratio=2.0,
    decr_ratio=0.8, use_dynamic_loss_scaling=True, use_pure_fp16=False, use_fp16_guard=None,
    use_bf16=False, use_promote=False`; a call has these if it names `use_pure_fp16`,
    `use_fp16_guard` or `use_bf16`, or if its third argument is a number.

    At O1 the white operators of the lists compute in half precision, at O2 all but a few, with half
    parameters (`amp_init` casts their values) and float32 master weights unless `master_weight` is
    False; at OD only the white ones, and all others in float32; at O0 none. With `master_grad`
    updates read float32 casts of half gradients. The operators of branches and loops compute in
    float32. Raises ValueError for another level or dtype.
    """
    old = {"use_pure_fp16", "use_fp16_guard", "use_bf16"}
    is_old = bool(old & kwargs.keys()) or (len(args) > 2 and isinstance(args[2], (int, float)))
    optimizer = args[0] if args else kwargs.get("optimizer")
    if optimizer is not None and not hasattr(optimizer, "minimize"):
        raise TypeError(
            f"decorate(): 'optimizer' should be an Optimizer, found {type(optimizer).__name__}"
        )
    return _decorate_old(*args, **kwargs) if is_old else _decorate(*args, **kwargs)


def _decorate_old(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    init_loss_scaling: float = 2**15,
    incr_every_n_steps: int = 1000,
    decr_every_n_nan_or_inf: int = 2,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.8,
    use_dynamic_loss_scaling: bool = True,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
    use_bf16: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision:
    dtype = "bfloat16" if use_bf16 else "float16"
    return OptimizerWithMixedPrecision(
        optimizer,
        amp_lists or AutoMixedPrecisionLists(dtype=dtype),
        "O2" if use_pure_fp16 else "O1",
        dtype,
        init_loss_scaling,
        use_dynamic_loss_scaling,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        use_amp_guard=use_pure_fp16 if use_fp16_guard is None else use_fp16_guard,
        use_promote=use_promote,
    )


def _decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    init_loss_scaling: float = 2**16,
    incr_every_n_steps: int = 2000,
    decr_every_n_nan_or_inf: int = 1,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.5,
    use_dynamic_loss_scaling: bool | None = None,
    use_amp_guard: bool = False,
    use_promote: bool = False,
) -> OptimizerWithMixedPrecision:
    level = level.upper()
    if level not in LEVELS:
        raise ValueError("level should be O0, OD, O1 or O2.")
    dtype = half_dtype(dtype)
    if level == "OD" and amp_lists is not None:
        warnings.warn(
            "If the Amp level is set to OD, the amp list will not be used.",
            stacklevel=caller_level(),
        )
    if amp_lists is None or level == "OD":
        amp_lists = AutoMixedPrecisionLists(dtype=dtype)
    if use_dynamic_loss_scaling is None:
        use_dynamic_loss_scaling = dtype == "float16"
    if master_weight is not False:
        innermost(optimizer).use_master_weights()
    return OptimizerWithMixedPrecision(
        optimizer,
        amp_lists,
        level,
        dtype,
        init_loss_scaling,
        use_dynamic_loss_scaling,
        incr_every_n_steps,
        decr_every_n_nan_or_inf,
        incr_ratio,
        decr_ratio,
        use_amp_guard=use_amp_guard,
        use_master_grad=master_grad,
        use_promote=use_promote,
    )
