"""Programs traced from functions, by the names of Paddle 1.8 (fluid.dygraph.jit)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from graphopt.frontend.calls import publish
from graphopt.frontend.tracing import converting
from graphopt.jit.conversion.calls import convert
from graphopt.jit.saving import save as save
from graphopt.jit.settings import set_code_level as set_code_level
from graphopt.jit.settings import set_verbosity as set_verbosity
from graphopt.jit.static_function import to_static
from graphopt.jit.traced_layer import TracedLayer as TracedLayer
from graphopt.jit.translated_layer import TranslatedLayer as TranslatedLayer
from graphopt.jit.translated_layer import load as load

declarative = to_static


def dygraph_to_static_func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a function to append its operators to the current program (fluid.dygraph.jit).

    Its control flow may depend on Variables, as in `paddle.jit.to_static`.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with converting(convert):
            return convert(function)(*args, **kwargs)

    return call


publish(globals(), __name__)
