"""Decorators that keep the signature of the wrapped function (paddle.fluid.wrapped_decorator)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import wraps
from typing import Any

from graphopt.frontend.missing import explain

Function = Callable[..., Any]


def wrap_decorator(
    decorator_func: Callable[[Function], Function],
) -> Callable[[Function], Function]:
    """Wrap a decorator to keep the name and the signature of the functions it decorates."""

    def decorate(function: Function) -> Function:
        return wraps(function)(decorator_func(function))

    return decorate


signature_safe_contextmanager = wrap_decorator(contextmanager)

explain(globals())
