"""Edits of a function's arguments and results: attributes and type follow, order stays."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.signature import (
    FETCH,
    PER_REPLICA,
    STATE,
    main_function,
    signature_of,
)
from graphopt.ir.dialect.signature_edit import add_feed, edit_signature, port_attributes
from graphopt.ir.dialect.types import tensor

TEXT = """
builtin.module {
  func.func @main(
    feed %x: tensor<2xf32>,
    state "w" %w: tensor<2xf32>,
    state "v" %v: tensor<2xf32>
  ) -> (fetch "y": tensor<2xf32>, state "w": tensor<2xf32>) {
    %y = pd.add(%x, %w)
    func.return %y, %w : tensor<2xf32>, tensor<2xf32>
  }
}
"""


def module() -> ModuleOp:
    """Parse a program with a feed, two state variables, a fetch and one written variable."""
    found = parse_text(TEXT)
    found.verify()
    return found


def shown(found: ModuleOp) -> list[str]:
    """Verify a module, and list its ports, arguments first."""
    found.verify()
    function, signature = main_function(found), signature_of(found)
    assert [argument.index for argument in function.args] == list(range(len(function.args)))
    assert [port.type for port in signature.arguments] == [a.type for a in function.args]
    ports = (*signature.arguments, *signature.results)
    return [f"{port.name}{'*' if port.per_replica else ''}" for port in ports]


def test_nothing_changes() -> None:
    """An edit that does nothing keeps the text."""
    found = module()
    before = str(found)
    with edit_signature(main_function(found)):
        pass
    assert str(found) == before


def test_arguments() -> None:
    """New arguments come last, a replaced one keeps its place and name, and others are dropped."""
    found = module()
    function = main_function(found)
    with edit_signature(function) as edit:
        old = edit.state
        assert list(old) == ["w", "v"]
        new = edit.add(tensor((2,), "float32"), port_attributes(STATE, "u"))
        other = edit.replace(old["w"], tensor((2,), "float32"))
        replace_uses({old["w"]: other})
        edit.drop([old["v"]])
        assert list(edit.state) == ["w", "u"]
    assert function.args[1:] == (other, new) and other.name_hint == "w"
    assert shown(found) == ["x", "w", "u", "y", "w"]


def test_a_feed() -> None:
    """A new feed is the last argument."""
    found = module()
    made = add_feed(main_function(found), "mask", tensor((2,), "bool"))
    assert main_function(found).args[-1] is made
    assert signature_of(found).feeds == ("x", "mask")


def test_results() -> None:
    """Results can be added, dropped and replaced; a mark is set on arguments and results alike."""
    found = module()
    with edit_signature(main_function(found)) as edit:
        y, w = edit.returned
        edit.give(y, port_attributes(FETCH, "again"))
        edit.keep_results([1, 2])
        edit.set_result(0, y)
        edit.mark({"w": {PER_REPLICA: UnitAttr()}})
    assert shown(found) == ["x", "w*", "v", "w*", "again"]
    assert edit.returned[0] is y and w not in edit.returned


def test_what_is_read_cannot_go() -> None:
    """Dropping an argument that is read raises an error, and leaves the function unchanged."""
    found = module()
    before = str(found)
    with (
        pytest.raises(ValueError, match="argument %w is removed, but something reads it"),
        edit_signature(main_function(found)) as edit,
    ):
        edit.drop([edit.state["w"]])
    assert str(found) == before
