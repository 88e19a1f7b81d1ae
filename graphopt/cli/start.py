"""The start of the command `graphopt`: a script runs before other commands are imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run a script, or another command; return 0 on success, as `graphopt.cli.main` does."""
    given = list(sys.argv[1:] if args is None else args)
    if given[:1] == ["run"] and given[1:2] and given[1].endswith(".py"):
        from graphopt.frontend.script import run_script

        return run_script(given[1], given[2:])
    from graphopt.cli.main import main as command

    return command(given)
