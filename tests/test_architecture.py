"""The house rules that no other tool checks: who imports whom, links, paths in files."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "graphopt"
STAGES = ("ir", "passes", "lowering", "runtime")

pytestmark = pytest.mark.smoke


class Rule(NamedTuple):
    """What a part of graphopt may import besides the standard library."""

    own: frozenset[str]
    others: frozenset[str]


def rule(own: str, others: str = "") -> Rule:
    return Rule(frozenset(own.split()), frozenset(others.split()))


# Imports point one way, and passes and lowering do not know each other.
RULES = {
    "errors": rule("errors"),
    "ir": rule("errors ir", "ml_dtypes numpy xdsl"),
    "passes": rule("errors ir passes", "ml_dtypes numpy xdsl"),
    "lowering": rule("errors ir lowering", "jax jaxlib ml_dtypes numpy xdsl"),
    "runtime": rule("errors ir passes lowering runtime", "jax jaxlib ml_dtypes numpy xdsl"),
}


def imported_modules(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything imported, in functions too.

    `from a import b` counts as `a.b`, whether b is a module or not; `package` is where relative
    imports start. Calls of `import_module` and `__import__` with a literal name count as well.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parents = package.split(".")[: 1 - level or None] if level else []
                base = ".".join([*parents, *([module] if module else [])])
                yield from ((node.lineno, f"{base}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name
            case _:
                pass


def violations(source: str, file: Path) -> list[str]:
    """The forbidden imports of a file in graphopt/, one `file:line: reason` each."""
    relative = file.relative_to(ROOT)
    stage = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = RULES[stage]
    package = ".".join(relative.parent.parts)
    found: list[str] = []
    for line, name in imported_modules(ast.parse(source), package):
        top, _, rest = name.partition(".")
        if top == "graphopt":
            if rest.partition(".")[0] in allowed.own:
                continue
            may = "of graphopt only " + ", ".join(sorted(allowed.own))
        else:
            if top in sys.stdlib_module_names or top in allowed.others:
                continue
            may = ", ".join(sorted(allowed.others)) or "the standard library only"
        found.append(f"{relative}:{line}: {stage} imports {name}; it may import {may}")
    return found


@pytest.mark.parametrize("stage", RULES)
def test_imports_point_one_way(stage: str) -> None:
    """Each part imports only what RULES lets it."""
    folder = PACKAGE / stage
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{stage}.py"]
    assert files, f"graphopt/{stage} is empty"
    found = [line for file in files for line in violations(file.read_text("utf-8"), file)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source", "line"),
    [
        ("ir/a.py", "def f():\n    import jax.numpy", 2),
        ("ir/a.py", "from graphopt import passes", 1),
        ("ir/a.py", "import graphopt", 1),
        ("ir/ops/a.py", "from ...passes import dce", 1),
        ("ir/a.py", "import os\nfrom .. import static", 2),
        ("passes/a.py", "from graphopt.lowering.registry import lowers", 1),
        ("passes/a.py", "import importlib\nimportlib.import_module('jax')", 2),
        ("lowering/a.py", "import graphopt.passes.dce", 1),
        ("runtime/a.py", "from graphopt.static import Program", 1),
        ("errors.py", "import numpy", 1),
    ],
)
def test_a_forbidden_import_is_found(file: str, source: str, line: int) -> None:
    """The check sees imports in functions, relative ones and dynamic ones, and names the line."""
    (found,) = violations(source, PACKAGE / file)
    assert found.startswith(f"graphopt/{file}:{line}: ")


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("ir/a.py", "import os.path, numpy as np\nfrom xdsl.ir import Operation"),
        ("ir/ops/a.py", "from . import b\nfrom ..types import tensor\nfrom graphopt import errors"),
        ("ir/ops/__init__.py", "from . import b\nfrom ..types import tensor"),
        ("lowering/a.py", "import jax\nfrom graphopt.ir.op import PdOp"),
        ("runtime/a.py", "from graphopt.passes.pipeline import TABLE\nimport graphopt.lowering"),
    ],
)
def test_an_allowed_import_is_not_reported(file: str, source: str) -> None:
    """What each stage may import passes."""
    assert violations(source, PACKAGE / file) == []


@pytest.mark.parametrize(
    "modules", ["graphopt, graphopt.ir, graphopt.passes", "graphopt.tools.opt, graphopt.universe"]
)
def test_jax_is_not_imported_early(modules: str) -> None:
    """`import graphopt` and the command-line tool start without paying for JAX."""
    code = f"import sys, {modules}; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False", f"importing {modules} imports jax"


@pytest.mark.parametrize("stage", STAGES)
def test_root_link_points_into_the_package(stage: str) -> None:
    """The four stages are one click from the root, by links that survive moving the checkout."""
    link = ROOT / stage
    if not (ROOT / ".git").exists() and not link.is_symlink():
        pytest.skip("an unpacked sdist has no links")
    assert link.is_symlink(), f"{stage} is no symbolic link; make one: ln -s graphopt/{stage} ."
    assert os.readlink(link) == f"graphopt/{stage}"
    assert link.is_dir(), f"{stage} points nowhere"


TEXT_SUFFIXES = {"", ".cfg", ".md", ".mlir", ".py", ".sh", ".toml", ".txt", ".yaml"}
OWN_DOT_NAMES = {".ci", ".github", ".gitignore", ".pre-commit-config.yaml"}
FOREIGN = re.compile(r"(?<![\w.])/(?:tmp|work|root|farm|home|Users)/|\bpypi\.\w|pythonhosted\.")


def text_files() -> Iterator[Path]:
    """The text files of the checkout: no links, no environments, nothing that a target made."""
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder)
        folders[:] = [
            name
            for name in folders
            if (not name.startswith(".") or name in OWN_DOT_NAMES)
            and not (here / name).is_symlink()
            and name != "__pycache__"
            and (here != ROOT or name not in ("dist", "out"))
            and here / name != ROOT / "tests" / "data"  # recorded files, some binary
        ]
        for name in names:
            own = not name.startswith(".") or name in OWN_DOT_NAMES
            if own and Path(name).suffix in TEXT_SUFFIXES:
                yield here / name


def test_no_machine_paths_or_index_hosts() -> None:
    """Nothing in the repository depends on the machine that it was written on."""
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for file in text_files()
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1)
        if FOREIGN.search(line)
    ]
    assert not found, "\n" + "\n".join(found)
