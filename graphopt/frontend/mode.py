"""State of the front end that is not in a Program: mode, default dtype, attributes of new ops.

Paddle pages: paddle.enable_static, paddle.set_default_dtype, paddle.static.name_scope,
paddle.static.device_guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphopt.errors import DynamicModeError
from graphopt.frontend import arguments
from graphopt.ir.dtypes import FLOATING, DType
from graphopt.ir.program import default_main_program, is_first_program
from graphopt.runtime.state.generator import Generator, default_generator

_default_dtype = DType("float32")
_op_attrs: dict[str, Any] = {}
_dynamic = False
_chosen = False


def enable_static() -> None:
    """Build programs instead of running each call (paddle.enable_static). The initial mode."""
    global _dynamic, _chosen
    _dynamic, _chosen = False, True


def disable_static(place: Any = None) -> None:
    """Leave static mode (paddle.disable_static).

    graphopt has no dynamic mode: layers, constants of `paddle.to_tensor` and functions of
    `paddle.jit.to_static` continue to work. Every other function that creates a variable or an
    operator raises UnsupportedError until `enable_static()`.
    """
    global _dynamic, _chosen
    _dynamic, _chosen = True, True


def in_dynamic_mode() -> bool:
    """True after `disable_static()` (paddle.in_dynamic_mode)."""
    return _dynamic


def in_pir_mode() -> bool:
    """Return False: layers append Operators to a Program, not PIR operations (in_pir_mode)."""
    return False


def in_dynamic_or_pir_mode() -> bool:
    """True after `disable_static()` (in_dynamic_or_pir_mode)."""
    return _dynamic


def would_be_dynamic() -> bool:
    """True where Paddle is in dynamic mode.

    Paddle is so after `disable_static()`, and before a script chooses a mode or creates a program;
    1.8 begins in static mode.
    """
    undecided = not _chosen and is_first_program() and not default_main_program().is_fluid
    return _dynamic or undecided


def never_static() -> str:
    """Compose a hint for an error if the script never chose static mode; empty otherwise."""
    if not would_be_dynamic():
        return ""
    return (
        ". This script never called paddle.enable_static(), and graphopt has static mode only: "
        "see docs/tutorials/first-program.md, and docs/how-to/trace-a-layer.md for a network of "
        "layers"
    )


@contextmanager
def static_mode() -> Iterator[None]:
    """Switch to static mode inside the `with` block, and restore the mode after it."""
    global _dynamic
    before, _dynamic = _dynamic, False
    try:
        yield
    finally:
        _dynamic = before


def require_static(*, allow_constants: bool = False) -> None:
    """Raise DynamicModeError (AssertionError) in dynamic mode.

    `allow_constants` lets an operator be appended to the program of the process, which no script
    runs in dynamic mode: constructors of layers compute constants there (see `first_values`).
    """
    if _dynamic and not (allow_constants and is_first_program()):
        raise DynamicModeError(
            "graphopt compiles static-graph programs and has no dynamic mode; call "
            "paddle.enable_static(), build a Program with paddle.static.program_guard and run the "
            "Program with paddle.static.Executor; or put the computation into a function decorated "
            "with paddle.jit.to_static"
        )


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """Set NumPy's print options, which arrays print with (paddle.set_printoptions)."""
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
        "suppress": None if sci_mode is None else not sci_mode,
    }
    np.set_printoptions(**{name: value for name, value in given.items() if value is not None})


def disable_signal_handler() -> None:
    """Do nothing: graphopt installs no signal handlers (paddle.disable_signal_handler)."""


def set_default_dtype(d: Any) -> None:
    """Set the dtype of new floating-point tensors and parameters (paddle.set_default_dtype).

    Raises TypeError when `d` is not float16, bfloat16, float32 or float64.
    """
    global _default_dtype
    found = arguments.dtype(d, "d", "set_default_dtype")
    if found not in FLOATING:
        raise TypeError(
            f"set_default_dtype only supports {', '.join(sorted(FLOATING))}, but received {found}"
        )
    _default_dtype = found


def get_default_dtype() -> DType:
    """Return the dtype of new floating-point tensors (paddle.get_default_dtype)."""
    return _default_dtype


def seed(seed: int) -> Generator:
    """Seed the generator of programs without a seed of their own, and return it (paddle.seed).

    False counts as 0, as in Paddle: some settings write False for no seed.
    """
    if isinstance(seed, bool):
        seed = int(seed)
    return default_generator().manual_seed(arguments.integer(seed, "seed", "seed"))


@contextmanager
def op_attrs(**attrs: Any) -> Iterator[None]:
    """Give these attributes to every operator that layers append inside the block."""
    global _op_attrs
    saved, _op_attrs = _op_attrs, {**_op_attrs, **attrs}
    try:
        yield
    finally:
        _op_attrs = saved


def current_op_attrs() -> dict[str, Any]:
    """Return the attributes that new operators get (see `op_attrs`)."""
    return _op_attrs


class _Names:
    """One level of name scopes: the scopes below it, and the number of uses of each name."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}

    def child(self, prefix: str) -> str:
        """Generate the name of a new scope: the prefix, numbered from its second use on."""
        number = self._made.get(prefix, 0)
        self._made[prefix] = number + 1
        return f"{prefix}_{number}" if number else prefix


_name_scopes: list[_Names] = [_Names()]


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Group operators under a name in printed programs (paddle.static.name_scope).

    Operators made inside get the attribute `op_namescope`, e.g. `/encoder/attention/`, and
    `/encoder/attention_1/` in the second scope of that name; nothing else depends on it. Raises
    TypeError when `prefix` is not a string, ValueError when it is empty.
    """
    if prefix is not None and not isinstance(prefix, str):
        raise TypeError(f"name_scope(): 'prefix' must be a str, found {type(prefix).__name__}")
    if not prefix:
        raise ValueError("name_scope(): namescope prefix can not be empty.")
    name = _name_scopes[-1].child(prefix)
    _name_scopes.append(_Names())
    outer = _op_attrs.get("op_namescope", "/")
    try:
        with op_attrs(op_namescope=f"{outer}{name}/"):
            yield
    finally:
        _name_scopes.pop()


_DEVICES = ("", "cpu", "gpu", "xpu")


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Record a device on operators (paddle.static.device_guard).

    Operators made inside get the attribute `op_device`. XLA places whole programs, so it does not
    change where they run. Raises ValueError unless `device` is None, 'cpu', 'gpu' or 'xpu', the
    last two optionally with a number after a colon.
    """
    kind, _, index = (device or "").partition(":")
    if kind == "cpu" and index:
        raise ValueError("device_guard(): Should not set device id for cpu.")
    if kind not in _DEVICES or (index and index != "all" and not index.isdigit()):
        raise ValueError(
            "device_guard(): The Attr(device) should be 'cpu', 'xpu', 'gpu' or None (gpu and xpu "
            f"with a number: 'gpu:0'), but got {device!r}"
        )
    with op_attrs(op_device=device or ""):
        yield
