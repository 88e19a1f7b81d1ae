"""The facts that the language server shows."""

from __future__ import annotations

import pytest

from graphopt.editor.document import after_passes, facts_at, problems

TEXT = """func.func @main(feed %x: tensor<?x4xf32>) -> (fetch "y": tensor<?x4xf32>) {
  %a = pd.exp(%x)
  %b = pd.exp(%x)
  %y = pd.add(%a, %b)
  func.return %y : tensor<?x4xf32>
}
"""


def test_no_problem() -> None:
    """A valid program has no diagnostics."""
    assert problems(TEXT) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "under", "words"),
    [
        ("pd.exp(%x)\n  %b", "pd.exp(%x) {axes = 1}\n  %b", 1, "=", "has no attribute 'axes'"),
        ("pd.add(%a, %b)", "pd.add(%a, %c)", 3, "", "%c"),
        ("pd.add(%a", "pd.addd(%a", 3, "pd.addd", "pd.addd"),
        ("exp(%x)", "exp(%x", 2, "%b", "expected"),
    ],
)
def test_problems(old: str, new: str, line: int, under: str, words: str) -> None:
    """A diagnostic has its line, the range to underline, and the message."""
    text = TEXT.replace(old, new, 1)
    (problem,) = problems(text)
    assert problem.line == line
    assert words.lower() in problem.message.lower()
    if under:
        assert text.split("\n")[line][problem.start : problem.end] == under


def test_a_problem_of_the_verifier() -> None:
    """A wrong result type is reported at its op."""
    text = TEXT.replace("%b = pd.exp(%x)", "%b = pd.exp(%x) : (tensor<?x4xf32>) -> tensor<?x4xf64>")
    (problem, *_) = problems(text)
    assert "f64" in problem.message


def test_facts() -> None:
    """Hovering shows types of values and descriptions of ops, and nothing elsewhere."""
    assert "tensor<?x4xf32>" in facts_at(TEXT, 1, 15)
    assert facts_at(TEXT, 3, 3).startswith("`%y`: `tensor<?x4xf32>`")
    assert "result of `pd.add`" in facts_at(TEXT, 3, 3)
    assert facts_at(TEXT, 3, 8).startswith("**pd.add**")
    assert facts_at(TEXT, 5, 0) == facts_at(TEXT, 99, 0) == ""


def test_after_passes() -> None:
    """The program equals graphopt-opt's output; a misspelt pass gets a hint."""
    assert after_passes(TEXT, "cse").count("pd.exp(") == 1
    with pytest.raises(ValueError, match="did you mean cse"):
        after_passes(TEXT, "csee")
