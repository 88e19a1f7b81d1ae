"""Switches of automatic differentiation. In a static program they have no effect, as in Paddle.

The functions that append gradients decide which variables have one: see `static.append_backward`,
`static.gradients` and `Variable.stop_gradient`.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any, Self


class _Mode(ContextDecorator):
    """A context manager and decorator without effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        return None


class no_grad(_Mode):
    """A decorator, with or without a call, and a `with` context (paddle.no_grad)."""

    def __new__(cls, func: Any = None) -> Any:
        return super().__new__(cls) if func is None else func


class enable_grad(_Mode):
    """A decorator, with or without a call, and a `with` context (paddle.enable_grad)."""

    def __new__(cls, func: Any = None) -> Any:
        return super().__new__(cls) if func is None else func


class set_grad_enabled(_Mode):
    """A `with` context (paddle.set_grad_enabled)."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode


def is_grad_enabled() -> bool:
    """Return False: a run of a static program records no gradients (paddle.is_grad_enabled)."""
    return False
