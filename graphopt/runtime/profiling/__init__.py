"""The time of a step by op and by the user's line, from the events of JAX's profiler.

`run` compiles a program whose parts carry the numbers of their ops, runs it under the profiler and
gives each moment of a step to what ran in it; `recording` reads the events, `instructions` says of
which ops an instruction of XLA is made, and `profile` is what the user gets.
"""
