"""graphopt replay: rerun a file written by `graphopt bisect`, or after a crash in a pass.

The exit code is 1 when the recorded failure happens again, 0 when it is gone, and 2 when the file
cannot be run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = "graphopt replay repro.mlir"
# the exit code for errors; 1 means that the failure is reproduced
TROUBLE = 2
_LONGEST = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt replay`."""
    parser.add_argument("file", metavar="FILE", help="the replay file")
    parser.add_argument("--data", metavar="X.npz", help="inputs that the file does not contain")
    add_import(parser)


def add_import(parser: argparse._ActionsContainer) -> None:
    """Declare `--import`."""
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE | FILE.py",
        help="import this module first, to register its passes (not needed for entry points)",
    )


def main(arguments: argparse.Namespace) -> int:
    """Run the file."""
    from graphopt.debug.program_source import load_imports
    from graphopt.debug.replay import replay
    from graphopt.errors import FeedError, UnsupportedError
    from graphopt.ir.formats.files import read_file
    from graphopt.ir.formats.foreign import foreign_kind, is_ir
    from graphopt.models.feeds import load_arrays
    from graphopt.passes.engine import replay_file
    from graphopt.passes.engine.crash import versions

    load_imports(arguments.imports)
    data = read_file(Path(arguments.file), _LONGEST, arguments.file)
    text = data.decode("utf-8", "replace")
    if not replay_file.is_replay_file(text):
        kind = foreign_kind(data)
        if kind is not None and not is_ir(text):
            raise UnsupportedError(f"{arguments.file}: this is {kind}")
    file = replay_file.read(text, arguments.file)
    print(f"recorded: {file.what}")
    if file.versions != versions():
        print(f"recorded with: {file.versions}; replayed with: {versions()}")
    loaded = load_arrays(Path(arguments.data)) if arguments.data else {}
    if not isinstance(loaded, dict):
        raise FeedError(f"{arguments.data}: expected an .npz file with inputs by name")
    found = replay(file, loaded)
    print(f"replayed: {found}" if found is not None else "replayed: nothing is wrong")
    return int(found is not None)
