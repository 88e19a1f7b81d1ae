"""In-place writes: `x.add_(y)`, `x[i] = v`, `x.set_value(v)` in a traced function.

A program may write a name more than once, so a tensor is changed by an assignment to its name:
every reference of the script to the tensor sees the change, also in the caller of a function
that got it as an argument. A view, such as a `reshape` or an index, is a copy, as in a trace of
Paddle's.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.frontend.first_values import forget, value_of
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.mode import static_mode, would_be_dynamic
from graphopt.frontend.tracing import current_trace, is_converting
from graphopt.ir.dialect.shapes import agree
from graphopt.ir.program import Variable, default_main_program, undo
from graphopt.ir.program.location import caller_level, caller_location
from graphopt.runtime.state.scope import global_scope

P = ParamSpec("P")


def in_place(
    function: Callable[P, Variable], written: str = "", *, reshapes: bool = False
) -> Callable[P, Variable]:
    """Derive the in-place form of a function, which writes the result to an argument.

    The argument is the first one, or the one named `written`. The form writes in traces, and to
    constants before a script creates a program. In a static program it creates a new variable and
    warns, as in Paddle. Without `reshapes` the tensor keeps its shape: the form raises ProgramError
    (ValueError) for a result of another shape.
    """
    signature = inspect.signature(function)
    argument = written or next(iter(signature.parameters))
    own = f"{function.__name__}_"

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Variable:
        if not (is_converting() or would_be_dynamic()):
            warnings.warn(
                f"In static graph mode, {own}() is the same as {function.__name__}() and does not "
                "perform inplace operation.",
                stacklevel=caller_level(),
            )
            return function(*args, **kwargs)
        target = signature.bind(*args, **kwargs).arguments[argument]
        with static_mode():
            made = function(*args, **kwargs)
            if not isinstance(target, Variable):
                return made
            if not (reshapes or agree(made.shape, target.shape)):
                raise ProgramError(
                    f"The shape of broadcast output {list(made.shape)} is different from that of "
                    f"inplace tensor {list(target.shape)}, '{target.name}', in {own}(); write "
                    f"x = x.{function.__name__}(...)"
                )
            return write(target, made, f"{own}()")

    call.__name__ = call.__qualname__ = own
    return call


def write(target: Variable, made: Variable, call: str) -> Variable:
    """Assign the values of `made` to `target` from here on, and return `target`.

    Raises UnsupportedError where another shape or dtype cannot be written: to a persistable
    variable, to a variable of another block, and to a feed of a program that is not traced.
    """
    if made is target:
        return target
    block = default_main_program().current_block()
    # a trace has twins of variables from other programs
    found = block.find_var(target.name)
    own = target if found is None else found
    if made.dtype == own.dtype and agree(made.shape, own.shape):
        if own.persistable and not is_converting():
            global_scope().var(own.name).put(value_of(made))
            return target
        LayerHelper("assign").append_op("assign", {"X": made}, {"Out": own})
        undo.note_attributes(own, "stop_gradient")
        own.stop_gradient = made.stop_gradient
        if not is_converting():
            forget(own)
        return target
    is_feed = target.is_data and current_trace() is None
    if own is not target or own.persistable or own.block is not block or is_feed:
        raise UnsupportedError(
            f"{caller_location()}: {call} would change '{target.name}' from {_type(own)} to "
            f"{_type(made)}; {_reason(own, is_feed=is_feed)}. Use the function that returns a new "
            "tensor"
        )
    _become(target, made)
    return target


def _type(variable: Variable) -> str:
    return f"{variable.dtype} {list(variable.shape)}"


def _reason(variable: Variable, *, is_feed: bool) -> str:
    if is_feed:
        return "the dtype and shape of a feed cannot change"
    if variable.persistable:
        return "the dtype and shape of a variable that is kept between runs cannot change"
    return "the dtype and shape of a variable cannot change in a branch or a loop over a tensor"


def _become(target: Variable, made: Variable) -> None:
    """Make the object `target` the variable `made`; a copy of it keeps the old name in the block.

    A variable of a program has one type, and the object that the script holds must get the new one.
    """
    block = target.block
    before = dict(vars(target))
    block._declare(target.copy_to(block))
    undo.note(vars(target).update, before)
    vars(target).update(vars(made))
    block._declare(target)
