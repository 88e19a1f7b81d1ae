"""A small program that shows whether programs run here (paddle.fluid.install_check)."""

from __future__ import annotations

from graphopt.frontend.missing import explain
from graphopt.utils.install_check import run_check as run_check

explain(globals())
