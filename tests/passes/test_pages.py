"""The form of before/after pages: short signatures, and programs as a diff from another case."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphopt.ir.dialect.text import WIDTH
from graphopt.testing import check_case, load_page, page_text, parse
from graphopt.testing.pages import apply_diff, difference

TEXT = """func.func @main(feed %x: tensor<2x3xf32>, feed %unread: tensor<2x3xf32>,
    state "w) -> (0, 1" %w: tensor<2x3xf32>)
    -> (fetch "a variable, with a long name": tensor<2x3xf32>,
    state "w) -> (0, 1": tensor<2x3xf32>) {
  %a = pd.relu(%x)
  %b = pd.relu(%a)
  %c = pd.relu(%b)
  %d = pd.add(%c, %w)
  func.return %d, %w : tensor<2x3xf32>, tensor<2x3xf32>
}"""
PAGE = f"""# cse

## In full

```mlir
{TEXT}
```

```refused
no pattern
```

## A sigmoid

```diff
--- In full
-  %b = pd.relu(%a)
+  %b = pd.sigmoid(%a)
```

```refused
no pattern
```
"""


def test_signatures_take_few_lines() -> None:
    """Arguments share lines; the results stay on one line if they fit."""
    module = parse(TEXT)
    text = page_text(module)
    assert text.splitlines()[:4] == [
        "func.func @main(feed %x: tensor<2x3xf32>, feed %unread: tensor<2x3xf32>,",
        '    state "w) -> (0, 1" %w: tensor<2x3xf32>)',
        '    -> (fetch "a variable, with a long name": tensor<2x3xf32>,',
        '    state "w) -> (0, 1": tensor<2x3xf32>) {',
    ]
    assert str(parse(text)) == str(module)
    assert all(len(line) <= WIDTH for line in text.splitlines())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  %b = pd.relu(%a)", "  %b = pd.sigmoid(%a)"),
        ("  %b = pd.relu(%a)\n", ""),
        ("  %c = pd.relu(%b)\n", "  %c = pd.relu(%b)\n  %c = pd.relu(%b)\n"),
        ("func.func", "  %a = pd.relu(%x)\nfunc.func"),
        ("\n}", "\n}\n}"),
        ("", ""),
    ],
)
def test_a_diff_leads_to_the_program(old: str, new: str) -> None:
    """Applying the shortest diff between two texts gives the second one."""
    changed = TEXT.replace(old, new, 1)
    found = difference(TEXT, changed)
    assert apply_diff(found, TEXT) == changed


def test_a_diff_of_equal_lines() -> None:
    """A change has as many lines of context as make its place unique."""
    twice = "a\nb\na\nb\nc"
    assert difference(twice, "a\nb\na\nx\nc").splitlines() == [" b", " a", "-b", "+x", " c"]


def test_page_with_a_diff(tmp_path: Path) -> None:
    """The case has its whole program, and the case that its diff starts from."""
    page = tmp_path / "cse.md"
    page.write_text(PAGE, "utf-8")
    full, sigmoid = load_page(page)
    assert sigmoid.base == full
    assert sigmoid.before == TEXT.replace("%b = pd.relu", "%b = pd.sigmoid")


def test_page_with_changes(tmp_path: Path) -> None:
    """A result as a diff shows only the body where the signature does not change."""
    page, changes = (
        tmp_path / "cse.md",
        "-  %b = pd.relu(%a)\n-  %c = pd.relu(%b)\n+  %c = pd.tanh(%a)",
    )
    shown = f"# cse\n\n## Fewer\n\n```mlir\n{TEXT}\n```\n\n```diff\n{changes}\n```\n"
    page.write_text(shown, "utf-8")
    (case,) = load_page(page)
    assert (case.expected_kind, case.changes) == ("mlir", changes)
    assert case.expected.splitlines() == [
        "%a = pd.relu(%x)",
        "%c = pd.tanh(%a)",
        "%d = pd.add(%c, %w)",
        "func.return %d, %w : tensor<2x3xf32>, tensor<2x3xf32>",
    ]


def test_changes_of_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A diff that does not apply is an error that names the case, until pages are updated."""
    page = tmp_path / "cse.md"
    shown = f"# cse\n\n## Fewer\n\n```mlir\n{TEXT}\n```\n\n```diff\n-  %e = pd.exp(%a)\n```\n"
    page.write_text(shown, "utf-8")
    with pytest.raises(ValueError, match=r"cse.md, 'Fewer': .*%e = pd.exp.*GRAPHOPT_UPDATE_PAGES"):
        load_page(page)
    monkeypatch.setenv("GRAPHOPT_UPDATE_PAGES", "1")
    assert load_page(page)[0].expected == ""


def test_an_empty_result_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new case needs only its program; its result is written once."""
    page = tmp_path / "cse.md"
    twice = TEXT.replace("%b = pd.relu(%a)", "%b = pd.relu(%x)")  # nothing reads %a then
    page.write_text(f"# cse\n\n## Twice\n\n```mlir\n{twice}\n```\n\n```mlir\n```\n\nEnd.\n")
    monkeypatch.setenv("GRAPHOPT_UPDATE_PAGES", "1")
    (case,) = load_page(page)
    for _ in range(2):
        check_case(case)
        (found,) = load_page(page)
        assert found.expected.startswith("%b = pd.relu(%x)\n%c = pd.relu(%b)\n")
        assert page.read_text().endswith("```\n\nEnd.\n")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (PAGE.replace("--- In full", "--- Elsewhere"), "the title of an earlier case"),
        (PAGE.replace("-  %b = pd.relu(%a)", "-  %b = pd.tanh(%a)"), "%b = pd.tanh"),
    ],
)
def test_wrong_diffs(tmp_path: Path, wrong: str, message: str) -> None:
    """A diff from an unknown case, or with lines that this one lacks, is an error."""
    page = tmp_path / "cse.md"
    page.write_text(wrong, "utf-8")
    with pytest.raises(ValueError, match=message):
        load_page(page)
