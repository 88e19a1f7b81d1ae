"""Bases of Variable and Program for the methods that the front end attaches to them.

The methods are known to type checkers and editors by the stub beside this file.
"""

from __future__ import annotations


class VariableMethods:
    """The operators and methods of tensors: see `graphopt/tensor/methods.py`."""


class ProgramMethods:
    """The methods that need the runtime: see `graphopt/tensor/program_methods.py`."""
