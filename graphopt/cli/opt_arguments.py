"""The arguments of graphopt-opt, in groups, and spelled as in mlir-opt.

mlir-opt accepts one dash or two, passes as flags (`--cse`), and `--pass-pipeline`.
`normalize_arguments` maps these to the arguments that are declared here, before argparse sees them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from graphopt.cli.replay import add_import
from graphopt.cli.report_options import ON_ONE_SCREEN, add_arguments, add_platform

MODEL_EXPLORER = "model-explorer"
SVG = "svg"
FORMS = ("mlir", "stablehlo", "dot", SVG, MODEL_EXPLORER)
# options of mlir-opt and of xDSL's driver -> the options here
SYNONYMS = {
    "--load-pass-plugin": "--import",
    "--mlir-print-debuginfo": "--print-debuginfo",
    "--mlir-print-op-generic": "--print-op-generic",
    "--print-between-passes": "--mlir-print-ir-after-all",
    "--time-passes": "--mlir-timing",
}


def normalize_arguments(given: Sequence[str], passes: Collection[str]) -> list[str]:
    """Normalize arguments for the parser: two dashes, no synonyms, passes after `-p`.

    Raises ValueError for an unknown option, with the nearest known one. With an `--import`, an
    unknown option may be a pass of the imported module.
    """
    declared = [name for action in parser()._actions for name in action.option_strings]
    pass_options = {f"--{name}" for name in passes}
    importing = ("--import", "-import", "--load-pass-plugin", "-load-pass-plugin")
    imports = any(arg.partition("=")[0] in importing for arg in given)
    found: list[str] = []
    for arg in given:
        name, equals, value = arg.partition("=")
        if re.match("-[a-z]", name) and f"-{name}" in {*declared, *SYNONYMS, *pass_options}:
            name = f"-{name}"
        is_option = any(each.startswith(name) for each in (*declared, *SYNONYMS))
        near = get_close_matches(name, declared, 1, 0.85)
        if name in pass_options or (imports and name[:2] == "--" and not is_option and not near):
            found += ["-p", f"{name[2:]}{{{value}}}" if equals else name[2:]]
            continue
        if (name, equals) == ("--explain", ""):  # it would swallow the file name
            equals, value = "=", ON_ONE_SCREEN
        if name == "--verify-each" and value in ("true", "1"):
            equals = value = ""
        name = SYNONYMS.get(name, name)
        if name[:2] == "--" and not any(each.startswith(name) for each in declared):
            near = get_close_matches(name, [*declared, *pass_options], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"unknown option or pass {name}{hint}")
        found.append(name + equals + value)
    return found


def parser(epilog: str = "") -> argparse.ArgumentParser:
    """Build a parser with all arguments, to inspect them; its help ends with `epilog`."""
    made = argparse.ArgumentParser(epilog=epilog)
    declare(made)
    return made


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare all arguments, including the ones that xDSL's driver reads."""
    parser.prog = "graphopt-opt"
    parser.usage = "%(prog)s [options] [FILE]"
    parser.description = "Read a program, run passes on it and print it."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _input(parser.add_argument_group("input"))
    _passes(parser.add_argument_group("passes"))
    _watching(parser.add_argument_group("while passes run"))
    add_arguments(parser.add_argument_group("reports and checks"))
    _output(parser.add_argument_group("output"))
    parser.set_defaults(print_between_passes=False, time_passes=False, shrink=False)


def _form(text: str) -> str:
    """Check the name of an output form, and return the form with its options."""
    name = text.partition("{")[0]
    if name not in FORMS:
        if name == "onnx":
            raise argparse.ArgumentTypeError(
                "this tool does not write ONNX; use graphopt convert MODEL -o MODEL.onnx"
            )
        near = get_close_matches(name, FORMS, 1) or FORMS
        raise argparse.ArgumentTypeError(
            f"unknown form {name!r}; did you mean {' or '.join(near)}?"
        )
    return text


def _input(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "input_file",
        nargs="?",
        metavar="FILE",
        help="a program as .mlir text, .pdmodel or PIR .json; - or nothing for stdin",
    )
    group.add_argument(
        "-f",
        "--frontend",
        choices=("mlir", "pdmodel", "json"),
        help="the format of the input (default: by its suffix, else by its content)",
    )
    group.add_argument(
        "--split-input-file",
        action="store_true",
        help="the input is several programs between lines of `// -----`",
    )
    group.add_argument(
        "--allow-unregistered-dialect",
        action="store_true",
        help="accept ops that no dialect declares",
    )
    group.add_argument(
        "--no-implicit-module", action="store_true", help="do not add a module around the text"
    )
    group.add_argument("--disable-verify", action="store_true", help="do not verify between passes")
    group.add_argument(
        "--parsing-diagnostics", action="store_true", help="print parser errors; exit code 0"
    )
    group.add_argument(
        "--verify-diagnostics",
        action="store_true",
        help="check errors against the `// expected-error {{...}}` comments of the input; where "
        "there are none, print verifier errors, with exit code 0",
    )


def _passes(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "-p",
        "--passes",
        "--pass-pipeline",
        action="append",
        default=[],
        metavar="PIPELINE",
        help="run passes: a,b{x=1} or builtin.module(a,b); may be repeated; --NAME is -p NAME",
    )
    group.add_argument(
        "--build-strategy",
        metavar="FLAG=VALUE,...",
        help="run the passes that these BuildStrategy flags select (a bare flag means 1)",
    )
    add_platform(group)
    add_import(group)
    group.add_argument(
        "--dump-pass-pipeline",
        action="store_true",
        help="print the passes that --build-strategy selects, in the syntax of -p",
    )


def _watching(group: argparse._ArgumentGroup) -> None:
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}-all",
            action="store_true",
            help=f"print the IR {when} each pass",
        )
        group.add_argument(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS",
            help=f"print the IR {when} this pass",
        )
    group.add_argument(
        "--mlir-print-ir-after-change",
        action="store_true",
        help="print the IR after each pass that changed it",
    )
    group.add_argument(
        "--mlir-print-ir-after-failure",
        action="store_true",
        help="print the IR after a pass that failed",
    )
    group.add_argument(
        "--mlir-timing", action="store_true", help="print how long each pass took, on stderr"
    )


def _output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--report",
        metavar="FILE.html",
        help="write an HTML page with the graph and the changes of each pass",
    )
    group.add_argument(
        "-o",
        "--output-file",
        metavar="FILE",
        help="the file to write (default, or -: stdout); unchanged after an error",
    )
    group.add_argument(
        "-t",
        "--target",
        "--emit",
        type=_form,
        default="mlir",
        metavar="FORM",
        help="the form to print: mlir (default), stablehlo, stablehlo{dim=8}, dot, svg, or "
        "model-explorer (a graph for each pass, for the viewer Model Explorer)",
    )
    group.add_argument(
        "--print-types",
        action="store_true",
        help="print the types of all operands and results, inferred ones too",
    )
    group.add_argument(
        "--print-op-generic",
        action="store_true",
        help="print the generic form, for other MLIR tools",
    )
    group.add_argument(
        "--print-no-properties", action="store_true", help="print properties as attributes"
    )
    group.add_argument(
        "--print-debuginfo", action="store_true", help="print the source line of each op"
    )
    group.add_argument("--syntax-highlight", action="store_true", help="print in color")
