"""Names for a layer that is one operator in Paddle and several here.

Intermediate values have names of their own, which do not advance Paddle's counters; the results
have the names of Paddle's layer. So scripts that fetch by name, and all later names, are as in
Paddle.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from graphopt.ir.program import Variable, default_main_program, unique_name

P = ParamSpec("P")
R = TypeVar("R")


def one_layer(layer: str, *numbers: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function so that its results are named `<layer>_0.tmp_<number>`, as one layer's.

    Result i gets the i-th of `numbers` (default: 0 for the first). An argument `name` of the
    function replaces `<layer>_0`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments.get("name")
            own = given if isinstance(given, str) else unique_name.generate(layer)
            return made_by(own, numbers or (0,), partial(function, *args, **kwargs))

        return wrapper

    return decorate


def made_by(own: str, numbers: Sequence[int], function: Callable[[], R]) -> R:
    """Call a function and name its results as temporaries of the layer called `own`.

    Result i becomes `<own>.tmp_<numbers[i]>`, if the function created it.
    """
    # scripts may use a name twice
    inner = unique_name.generate(f"{own}/part")
    block = default_main_program().current_block()
    first = len(block.ops)
    with unique_name.inside(inner) as prefix:
        made = function()
    names = [unique_name.generate(f"{own}.tmp") for _ in range(max(numbers) + 1)]
    results = made if isinstance(made, (list, tuple)) else [made]
    for number, result in zip(numbers, results, strict=False):
        if isinstance(result, Variable) and result.name.startswith(prefix):
            _rename(result, names[number], first if result.block is block else 0)
    return made


def _rename(variable: Variable, name: str, first: int) -> None:
    """Rename a variable that operators after the first `first` ones of its block write or read."""
    block = variable.block
    del block.vars[variable.name]
    for op in block.ops[first:]:
        op.rename(variable.name, name)
    variable.name = name
    block.vars[name] = variable
    block.program.touch()
