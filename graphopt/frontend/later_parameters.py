"""Parameters that Paddle 3.3 added to many functions, with one meaning in all of them.

`paddle.add(x, y, out=z)` writes the sum to z and returns z, as in Paddle's dynamic mode. Functions
that create tensors take PyTorch's `device`, `pin_memory` and `requires_grad`: the executor decides
where a program runs. With `inplace` the result is a new tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from graphopt.errors import OperandError
from graphopt.frontend.in_place import write
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.mode import would_be_dynamic
from graphopt.frontend.tracing import is_converting
from graphopt.ir.program import Variable

# packages whose functions return tensors
_OF_TENSORS = ("graphopt.tensor.", "graphopt.nn.functional.", "graphopt.fft.")
# functions that create tensors
_MAKERS = """
    arange empty empty_like eye fftfreq full full_like linspace ones ones_like rand rand_like randn
    randn_like randperm range rfftfreq standard_normal uniform zeros zeros_like
"""
_ALSO = {
    **dict.fromkeys(_MAKERS.split(), ("device", "pin_memory", "requires_grad")),
    **dict.fromkeys(("dropout", "silu"), ("inplace",)),
}


def without_later(
    function: Callable[..., Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], Callable[[Any], Any]] | None:
    """Remove Paddle 3.3's parameters from the arguments; return a function to apply to the result.

    Returns None if no argument is one of those that the function lacks but accepts here.
    """
    if not f"{function.__module__}.".startswith(_OF_TENSORS):
        return None
    known = signature(function).parameters
    taken = ("out", *_ALSO.get(function.__name__, ()))
    later = {name: given[name] for name in taken if name in given and name not in known}
    if not later:
        return None

    def finish(made: Any) -> Any:
        if later.get("requires_grad"):
            made.stop_gradient = False
        out = later.get("out")
        return made if out is None else _write(out, made, function.__name__)

    return {name: value for name, value in given.items() if name not in later}, finish


def _write(out: Any, made: Any, name: str) -> Any:
    """Assign the results to the tensors of `out`."""
    if isinstance(made, (list, tuple)):
        if not isinstance(out, (list, tuple)) or len(out) != len(made):
            raise OperandError(f"{name}(): out must have {len(made)} Variables, found {out!r}")
        return type(made)([_write(one, each, name) for one, each in zip(out, made, strict=True)])
    if not isinstance(out, Variable):
        raise OperandError(f"{name}(): the argument 'out' must be a Variable, found {out!r}")
    if is_converting() or would_be_dynamic():
        return write(out, made, f"{name}(out=)")
    LayerHelper("assign").append_op("assign", {"X": made}, {"Out": out})
    return out
