"""Functions on tensors, in Paddle's files; scripts use them as `paddle.<name>`.

With the first of them, variables and programs get their methods.
"""

from graphopt.frontend import lazy
from graphopt.tensor import methods, program_methods
from graphopt.tensor.array import array_length as array_length
from graphopt.tensor.array import array_read as array_read
from graphopt.tensor.array import array_write as array_write
from graphopt.tensor.array import create_array as create_array

lazy.attach(
    globals(),
    {name: ("graphopt.fluid.layers.tensor", name) for name in ("create_tensor", "fill_constant")},
)
methods.attach()
program_methods.attach()
