"""State of the front end that is not in a Program: mode, default dtype, attributes of new ops.

Paddle pages: paddle.enable_static, paddle.set_default_dtype, paddle.static.name_scope,
paddle.static.device_guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from graphopt import arguments
from graphopt.errors import UnsupportedError
from graphopt.ir.dtypes import FLOATING, DType
from graphopt.runtime.generator import Generator, default_generator

_default_dtype = DType("float32")
_op_attrs: dict[str, Any] = {}


def enable_static() -> None:
    """Build programs instead of running each call (paddle.enable_static); always in force here."""


def disable_static(place: Any = None) -> None:
    """Raise UnsupportedError: graphopt has no dynamic mode (paddle.disable_static)."""
    raise UnsupportedError(
        "graphopt compiles static-graph programs and has no dynamic mode; build a Program with "
        "paddle.static.program_guard and run it with paddle.static.Executor"
    )


def in_dynamic_mode() -> bool:
    """False: programs are always static (paddle.in_dynamic_mode)."""
    return False


def set_default_dtype(d: Any) -> None:
    """The dtype of new floating-point tensors and parameters (paddle.set_default_dtype).

    Raises TypeError when `d` is not float16, bfloat16, float32 or float64.
    """
    global _default_dtype
    found = arguments.dtype(d, "d", "set_default_dtype")
    if found not in FLOATING:
        raise TypeError(
            f"set_default_dtype only supports {', '.join(sorted(FLOATING))}, but received {found!s}"
        )
    _default_dtype = found


def get_default_dtype() -> DType:
    """The dtype of new floating-point tensors (paddle.get_default_dtype)."""
    return _default_dtype


def seed(seed: int) -> Generator:
    """Seed the generator of programs without a seed of their own, and return it (paddle.seed)."""
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
    """The attributes that new operators get (see `op_attrs`)."""
    return _op_attrs


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Group operators under a name in printed programs (paddle.static.name_scope).

    Operators made inside get the attribute `op_namescope`, e.g. `/encoder/attention/`; nothing
    else depends on it. Raises TypeError when `prefix` is not a string.
    """
    if prefix is not None and not isinstance(prefix, str):
        raise TypeError(f"name_scope(): 'prefix' must be a str, found {type(prefix).__name__}")
    outer = _op_attrs.get("op_namescope", "/")
    with op_attrs(op_namescope=f"{outer}{prefix or 'nameless'}/"):
        yield


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Note a device on operators (paddle.static.device_guard).

    Operators made inside get the attribute `op_device`. XLA places whole programs, so it does not
    change where they run. Raises ValueError unless `device` is None, 'cpu', 'gpu' or 'gpu:<n>'.
    """
    kind, _, index = (device or "").partition(":")
    if kind not in ("", "cpu", "gpu") or (index and (kind != "gpu" or not index.isdigit())):
        raise ValueError(f"device_guard(): 'device' should be 'cpu', 'gpu' or None, got {device!r}")
    with op_attrs(op_device=device or ""):
        yield
