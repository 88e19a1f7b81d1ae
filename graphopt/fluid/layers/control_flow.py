"""Branches, loops and tensor arrays (paddle.fluid.layers.control_flow).

Most are those of `graphopt.static.nn`; `graphopt.fluid.layers` lets this module have all layers.
"""

from graphopt.fluid.layers.sequence_lod import lod_rank_table as lod_rank_table
from graphopt.frontend.absent import absent

# operators around loops over sequences, which only Paddle's own layers write
_LOOPS = "graphopt has no paddle.fluid.layers.control_flow.{}. Instead: fluid.layers.{}"
max_sequence_len = absent("max_sequence_len", _LOOPS.format("max_sequence_len", "DynamicRNN"))
lod_tensor_to_array = absent(
    "lod_tensor_to_array", _LOOPS.format("lod_tensor_to_array", "DynamicRNN")
)
array_to_lod_tensor = absent(
    "array_to_lod_tensor", _LOOPS.format("array_to_lod_tensor", "DynamicRNN")
)
shrink_memory = absent("shrink_memory", _LOOPS.format("shrink_memory", "DynamicRNN"))
split_lod_tensor = absent("split_lod_tensor", _LOOPS.format("split_lod_tensor", "IfElse"))
merge_lod_tensor = absent("merge_lod_tensor", _LOOPS.format("merge_lod_tensor", "IfElse"))
select_input = absent("select_input", _LOOPS.format("select_input", "switch_case"))
select_output = absent("select_output", _LOOPS.format("select_output", "switch_case"))
