"""Operators, by Paddle's own types, as `pd` ops: `table.py` says most, the other files the rest."""

from graphopt.ir.translate.operators import special as special
