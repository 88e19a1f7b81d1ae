"""The module in which 1.8 has most layers (paddle.fluid.layers.nn).

Here they are in files by subject; `graphopt.fluid.layers` adds them all to this module.
"""
