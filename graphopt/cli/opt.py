"""graphopt-opt: read a program, run passes, print it. Like mlir-opt, on xDSL's own driver.

Reads `.mlir` text and Paddle's `.pdmodel` and `.json`; `-p` runs passes by name, `--build-strategy`
runs the passes that a BuildStrategy selects, for the platform of this machine or of `--platform`.
`--help` needs only the arguments: xDSL and the dialect are imported with `opt_driver.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from graphopt.cli.opt_arguments import normalize_arguments, parser
from graphopt.errors import GraphoptError
from graphopt.passes.table.registry import all_passes


def main(args: Sequence[str] | None = None) -> int:
    """Run the tool; return 0 on success, else 1 with one message on stderr."""
    given = sys.argv[1:] if args is None else args
    if not {"-h", "--help"}.isdisjoint(given):
        from graphopt.cli.pass_summaries import list_passes

        parser(list_passes()).parse_args(["--help"])  # prints the help and exits
    try:
        given = normalize_arguments(given, all_passes())
    except (GraphoptError, ValueError) as error:
        print(f"graphopt-opt: error: {error}", file=sys.stderr)
        return 1
    from graphopt.cli.opt_driver import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())
