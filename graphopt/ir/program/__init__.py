"""Programs by name: `Program`, `Block`, `Operator`, `Variable`, as scripts build them."""

from graphopt.ir.program.defaults import default_main_program as default_main_program
from graphopt.ir.program.defaults import default_startup_program as default_startup_program
from graphopt.ir.program.defaults import is_first_program as is_first_program
from graphopt.ir.program.defaults import program_guard as program_guard
from graphopt.ir.program.feed_source import FeedSource as FeedSource
from graphopt.ir.program.kinds import EMPTY as EMPTY
from graphopt.ir.program.kinds import GRAD_SUFFIX as GRAD_SUFFIX
from graphopt.ir.program.kinds import LENGTHS as LENGTHS
from graphopt.ir.program.kinds import AttrKind as AttrKind
from graphopt.ir.program.kinds import OpRole as OpRole
from graphopt.ir.program.kinds import VarKind as VarKind
from graphopt.ir.program.program import Block as Block
from graphopt.ir.program.program import Operator as Operator
from graphopt.ir.program.program import Parameter as Parameter
from graphopt.ir.program.program import Program as Program
from graphopt.ir.program.program import Variable as Variable
from graphopt.ir.program.program import is_gradient as is_gradient
from graphopt.ir.program.program import is_sparse_lookup as is_sparse_lookup
from graphopt.ir.program.program import saved_version as saved_version
