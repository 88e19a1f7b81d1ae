"""Bases of Variable and Program for the methods that the front end attaches to them.

The stub beside this file declares the methods for type checkers and editors.
"""

from __future__ import annotations


class VariableMethods:
    """The operators and methods of tensors: see `graphopt/tensor/methods.py`."""


class ProgramMethods:
    """The methods that need the runtime: see `graphopt/tensor/program_methods.py`."""
