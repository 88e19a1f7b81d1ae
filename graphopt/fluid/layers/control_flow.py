"""Branches, loops and tensor arrays (paddle.fluid.layers.control_flow).

They are those of `graphopt.static.nn`, found when they are used; see `graphopt.fluid.elsewhere`.
"""

from __future__ import annotations

from typing import Any

from graphopt.fluid import elsewhere
from graphopt.fluid.layers.elementwise import equal as equal
from graphopt.fluid.layers.elementwise import greater_equal as greater_equal
from graphopt.fluid.layers.elementwise import greater_than as greater_than
from graphopt.fluid.layers.elementwise import less_equal as less_equal
from graphopt.fluid.layers.elementwise import less_than as less_than
from graphopt.fluid.layers.elementwise import not_equal as not_equal
from graphopt.fluid.layers.sequence_lod import lod_rank_table as lod_rank_table
from graphopt.fluid.layers.sequence_lod import (
    reorder_lod_tensor_by_rank as reorder_lod_tensor_by_rank,
)
from graphopt.fluid.layers.tensor import increment as increment
from graphopt.fluid.layers.tensor import is_empty as is_empty


def __getattr__(name: str) -> Any:
    return elsewhere.find(name)
