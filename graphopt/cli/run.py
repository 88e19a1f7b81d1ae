"""graphopt run: run a saved model once, or a Paddle script.

A path that ends in .py is a script: `graphopt run SCRIPT.py ARGS...` passes the remaining arguments
to it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphopt.cli.model_arguments import add_model_arguments
from graphopt.display.table import for_stream, table
from graphopt.display.units import shape, size

if TYPE_CHECKING:
    import numpy as np

    from graphopt.models.model import ImportedModel
    from graphopt.runtime.compile.compiled import Compiled

EXAMPLE = "graphopt run resnet18/model --random --dim 4"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt run` for a model."""
    add_model_arguments(parser)
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print what the passes did, on one screen, and the compile time",
    )
    parser.add_argument("--output", metavar="OUT.npz", help="write the outputs, by name")
    parser.add_argument(
        "--expect",
        metavar="Y.npz",
        help="expected outputs by name, or out0, out1, ... in order; exit code 1 if they differ",
    )
    parser.add_argument(
        "--rtol", type=float, default=1e-4, help="relative tolerance of --expect (default 1e-4)"
    )
    parser.add_argument(
        "--atol", type=float, default=1e-5, help="absolute tolerance of --expect (default 1e-5)"
    )


def main(arguments: argparse.Namespace) -> int:
    """Run a model once and print its outputs."""
    from graphopt.debug.made_up_run import compiled_programs
    from graphopt.debug.tables import statistics
    from graphopt.models.feeds import feed_of
    from graphopt.models.model import import_model
    from graphopt.runtime.explain import Explanation
    from graphopt.runtime.settings.strategy_text import strategy_of

    text = arguments.build_strategy
    strategy = None if text is None else strategy_of(text)
    model = import_model(arguments.model, arguments.params)
    feed = feed_of(model, arguments)
    if arguments.random and feed:
        print(f"random inputs: {', '.join(f'{n} {shape(a.shape)}' for n, a in feed.items())}")
    with compiled_programs() as compiled:
        outputs = dict(zip(model.fetch_names, model.run(feed, strategy), strict=True))
    if arguments.explain:
        report = _for_sizes(compiled[-1], feed).explain()
        print(for_stream(Explanation(report).page(), sys.stdout), end="\n\n")
    print(statistics(outputs))
    if arguments.output:
        from graphopt.models.export.npz_file import write_npz

        write_npz(Path(arguments.output), outputs)
        written = Path(arguments.output).stat().st_size
        print(f"wrote {arguments.output} ({size(written)})")
    if arguments.expect:
        return _compare(model, outputs, arguments)
    return 0


def _for_sizes(compiled: Compiled, feed: Mapping[str, Any]) -> Compiled:
    """Recompile a program for the sizes of its feeds, as XLA compiles it, if sizes matter to it."""
    from graphopt.runtime.compile.compiling import compile_program

    compilation = compiled.compilation.for_feeds(feed) if compiled.wants_sizes else None
    return compiled if compilation is None else compile_program(compilation)


def _compare(
    model: ImportedModel, outputs: dict[str, np.ndarray[Any, Any]], arguments: argparse.Namespace
) -> int:
    """Compare outputs with `--expect`; return 0 if they are equal, else 1.

    Raises ValueError if the file has none of the outputs.
    """
    from graphopt.models.feeds import load_arrays

    expected = load_arrays(Path(arguments.expect))
    if not isinstance(expected, dict):
        expected = {model.fetch_names[0]: expected}
    rows: list[tuple[str, str, str]] = []
    for index, (name, found) in enumerate(outputs.items()):
        wanted = expected.get(name, expected.get(f"out{index}"))
        if wanted is not None:
            rows.append((name, *_verdict(found, wanted, arguments)))
    if not rows:
        raise ValueError(
            f"{arguments.expect} contains none of the outputs {', '.join(outputs)}, nor out0, ...; "
            f"found {', '.join(expected)}"
        )
    print(table(("output", "max difference", "verdict"), rows))
    return 0 if all(verdict == "equal" for _, _, verdict in rows) else 1


def _verdict(found: Any, wanted: Any, arguments: argparse.Namespace) -> tuple[str, str]:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return "-", f"expected {wanted.dtype} {shape(wanted.shape)}"
    from graphopt.models.export.check import difference

    gap, equal = difference([found], [wanted], arguments.rtol, arguments.atol)
    return f"{gap:.3g}", "equal" if equal else "different"
