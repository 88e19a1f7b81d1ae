"""Every rule and evaluator of the lowering: importing this fills the registry."""

from __future__ import annotations

import graphopt.lowering.grad
import graphopt.lowering.ops
import graphopt.lowering.regions  # noqa: F401
