"""Layers that Paddle 1.8 kept apart (paddle.fluid.contrib.layers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.fluid.contrib.layers.matching import match_matrix_tensor as match_matrix_tensor
from graphopt.fluid.contrib.layers.matching import tree_conv as tree_conv
from graphopt.fluid.contrib.layers.ranking import rank_attention as rank_attention
from graphopt.fluid.contrib.layers.ranking import tdm_child as tdm_child
from graphopt.fluid.contrib.layers.ranking import tdm_sampler as tdm_sampler
from graphopt.fluid.layers.proposals import multiclass_nms2 as multiclass_nms2
from graphopt.fluid.layers.random import uniform_random_batch_size_like
from graphopt.fluid.layers.shaping import gather, reshape
from graphopt.fluid.layers.tensor import argsort
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.missing import explain as _explain
from graphopt.frontend.sequence_notes import note
from graphopt.ir.program import Variable
from graphopt.ir.program.lengths import levels_of
from graphopt.static.click_rates import ctr_metric_bundle as ctr_metric_bundle


def fused_elemwise_activation(
    x: Variable,
    y: Variable,
    functor_list: Any,
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = True,
) -> Variable:
    """Apply an elementwise function and an activation, the outer one first in `functor_list`.

    The functors are "elementwise_add", "relu", "scale", "tanh" and "sigmoid"; `scale` is the factor
    of "scale". Paddle page: fluid.contrib.layers.fused_elemwise_activation.
    """
    function = "fused_elemwise_activation"
    names = functor_list.split(",") if isinstance(functor_list, str) else list(functor_list)
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{function}(): 'functor_list' should have two names, found {names}")
    attrs = {
        "axis": arguments.integer(axis, "axis", function),
        "scale": arguments.number(scale, "scale", function),
        "functor_list": names,
    }
    inputs = {
        "X": arguments.variable(x, "x", function),
        "Y": arguments.variable(y, "y", function),
    }
    return emit(function, inputs, attrs)


def partial_concat(
    input: Variable | Sequence[Variable], start_index: int = 0, length: int = -1
) -> Variable:
    """Concatenate the columns from `start_index` on of each matrix (contrib.partial_concat)."""
    return _partial("partial_concat", input, start_index, length)


def partial_sum(
    input: Variable | Sequence[Variable], start_index: int = 0, length: int = -1
) -> Variable:
    """Add up the columns from `start_index` on of each matrix (contrib.partial_sum)."""
    return _partial("partial_sum", input, start_index, length)


def shuffle_batch(x: Variable, seed: int | Variable | None = None) -> Variable:
    """Shuffle the rows of x (paddle.fluid.contrib.layers.shuffle_batch).

    A row is along the last axis of x [..., columns]; the result has the shape of x. The order
    follows from the program's seed and the run number, or from `seed` alone: then batches of one
    size have the same order in each run. Raises TypeError for an x that is no Variable and
    UnsupportedError for a `seed` that is one.
    """
    function = "shuffle_batch"
    x = arguments.variable(x, "x", function)
    if isinstance(seed, Variable):
        raise UnsupportedError(
            f"{function}(): 'seed' as a Variable is not supported; give a number, or none for "
            "another order at each run"
        )
    fixed = 0 if seed is None else arguments.integer(seed, "seed", function)
    rows = x if len(x.shape) == 2 else reshape(x, [-1, x.shape[-1]])
    keys = uniform_random_batch_size_like(rows, [-1], min=0.0, max=1.0, seed=fixed)
    shuffled = gather(rows, argsort(keys, axis=0)[1])
    shuffled = shuffled if rows is x else reshape(shuffled, [-1, *x.shape[1:]])
    levels = levels_of(x)
    return note(shuffled, levels) if levels else shuffled


def _partial(
    function: str, input: Variable | Sequence[Variable], start: int, length: int
) -> Variable:
    attrs = {
        "start_index": arguments.integer(start, "start_index", function),
        "length": arguments.integer(length, "length", function),
    }
    given = [input] if isinstance(input, Variable) else input
    return emit(function, {"X": arguments.variables(given, "input", function)}, attrs)


_explain(globals())
publish(globals(), __name__)
