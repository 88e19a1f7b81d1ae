"""Checks for NaN and infinities (paddle.amp.debugging)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments, lazy
from graphopt.frontend.calls import publish
from graphopt.ir.program import Variable
from graphopt.runtime.settings.flags import set_flags
from graphopt.static.debug import Assert
from graphopt.tensor.creation import zeros_like
from graphopt.tensor.logic import equal, isinf, isnan
from graphopt.tensor.manipulation import cast, stack
from graphopt.tensor.math import add, max, min, sum
from graphopt.tensor.stat import mean

_DYNAMIC = "it is for dynamic mode"


class DebugMode(Enum):
    """Kinds of checks (paddle.amp.debugging.DebugMode)."""

    CHECK_NAN_INF_AND_ABORT = 0
    CHECK_NAN_INF = 1
    CHECK_ALL_FOR_OVERFLOW = 2
    CHECK_ALL = 3
    CHECK_ALL_AND_ABORT = 4
    DUMP_ALL = 5


class TensorCheckerConfig:
    """The settings of `enable_tensor_checker` (paddle.amp.debugging.TensorCheckerConfig).

    With `debug_mode` CHECK_NAN_INF_AND_ABORT NaN and infinities are errors, with CHECK_NAN_INF
    warnings; `stack_height_limit` has no effect: messages name the line of the script.
    UnsupportedError for another mode and for settings that choose operators, steps or a folder.
    """

    def __init__(
        self,
        enable: bool,
        debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT,
        output_dir: str | None = None,
        checked_op_list: Sequence[str] | None = None,
        skipped_op_list: Sequence[str] | None = None,
        debug_step: Sequence[int] | None = None,
        stack_height_limit: int = 1,
    ) -> None:
        self.enable = arguments.flag(enable, "enable", "TensorCheckerConfig")
        self.debug_mode = debug_mode
        self.stack_height_limit = stack_height_limit
        given = {
            "output_dir": output_dir,
            "checked_op_list": checked_op_list,
            "skipped_op_list": skipped_op_list,
            "debug_step": debug_step,
        }
        chosen = [name for name, value in given.items() if value]
        if chosen:
            raise UnsupportedError(
                f"TensorCheckerConfig(): '{chosen[0]}' is not supported: a checked step looks at "
                "what all its operators compute. Leave it out, and call enable_tensor_checker and "
                "disable_tensor_checker around the steps"
            )
        if debug_mode not in (DebugMode.CHECK_NAN_INF_AND_ABORT, DebugMode.CHECK_NAN_INF):
            raise UnsupportedError(
                f"TensorCheckerConfig(): 'debug_mode' {debug_mode} is not supported; give "
                "DebugMode.CHECK_NAN_INF_AND_ABORT or CHECK_NAN_INF, or call check_numerics"
            )


def enable_tensor_checker(checker_config: TensorCheckerConfig) -> None:
    """Check each step for NaN and infinities from now on: FLAGS_check_nan_inf."""
    if not isinstance(checker_config, TensorCheckerConfig):
        raise TypeError(
            "enable_tensor_checker(): 'checker_config' should be a TensorCheckerConfig, found "
            f"{type(checker_config).__name__}"
        )
    if checker_config.enable:
        level = checker_config.debug_mode.value
        set_flags({"FLAGS_check_nan_inf": True, "FLAGS_check_nan_inf_level": level})


def disable_tensor_checker() -> None:
    """Stop checking for NaN and infinities."""
    set_flags({"FLAGS_check_nan_inf": False, "FLAGS_check_nan_inf_level": 0})


def check_numerics(
    tensor: Variable,
    op_type: str,
    var_name: str,
    debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT,
) -> tuple[Variable, Variable]:
    """Count NaN, infinities and zeros, and compute the maximum, minimum and mean of a tensor.

    The counts are int64 [3], the others float32 [3]. With CHECK_NAN_INF_AND_ABORT or
    CHECK_ALL_AND_ABORT a run that computes NaN or infinities stops with CheckError (ValueError) and
    stores nothing. Other modes print nothing here: fetch the results. `op_type` and `var_name` are
    for messages of Paddle. TypeError for a tensor that is not a Variable or has no floating-point
    dtype. Paddle page: paddle.amp.debugging.check_numerics.
    """
    function = "check_numerics"
    x = arguments.variable(tensor, "tensor", function)
    if not x.dtype.is_floating:
        raise TypeError(f"{function}(): '{x.name}' is {x.dtype}; it should be floating-point")
    if not isinstance(debug_mode, DebugMode):
        raise TypeError(f"{function}(): 'debug_mode' should be a DebugMode, found {debug_mode!r}")
    tests = (isnan(x), isinf(x), equal(x, zeros_like(x)))
    counts: list[Any] = [sum(cast(test, "int64")) for test in tests]
    values: list[Any] = [cast(part(x), "float32") for part in (max, min, mean)]
    stats, found = stack(counts), stack(values)
    stats.stop_gradient = found.stop_gradient = True
    if debug_mode in (DebugMode.CHECK_NAN_INF_AND_ABORT, DebugMode.CHECK_ALL_AND_ABORT):
        wrong = add(counts[0], counts[1])
        Assert(equal(wrong, zeros_like(wrong)), [stats, x])
    return stats, found


_FETCHED = "FLAGS_check_nan_inf, or check_numerics of what a program computes"
lazy.attach(
    globals(),
    refused={
        "check_layer_numerics": (_DYNAMIC, _FETCHED),
        "collect_operator_stats": (_DYNAMIC, _FETCHED),
        "enable_operator_stats_collection": (_DYNAMIC, _FETCHED),
        "disable_operator_stats_collection": (_DYNAMIC, _FETCHED),
        "compare_accuracy": ("it reads files that Paddle wrote", "graphopt bisect"),
    },
)
publish(globals(), __name__)
