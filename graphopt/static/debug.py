"""Printing and checking values while a program runs (paddle.static.Print, Assert)."""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.sequence_notes import note
from graphopt.ir.program import Operator, Variable
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.blocks import check_flag

_PRINTED = ("bfloat16", "float16", "float32", "float64", "int32", "int64", "bool")


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """Print a tensor when the program computes it, and return it (paddle.static.Print).

    Use the returned Variable: an operator without readers may not run. `first_n` limits how often
    it prints (-1: every time), `summarize` how many elements (-1: all). `print_phase` is "forward",
    "backward" (the gradient alone) or "both". Raises TypeError for other dtypes than float, int32,
    int64 and bool.
    """
    arguments.variable(input, "input", "Print")
    if input.dtype not in _PRINTED:
        raise TypeError(
            f"Print(): '{input.name}' is {input.dtype}; cast it to one of {', '.join(_PRINTED)}"
        )
    phase = arguments.choice(print_phase.lower(), "print_phase", "Print", _PHASES)
    attrs = {
        "first_n": arguments.integer(first_n, "first_n", "Print"),
        "summarize": arguments.integer(summarize, "summarize", "Print"),
        "message": message or "",
        "print_tensor_name": print_tensor_name,
        "print_tensor_type": print_tensor_type,
        "print_tensor_shape": print_tensor_shape,
        "print_tensor_layout": print_tensor_layout,
        "print_tensor_lod": print_tensor_lod,
        "print_phase": phase.upper(),
    }
    layer = f"print_{input.name}" if input.block.program.is_fluid else "print"
    return note(emit("print", {"In": input}, attrs, layer=layer), levels_of(input))


_PHASES = ("forward", "backward", "both")


def Assert(
    cond: Variable,
    data: Sequence[Variable] | None = None,
    summarize: int = 20,
    name: str | None = None,
) -> Operator:
    """Stop the run with CheckError (ValueError) unless `cond` holds; return the operator.

    The error shows up to `summarize` elements (-1: all) of each tensor in `data`; a failed step
    stores nothing (paddle.static.nn.control_flow.Assert). Raises TypeError when `cond` is not a
    bool Variable of one element.
    """
    check_flag(cond, "cond", "Assert")
    shown = [] if data is None else arguments.variables(data, "data", "Assert")
    helper = LayerHelper("assert", name or f"assert_{cond.name}")
    attrs = {"summarize": arguments.integer(summarize, "summarize", "Assert")}
    return helper.append_op("assert", {"Cond": cond, "Data": shown}, {}, attrs)
