"""A line for each pass: the first sentence of its docstring, read without importing its module.

Importing all passes takes longer than the rest of `--help`.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap

from graphopt.passes.table.order import ROWS
from graphopt.passes.table.registry import APART, XDSL_PASSES, plugin_points

# the column of the summaries
_COLUMN = 28
_PACKAGES = Path(__file__).parents[2]


# a class with a docstring and an attribute `name`; parsing the files would take ten times as long
_CLASS = re.compile(
    r'^class \w+(?:\([^)]*\))?:\n    """(.*?)"""(.*?)(?=^\S|\Z)', re.MULTILINE | re.DOTALL
)
_NAME = re.compile(r'^    name(?:: [^=]+)? = "([^"]+)"', re.MULTILINE)


_ROOMS = {
    "cleanup": "passes that clean up",
    "fusions": "passes that fuse ops",
    "target": "passes for a kind of device",
    "storage": "passes for the state between steps",
    "parallel": "passes for several devices",
}
"""The folders of passes with their titles, in the order of the help."""


def summaries() -> dict[str, dict[str, str]]:
    """Map each title to its passes by name with their summaries, in the order of the table."""
    found: dict[str, dict[str, str]] = {title: {} for title in _ROOMS.values()}
    known: dict[str, str] = {}
    for path in dict.fromkeys(row.path for row in ROWS):
        known |= _docstrings(path, {row.pass_name for row in ROWS})
    for row in ROWS:
        found[_ROOMS[row.room]][row.pass_name] = known.get(row.pass_name, "")
    for name, (module, _) in APART.items():
        path = _PACKAGES.joinpath(*module.split(".")).with_suffix(".py")
        found["passes for the sizes of feeds"] = _docstrings(path, {name})
    found["passes of xDSL"] = dict(XDSL_PASSES)
    for point in plugin_points():
        package = "another package" if point.dist is None else point.dist.name
        found.setdefault(f"passes of {package}", {})[point.name] = _of_plugin(point)
    return found


def list_passes() -> str:
    """Format the passes as lists under their titles."""
    lines: list[str] = []
    for title, passes in summaries().items():
        lines += ["", f"{title}:"] if lines else [f"{title}:"]
        for name, words in passes.items():
            first = f"  {name} " if len(name) > _COLUMN - 3 else f"  {name:<{_COLUMN - 3}} "
            lines += wrap(words, 99, initial_indent=first, subsequent_indent=" " * _COLUMN) or [
                first.rstrip()
            ]
    return "\n".join(lines)


def _of_plugin(point: EntryPoint) -> str:
    """Read the summary of a plugin pass from its file, or else from the loaded class."""
    try:
        spec = find_spec(point.module)
        path = Path(spec.origin) if spec is not None and spec.origin else None
        found = _docstrings(path, {point.name}) if path is not None else {}
        words = found.get(point.name) or (point.load().__doc__ or "").partition("\n\n")[0]
    except Exception as error:  # a broken package must not break the help
        return f"({point.value} does not load: {error})"
    return " ".join(words.split()) or point.value


def _docstrings(path: Path, names: set[str]) -> dict[str, str]:
    """Read the first paragraphs of the docstrings of classes whose `name` is in `names`."""
    found = {
        named[1]: " ".join(words.partition("\n\n")[0].split())
        for words, body in _CLASS.findall(path.read_text("utf-8"))
        if (named := _NAME.search(body))
    }
    return {name: words for name, words in found.items() if name in names}
