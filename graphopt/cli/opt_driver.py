"""The driver of graphopt-opt: xDSL's own, with our dialects, passes, targets and model files."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from graphopt.cli.expected_errors import Expected, complaint, expected_in
from graphopt.cli.instruments import Timing, instruments
from graphopt.cli.opt_arguments import MODEL_EXPLORER, SVG, declare
from graphopt.cli.report_options import platform_of
from graphopt.cli.universe import UNIVERSE
from graphopt.display.units import several
from graphopt.errors import GraphoptError, UnsupportedError, message_of
from graphopt.ir.formats.foreign import foreign_kind, is_ir
from graphopt.passes.table.instrumentation import Together
from graphopt.passes.table.parts import PARSE, CompilationPart
from graphopt.passes.table.pipeline import passes_of
from graphopt.passes.table.registry import all_passes

if TYPE_CHECKING:
    from graphopt.cli.targets import StableHloTarget, TextTarget
    from graphopt.passes.table.report import Report
    from graphopt.report.stages import Optimization, Stages

_OF_INPUT = (ParseError, DiagnosticException)
# bytes that occur in a serialized program, but not in text
_NOT_TEXT = bytes(range(9)) + bytes(range(14, 32))


class OptMain(xDSLOptMain):
    """xDSL's driver with our dialects, passes and targets, and with model files as input."""

    version_format = "graphopt-opt on xdsl {xdsl_version}"
    undone = 0
    """The number of rewrites that failed validation."""
    complaints = 0
    """The number of chunks without the expected errors."""

    def __init__(self, args: Sequence[str]) -> None:
        self.timing: Timing | None = None
        self.written: StringIO | None = None
        super().__init__(args=args)
        if self.args.mlir_timing:
            self.timing = Timing()
        self.watch = instruments(self.args, self.timing)
        self.stages: Stages | None = None
        self.programs: list[Optimization] = []

    def run(self) -> None:
        """Read, optimize and print each chunk of the input."""
        super().run()
        if self.written is not None:
            Path(self.args.output_file).write_text(self.written.getvalue(), "utf-8")
        if self.args.report:
            from graphopt.report.write import write_report

            write_report(self.args.report, self.programs, self.get_input_name())
        if self.timing is not None:
            print(self.timing.text(), file=sys.stderr)

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
        self.available_targets |= UNIVERSE.all_targets
        self.available_targets["mlir"] = self._text_target
        self.available_targets["stablehlo"] = self._stablehlo_target
        # written here for all stages: a target of xDSL gets only the last one
        self.available_targets[MODEL_EXPLORER] = self._text_target

    def _text_target(self) -> type[TextTarget]:
        from graphopt.cli.targets import TextTarget, TypedTextTarget

        return TypedTextTarget if self.args.print_types else TextTarget

    def _stablehlo_target(self) -> type[StableHloTarget]:
        from graphopt.cli.targets import LocatedStableHloTarget, StableHloTarget

        return LocatedStableHloTarget if self.args.print_debuginfo else StableHloTarget

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        declare(arg_parser)

    def setup_pipeline(self) -> None:
        from graphopt.debug.program_source import load_imports

        load_imports(self.args.imports)
        passes = [made for text in self.args.passes for made in passes_of(text)]
        self.pipeline = PassPipeline(tuple(passes), self._verify)

    def _verify(self, _before: ModulePass | None, module: ModuleOp, _: ModulePass | None) -> None:
        if not self.args.disable_verify:
            module.verify()

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """Open the input, and detect its format by the file's suffix or else by its first bytes."""
        given = self.args.input_file
        if given not in (None, "-"):
            suffix = Path(given).suffix[1:]
            if suffix in self.available_frontends:
                return Path(given).open("rb"), suffix
        data = sys.stdin.buffer.read() if given in (None, "-") else Path(given).read_bytes()
        return BytesIO(data), _form(data)

    def get_input_name(self) -> str:
        return "stdin" if self.args.input_file in (None, "-") else self.args.input_file

    def prepare_output(self) -> IO[str]:
        """Open standard output, or a buffer that is written to the file once all chunks succeed."""
        if self.args.output_file in (None, "-"):
            return sys.stdout
        self.written = _Kept()
        return self.written

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        with self._time_block("Parser"):
            data = chunk.read()
            expected = []
            if self.args.verify_diagnostics and file_extension == "mlir":
                expected = expected_in(data.decode("utf-8"))
            if not expected:
                start = time.perf_counter()
                made = super().parse_chunk(BytesIO(data), file_extension, start_offset)
                self.parse = CompilationPart(PARSE, time.perf_counter() - start)
                return made
            self._check_errors(BytesIO(data), file_extension, expected, start_offset)
            return None

    def _check_errors(
        self, chunk: IO[bytes], form: str, expected: list[Expected], offset: int
    ) -> None:
        """Read a chunk and run the passes, to produce the errors that its comments expect."""
        error: Exception | None = None
        try:
            module = super().parse_chunk(chunk, form)
            if module is not None:
                module.verify()
                self.apply_passes(module)
        except (*_OF_INPUT, GraphoptError) as found:
            error = found
            if isinstance(error, ParseError):
                error.span = replace(error.span, line_offset=offset)
        sentence = complaint(expected, error)
        if sentence:
            self.complaints += 1
            print(f"{self.get_input_name()}: {sentence}", file=sys.stderr)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        with self._time_block("Output"):
            if self.args.target == MODEL_EXPLORER:
                from graphopt.report.model_explorer import model_explorer_json

                return model_explorer_json(self.programs[-1:], self.get_input_name()) + "\n"
            if self.args.target == SVG and self.stages is not None:
                from graphopt.ir.dialect.svg import to_svg

                return to_svg(prog, self.stages.origins.labels)
            return super().output_resulting_program(prog)

    def _time_block(self, name: str) -> AbstractContextManager[None]:
        return nullcontext() if self.timing is None else self.timing.time_block(name)

    def apply_passes(self, prog: ModuleOp) -> None:
        from graphopt.cli.reporting import bisection, validation

        self._watch_stages(prog)
        with bisection(self.args), validation(self.args) as validated:
            reports = [self._apply_strategy(prog)] if self._wants_table() else []
            reports += [self._apply_named(prog)] if self.pipeline.passes or not reports else []
        if self.stages is not None:
            title = f"program {len(self.programs) + 1}"
            reports[0].parts.append(self.parse)
            self.programs.append(self.stages.optimization(title, reports[0]))
        self.undone += len(validated.failed) if validated is not None else 0

    def _watch_stages(self, module: ModuleOp) -> None:
        """Keep the stages of the program where a report or a viewer needs them."""
        if not self.args.report and self.args.target not in (MODEL_EXPLORER, SVG):
            return
        from graphopt.report.stages import Stages

        self.stages = Stages()
        self.stages.start(module)
        self.watch = Together(self.stages, instruments(self.args, self.timing))

    def _wants_table(self) -> bool:
        """True when the passes of the table run, not only the passes of -p.

        `--build-strategy` and `--platform` select them, and so does `--explain` without -p.
        """
        if self.args.build_strategy is not None or self.args.platform is not None:
            return True
        return self.args.explain is not None and not self.pipeline.passes

    def _apply_strategy(self, module: ModuleOp) -> Report:
        from graphopt.cli.reporting import needs_near, print_report, report_numerics
        from graphopt.passes.table.manager import optimize
        from graphopt.passes.table.schedule import select
        from graphopt.runtime.compile.compilation import pass_context_for
        from graphopt.runtime.settings.strategy_text import strategy_of

        text = self.args.build_strategy
        strategy = None if text is None else strategy_of(text)
        context = pass_context_for(strategy, platform_of(self.args))
        if self.args.dump_pass_pipeline:
            print(",".join(str(made) for _, made in select(context)), file=sys.stderr)
        off = report_numerics(module, [made for _, made in select(context)], self.args, self.ctx)
        before = module.clone()
        report = optimize(
            module,
            replace(context, without=context.without | off),
            near=needs_near(self.args),
            verify_each=self.args.verify_each or None,
            again=lambda: before,
            watch=self.watch,
        )
        print_report(report, self.args)
        return report

    def _apply_named(self, module: ModuleOp) -> Report:
        """Run the passes of -p, each watched by the pass manager."""
        from graphopt.cli.reporting import Watched, print_report, report_numerics, watch_passes

        off = report_numerics(module, self.pipeline.passes, self.args, self.ctx)
        run = watch_passes(module, self.args, self.watch)
        kept = (made for made in self.pipeline.passes if made.name not in off)
        passes = tuple(Watched.of(made, run) for made in kept)
        replace(self.pipeline, passes=passes).apply(self.ctx, module)
        report = run.finish()
        print_report(report, self.args)
        return report

    def _read_text(self, stream: IO[bytes]) -> ModuleOp:
        from graphopt.ir.dialect.text import ModuleParser

        data = stream.read()
        try:
            parser = ModuleParser(self.ctx, data, self.get_input_name())
            return parser.parse_module(not self.args.no_implicit_module)
        except (ParseError, UnicodeDecodeError):
            kind = foreign_kind(data.encode() if isinstance(data, str) else data)
            if kind is None or is_ir(str(data)) or self.get_input_name().endswith(".mlir"):
                raise
            raise UnsupportedError(f"{self.get_input_name()}: this is {kind}") from None

    def _read_model(self, stream: IO[bytes]) -> ModuleOp:
        from graphopt.ir.formats.graph_check import column_names
        from graphopt.ir.formats.model import read_any_program
        from graphopt.ir.translate.blocks.program import parse_program
        from graphopt.ir.translate.gradients.versions import free_names

        program = read_any_program(stream.read(), self.get_input_name())
        # training programs have no feed operators: values that are read and never written are feeds
        feeds = column_names(program, "feed") or free_names(program)
        return parse_program(program, feeds, column_names(program, "fetch"), in_one=True)


class _Kept(StringIO):
    """A text that stays when the driver closes it."""

    def close(self) -> None:
        pass


def _form(data: bytes) -> str:
    """Detect the format of a program from its bytes."""
    if data.lstrip()[:1] == b"{":
        return "json"
    return "pdmodel" if data[:4096].translate(None, _NOT_TEXT) != data[:4096] else "mlir"


def run(args: Sequence[str]) -> int:
    """Run the tool with arguments in the form of `normalize_arguments`.

    Return 0 on success, else 1 with one message on stderr.
    """
    try:
        driver = OptMain(args)
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
        print(f"graphopt-opt: error: {message_of(error)}", file=sys.stderr)
        return 1
    except RecursionError:
        print("graphopt-opt: error: regions are nested too deeply", file=sys.stderr)
        return 1
    if driver.undone:
        failed = several(driver.undone, "rewrite")
        print(f"graphopt-opt: error: {failed} failed validation", file=sys.stderr)
    return int(bool(driver.undone or driver.complaints))
