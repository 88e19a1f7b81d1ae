"""What README and CONTRIBUTING say is there: links, make targets, the example."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def code_blocks(page: str, language: str) -> Iterator[str]:
    """The fenced blocks of one language that stand at the left margin."""
    yield from re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Each relative link names a file or folder of the repository."""
    targets = re.findall(r"\]\(([^)#:]+)\)", read(page))
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
    """The program on the front page trains: it prints one small loss per place."""
    (example,) = code_blocks("README.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", example], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    losses = [float(number) for number in re.findall(r"\d+\.\d+(?:e[-+]\d+)?", done.stdout)]
    assert len(losses) == 2, done.stdout
    assert max(losses) < 1
