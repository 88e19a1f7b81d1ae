"""Functions on tensors, in Paddle's files; scripts use them as `paddle.<name>`.

With the first of them, variables and programs get their methods.
"""

from graphopt.tensor import methods, program_methods

methods.attach()
program_methods.attach()
