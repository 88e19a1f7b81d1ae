"""Tensors with sequence lengths, as scripts of 1.8 feed and fetch them (paddle.fluid.LoDTensor).

The lengths are kept beside the dense values. A feed of one fills `x` and `x@lens`; see
`graphopt.frontend.sequence_notes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.errors import AssertedError
from graphopt.runtime.devices.places import CPUPlace
from graphopt.runtime.state.arrays import is_of_jax
from graphopt.runtime.state.slots import Slot
from graphopt.runtime.state.slots import Tensor as _Tensor


class LoDTensor(_Tensor):
    """Values with the lengths of the sequences in them (Paddle page: fluid.LoDTensor)."""

    def __init__(self, array: Any = None, lengths: Sequence[Sequence[int]] = ()) -> None:
        super().__init__(Slot("lod_tensor"))
        if array is not None:
            self._slot.put(array if is_of_jax(array) else np.array(array))
        self._note_lengths(lengths)

    def _place(self) -> CPUPlace:
        """Return the host, which holds the values of all tensors of scripts."""
        return CPUPlace()


LoDTensorArray = list


def lengths_between(offsets: Sequence[int]) -> list[int]:
    """Compute sequence lengths from their start offsets; the last offset is the end."""
    return np.diff(offsets).tolist()


def create_lod_tensor(
    data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Any = None
) -> LoDTensor:
    """Create a tensor with lengths from an array or a list of sequences of numbers.

    Numbers in a list become int64 rows of one element. Raises ValueError when the lengths do not
    fit the data. Paddle page: fluid.create_lod_tensor.
    """
    if isinstance(data, list):
        if [len(sequence) for sequence in data] != list(recursive_seq_lens[-1]):
            raise AssertedError("create_lod_tensor(): data and recursive_seq_lens do not match")
        data = np.concatenate([np.asarray(s).reshape(len(s), -1) for s in data]).astype("int64")
    made = LoDTensor(data, recursive_seq_lens)
    if not made.has_valid_recursive_sequence_lengths():
        raise AssertedError(
            f"create_lod_tensor(): the lengths {list(recursive_seq_lens)} are invalid for data of "
            f"shape {made.shape()}"
        )
    return made


def create_random_int_lodtensor(
    recursive_seq_lens: Sequence[Sequence[int]],
    base_shape: Sequence[int],
    place: Any,
    low: int,
    high: int,
) -> LoDTensor:
    """Draw random integers from low to high: rows of base_shape, with the lengths of sequences.

    Paddle page: fluid.create_random_int_lodtensor.
    """
    rows = sum(recursive_seq_lens[-1])
    drawn = np.random.default_rng().integers(low, high, [rows, *base_shape], endpoint=True)
    return create_lod_tensor(drawn.astype("int64"), recursive_seq_lens, place)
