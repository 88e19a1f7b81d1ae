"""Communication between trainers as layers (paddle.fluid.layers.collective).

All trainers, the places of a data-parallel run, are one ring: `ring_id` has no effect, nor have
`use_calc_stream` and `sync_mode`, because XLA orders execution. On one place each layer is the
identity. With several trainers, executors run a plain program that has such a layer on all of them.
"""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable, unique_name

_BY_NUMBER = ("sum", "prod", "max", "min")


def _into(type: str, x: Variable, out: Variable | None, attrs: Any) -> Variable:
    """Append an operator that writes `out`, or a new variable named after x."""
    helper = LayerHelper(type)
    if out is None:
        block = helper.main_program.current_block()
        out = block.create_var(unique_name.generate(f"{x.name}.{type}"))
    helper.append_op(type, {"X": x}, {"Out": out}, attrs)
    return out


def _reduction(reduce_type: str, function: str) -> str:
    if reduce_type not in _BY_NUMBER:
        raise TypeError(
            f"{function}(): 'reduce_type' should be one of {', '.join(_BY_NUMBER)}, "
            f"found {reduce_type!r}"
        )
    return reduce_type


def _allreduce(
    x: Variable, out: Variable | None = None, reduce_type: str = "sum", sync_mode: bool = False
) -> Variable:
    """Reduce x over all trainers as `_c_allreduce` does, without a gradient."""
    found = arguments.variable(x, "x", "_allreduce")
    number = _BY_NUMBER.index(_reduction(reduce_type, "_allreduce"))
    made = _into("allreduce", found, out, {"reduce_type": number, "sync_mode": sync_mode})
    made.stop_gradient = True
    return made


def _broadcast(x: Variable, root: int, sync_mode: bool = False) -> Variable:
    """Overwrite x with its value on the trainer `root`."""
    return _c_broadcast(x, root)


def _c_allreduce(
    x: Variable,
    out: Variable | None = None,
    reduce_type: str = "sum",
    ring_id: int = 0,
    use_calc_stream: bool = False,
) -> Variable:
    """Compute the sum, product, maximum or minimum of x over all trainers.

    The gradient of a sum is the sum of the gradients; the others have none. Raises TypeError for
    another `reduce_type`.
    """
    found = arguments.variable(x, "x", "_c_allreduce")
    type = f"c_allreduce_{_reduction(reduce_type, '_c_allreduce')}"
    return _into(type, found, out, {"ring_id": ring_id, "use_calc_stream": use_calc_stream})


def _c_broadcast(
    x: Variable, root: int = 0, ring_id: int = 0, use_calc_stream: bool = False
) -> Variable:
    """Overwrite x with its value on the trainer `root`; ProgramError in a run without it."""
    found = arguments.variable(x, "x", "_c_broadcast")
    attrs = {"root": arguments.integer(root, "root", "_c_broadcast"), "ring_id": ring_id}
    return _into("c_broadcast", found, found, {**attrs, "use_calc_stream": use_calc_stream})


def _c_allgather(
    x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False
) -> Variable:
    """Concatenate the rows [n, ...] of x from all trainers: [nranks * n, ...].

    Raises ProgramError in a run with another number of trainers than `nranks`.
    """
    found = arguments.variable(x, "x", "_c_allgather")
    attrs = {"nranks": arguments.integer(nranks, "nranks", "_c_allgather"), "ring_id": ring_id}
    return _into("c_allgather", found, None, {**attrs, "use_calc_stream": use_calc_stream})


def _c_reducescatter(
    x: Variable, nranks: int, ring_id: int = 0, use_calc_stream: bool = False
) -> Variable:
    """Raise UnsupportedError."""
    raise UnsupportedError(
        "_c_reducescatter() is not supported; add up by _c_allreduce(), and slice the rows of this "
        "trainer"
    )


def _c_sync_calc_stream(x: Variable) -> Variable:
    """Return x unchanged: XLA orders execution."""
    return arguments.variable(x, "x", "_c_sync_calc_stream")


def _c_sync_comm_stream(x: Variable, ring_id: int) -> Variable:
    """Return x unchanged: XLA orders execution."""
    return arguments.variable(x, "x", "_c_sync_comm_stream")
