"""Automatic names (paddle.fluid.unique_name)."""

from graphopt.frontend.missing import explain
from graphopt.ir.program.unique_name import UniqueNameGenerator as UniqueNameGenerator
from graphopt.ir.program.unique_name import generate as generate
from graphopt.ir.program.unique_name import guard as guard
from graphopt.ir.program.unique_name import switch as switch

explain(globals())
