"""Functions on tensors, in Paddle's files; scripts use them as `paddle.<name>`.

With the first of them, variables and programs get their methods.
"""

from pathlib import Path

from graphopt.frontend import lazy
from graphopt.tensor import methods, program_methods
from graphopt.tensor.array import array_length as array_length
from graphopt.tensor.array import array_read as array_read
from graphopt.tensor.array import array_write as array_write
from graphopt.tensor.array import create_array as create_array

_OLDER = ("create_tensor", "fill_constant")
_ROOM = Path(__file__).parents[1]
_PACKAGE = __name__.rpartition(".")[0]

lazy.attach(
    globals(),
    {
        **{name: ("graphopt.fluid.layers.tensor", name) for name in _OLDER},
        "sigmoid": (f"{__name__}.spellings", "sigmoid"),
        **{name: (f"{__name__}.inplace", name) for name in methods.METHODS["inplace"].split()},
        **lazy.names_from(_ROOM / "linalg" / "__init__.py", f"{_PACKAGE}.linalg", __name__),
        **lazy.names_from(_ROOM / "__init__.pyi", _PACKAGE, __name__),
    },
)
methods.attach()
program_methods.attach()
