"""The time of a step by op and by source line, from the events of JAX's profiler.

`run` compiles a program whose instructions carry the numbers of their ops, runs it under the
profiler and attributes each moment of a step to the instructions that ran; `recording` reads the
events, `instructions` maps XLA's instructions to ops, and `profile` is the user's result.
"""
