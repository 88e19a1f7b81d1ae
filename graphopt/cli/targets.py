"""The forms that `graphopt-opt --emit` can write."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from io import StringIO
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.target import Target

from graphopt.display.terminal import is_terminal
from graphopt.ir.dialect.signature import inputs_of
from graphopt.ir.dialect.types import UNKNOWN, shape_of


@dataclass(frozen=True)
class TextTarget(MLIRTarget):
    """IR text; with `print_types` ops have all their types."""

    print_types: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from graphopt.ir.dialect.text import ModulePrinter, wrap_lines

        if self.syntax_highlight:
            super().emit(ctx, module, output)
            return
        stream = StringIO()
        printer = ModulePrinter(
            stream,
            print_types=self.print_types,
            print_generic_format=self.print_generic_format,
            print_properties_as_attributes=self.print_properties_as_attributes,
            print_debuginfo=self.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        text = stream.getvalue()
        print(text if self.print_generic_format else wrap_lines(text), "\n", sep="", file=output)


@dataclass(frozen=True)
class TypedTextTarget(TextTarget):
    """IR text where ops have all their types."""

    print_types: bool = True


@dataclass(frozen=True)
class DotTarget(Target):
    """A Graphviz graph of `@main`."""

    name = "dot"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from graphopt.ir.dialect.dot import to_dot

        output.write(to_dot(module))


@dataclass(frozen=True)
class SvgTarget(Target):
    """A drawing of `@main`, for a browser, with the layers and blocks of the report."""

    name = "svg"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from graphopt.ir.dialect.svg import to_svg
        from graphopt.report.origins import Origins

        output.write(to_svg(module, Origins(module).labels))


@dataclass(frozen=True)
class StableHloTarget(Target):
    """StableHLO text, with unknown dimensions as symbols unless `dim` gives them a number."""

    name = "stablehlo"
    dim: int | None = None
    locations: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from graphopt.lowering.stablehlo import to_stablehlo

        output.write(to_stablehlo(module, unknown=self.dim, locations=self.locations).rstrip())
        output.write("\n")
        is_open = any(UNKNOWN in shape_of(port.type) for port in inputs_of(module))
        if self.dim is None and is_open and is_terminal(sys.stderr):
            print(
                "graphopt-opt: unknown sizes are symbols; --emit 'stablehlo{dim=8}' "
                "prints shorter text, with a number for each",
                file=sys.stderr,
            )


@dataclass(frozen=True)
class LocatedStableHloTarget(StableHloTarget):
    """StableHLO text with the locations of ops."""

    locations: bool = True
