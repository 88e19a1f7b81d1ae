"""graphopt completion: print the shell code that completes graphopt and graphopt-opt.

Put `source <(graphopt completion bash)` in ~/.bashrc, the same with zsh in ~/.zshrc, or write
`graphopt completion fish` to ~/.config/fish/completions/graphopt.fish.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

EXAMPLE = "graphopt completion bash >> ~/.bash_completion"
SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True)
class Option:
    """An option of a command: its names, the words that may follow it, and its help."""

    names: tuple[str, ...]
    takes_value: bool
    values: tuple[str, ...]
    """The values to choose from, in a list separated by commas; none for a file or a number."""
    words: str


Commands = dict[str, list[Option]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt completion`."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")


def main(arguments: argparse.Namespace) -> int:
    """Print the completion code for a shell."""
    made = commands(arguments.top)
    if arguments.shell == "fish":
        print("\n".join(_fish(made)))
        return 0
    if arguments.shell == "zsh":  # zsh runs the functions of bash
        print("autoload -U +X bashcompinit && bashcompinit")
    print("\n".join(_bash(made)))
    return 0


def commands(top: argparse.ArgumentParser) -> Commands:
    """Collect the commands of a parser with their options; graphopt-opt is `opt`."""
    from graphopt.cli import opt_arguments

    parsers = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    found = {name: _options(parser) for name, parser in parsers.choices.items()}
    return found | {"opt": _options(opt_arguments.parser())}


def _options(parser: argparse.ArgumentParser) -> list[Option]:
    return [
        Option(
            tuple(action.option_strings),
            action.nargs != 0,
            _values(action),
            (action.help or "").replace("%(default)s", str(action.default)),
        )
        for action in parser._actions
        if action.option_strings and action.help != argparse.SUPPRESS
    ]


def _values(action: argparse.Action) -> tuple[str, ...]:
    """List the values to complete after an option."""
    from graphopt.cli.opt_arguments import FORMS
    from graphopt.passes.table.flags import BUILD_FLAGS
    from graphopt.passes.table.registry import all_passes

    if action.choices is not None:
        return tuple(map(str, action.choices))
    if action.metavar in ("PIPELINE", "PASS"):
        return tuple(all_passes())
    known = {"FLAG=VALUE,...": BUILD_FLAGS, "FORM": FORMS}
    return tuple(known.get(str(action.metavar), ()))


def _bash(made: Commands) -> Iterable[str]:
    """Emit a bash function for each command, and one that dispatches on the graphopt command."""
    for name, options in made.items():
        yield from _bash_function(name, options)
    names = " ".join(made)
    yield from (
        "_graphopt() {",
        "  if ((COMP_CWORD == 1)); then",
        f'    COMPREPLY=($(compgen -W "{names}" -- "${{COMP_WORDS[1]}}"))',
        "  elif declare -F _graphopt_${COMP_WORDS[1]} > /dev/null; then",
        "    _graphopt_${COMP_WORDS[1]}",
        "  fi",
        "}",
        "complete -o default -F _graphopt graphopt",
        "complete -o default -F _graphopt_opt graphopt-opt",
    )


def _bash_function(name: str, options: list[Option]) -> Iterable[str]:
    yield f"_graphopt_{name}() {{"
    yield "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"
    yield "  local last=${word##*,}"
    yield "  case $before in"
    for option in options:
        if option.values:  # a list keeps the text before its last comma
            words = " ".join(option.values)
            yield f"    {'|'.join(option.names)})"
            yield f'      COMPREPLY=($(compgen -P "${{word%"$last"}}" -W "{words}" -- "$last"))'
            yield "      return;;"
        elif option.takes_value:
            yield f"    {'|'.join(option.names)}) return;;"
    yield "  esac"
    every = " ".join(each for option in options for each in option.names)
    yield f'  [[ $word == -* ]] && COMPREPLY=($(compgen -W "{every}" -- "$word"))'
    yield "}"


def _fish(made: Commands) -> Iterable[str]:
    names = " ".join(made)
    yield f"complete -c graphopt -n __fish_use_subcommand -a {quote(names)}"
    for name, options in made.items():
        for option in options:
            yield _fish_line(f"-c graphopt -n '__fish_seen_subcommand_from {name}'", option)
    for option in made["opt"]:
        yield _fish_line("-c graphopt-opt", option)


def _fish_line(start: str, option: Option) -> str:
    parts = ["complete", start]
    parts += [f"{'-l' if n.startswith('--') else '-s'} {n.lstrip('-')}" for n in option.names]
    if option.values:
        parts.append(f"-xa {quote(' '.join(option.values))}")
    elif option.takes_value:
        parts.append("-r")
    return " ".join([*parts, f"-d {quote(option.words)}"])
