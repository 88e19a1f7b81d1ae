"""A step counter inside a program."""

from __future__ import annotations

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable, default_main_program
from graphopt.tensor.creation import create_global_var


def autoincreased_step_counter(
    counter_name: str | None = None, begin: int = 1, step: int = 1
) -> Variable:
    """Create an int64 [1] that grows by `step` at the start of each run (paddle.optimizer.lr).

    Its first value is `begin`. Counters of the same name are shared; the default name is
    '@STEP_COUNTER@'.
    """
    function = "autoincreased_step_counter"
    name = counter_name or "@STEP_COUNTER@"
    block = default_main_program().global_block()
    if block.has_var(name):
        return block.var(name)
    start = arguments.integer(begin, "begin", function) - 1
    step = arguments.integer(step, "step", function)
    LayerHelper("global_step_counter")
    made = create_global_var([1], start, "int64", persistable=True, name=name)
    made.stop_gradient = True
    block._insert_op(0, "increment", {"X": made}, {"Out": made}, {"step": float(step)})
    return made
