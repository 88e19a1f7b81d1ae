"""The table of operators: how it is written, and that nothing in it is unknown elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

from graphopt.ir import operators as package
from graphopt.ir.dialect.definition import attr_kinds, definition
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.operators import operators
from graphopt.ir.program import AttrKind
from graphopt.ir.translate import operators as translations
from graphopt.ir.translate.operators.registry import TRANSLATIONS
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt_tests.ir.record_operators import joined, wrapped

TEXT = Path(package.__file__).with_name("operators.txt").read_text("utf-8")
ROWS = operators()
COLUMNS = ("attrs", "old", "pd", "tensors", "pir", "grad", "derivative", "constant", "forgets")
COLUMNS += ("version", "only")


def test_rows_are_sorted_and_wrapped() -> None:
    rows = joined(TEXT)
    assert rows == sorted(rows, key=lambda row: row.split(" ", 1)[0])
    assert "".join(wrapped(row) + "\n" for row in rows) == TEXT
    assert len(rows) == len(ROWS)


def test_columns_are_known_and_in_order() -> None:
    for row in joined(TEXT):
        words = [column.split(" ", 1)[0] for column in row.split(" | ")[1:]]
        assert words == sorted(words, key=COLUMNS.index), row
        assert all(words.count(word) == 1 for word in words if word not in ("pir", "grad")), row


def test_attributes_have_kinds_of_paddle_and_defaults_that_are_read() -> None:
    kinds = {kind.lower() for kind in vars(AttrKind) if kind.isupper()} | {""}
    for row in ROWS.values():
        assert {attribute.kind for attribute in row.attributes.values()} <= kinds
        assert row.defaults.keys() <= row.attributes.keys()


def test_every_operator_that_is_translated_has_a_row() -> None:
    assert {*TRANSLATIONS, *BY_TYPE} <= ROWS.keys()


def test_an_op_of_the_dialect_fits_its_row() -> None:
    """Each slot is an operand or a result; each renamed attribute and each tensor a property."""
    for row in ROWS.values():
        if row.pd is None:
            continue
        op = BY_NAME[f"pd.{row.pd.name}"]
        fields, properties = definition(op), attr_kinds(op)
        assert len(row.pd.inputs) <= len(fields.operands) or len(fields.operands) == 1, row.type
        assert {*row.pd.renamed, *row.tensors.values()} <= properties.keys(), row.type
        assert all(legacy in row.attributes for legacy in row.pd.renamed.values()), row.type


def test_columns_about_derivatives_name_what_the_row_has() -> None:
    for row in ROWS.values():
        assert row.derivative in ("", "zero", "linear", "shape", "piecewise"), row.type
        assert row.pir_gradients.keys() <= {each.name for each in row.pir}, row.type
        assert row.constant <= {*row.slots[0]} or not row.slots[0], row.type


def test_a_default_is_written_in_its_row_alone() -> None:
    """Translations name attributes that a row has, and give no defaults."""
    listed = {name for row in ROWS.values() for name in row.attributes}
    for file in sorted(Path(translations.__file__).parent.glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            where, called = f"{file.name}:{call.lineno}", ast.unparse(call.func)
            if called.endswith("attrs.get") and file.name not in _READERS:
                assert len(call.args) == 1, f"{where} states a default"
            if called in ("emit.attr", "emit.op.attr", "emit.choice", "emit.several"):
                assert len(call.args) == 1 + (called == "emit.choice"), f"{where} states a default"
                if isinstance(call.args[0], ast.Constant):
                    assert call.args[0].value in listed, where


# those that read any operator's attributes for translations
_READERS = ("attributes.py", "emitter.py")
