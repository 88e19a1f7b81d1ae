"""Automatic names (paddle.fluid.unique_name)."""

from graphopt.ir.unique_name import generate as generate
from graphopt.ir.unique_name import guard as guard
