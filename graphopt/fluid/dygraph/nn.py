"""Layers of dynamic mode: the names exist, and raise UnsupportedError when they are called."""

from graphopt.fluid.dygraph import __getattr__ as __getattr__
