"""What `graphopt-opt --emit` can write besides IR text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target


@dataclass(frozen=True)
class DotTarget(Target):
    """A Graphviz graph of `@main`."""

    name = "dot"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from graphopt.ir.dot import to_dot

        output.write(to_dot(module))


@dataclass(frozen=True)
class StableHloTarget(Target):
    """StableHLO text, with unknown dimensions as symbols unless `dim` gives them a number."""

    name = "stablehlo"
    dim: int | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from graphopt.lowering.stablehlo import to_stablehlo

        output.write(to_stablehlo(module, unknown=self.dim))
