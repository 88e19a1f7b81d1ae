"""Functions on tensors, in Paddle's files; scripts use them as `paddle.<name>`.

With the first of them, variables and programs get their methods.
"""

from graphopt.tensor import methods, program_methods
from graphopt.tensor.array import array_length as array_length
from graphopt.tensor.array import array_read as array_read
from graphopt.tensor.array import array_write as array_write
from graphopt.tensor.array import create_array as create_array

methods.attach()
program_methods.attach()
