"""Communication between trainers as operators of a program (paddle.distributed)."""

from __future__ import annotations

from typing import Any

from graphopt.distributed.parallel import get_world_size
from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign, full
from graphopt.tensor.manipulation import cast, reshape, split
from graphopt.tensor.math import divide


class ReduceOp:
    """The reductions of `all_reduce` (paddle.distributed.ReduceOp)."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3
    AVG = 4


_TYPES = {
    ReduceOp.SUM: "c_allreduce_sum",
    ReduceOp.MAX: "c_allreduce_max",
    ReduceOp.MIN: "c_allreduce_min",
    ReduceOp.PROD: "c_allreduce_prod",
    ReduceOp.AVG: "c_allreduce_sum",
}


def _check_tensor(tensor: Any, group: Any, function: str) -> Variable:
    if group is not None:
        raise UnsupportedError(f"{function}(): there is one group, that of all trainers")
    return arguments.variable(tensor, "tensor", function)


def _write(type: str, tensor: Variable, attrs: dict[str, Any]) -> None:
    LayerHelper(type).append_op(type, {"X": tensor}, {"Out": tensor}, attrs)


def all_reduce(
    tensor: Variable, op: int = ReduceOp.SUM, group: Any = None, sync_op: bool = True
) -> None:
    """Overwrite a tensor with its sum, or another reduction, over all trainers.

    Trainers are the places of a data-parallel run; on one place a tensor is unchanged. `sync_op`
    has no effect: XLA orders the ops. Raises ValueError for an `op` outside `ReduceOp`, and
    UnsupportedError for a group. Paddle page: paddle.distributed.all_reduce.
    """
    function = "all_reduce"
    found = _check_tensor(tensor, group, function)
    if op not in _TYPES:
        raise ValueError(f"{function}(): 'op' should be one of ReduceOp, found {op!r}")
    _write(_TYPES[op], found, {"ring_id": 0, "use_calc_stream": True})
    if op == ReduceOp.AVG:
        one = full([1], 1.0, "float32")
        _write("c_allreduce_sum", one, {"ring_id": 0, "use_calc_stream": True})
        count = reshape(cast(one, found.dtype), [1] * len(found.shape))
        assign(divide(found, count), found)


def broadcast(tensor: Variable, src: int, group: Any = None, sync_op: bool = True) -> None:
    """Overwrite a tensor with its value on the trainer `src` (paddle.distributed.broadcast).

    UnsupportedError for a group.
    """
    found = _check_tensor(tensor, group, "broadcast")
    root = arguments.integer(src, "src", "broadcast")
    _write("c_broadcast", found, {"root": root, "ring_id": 0, "use_calc_stream": True})


def all_gather(
    tensor_list: list[Any], tensor: Variable, group: Any = None, sync_op: bool = True
) -> None:
    """Replace the elements of a list by the tensors of all trainers
    (paddle.distributed.all_gather).

    A run whose number of places is not the number of trainers raises ProgramError. UnsupportedError
    for a group.
    """
    found = _check_tensor(tensor, group, "all_gather")
    if not isinstance(tensor_list, list):
        raise TypeError(f"all_gather(): 'tensor_list' must be a list, found {tensor_list!r}")
    count = get_world_size()
    rows = found if found.shape else reshape(found, [1])
    attrs = {"nranks": count, "ring_id": 0, "use_calc_stream": True}
    gathered = emit("c_allgather", {"X": rows}, attrs)
    parts = split(gathered, count, 0)
    tensor_list[:] = parts if found.shape else [reshape(part, []) for part in parts]
