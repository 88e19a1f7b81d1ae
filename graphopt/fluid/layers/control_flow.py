"""Branches, loops and tensor arrays (paddle.fluid.layers.control_flow).

Most are those of `graphopt.static.nn`; `graphopt.fluid.layers` lets this module have all layers.
"""

from graphopt.fluid.layers.sequence_lod import lod_rank_table as lod_rank_table
