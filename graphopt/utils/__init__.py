"""Helpers that scripts reach as `paddle.utils`."""

from graphopt.ir.program import unique_name as unique_name
