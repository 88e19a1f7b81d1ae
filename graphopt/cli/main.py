"""The command `graphopt`: inspect, run and convert saved models; run Paddle scripts."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from xdsl.utils.exceptions import DiagnosticException, ParseError

from graphopt import __version__
from graphopt.cli import (
    bisect,
    compile,
    completion,
    convert,
    diff,
    explain,
    info,
    lsp,
    profile,
    replay,
    report,
    run,
    serve,
    tune,
)
from graphopt.errors import GraphoptError, message_of

COMMANDS = {
    "info": (info, "show the contents of a model, and whether graphopt can run it"),
    "run": (run, "run a model once, or a Paddle script (graphopt run SCRIPT.py ARGS...)"),
    "explain": (explain, "report what passes rewrite in a program, what they decline, and why"),
    "report": (report, "write a page that shows what each pass does to a program"),
    "profile": (profile, "measure the time of a step: by op, or by line of the script"),
    "diff": (diff, "compare two programs, or one before and after passes"),
    "convert": (convert, "convert a model to StableHLO, JAX, ONNX, Paddle, ..."),
    "compile": (compile, "compile a model for chosen input sizes, into one file"),
    "tune": (tune, "measure which kernels run a model faster, on this machine"),
    "bisect": (
        bisect,
        "find the rewrite that makes results wrong, and write a small program that reproduces it",
    ),
    "replay": (replay, "rerun a file written by bisect, or after a crash in a pass"),
    "serve": (serve, "serve a page that shows the graph, passes and outputs of a program"),
    "lsp": (lsp, "run a language server: errors, types and passes of .mlir files"),
    "completion": (completion, "print a script that completes these commands in bash, zsh or fish"),
}
_OF_XDSL = (ParseError, DiagnosticException)
_WRONG = re.compile(r"argument COMMAND: invalid choice: '(.*?)'")
_MISSING = re.compile(r"the following arguments are required: (.*)")
_OPT = "print a program after passes, as graphopt-opt does (graphopt opt --help)"


class _Commands(argparse.ArgumentParser):
    """A command-line parser whose errors are one line with a remedy."""

    def error(self, message: str) -> NoReturn:
        if found := _WRONG.search(message):
            message = _unknown_command(found[1])
        elif found := _MISSING.search(message):
            missing = found[1].split(", ")
            actions = [a for a in self._actions if "/".join(a.option_strings) in missing]
            message += "".join(f"; {a.option_strings[0]} {a.metavar} {a.help}" for a in actions)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _unknown_command(name: str) -> str:
    """Compose the message for an unknown command, with the nearest known one."""
    near = get_close_matches(name, (*COMMANDS, "opt"), 1)
    hint = f"did you mean {near[0]}?" if near else f"commands are {', '.join((*COMMANDS, 'opt'))}"
    return f"unknown command '{name}'; {hint}"


def parser() -> argparse.ArgumentParser:
    """Build the parser of all commands but `opt`, whose arguments xDSL's driver parses."""
    examples = "\n".join(f"  {module.EXAMPLE}" for module, _ in COMMANDS.values())
    top = _Commands(
        prog="graphopt",
        description=__doc__,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"graphopt {__version__}")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Commands
    )
    for name, (module, words) in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=words,
            description=module.__doc__,
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
        trouble = getattr(module, "TROUBLE", 1)
        command.set_defaults(main=module.main, trouble=trouble, top=top)
    commands.add_parser("opt", help=_OPT, add_help=False)
    return top


def main(args: Sequence[str] | None = None) -> int:
    """Run a command; return 0 on success, else 1 with one line on stderr.

    `bisect` and `replay` return 1 when they find a failure, and 2 on an error.
    """
    given = list(sys.argv[1:] if args is None else args)
    if given[:1] == ["opt"]:
        from graphopt.cli.opt import main as opt

        return opt(given[1:])
    rest: list[str] = []
    if given[:1] == ["bisect"] and "--" in given:
        rest = given[given.index("--") + 1 :]
        given = given[: given.index("--")]
    arguments = parser().parse_args(given)
    if rest:
        arguments.arguments = rest
    try:
        return arguments.main(arguments)
    except BrokenPipeError:
        return 0
    except (GraphoptError, OSError, AttributeError, TypeError, ValueError, *_OF_XDSL) as error:
        print(f"graphopt: error: {_one_line(error)}", file=sys.stderr)
        return arguments.trouble


def _one_line(error: Exception) -> str:
    """Format an error as one line: its message and the op that raised it."""
    text = " ".join(part.strip() for part in message_of(error).strip().splitlines())
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("while ")]
    where = f" [{notes[0].splitlines()[0].partition(' : ')[0]}]" if notes else ""
    return (text or type(error).__name__) + where
