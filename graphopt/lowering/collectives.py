"""Communication with the other replicas: the only interface for rules.

Rules see a `Replicas` object. In a data-parallel function it stands for the mapped axis `AXIS`;
alone it is the identity, so one rule serves both.

Replicas may form groups, one per process: the members of each group hold all parts of the state
between them. Then there is a second axis, `GROUPS`, outside of `AXIS`.

A replica may be several devices, along the axis `MODEL` inside of `AXIS`: each holds pieces of some
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
        """Sum a value over all replicas (all-reduce)."""
        return value if self.axis is None else lax.psum(value, self._axes)

    def mean(self, value: Any) -> Any:
        """Average a value over all replicas (all-reduce)."""
        return value if self.axis is None else lax.pmean(value, self._axes)

    def max(self, value: Any) -> Any:
        """Compute the elementwise maximum over all replicas."""
        return value if self.axis is None else lax.pmax(value, self._axes)

    def min(self, value: Any) -> Any:
        """Compute the elementwise minimum over all replicas."""
        return value if self.axis is None else lax.pmin(value, self._axes)

    def gather(self, value: Any) -> Any:
        """Gather the values of all replicas along a new first axis (all-gather)."""
        return value[None] if self.axis is None else lax.all_gather(value, self._axes)

    def index(self) -> Any:
        """Return the index of this replica as an int32 scalar."""
        return _index(self._axes)

    def sum_in_parts(self, value: Any) -> Any:
        """Sum a flat value over all replicas and return this replica's part (reduce-scatter).

        `parts` divides the length. Only this part is sent between groups.
        """
        if self.axis is None:
            return value
        part = lax.psum_scatter(value, self.axis, scatter_dimension=0, tiled=True)
        return part if self.groups == 1 else lax.psum(part, GROUPS)

    def sum_of_parts(self, value: Any) -> Any:
        """Sum the values that replicas compute from their parts; each part counts once."""
        return value if self.axis is None else lax.psum(value, self.axis)

    def gather_parts(self, part: Any) -> Any:
        """Gather all parts of a value along a new first axis, on each replica."""
        return part[None] if self.axis is None else lax.all_gather(part, self.axis)

    def part_index(self) -> Any:
        """Return the index of this replica's shard as an int32 scalar."""
        return _index(self.axis)

    def model_sum(self, value: Any) -> Any:
        """Sum a value over the devices of this replica (all-reduce)."""
        return value if self.model == 1 else lax.psum(value, MODEL)

    def model_gather(self, piece: Any, axis: int) -> Any:
        """Concatenate the pieces of this replica's devices along an axis, on each device."""
        if self.model == 1:
            return piece
        return lax.all_gather(piece, MODEL, axis=axis, tiled=True)

    def model_piece(self, value: Any, axis: int) -> Any:
        """Slice this device's piece of a value along an axis."""
        if self.model == 1:
            return value
        size = value.shape[axis] // self.model
        return lax.dynamic_slice_in_dim(value, self.model_index() * size, size, axis)

    def model_index(self) -> Any:
        """Return the index of this device in its replica as an int32 scalar."""
        return _index(None if self.model == 1 else MODEL)

    def check_degree(self, degree: int) -> None:
        """Raise ProgramError unless each replica is this many devices."""
        if degree != self.model:
            raise ProgramError(
                f"the program cuts values into {degree} pieces, but a replica is {self.model} "
                "devices"
            )

    def check_count(self, count: int) -> None:
        """Raise ProgramError unless this many replicas run the program."""
        if count != self.size:
            raise ProgramError(
                f"the program has a collective of {count} replicas, but runs on {self.size}; "
                "'nranks' should be the number of places, or of trainers, that run it"
            )

    def check_parts(self, parts: int) -> None:
        """Raise ProgramError unless there is one replica for each of this many parts."""
        if parts != self.parts:
            raise ProgramError(
                f"the program spreads its state over {parts} replicas, but {self.parts} run it"
            )


def _index(axes: Any) -> Any:
    return jax.numpy.zeros((), "int32") if axes is None else lax.axis_index(axes)


ALONE = Replicas()
