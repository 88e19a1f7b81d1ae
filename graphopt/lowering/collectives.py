"""Communication with the other replicas: the only interface for rules.

Rules see a `Replicas` object. In a data-parallel function it stands for the mapped axis `AXIS`;
alone it is the identity, so one rule serves both.

Replicas may come in groups, those of a process: each group has all parts of the state between its
members. Then there is a second axis, `GROUPS`, outside of `AXIS`.

A replica may be several devices, those along `MODEL`, inside of `AXIS`: each has pieces of some
values (`model_sum` and the like).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import lax

from graphopt.errors import ProgramError

AXIS, GROUPS, MODEL = "dp", "groups", "model"


@dataclass(frozen=True)
class Replicas:
    """The `size` replicas that run one data-parallel function; `axis` is None outside of one.

    Each of them is `model` devices.
    """

    axis: str | None = None
    size: int = 1
    groups: int = 1
    model: int = 1

    @property
    def are_one_device(self) -> bool:
        """True for one replica on one device, where nothing is mapped."""
        return self.axis is None and self.model == 1

    @property
    def parts(self) -> int:
        """The number of shards of a sharded value: one for each replica of a group."""
        return self.size // self.groups

    @property
    def _axes(self) -> Any:
        return self.axis if self.groups == 1 else (GROUPS, self.axis)

    def sum(self, value: Any) -> Any:
        """The sum of a value over all replicas, on each of them."""
        return value if self.axis is None else lax.psum(value, self._axes)

    def mean(self, value: Any) -> Any:
        """The mean of a value over all replicas, on each of them."""
        return value if self.axis is None else lax.pmean(value, self._axes)

    def max(self, value: Any) -> Any:
        """The largest value of all replicas, element by element."""
        return value if self.axis is None else lax.pmax(value, self._axes)

    def min(self, value: Any) -> Any:
        """The smallest value of all replicas, element by element."""
        return value if self.axis is None else lax.pmin(value, self._axes)

    def gather(self, value: Any) -> Any:
        """The values of all replicas along a new first axis, on each of them."""
        return value[None] if self.axis is None else lax.all_gather(value, self._axes)

    def index(self) -> Any:
        """The number of this replica as an int32 scalar."""
        return _index(self._axes)

    def sum_in_parts(self, value: Any) -> Any:
        """This replica's part of the sum of a flat value, whose length `parts` divides.

        Only such a part is sent between groups.
        """
        if self.axis is None:
            return value
        part = lax.psum_scatter(value, self.axis, scatter_dimension=0, tiled=True)
        return part if self.groups == 1 else lax.psum(part, GROUPS)

    def sum_of_parts(self, value: Any) -> Any:
        """The sum of values that replicas compute from their parts; each part counts once."""
        return value if self.axis is None else lax.psum(value, self.axis)

    def gather_parts(self, part: Any) -> Any:
        """All parts of a value along a new first axis, on each replica."""
        return part[None] if self.axis is None else lax.all_gather(part, self.axis)

    def part_index(self) -> Any:
        """The index of this replica's shard, as an int32 scalar."""
        return _index(self.axis)

    def model_sum(self, value: Any) -> Any:
        """The sum of a value over the devices of this replica, on each of them."""
        return value if self.model == 1 else lax.psum(value, MODEL)

    def model_gather(self, piece: Any, axis: int) -> Any:
        """The pieces of the devices of this replica along an axis, on each of them."""
        if self.model == 1:
            return piece
        return lax.all_gather(piece, MODEL, axis=axis, tiled=True)

    def model_piece(self, value: Any, axis: int) -> Any:
        """This device's piece of a value along an axis."""
        if self.model == 1:
            return value
        size = value.shape[axis] // self.model
        return lax.dynamic_slice_in_dim(value, self.model_index() * size, size, axis)

    def model_index(self) -> Any:
        """The number of this device in its replica as an int32 scalar."""
        return _index(None if self.model == 1 else MODEL)

    def check_degree(self, degree: int) -> None:
        """ProgramError unless each replica is this many devices."""
        if degree != self.model:
            raise ProgramError(
                f"the program cuts values into {degree} pieces, but a replica is {self.model} "
                "devices"
            )

    def check_count(self, count: int) -> None:
        """ProgramError unless this many replicas run the program."""
        if count != self.size:
            raise ProgramError(
                f"the program has a collective of {count} replicas, but runs on {self.size}; "
                "'nranks' should be the number of places, or of trainers, that run it"
            )

    def check_parts(self, parts: int) -> None:
        """ProgramError unless there is one replica for each of this many parts."""
        if parts != self.parts:
            raise ProgramError(
                f"the program spreads its state over {parts} replicas, but {self.parts} run it"
            )


def _index(axes: Any) -> Any:
    return jax.numpy.zeros((), "int32") if axes is None else lax.axis_index(axes)


ALONE = Replicas()
