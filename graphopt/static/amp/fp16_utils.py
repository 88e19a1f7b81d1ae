"""The rewrite of a program for half precision (paddle.static.amp.fp16_utils)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from graphopt.frontend.mixed_precision import levels
from graphopt.frontend.mixed_precision.lists import AutoMixedPrecisionLists, half_dtype
from graphopt.frontend.mixed_precision.parameters import cast_values
from graphopt.frontend.mode import name_scope
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Program, Variable
from graphopt.runtime.state.scope import Scope


@contextmanager
def fp16_guard() -> Iterator[None]:
    """Mark the operators made inside for `use_fp16_guard` (paddle.static.amp.fp16_guard)."""
    with name_scope(levels.GUARD):
        yield


def cast_model_to_fp16(
    program: Program,
    amp_lists: AutoMixedPrecisionLists | None = None,
    use_fp16_guard: bool = True,
    dest_type: Any = "float16",
    level: str = "O2",
    use_promote: bool = False,
) -> set[str]:
    """Rewrite a program for half precision; return the variables to cast in the scope.

    With `use_fp16_guard` only the operators made in `fp16_guard` compute in half precision.
    `dest_type` is float16 or bfloat16. The operators of branches and loops compute in float32.
    Raises ProgramError for an operator that does not support half precision. Paddle page:
    paddle.static.amp.cast_model_to_fp16.
    """
    dtype = as_dtype(half_dtype(as_dtype(dest_type)))
    if amp_lists is None or level == "OD":
        amp_lists = AutoMixedPrecisionLists(dtype=f"{dtype}")
    rewrite = levels.Cast(program, amp_lists, dtype, level, use_fp16_guard, use_promote)
    return rewrite.run()


def cast_parameters_to_fp16(
    place: Any,
    program: Program,
    scope: Scope | None = None,
    to_fp16_var_names: Collection[str] | None = None,
    dest_type: Any = "float16",
    rewrite_master_weight: bool = False,
    master_weights: Mapping[str, Variable] | None = None,
) -> None:
    """Round the values of parameters in a scope (the global one) to half precision.

    `to_fp16_var_names` is the result of `cast_model_to_fp16`. With `rewrite_master_weight` the
    master weights get the rounded values, too. `place` has no effect. Raises ValueError for a
    parameter without a value. Paddle page: paddle.static.amp.cast_parameters_to_fp16.
    """
    masters = master_weights if rewrite_master_weight else None
    cast_values(program, set(to_fp16_var_names or ()), as_dtype(dest_type), scope, masters)
