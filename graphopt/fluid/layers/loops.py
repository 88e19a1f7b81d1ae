"""`while_loop` as it is in 1.8: it writes the loop variables that it is given."""

from __future__ import annotations

from graphopt.static.nn.control_flow import while_in_place as while_loop

__all__ = ["while_loop"]
