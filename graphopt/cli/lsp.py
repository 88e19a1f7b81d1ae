"""graphopt lsp: a language server for .mlir files of the pd dialect, on stdin and stdout.

It underlines errors while the user types, shows types and descriptions on hover, and provides the
command `graphopt.afterPasses` (a URI, a pipeline), which returns the text after these passes. It
needs the extra `editor`: pip install 'graphopt[editor]'.
"""

from __future__ import annotations

import argparse

from graphopt import __version__

EXAMPLE = "graphopt lsp"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: `graphopt lsp` has no arguments."""


def main(arguments: argparse.Namespace) -> int:
    """Serve until the editor closes the connection."""
    try:
        from graphopt.editor.server import server
    except ModuleNotFoundError as error:
        raise ValueError(
            f"graphopt lsp needs {error.name}: pip install 'graphopt[editor]'"
        ) from error
    server(__version__).start_io()
    return 0
