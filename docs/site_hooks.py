"""Pages of the site that are no Markdown files of this folder (see mkdocs.yml).

They are the Python API, from the docstrings of the public modules; notebooks, with what their cells
print; and files of the repository that pages link to, so that the site needs nothing outside of it.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)#:\s]+)(#[^)\s]*)?(\))")
REMOTE = re.compile(r"!\[[^]]*\]\(https:[^)]*\)\n?")
IMAGE = re.compile(r'(<img src=")([^"#:\s]+)()(")')
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# what a file does that has names of Paddle: it wraps them, or imports them when they are used
IS_OF_NAMES = re.compile(r"^(publish\(globals|_?lazy\.attach)", re.MULTILINE)
LANGUAGES = {".py": "python", ".pyi": "python", ".toml": "toml", ".yml": "yaml", ".js": "js"}


# -- the Python API --------------------------------------------------------------------------------


def api_modules() -> dict[str, list[str]]:
    """The modules that programs and plugins may import, and those of Paddle's names below each."""
    page = (ROOT / "docs" / "reference" / "public-modules.md").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for module in re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE):
        folder = ROOT / module.replace(".", "/")
        files = [*folder.glob("*/__init__.py"), *folder.glob("*.py")] if "." in module else []
        names = [
            ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for path in files
            if IS_OF_NAMES.search(path.read_text("utf-8"))
        ]
        below = {name.removesuffix(".__init__") for name in names} - {module}
        found[module] = sorted(name for name in below if offered(name))
    return found


def source(module: str) -> Path:
    """The file with the names of a module: the stub of a package that has one."""
    folder = ROOT / module.replace(".", "/")
    files = (folder / "__init__.pyi", folder / "__init__.py", folder.with_suffix(".py"))
    return next(path for path in files if path.exists())


def offered(module: str) -> list[str]:
    """What a module offers: its functions and classes, and names that it imports as themselves."""
    path = source(module)
    found: list[str] = []
    body = ast.parse(path.read_text("utf-8")).body
    # what is there with a package of an extra only is imported under `try`
    body += [inner for node in body if isinstance(node, ast.Try) for inner in node.body]
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("graphopt"):
            found += [each.name for each in node.names if each.asname == each.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
    return sorted({name for name in found if not name.startswith("_")})


def api_page(module: str) -> str:
    """The page of a module: its docstring, then what it offers."""
    members = "".join(f"\n        - {name}" for name in offered(module))
    return f"# {module}\n\n::: {module}\n    options:\n      members:{members or ' []'}\n"


# -- notebooks and files ---------------------------------------------------------------------------


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: prose, cells, and what they print."""
    parts: list[str] = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
    first, *rest = parts
    download = f'<a href="{path.name}" download>The notebook, to run it yourself</a>'
    return "\n\n".join([first, download, *rest]) + "\n"


def file_page(path: Path) -> str:
    """A file of the repository as a page, or what is in a folder."""
    name = path.relative_to(ROOT)
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if path.is_dir():
        listed = (each for each in sorted(path.iterdir()) if not each.name.startswith(("_", ".")))
        return head + "".join(
            f"- [{each.stem}]({path.name}/{each.name})\n"
            if each.suffix == ".md"
            else f"- `{each.name}{'/' * each.is_dir()}`\n"
            for each in listed
        )
    text = path.read_text("utf-8")
    return head + f"`````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n`````\n"


def address(path: Path) -> str:
    """The address, below docs/, of the page for a file of the repository."""
    if path.is_relative_to(ROOT / "docs"):
        made = path.with_suffix(".md") if path.suffix == ".ipynb" else path
        return str(made.relative_to(ROOT / "docs"))
    name = path.relative_to(ROOT)
    is_page = path.suffix == ".md" and path.is_file()
    return f"files/{name}" if is_page else f"files/{name}.md"


# -- what MkDocs calls -----------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Put the pages of the API into the navigation."""
    pages: list[Any] = []
    for module, below in api_modules().items():
        own = f"api/{module}.md"
        pages.append({module: [own, *({it: f"api/{it}.md"} for it in below)] if below else own})
    for section in config.nav:
        section.update({title: pages for title, where in section.items() if where == "api"})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    for module in [name for each, below in api_modules().items() for name in (each, *below)]:
        files.append(File.generated(config, f"api/{module}.md", content=api_page(module)))
    for path in sorted((ROOT / "docs").rglob("*.ipynb")):
        files.append(File.generated(config, address(path), content=notebook_page(path)))
    waiting = list(files.documentation_pages())
    while waiting:
        page = waiting.pop()
        for target in outside(page.content_string, origin(page)):
            name = address(target)
            if name not in files.src_uris:
                is_page = target.suffix == ".md" and target.is_file()
                text = target.read_text("utf-8") if is_page else file_page(target)
                files.append(File.generated(config, name, content=text))
                if is_page or target.is_dir():  # a folder links to the pages in it
                    waiting.append(files.src_uris[name])
    return files


def origin(page: File) -> Path:
    """The folder of the repository to which the links of a page are relative."""
    if page.src_uri.startswith("files/"):
        return (ROOT / page.src_uri.removeprefix("files/")).parent
    return (ROOT / "docs" / page.src_uri).parent


def outside(text: str, folder: Path) -> Iterator[Path]:
    """The files outside of docs/ that a text links to."""
    for found in LINK.finditer(FENCE.sub("", text)):
        path = Path(posixpath.normpath(folder / found[2]))
        if path.exists() and not path.is_relative_to(ROOT / "docs"):
            yield path


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to the pages of the site."""
    folder = origin(page.file)

    def moved(found: re.Match[str]) -> str:
        path = Path(posixpath.normpath(folder / found[2]))
        if not path.exists():
            return found[0]
        to = posixpath.relpath(address(path), posixpath.dirname(page.file.src_uri))
        return f"{found[1]}{to}{found[3] or ''}{found[4]}"

    def of_site(part: str) -> str:
        if part.startswith("```"):
            return part
        # the site shows nothing from elsewhere, so no badges
        return IMAGE.sub(moved, LINK.sub(moved, REMOTE.sub("", part)))

    return "".join(map(of_site, FENCE.split(markdown)))


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Lay the ways in of the first page out side by side; end each other page with where to ask."""
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation", "toc"]
        head, *ways = re.split(r"(?=<h2 )", html)
        sections = "".join(f"<section>{way}</section>" for way in ways)
        return f'<div class="first">{head}</div><div class="ways">{sections}</div>'
    to = posixpath.relpath("how-to/ask-and-report.html", posixpath.dirname(page.file.src_uri))
    asked = f'<a href="{to}">Ask, or report it</a>'
    return f'{html}<p class="asked">Something unclear, wrong or missing? {asked}.</p>'
