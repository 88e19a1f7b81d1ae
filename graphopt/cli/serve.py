"""graphopt serve: a page where a program is dropped or typed, to see what passes do to it.

The page is for this machine alone, under a link with a token. Programs are .pdmodel, .json and
.mlir files, or typed text of the IR; no script runs. They are worked on in a process with limits.
"""

from __future__ import annotations

import argparse

EXAMPLE = "graphopt serve"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `graphopt serve`."""
    parser.add_argument("--port", type=int, default=0, help="the port (default: any free one)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def main(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from graphopt.playground.server import Playground

    with Playground(arguments.port) as server:
        print(f"{server.link} (Ctrl-C ends it)", flush=True)
        if arguments.open:
            import webbrowser

            webbrowser.open(server.link)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
