"""Instrumentation that prints IR and times passes: `--mlir-print-ir-*` and `--mlir-timing`.

The output has the form of mlir-opt. It goes to stderr, so that stdout holds only the program.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.passes.table.instrumentation import Instrumentation, Together

_RULE = f"==={'-' * 73}==="


@dataclass
class IRPrinting(Instrumentation):
    """Prints the module around the steps that the options name."""

    print_types: bool = False
    before_all: bool = False
    after_all: bool = False
    before_passes: Collection[str] = ()
    after_passes: Collection[str] = ()
    after_change: bool = False
    after_failure: bool = False

    def __post_init__(self) -> None:
        self.text = ""

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        if self.before_all or set(names) & set(self.before_passes):
            self._print("Before", names, self._text(module))
        if self.after_change:
            self.text = self._text(module)

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        wanted = self.after_all or bool(set(names) & set(self.after_passes))
        if not wanted and not self.after_change:
            return
        text = self._text(module)
        if self.after_change:  # as in mlir-opt, this applies even if all passes are to be printed
            wanted = text != self.text
        if wanted:
            self._print("After", names, text)

    def note_failure(self, names: Sequence[str], module: ModuleOp) -> None:
        if self.after_failure:
            self._print("After", names, self._text(module), " Failed")

    def _text(self, module: ModuleOp) -> str:
        from graphopt.ir.dialect.text import text_of

        return text_of(module, print_types=self.print_types)

    @staticmethod
    def _print(when: str, names: Sequence[str], text: str, end: str = "") -> None:
        title = f"// -----// IR Dump {when} {', '.join(names)}{end} //----- //"
        print(title, text, "", sep="\n", file=sys.stderr)


class Timing(Instrumentation):
    """The wall time of each pass and of reading and writing, summed by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.start = time.perf_counter()
        self.step = 0.0

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        self.step = time.perf_counter()

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        self._add(", ".join(names), time.perf_counter() - self.step)

    @contextmanager
    def time_block(self, name: str) -> Generator[None]:
        """Time the block, and add the seconds to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._add(name, time.perf_counter() - start)

    def _add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def text(self) -> str:
        """Format the report as mlir-opt does."""
        total = time.perf_counter() - self.start
        rest = total - sum(self.seconds.values())
        rows = [*self.seconds.items(), ("Rest", rest), ("Total", total)]
        lines = [_RULE, f"{'... Execution time report ...':^80}".rstrip(), _RULE]
        lines += [f"  Total Execution Time: {total:.4f} seconds", ""]
        lines.append("  ----Wall Time----  ----Name----")
        lines += [f"  {seconds:8.4f} ({seconds / total:6.1%})  {name}" for name, seconds in rows]
        return "\n".join(lines)


def printing_of(args: argparse.Namespace) -> IRPrinting | None:
    """Build the IR printing that the arguments request; None if they request none."""
    made = IRPrinting(
        args.print_types,
        args.mlir_print_ir_before_all,
        args.mlir_print_ir_after_all,
        args.mlir_print_ir_before,
        args.mlir_print_ir_after,
        args.mlir_print_ir_after_change,
        args.mlir_print_ir_after_failure,
    )
    return None if made == IRPrinting(args.print_types) else made


def instruments(args: argparse.Namespace, timing: Timing | None) -> Instrumentation:
    """Combine the instrumentation that the arguments request; printing is not timed."""
    return Together(*(part for part in (printing_of(args), timing) if part is not None))
