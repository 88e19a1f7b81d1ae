"""The text of modules: inferred types are omitted, and functions show the roles of their ports."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis.strategies import text
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from graphopt.errors import FormatError
from graphopt.ir.dialect.context import new_context, parse_text
from graphopt.ir.dialect.text import WIDTH, ModulePrinter, text_of, wrap_lines
from graphopt.ir.formats.graph_check import column_names
from graphopt.ir.formats.model import read_any_program
from graphopt.ir.translate.blocks.block import value_name
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.ir.translate.gradients.versions import free_names
from graphopt.testing import programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.model_files import name_of, program_files

SHORT = """
func.func @main(
  feed %x: tensor<?x4xf32>,
  state "fc.w_0" %w: tensor<4x2xf32> {pd.per_replica},
  prepared %p: tensor<2xf32>
) -> (
  fetch "y": tensor<3x2xf32>,
  state "fc.w_0": tensor<4x2xf32>
) {
  %n = pd.matmul(%x, %w)
  %y = pd.add(%n, %p) -> tensor<3x2xf32>
  func.return %y, %w : tensor<3x2xf32>, tensor<4x2xf32>
}
""".strip()

PLAIN = """
func.func @main(
  %x: tensor<?x4xf32> {pd.feed = "x"},
  %w: tensor<4x2xf32> {pd.per_replica, pd.state = "fc.w_0"}, %p: tensor<2xf32> {pd.prepared = "p"}
) -> (tensor<3x2xf32> {pd.fetch = "y"}, tensor<4x2xf32> {pd.state = "fc.w_0"}) {
  %n = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>
  %y = pd.add(%n, %p) : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %y, %w : tensor<3x2xf32>, tensor<4x2xf32>
}
"""


def check_round_trip(module: ModuleOp) -> None:
    """Check that every text form parses to the same module, and prints the same again."""
    # that there are no attributes of no arguments cannot be seen in a text
    for function in module.ops:
        for key in ("arg_attrs", "res_attrs"):
            if function.properties.get(key) == ArrayAttr([]):
                del function.properties[key]
    for print_types in (False, True):
        text = text_of(module, print_types=print_types)
        again = parse_text(text)
        assert again.is_structurally_equivalent(module), text
        assert text_of(again, print_types=print_types) == text
    # as xDSL's own printer and parser have it
    plain = Parser(new_context(), str(module)).parse_module()
    assert plain.is_structurally_equivalent(module)


def test_both_forms_are_one_module() -> None:
    """Inferred types are omitted and roles come first; xDSL's form parses, too."""
    module = parse_text(PLAIN)
    module.verify()
    assert text_of(parse_text(SHORT).body.block.ops.first or module) == SHORT
    assert parse_text(SHORT).is_structurally_equivalent(module)
    check_round_trip(module)
    typed = text_of(module, print_types=True)
    assert "pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>" in typed


def test_the_generic_form_has_no_roles() -> None:
    """The generic form is xDSL's own, which any xDSL tool reads."""
    stream, plain = StringIO(), StringIO()
    module = parse_text(SHORT)
    ModulePrinter(stream, print_generic_format=True).print_op(module)
    Printer(plain, print_generic_format=True).print_op(module)
    assert stream.getvalue() == plain.getvalue()
    assert parse_text(plain.getvalue()).is_structurally_equivalent(module)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(programs())
def test_generated_programs_round_trip(generated: Generated) -> None:
    """Programs for training and inference round-trip, with derivatives, regions and state."""
    check_round_trip(generated.module)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "path", [path for path in program_files() if "text_lod" not in str(path)], ids=name_of
)
def test_saved_models_round_trip(path: Path) -> None:
    """Every saved program round-trips, except one that needs the lengths of sequences."""
    program = read_any_program(path.read_bytes(), path.name)
    feeds = column_names(program, "feed") or free_names(program)
    check_round_trip(parse_program(program, feeds, column_names(program, "fetch")))


def of_names(feed: str, state: str) -> ModuleOp:
    """Build a module whose variables have these names, as the translation names values."""
    module = parse_text(PLAIN)
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    x, w, _ = function.body.block.args
    x.name_hint, w.name_hint = value_name(feed), value_name(state)
    for key, entry, name in (
        ("arg_attrs", (0, "pd.feed"), feed),
        ("arg_attrs", (1, "pd.state"), state),
        ("res_attrs", (1, "pd.state"), state),
    ):
        listed = function.properties[key]
        assert isinstance(listed, ArrayAttr)
        entries = list(listed.data)
        at, role = entry
        entries[at] = DictionaryAttr({**entries[at].data, role: StringAttr(name)})
        function.properties[key] = ArrayAttr(entries)
    return module


@pytest.mark.exhaustive
@settings(max_examples=examples(90), deadline=None, derandomize=True)
@given(text(max_size=8), text(max_size=8))
@example("图像", "日本語/重み")
@example('é"\n', "😀\\")
@example("a\u0301", "\u202e")
@example("Größe", "ударение")
def test_names_of_any_text_round_trip(feed: str, state: str) -> None:
    """Names round-trip with quotes, line ends, other scripts and emoji; letters are not escaped."""
    module = of_names(feed, state)
    printed = text_of(module)
    again = parse_text(printed)
    assert again.is_structurally_equivalent(module), printed
    assert text_of(again) == printed
    stream = StringIO()
    ModulePrinter(stream, print_generic_format=True).print_op(module)
    assert parse_text(stream.getvalue()).is_structurally_equivalent(module)


def test_names_in_other_scripts_are_readable() -> None:
    """The string keeps all letters, the value name only ASCII; xDSL reads both."""
    module = of_names("图像", "Größe")
    assert 'feed "图像" %v: ' in text_of(module)
    assert 'state "Größe" %Gro$e: ' in text_of(module)
    stream = StringIO()
    ModulePrinter(stream, print_generic_format=True).print_op(module)
    assert (
        Parser(new_context(), stream.getvalue()).parse_module().is_structurally_equivalent(module)
    )


def test_half_a_surrogate_pair_is_refused() -> None:
    """Half of a surrogate pair is refused, as no file can hold it."""
    with pytest.raises(FormatError, match="has half of a surrogate pair"):
        text_of(of_names("\ud800", "w"))


def test_a_string_that_is_no_utf_8() -> None:
    """The error for a string that is not UTF-8 has its position."""
    with pytest.raises(ParseError, match="Expected UTF-8 in a string"):
        parse_text(SHORT.replace('"fc.w_0"', '"\\ff"', 1))


def test_a_function_without_roles_is_that_of_xdsl() -> None:
    """A function without roles prints as in xDSL, and so does one without a body."""
    text = """builtin.module {
  func.func private @f(tensor<2xf32>) -> tensor<2xf32>
  func.func @g(%x: tensor<2xf32>) -> tensor<2xf32> {
    func.return %x : tensor<2xf32>
  }
}"""
    assert text_of(parse_text(text)) == str(parse_text(text))
    assert parse_text(text_of(parse_text(text))).is_structurally_equivalent(parse_text(text))


def test_strings_and_long_lines() -> None:
    """Lines break after commas, never inside a string, and strings print as in xDSL."""
    module = parse_text(SHORT)
    long = "a, " * 60
    for string in ("plain", 'a "quoted", one', "back\\slash", "tab\t", "", long):
        module.attributes["note"] = StringAttr(string)
        text = text_of(module)
        assert text_of(parse_text(text)) == text
        assert "".join(text.split()).startswith("".join(str(module).partition("func")[0].split()))
    values = ", ".join(f"%value_{n}" for n in range(40))
    line = f'    func.return {values} {{note = "{long}"}}'
    broken = wrap_lines(line).split("\n")
    assert [len(part) <= WIDTH for part in broken] == [long not in part for part in broken]
    assert " ".join(part.strip() for part in broken) == line.strip()


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("pd.matmul(%x, %w)", "pd.matmul(%w, %w)", 9, "matmul contracts dimensions"),
        ("pd.matmul(%x, %w)", "pd.matmul(%x, %later)", 9, "the value %later is not known here"),
        ("tensor<3x2xf32>\n  func", "tensor<3x5xf32>\n  func", 10, "its type rule gives"),
        ("-> tensor<3x2xf32>\n", "-> (tensor<3x2xf32>, f32)\n", 10, "expected 1 result types"),
        ("feed %x", "food %x", 2, "Expected argument or type"),
        ('fetch "y"', "fetch y", 6, "string literal expected"),
    ],
)
def test_errors_have_positions(old: str, new: str, line: int, message: str) -> None:
    """Errors have positions: an op that does not fit, a missing value, an unknown role."""
    assert old in SHORT
    with pytest.raises(ParseError, match=f"(?s)<text>:{line}:.*{re.escape(message)}"):
        parse_text(SHORT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("pd.matmul", "pd.matmull", "pd.matmull is not registered; did you mean pd.matmul"),
        ("pd.matmul", "matmul", "did you mean pd.matmul"),
        ("pd.matmul(%x, %w)", "pd.clip(%x)", r"\n *'pd.clip' needs the attribute 'max'\s*\Z"),
    ],
)
def test_errors_name_an_op_once(old: str, new: str, words: str) -> None:
    """An error names the op once, and suggests the nearest name for an unknown one."""
    with pytest.raises(ParseError, match=words):
        parse_text(SHORT.replace(old, new, 1))


def test_an_op_that_does_not_fit_is_printed_with_its_types() -> None:
    """Crash reports quote modules that do not verify, so an invalid op prints its types."""
    module = parse_text(SHORT)
    function = module.body.block.first_op
    assert function is not None
    matmul = function.regions[0].block.first_op
    assert matmul is not None
    matmul.operands[0] = matmul.operands[1]
    assert "pd.matmul(%w, %w) -> tensor<?x2xf32>" in text_of(module)


def test_xdsl_reads_ops_without_types() -> None:
    """An op's parser works in xDSL's own parser."""
    ctx: Context = new_context()
    module = Parser(ctx, str(parse_text(SHORT))).parse_module()
    assert module.is_structurally_equivalent(parse_text(SHORT))
