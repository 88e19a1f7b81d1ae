"""The table of operators: its format, and that every name in it is known elsewhere."""

from __future__ import annotations

import ast
from pathlib import Path

from graphopt.ir import operators as package
from graphopt.ir.dialect.definition import attr_kinds, default_attrs, definition
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dtypes import DType
from graphopt.ir.operators import operators
from graphopt.ir.program import AttrKind
from graphopt.ir.translate import operators as translations
from graphopt.ir.translate.onnx.naming import is_onnx_type
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
    """Every translated operator has a row, except ONNX's: signatures of rules describe those."""
    translated = {*TRANSLATIONS, *BY_TYPE}
    assert {name for name in translated if not is_onnx_type(name)} <= ROWS.keys()


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


def test_an_op_of_the_dialect_has_the_defaults_of_its_row() -> None:
    """The dialect's defaults, which text omits, are its row's, except the listed ones."""
    found = set[str]()
    for row in ROWS.values():
        if row.pd is None:
            continue
        for name, value in default_attrs(BY_NAME[f"pd.{row.pd.name}"]).items():
            attribute = row.pd.renamed.get(name, name)
            default = row.defaults.get(attribute)
            if attribute not in row.defaults or isinstance(value, DType):  # rows have its code
                continue
            if (tuple(value) if isinstance(value, list) else value) != default:
                found.add(f"{row.pd.name}.{name}")
    assert found == {*_OF_NO_USE.split(), *_IN_OTHER_WORDS.split()}


# defaults of Paddle that no program means, where the dialect has those of the function
_OF_NO_USE = """
    adamw.with_decay auc.num_thresholds conv3d_transpose.data_format density_prior_box.clip
    flatten.start_axis flatten.stop_axis group_norm.groups nanmedian.keepdim pool2d.pooling_type
    pool3d.pooling_type prior_box.aspect_ratios prior_box.clip prior_box.flip prior_box.variances
    scale.bias tril_triu.lower
"""
# Paddle has text for a number, an axis beside `reduce_all`, a code, or the digits of a float32
_IN_OTHER_WORDS = """
    all.axis allclose.atol allclose.rtol amax.axis amin.axis any.axis full_like.dtype isclose.atol
    isclose.rtol lars_momentum.lars_weight_decay logsumexp.axis max.axis mean.axis min.axis
    p_norm.axis prod.axis rrelu.upper selu.alpha selu.scale sum.axis
"""


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
