"""graphopt serve: a page where users drop or type a program, to see the effect of each pass.

Only this machine can open the page, by a link with a token. Programs are .pdmodel, .json and .mlir
files, or typed text of the IR; no script runs. A process with limits handles each request.
"""

from __future__ import annotations

import argparse

EXAMPLE = "graphopt serve"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt serve`."""
    parser.add_argument(
        "--port", type=int, default=0, help="the port to listen on (default: a free port)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def main(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from graphopt.playground.server import Playground

    with Playground(arguments.port) as server:
        print(f"{server.link} (Ctrl-C stops the server)", flush=True)
        if arguments.open:
            import webbrowser

            webbrowser.open(server.link)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
