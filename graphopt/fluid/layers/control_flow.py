"""Branches, loops and tensor arrays (paddle.fluid.layers.control_flow).

Most come from `graphopt.static.nn`; `graphopt.fluid.layers` adds all its layers to this module.
"""

from graphopt.fluid.layers.rank_tables import array_to_lod_tensor as array_to_lod_tensor
from graphopt.fluid.layers.rank_tables import lod_rank_table as lod_rank_table
from graphopt.fluid.layers.rank_tables import lod_tensor_to_array as lod_tensor_to_array
from graphopt.fluid.layers.rank_tables import max_sequence_len as max_sequence_len
from graphopt.fluid.layers.rank_tables import merge_lod_tensor as merge_lod_tensor
from graphopt.fluid.layers.rank_tables import shrink_memory as shrink_memory
from graphopt.fluid.layers.rank_tables import split_lod_tensor as split_lod_tensor
from graphopt.frontend.absent import absent

# operators around branches, which only Paddle's own layers append
_OF_BRANCHES = "graphopt has no paddle.fluid.layers.control_flow.{}. Instead: fluid.layers.{}"
select_input = absent("select_input", _OF_BRANCHES.format("select_input", "switch_case"))
select_output = absent("select_output", _OF_BRANCHES.format("select_output", "switch_case"))
