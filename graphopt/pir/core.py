"""Default programs under the names of Paddle 3 (paddle.pir.core)."""

from graphopt.fluid.core import DataType as DataType
from graphopt.fluid.framework import convert_np_dtype_to_dtype_ as convert_np_dtype_to_dtype_
from graphopt.frontend import lazy as _lazy
from graphopt.ir.program import Program as Program
from graphopt.ir.program import default_main_program as default_main_program
from graphopt.ir.program import default_startup_program as default_startup_program
from graphopt.ir.program import program_guard as program_guard
from graphopt.ir.program.defaults import switch_main_program as switch_main_program
from graphopt.ir.program.defaults import switch_startup_program as switch_startup_program

_lazy.attach(globals())
