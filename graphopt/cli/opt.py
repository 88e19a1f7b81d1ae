"""graphopt-opt: read a program, run passes, print it. Like mlir-opt, on xDSL's own driver.

Reads `.mlir` text and Paddle's `.pdmodel` and `.json`; `-p` runs passes by name, `--build-strategy`
runs those that a BuildStrategy selects, for the platform of this machine or of `--platform`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from graphopt.cli.report_options import (
    add_arguments,
    add_platform,
    as_argument,
    platform_of,
)
from graphopt.cli.universe import UNIVERSE
from graphopt.errors import GraphoptError
from graphopt.passes.table.registry import all_passes

if TYPE_CHECKING:
    from graphopt.cli.targets import TextTarget


class OptMain(xDSLOptMain):
    """xDSL's driver with our dialects, passes and targets, and with model files as input."""

    version_format = "graphopt-opt on xdsl {xdsl_version}"
    undone = 0
    """The number of rewrites that failed validation."""

    def register_all_dialects(self) -> None:
        from xdsl.dialects.builtin import Builtin
        from xdsl.dialects.func import Func

        self.ctx.register_dialect("builtin", lambda: Builtin)
        self.ctx.register_dialect("func", lambda: Func)
        for name, factory in UNIVERSE.all_dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_frontends(self) -> None:
        super().register_all_frontends()
        self.available_frontends["mlir"] = self._read_text
        for suffix in ("pdmodel", "json"):
            self.available_frontends[suffix] = self._read_model

    def register_all_passes(self) -> None:
        for name, factory in all_passes().items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        from xdsl.targets import get_all_targets

        self.available_targets |= get_all_targets() | UNIVERSE.all_targets
        self.available_targets["mlir"] = self._text_target

    def _text_target(self) -> type[TextTarget]:
        from graphopt.cli.targets import TextTarget, TypedTextTarget

        return TypedTextTarget if self.args.print_types else TextTarget

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        add_own_arguments(arg_parser)

    def apply_passes(self, prog: ModuleOp) -> None:
        from graphopt.cli.reporting import bisection, validation

        with bisection(self.args), validation(self.args) as validated:
            if self._wants_table():
                self._apply_strategy(prog)
            self._apply_named(prog)
        self.undone += len(validated.failed) if validated is not None else 0

    def _wants_table(self) -> bool:
        """True when the passes of the table run, and not only those of -p.

        Without a strategy, `--platform` or `--explain` selects them.
        """
        if self.args.build_strategy is not None or self.args.platform is not None:
            return True
        return self.args.explain is not None and not self.pipeline.passes

    def _apply_strategy(self, module: ModuleOp) -> None:
        from graphopt.cli.reporting import measured, needs_near, print_report
        from graphopt.passes.table.manager import optimize
        from graphopt.passes.table.schedule import select
        from graphopt.runtime.compilation import pass_context_for
        from graphopt.runtime.strategy_text import strategy_of

        text = self.args.build_strategy
        strategy = None if text is None else strategy_of(text)
        context = pass_context_for(strategy, platform_of(self.args))
        if self.args.dump_pass_pipeline:
            print(",".join(str(made) for _, made in select(context)), file=sys.stderr)
        off = measured(module, [made for _, made in select(context)], self.args, self.ctx)
        before = module.clone()
        report = optimize(
            module,
            replace(context, without=context.without | off),
            near=needs_near(self.args),
            verify_each=self.args.verify_each or None,
            again=lambda: before,
        )
        print_report(report, self.args)

    def _apply_named(self, module: ModuleOp) -> None:
        """The passes of -p, each watched by the pass manager."""
        if not self.pipeline.passes:
            return
        from graphopt.cli.reporting import Watched, measured, print_report, watched

        off = measured(module, self.pipeline.passes, self.args, self.ctx)
        run = watched(module, self.args)
        kept = (made for made in self.pipeline.passes if made.name not in off)
        passes = tuple(Watched.of(made, run) for made in kept)
        replace(self.pipeline, passes=passes).apply(self.ctx, module)
        print_report(run.finish(), self.args)

    def _read_text(self, stream: IO[bytes]) -> ModuleOp:
        from graphopt.ir.dialect.text import ModuleParser

        parser = ModuleParser(self.ctx, stream.read(), self.get_input_name())
        return parser.parse_module(not self.args.no_implicit_module)

    def _read_model(self, stream: IO[bytes]) -> ModuleOp:
        from graphopt.ir.formats.graph_check import column_names
        from graphopt.ir.formats.model import read_any_program
        from graphopt.ir.translate.blocks.program import parse_program
        from graphopt.ir.translate.gradients.versions import free_names

        program = read_any_program(stream.read(), self.get_input_name())
        # training programs have no feed operators: a value that is read and never written is fed
        feeds = column_names(program, "feed") or free_names(program)
        return parse_program(program, feeds, column_names(program, "fetch"))


def add_own_arguments(arg_parser: argparse.ArgumentParser) -> None:
    """The arguments that xDSL's driver does not have."""
    arg_parser.add_argument(
        "--emit",
        dest="target",
        metavar="TARGET",
        help="the same as --target: mlir, stablehlo, stablehlo{dim=8}, dot",
    )
    arg_parser.add_argument(
        "--build-strategy",
        metavar="FLAG=VALUE,...",
        default=None,
        help="run the passes that these BuildStrategy flags select (a bare flag means 1)",
    )
    arg_parser.add_argument(
        "--print-types",
        action="store_true",
        help="print the types of all operands and results, inferred ones too",
    )
    arg_parser.add_argument(
        "--dump-pass-pipeline",
        action="store_true",
        help="print the passes that --build-strategy selects, as -p would take them",
    )
    add_platform(arg_parser)
    add_arguments(arg_parser)


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool; 0 on success, else 1 with one message on stderr."""
    given = [as_argument(arg) for arg in (sys.argv[1:] if args is None else args)]
    try:
        driver = OptMain(description="graphopt's program optimizer driver", args=given)
        driver.run()
    except BrokenPipeError:
        return 0
    except (
        GraphoptError,
        ParseError,
        DiagnosticException,
        OSError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:
        print(f"graphopt-opt: error: {error}", file=sys.stderr)
        return 1
    except RecursionError:
        print("graphopt-opt: error: regions are nested too deeply", file=sys.stderr)
        return 1
    if driver.undone:
        print(f"graphopt-opt: error: {driver.undone} rewrites failed validation", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
