"""The claims of README and CONTRIBUTING hold: links, make targets, the example."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphopt.ir.dialect.text import text_of
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt.testing import parse
from graphopt_tests.repository.test_docs import expect

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def code_blocks(page: str, language: str) -> Iterator[str]:
    """Yield the fenced blocks of one language at the left margin."""
    yield from re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each relative link names a file or folder of the repository."""
    targets = re.findall(r"\]\(([^)#:]+)\)|<img src=\"([^\":]+)\"", read(page))
    targets = [one or other for one, other in targets]
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page: str) -> None:
    """Each `make x` is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    used = set(re.findall(r"(?:^|`)(?:\w+=\w+ )?make ([a-z-]+)", read(page), re.MULTILINE))
    assert used <= targets


@pytest.mark.smoke
def test_readme_example_runs() -> None:
    """The program on the front page trains, and prints the output shown below it."""
    (example,), (shown,) = code_blocks("README.md", "python"), code_blocks("README.md", "text")
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    expect(done.stdout, shown, "README.md")
    assert len(example.split("\n\n")[-1].splitlines()) <= 15


def test_readme_shows_what_the_passes_make() -> None:
    """The flags named there reduce seven ops to three."""
    before, after = code_blocks("README.md", "mlir")
    assert (len(before.splitlines()), len(after.splitlines())) == (7, 3)
    square, row = "tensor<64x64xf32>", "tensor<64xf32>"
    states = f"state %w: {square}, state %b: {row}, state %v: {square}, state %c: {row}"
    head = f'func.func @main(feed %x: {square}, {states}) -> (fetch "y": {square})'
    module = parse(f"{head} {{\n{before}func.return %y : {square}\n}}")
    flags = {"fuse_gemm_epilogue": True, "fuse_elewise_add_act_ops": True}
    assert all(f"`{flag}`" in read("README.md") for flag in flags)
    optimize(module, PassContext(flags))
    ops = [line.strip() for line in text_of(module).splitlines() if " = pd." in line]
    assert ops == after.splitlines()


def test_readme_numbers_are_on_their_pages() -> None:
    """Each number of the table is on the page that its row links."""
    row = r"^\| ([^|]* \| [^|]* \| [^|]*) \| \[.*\]\((docs/.*)\) \|$"
    rows = re.findall(row, read("README.md"), re.MULTILINE)
    assert len(rows) == 4
    for told, page in rows:
        numbers = re.findall(r"[\d.]+ m?s\b|\d{3,}", told)
        text = read(page)
        assert numbers and all(number.removesuffix(" s") in text for number in numbers), told


def test_badges_are_true() -> None:
    """The badges agree with the package's metadata."""
    project = tomllib.loads(read("pyproject.toml"))["project"]
    badges = re.findall(r"img.shields.io/badge/([^)]*)\)", read("README.md"))
    python = project["requires-python"].removeprefix(">=")
    assert badges == [
        f"python-{python}%2B-blue",
        f"licence-{project['license'].replace('-', '--')}-blue",
    ]
