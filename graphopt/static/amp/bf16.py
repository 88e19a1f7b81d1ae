"""Training in bfloat16 by lists alone, without a scaled loss (paddle.static.amp.bf16)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from graphopt.frontend.calls import publish
from graphopt.frontend.mixed_precision.levels import Cast
from graphopt.frontend.mixed_precision.lists import (
    AutoMixedPrecisionLists,
    AutoMixedPrecisionListsBF16,
)
from graphopt.frontend.mixed_precision.neighbours import ByNeighbours
from graphopt.frontend.mixed_precision.parameters import cast_values
from graphopt.ir.dtypes import bfloat16
from graphopt.ir.program import Program, Variable, program_guard
from graphopt.optimizer.optimizer import Optimizer, Pairs
from graphopt.optimizer.wrapping import WrappingOptimizer
from graphopt.runtime.state.scope import Scope
from graphopt.static.amp.fp16_utils import fp16_guard as bf16_guard
from graphopt.tensor.manipulation import cast

__all__ = [
    "AutoMixedPrecisionListsBF16",
    "bf16_guard",
    "cast_model_to_bf16",
    "cast_parameters_to_bf16",
    "convert_float_to_uint16",
    "decorate_bf16",
    "rewrite_program_bf16",
]


def rewrite_program_bf16(
    main_prog: Program, amp_lists: AutoMixedPrecisionListsBF16 | None = None
) -> None:
    """Let the white operators of a program, and gray ones after them, compute in bfloat16.

    Raises ProgramError for an operator that does not support it: its type belongs to
    `custom_fp32_list`. Paddle page: paddle.static.amp.bf16.rewrite_program_bf16.
    """
    ByNeighbours(main_prog, amp_lists or AutoMixedPrecisionListsBF16(), bfloat16).run()


def cast_model_to_bf16(
    program: Program,
    startup_prog: Program | None = None,
    amp_lists: AutoMixedPrecisionListsBF16 | None = None,
    use_bf16_guard: bool = True,
) -> set[str]:
    """Let all operators but a few compute in bfloat16; return the variables to cast.

    This is level O2 of `static.amp`: parameters are declared as bfloat16 and fed data keep their
    dtype. With `use_bf16_guard` only the operators made in `bf16_guard` take part. `startup_prog`
    is not changed: `amp_init` casts the values. Raises ProgramError for an operator that does not
    support bfloat16.
    """
    own = amp_lists or AutoMixedPrecisionListsBF16()
    lists = AutoMixedPrecisionLists(
        own.white_list - own.unsupported_list,
        own.unsupported_list,
        own.black_varnames,
        dtype="bfloat16",
    )
    return Cast(program, lists, bfloat16, "O2", use_bf16_guard).run()


def cast_parameters_to_bf16(
    place: Any,
    program: Program,
    scope: Scope | None = None,
    to_bf16_var_names: Collection[str] | None = None,
) -> None:
    """Round the values of parameters in a scope (the global one) to bfloat16.

    `place` has no effect. Raises ValueError for a parameter without a value.
    """
    cast_values(program, set(to_bf16_var_names or ()), bfloat16, scope)


def convert_float_to_uint16(in_list: Any) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Truncate float32 numbers to their upper 16 bits: bfloat16, not rounded."""
    bits = np.asarray(in_list, np.float32).view(np.uint32) >> 16
    return bits.astype(np.uint16)


class OptimizerWithMixedPrecision(WrappingOptimizer):
    """An optimizer whose `minimize` rewrites the program for bfloat16; `decorate_bf16` makes it."""

    kind = "mixed precision"

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionListsBF16,
        use_pure_bf16: bool,
        use_bf16_guard: bool,
    ) -> None:
        super().__init__(optimizer)
        self._amp_lists = amp_lists
        self._pure, self._guarded = use_pure_bf16, use_bf16_guard
        self._train_program: Program | None = None
        self._half_names: set[str] = set()

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Rewrite the program, append the gradients of the loss, and return the pairs."""
        self._train_program = program = loss.block.program
        with program_guard(program, startup_program):
            self._half_names = self._cast(program)
            if loss.dtype != "float32":
                loss = cast(loss, "float32")
            return super().backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def amp_init(
        self,
        place: Any,
        scope: Scope | None = None,
        test_program: Program | None = None,
        use_bf16_test: bool = False,
    ) -> None:
        """Cast the parameters in a scope (the global one), with `use_pure_bf16`.

        A `test_program` is rewritten as the training program was: with `use_pure_bf16` or
        `use_bf16_test`. Raises AssertionError before `minimize`, ValueError for a parameter without
        a value.
        """
        assert self._train_program is not None, "Please call the minimize method first."
        cast_parameters_to_bf16(place, self._train_program, scope, self._half_names)
        if test_program is not None and (self._pure or use_bf16_test):
            self._cast(test_program)

    def _cast(self, program: Program) -> set[str]:
        if self._pure:
            return cast_model_to_bf16(program, None, self._amp_lists, self._guarded)
        rewrite_program_bf16(program, self._amp_lists)
        return set()


def decorate_bf16(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionListsBF16 | None = None,
    use_pure_bf16: bool = False,
    use_bf16_guard: bool | None = None,
) -> OptimizerWithMixedPrecision:
    """Wrap an optimizer to train in bfloat16 (paddle.static.amp.bf16.decorate_bf16).

    By default the white operators of the lists, and gray ones after them, compute in bfloat16, with
    float32 parameters. With `use_pure_bf16` all operators but a few do, with bfloat16 parameters,
    whose values `amp_init` casts; `use_bf16_guard` (by default `use_pure_bf16`) then selects only
    the operators that are made in `bf16_guard`.
    """
    guarded = use_pure_bf16 if use_bf16_guard is None else use_bf16_guard
    lists = amp_lists or AutoMixedPrecisionListsBF16()
    return OptimizerWithMixedPrecision(optimizer, lists, use_pure_bf16, guarded)


publish(globals(), __name__)
