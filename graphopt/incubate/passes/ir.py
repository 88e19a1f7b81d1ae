"""Rewrites that a script describes in Paddle's form (paddle.incubate.passes.ir).

They have no effect: BuildStrategy and the passes of graphopt decide the fusions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend.calls import publish
from graphopt.ir.program.location import caller_level

_INSTEAD = (
    "write it as a pass of graphopt, which is a pattern and what replaces it: "
    "docs/how-to/add-a-pass-from-outside.md"
)


def RegisterPass(
    function: Callable[..., Any] | None = None, input_specs: Mapping[str, Any] | None = None
) -> Any:
    """Return a function that describes a rewrite unchanged, and warn that it is not applied.

    A decorator, with or without `input_specs`. TypeError for an argument that is not callable.
    """

    def keep(described: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(described):
            raise TypeError(f"RegisterPass(): expected a function, found {described!r}")
        name = getattr(described, "__name__", "")
        warnings.warn(
            f"RegisterPass(): the rewrite '{name}' is not applied; {_INSTEAD}",
            stacklevel=caller_level(),
        )
        return described

    return keep if function is None else keep(function)


class _Operators:
    """Operators of a pattern, which only Paddle's own matcher can read."""

    def __getattr__(self, name: str) -> Any:
        raise UnsupportedError(
            f"PassDesc.OP.{name}: patterns of Paddle's operators are not matched here; {_INSTEAD}"
        )


class PassDesc:
    """The operators of a described rewrite; using one raises UnsupportedError."""

    OP = _Operators()


publish(globals(), __name__)
