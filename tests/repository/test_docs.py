"""The documentation is true: blocks run as shown, links resolve, generated pages match the code."""

from __future__ import annotations

import code
import contextlib
import doctest
import importlib.util
import io
import json
import linecache
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphopt.cli import main as cli
from graphopt.cli import opt
from graphopt.passes.table import registry
from graphopt_tests.frontend.programs import fresh

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.ipynb"))
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
# trains a network
FROM_NOTHING = "tutorials/from-nothing.md"
# more than a second each
LONG = (
    FROM_NOTHING,
    "explanation/state-in-stacks.md",
    *(f"how-to/{name}.md" for name in ("find-a-wrong-rewrite", "import-a-model", "trace-a-layer")),
    *(f"how-to/add-a-{name}.md" for name in ("fusion", "pass-from-outside")),
    *(f"how-to/{name}.md" for name in ("many-sizes", "onnx-models-in", "port-a-fluid-script")),
    "how-to/take-a-model-out.md",
)
WITH_CODE = [
    pytest.param(page, marks=pytest.mark.exhaustive) if page in LONG else page
    for page in PAGES
    if re.search(r"^```python", (DOCS / page).read_text("utf-8"), re.M)
]
# What the blocks of a page need besides the package.
NEEDED = {
    "how-to/take-a-model-out.md": ("flatbuffers", "onnx_ir", "onnxruntime", "safetensors"),
    FROM_NOTHING: ("sklearn",),
}
OUTPUT_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block: its language, its text and the line where the text starts."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in their order."""
    source = (DOCS / page).read_text("utf-8")
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", source, re.MULTILINE | re.DOTALL):
        yield Block(found[1], found[2], source.count("\n", 0, found.start(2)))


def generator() -> ModuleType:
    """Load docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fresh_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Set fresh programs, scope, names, passes and folder, with a link `tests`."""
    monkeypatch.setenv("CPU_NUM", "1")
    monkeypatch.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"])  # a page adds to it
    monkeypatch.chdir(tmp_path)
    # a pass that a page registers is gone with it
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    np.random.seed(0)
    with fresh():
        yield


def run_python(block: Block, page: str, names: dict[str, Any]) -> str:
    """Run a block and return its output; errors and locations name the page and its line.

    Its functions have a source, like a script's functions.
    """
    printed = io.StringIO()
    source = "\n" * block.line + block.text
    linecache.cache[page] = len(source), None, source.splitlines(keepends=True), page
    with contextlib.redirect_stdout(printed):
        exec(compile(source, page, "exec", dont_inherit=True), names)
    return printed.getvalue()


def run_console(block: Block, page: str) -> None:
    """Run the commands of a block, which have to be ours, and compare the output shown after them.

    A command succeeds, unless `$ echo $?` follows with the exit code.
    """
    commands = {"graphopt": cli.main, "graphopt-opt": opt.main}
    status = 0
    # the lines that start with a prompt, each with the output below it
    for shown in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, wanted = shown.partition("\n")
        program, *arguments = shlex.split(line)
        printed = io.StringIO()
        if program == "echo":
            print(status, file=printed)
            status = 0
        else:
            assert status == 0, f"{page}:{block.line}: exit code {status}"
            with contextlib.redirect_stdout(printed):
                status = commands[program](arguments)
        if wanted.strip():
            expect(printed.getvalue(), wanted, f"{page}:{block.line}: {line}")
    assert status == 0, f"{page}:{block.line}: exit code {status}"


def is_file(block: Block) -> str:
    """Return the name of the file that a block shows: its first line, a comment."""
    found = re.match(r"# (\w+\.py)\n", block.text)
    return found[1] if found and block.language == "python" else ""


def expect(printed: str, wanted: str, where: str) -> None:
    """Compare as doctest does: `...` matches any text, runs of white space are equal."""
    if not doctest.OutputChecker().check_output(wanted, printed, OUTPUT_FLAGS):
        pytest.fail(f"{where} prints\n{printed}\nnot\n{wanted}")


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """Make the names of a page's script; close a file that it opened with them.

    Its functions refer to them in a circle, so that only the collector would close the file, and
    would
    warn of it in the middle of another test.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    yield names
    names.clear()


@pytest.mark.parametrize("page", WITH_CODE)
@pytest.mark.usefixtures("fresh_state")
def test_blocks_run(page: str, names: dict[str, Any]) -> None:
    """The blocks of a page run one after another, and print the text blocks that follow."""
    for module in NEEDED.get(page, ()):
        pytest.importorskip(module)
    printed: str | None = None
    for block in blocks(page):
        if block.language == "text":
            assert printed is not None, f"{page}:{block.line}: output of nothing"
            expect(printed, block.text, f"{page}:{block.line}")
            printed = None
            continue
        assert not printed, f"{page}:{block.line}: the block before prints, but it is not shown"
        if name := is_file(block):
            Path(name).write_text(block.text, "utf-8")
            continue
        printed = run_python(block, page, names) if block.language == "python" else None
        if block.language == "console":
            run_console(block, page)
    assert not printed, f"{page}: the last block prints, but it is not shown"


class Typed(code.InteractiveConsole):
    """A session that reads lines and runs none; `wrong` lists the lines with a syntax error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        for self.line in [*text.splitlines(), ""]:
            self.push(self.line)

    def runcode(self, code: object) -> None:
        """Run nothing."""

    def showsyntaxerror(self, filename: str | None = None, **_: object) -> None:
        """Note the line."""
        self.wrong.append(self.line)


def test_blocks_can_be_typed() -> None:
    """Blocks can be typed into a Python session, where an empty line ends a function.

    A class with empty lines inside, as ruff formats it, needs a file.
    """
    for page in PAGES:
        for block in blocks(page):
            if block.language == "python" and not re.search(
                r"^class .*\n(    .*\n)*\n    ", block.text, re.M
            ):
                wrong = Typed(block.text).wrong
                assert not wrong or is_file(block), (
                    f"{page}:{block.line}: an empty line? {wrong[0]}"
                )


@pytest.mark.parametrize("page", PAGES)
def test_commands_name_files_that_are_there(page: str) -> None:
    """Commands name files of the repository; a model may be named without its suffix."""
    for block in blocks(page):
        lines = block.text.splitlines() if block.language in ("sh", "console") else []
        commands = [line for line in lines if block.language == "sh" or line.startswith("$ ")]
        for word in " ".join(commands).split():
            path = ROOT / word.removeprefix("@")
            if word.startswith(("@", "tests/", "examples/")):
                assert any(path.parent.glob(f"{path.name}*")), f"{page}:{block.line}: {word}"


def prose(page: str) -> str:
    """Return a page without its fenced blocks, or the prose of a notebook."""
    source = (DOCS / page).read_text("utf-8")
    if page in NOTEBOOKS:
        cells = [cell for cell in json.loads(source)["cells"] if cell["cell_type"] == "markdown"]
        return "\n\n".join("".join(cell["source"]) for cell in cells)
    return re.sub(r"^```.*?^```$", "", source, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS])
def test_links_lead_somewhere(page: str) -> None:
    """Each relative link names a file or folder, and its fragment a heading there."""
    for target, fragment in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", prose(page)):
        path = (DOCS / page).parent / target if target else DOCS / page
        assert path.exists(), target
        if fragment:
            headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
            plain = [re.sub(r"[^\w -]", "", heading.lower()) for heading in headings]
            assert fragment in [heading.replace(" ", "-") for heading in plain]


def linked_from(page: str) -> set[str]:
    """Return the pages that a page links to."""
    targets = re.findall(r"\]\(([^)#:]+)", prose(page))
    paths = [Path(os.path.normpath(DOCS / page / ".." / target)) for target in targets]
    return {str(path.relative_to(DOCS)) for path in paths if path.is_relative_to(DOCS)}


def test_every_page_is_linked() -> None:
    """Each page is two steps away from the first one, which has twelve links at most."""
    first = linked_from("README.md")
    assert len(first) <= 12
    second = {page for each in first for page in linked_from(each)}
    assert {*PAGES, *NOTEBOOKS} - {"README.md"} <= first | second


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """The navigation lists each page, and each notebook by the name of its page."""
    listed = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    made = [page.replace(".ipynb", ".md") for page in NOTEBOOKS]
    assert sorted(listed) == sorted([*PAGES, *made])


def test_every_reason_of_the_engine_is_explained() -> None:
    """The page on declined fusions has a row for each reason that the fusion engine gives."""
    engine = (ROOT / "graphopt" / "passes" / "engine" / "fusion.py").read_text("utf-8")
    page = (DOCS / "how-to" / "why-did-a-fusion-not-fire.md").read_text("utf-8")
    explained = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert sorted(explained) == sorted(re.findall(r'Reason\(\s*"([a-z-]+)"', engine))


@pytest.mark.smoke
def test_generated_pages_are_up_to_date() -> None:
    """Generated pages equal the output of docs/generate.py."""
    stale = [str(path.relative_to(ROOT)) for path in generator().stale()]
    assert not stale, f"run python docs/generate.py: {', '.join(stale)}"
