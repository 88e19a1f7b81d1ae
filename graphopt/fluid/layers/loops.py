"""`while_loop` of 1.8, which writes the given loop variables."""

from __future__ import annotations

from graphopt.static.nn.control_flow import while_in_place as while_loop

__all__ = ["while_loop"]
