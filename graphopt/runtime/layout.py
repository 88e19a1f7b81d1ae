"""The layout in which an array on the devices holds the value of a variable."""

from __future__ import annotations

from typing import NamedTuple


class ArrayLayout(NamedTuple):
    """With `replicas` > 0 there is a leading axis with one value per replica, of which readers see
    the first. With `whole`, a shape, the replicas have parts instead, which readers see as one
    array of that shape. With `order` the axes are in another order: axis i is the variable's axis
    order[i].
    """

    replicas: int = 0
    whole: tuple[int, ...] | None = None
    order: tuple[int, ...] = ()


AS_IT_IS = ArrayLayout()
