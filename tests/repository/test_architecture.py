"""The house rules that no other tool checks: imports between rooms, links, paths in files."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "graphopt"
STAGES = ("ir", "passes", "lowering", "runtime")

pytestmark = pytest.mark.smoke


class Rule(NamedTuple):
    """The rooms and third-party packages that a room may use."""

    rooms: frozenset[str]
    packages: frozenset[str]


def rule(rooms: str, packages: str = "") -> Rule:
    return Rule(frozenset(rooms.split()), frozenset(packages.split()))


XDSL = "ml_dtypes numpy xdsl"
JAX = f"jax jaxlib {XDSL}"
IR = "ir.dtypes ir.operators ir.program ir.dialect ir.translate ir.formats"
REWRITES = "passes.cleanup passes.fusions passes.target passes.parallel passes.storage"
PASSES = f"passes.engine passes.table passes.padding {REWRITES}"
# each room of the runtime uses those before it
RUNTIME = (
    *("state", "settings", "distributed", "devices", "feeds"),
    *("compile", "disk", "host", "steps", "runners", "profiling"),
)
RUN = " ".join(["runtime", *(f"runtime.{room}" for room in RUNTIME)])
BELOW = f"errors display {IR} {PASSES} lowering"
STAGED = f"{BELOW} {RUN}"

# Arrows point one way: a room may use what is named here, and itself. Passes and the lowering do
# not know each other; neither knows the front end. The registry of passes imports a pass by name.
LAW = {
    "errors": rule(""),
    "display": rule(""),
    "ir.dtypes": rule("errors", XDSL),
    "ir.operators": rule(""),
    "ir.program": rule("errors ir.dtypes"),
    "ir.dialect": rule("errors ir.dtypes", XDSL),
    "ir.translate": rule("errors ir.dtypes ir.operators ir.program ir.dialect", XDSL),
    "ir.formats": rule("errors ir.dtypes ir.operators ir.program ir.translate", XDSL),
    "passes.engine": rule("errors display ir.dtypes ir.dialect", XDSL),
    "passes.padding": rule("errors ir.dtypes ir.dialect passes.engine", XDSL),
    "passes.cleanup": rule("errors ir.dtypes ir.dialect passes.engine", XDSL),
    "passes.fusions": rule("errors ir.dtypes ir.dialect passes.engine", XDSL),
    "passes.target": rule("errors ir.dtypes ir.dialect passes.engine", XDSL),
    "passes.parallel": rule("errors display ir.dialect passes.engine passes.target", XDSL),
    "passes.storage": rule("ir.dialect passes.engine passes.target passes.parallel", XDSL),
    "passes.table": rule(f"errors display ir.dialect passes.engine {REWRITES}", XDSL),
    "report": rule("display ir.dialect passes.engine passes.table", XDSL),
    "lowering": rule("errors ir.dtypes ir.dialect", JAX),
    **{
        f"runtime.{room}": rule(
            " ".join([BELOW, *(f"runtime.{other}" for other in RUNTIME[:place])]), f"filelock {JAX}"
        )
        for place, room in enumerate(RUNTIME)
    },
    "runtime.host": rule(
        f"{BELOW} reference runtime.state runtime.devices runtime.compile", f"{JAX} threadpoolctl"
    ),
    "runtime": rule(f"{STAGED} report", JAX),
    "reference": rule("errors ir.dtypes ir.dialect passes.engine", XDSL),
    "frontend": rule(f"errors display {IR} {RUN}", "PIL ml_dtypes numpy"),
    "api": rule(f"errors display {IR} frontend {RUN} models debug", f"PIL orbax scipy {JAX}"),
    "models": rule(
        f"{STAGED} frontend api", f"flatbuffers onnx onnx_ir onnxruntime safetensors {JAX}"
    ),
    "debug": rule(f"{STAGED} frontend models reference", JAX),
    "testing": rule(f"{STAGED} reference debug", f"hypothesis {JAX}"),
    "conformance": rule("errors display api", f"PIL {XDSL}"),
    "playground": rule(f"{STAGED} report models reference debug", XDSL),
    "editor": rule(f"errors ir.dialect {PASSES}", f"lsprotocol pygls {XDSL}"),
    "cli": rule(f"{STAGED} editor report playground frontend models reference debug api", JAX),
}


# Inside the room "api" a package may use those before it. What many share is first, then a program
# in the order in which it is written, then Paddle 1.8, which has most of it under older names.
API_ORDER = (
    *("buckets", "device", "reader", "tensor", "nn", "optimizer", "metric", "static", "jit"),
    *("fft", "signal", "linalg", "geometric", "distribution", "utils", "distributed", "io"),
    *("hapi", "callbacks", "inference", "dataset", "vision", "text", "fluid"),
    *("amp", "autograd", "framework", "common_ops_import", "incubate", "pir", "pir_utils"),
    *("compat", "launch", "onnx", "profiler", "regularizer", "sparse", "version"),
)


@cache
def modules() -> dict[str, Path]:
    """Map the names of the package's modules to their files."""
    found: dict[str, Path] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def room_of(module: str) -> str:
    """Return the room of a module; Paddle's own names are in the room `api`."""
    inner = module.removeprefix("graphopt").removeprefix(".")
    if inner == "__main__":
        return "cli"
    for room in sorted(LAW, key=len, reverse=True):
        if f"{inner}.".startswith(f"{room}."):
            return room
    return "api"


@cache
def imported_modules(source: str, package: str) -> list[tuple[int, str]]:
    """List line and absolute name of every import, in functions too.

    `from a import b` counts as `a.b`, whether b is a module or not; `package` is where relative
    imports start. Calls of `import_module` and `__import__` with a literal name count as well.
    """
    tree = ast.parse(source)
    by_call = "__import__(" in source or "import_module(" in source
    return list(_imported(ast.walk(tree) if by_call else statements(tree), package))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a module, also nested ones: a tenth of its nodes."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, name, None)
        for statement in inner if isinstance(inner, list) else ():
            yield statement
            yield from statements(statement)


def _imported(nodes: Iterable[ast.AST], package: str) -> Iterator[tuple[int, str]]:
    for node in nodes:
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


def arrows(module: str, source: str, known: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module of graphopt that a module imports, in functions too."""
    package = module if known[module].stem == "__init__" else module.rpartition(".")[0]
    for line, name in imported_modules(source, package):
        target = name
        while target not in known and "." in target:
            target = target.rpartition(".")[0]
        if target in known and target != module:
            yield line, target
    if "walk_packages(__path__" in source:
        yield from ((1, other) for other in known if other.startswith(f"{module}."))
    if "iter_modules(__path__)" in source:
        yield from ((1, other) for other in known if other.rpartition(".")[0] == module)


def violations(module: str, source: str) -> list[str]:
    """List the forbidden imports of a module, one `module:line: reason` each."""
    room = room_of(module)
    allowed = LAW[room]
    package = module.rpartition(".")[0]
    found: list[str] = []
    for line, name in imported_modules(source, package):
        top = name.partition(".")[0]
        if top == "graphopt":
            if room_of(name) in (room, *allowed.rooms):
                continue
            may = "of graphopt only " + (", ".join(sorted(allowed.rooms)) or "itself")
        else:
            if top in sys.stdlib_module_names or top in allowed.packages:
                continue
            may = ", ".join(sorted(allowed.packages)) or "the standard library only"
        found.append(f"{module}:{line}: {room} imports {name}; it may import {may}")
    return found


@pytest.mark.parametrize("room", LAW)
def test_imports_point_one_way(room: str) -> None:
    """Each room imports only what LAW lets it."""
    files = {module: file for module, file in modules().items() if room_of(module) == room}
    assert files, f"the room {room} is empty"
    found = [
        line for module, file in files.items() for line in violations(module, file.read_text())
    ]
    assert not found, "\n" + "\n".join(found)


def package_of(module: str) -> str:
    """Return a module's package in the room "api"; "" for other rooms and for graphopt itself."""
    package = f"{module}.".split(".")[1]
    return package if room_of(module) == "api" and package not in STAGES else ""


def test_the_api_has_an_order() -> None:
    """Its packages are listed in API_ORDER, and each uses only earlier ones."""
    graph = imports_of_modules()
    packages = {package_of(module) for module in graph} - {""}
    assert packages == set(API_ORDER)
    place = {package: index for index, package in enumerate(API_ORDER)}
    found = [
        f"{module} imports {target}"
        for module, targets in graph.items()
        for target in targets
        if (above := package_of(target)) and (own := package_of(module))
        if place[above] > place[own]
    ]
    assert not found, "\n" + "\n".join(found)


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Find the sets of modules that import each other, directly or through others."""
    order = TopologicalSorter(graph)
    found: list[list[str]] = []
    left = {module: set(targets) for module, targets in graph.items()}
    while True:
        try:
            order.prepare()
        except CycleError as error:
            circle = error.args[1]
            found.append(circle)
            left[circle[1]].discard(circle[0])
            order = TopologicalSorter(left)
        else:
            return found


STUB_CIRCLES = {
    "graphopt.ir.program.attached graphopt.ir.program.program": (
        "methods of variables, which the front end attaches, return variables"
    ),
}
"""The circles that stubs close, and the reason."""


@cache
def imports_of_modules() -> dict[str, set[str]]:
    """Map each module to its imports, for types and in its stub too."""
    files = modules()
    graph: dict[str, set[str]] = {}
    for module, file in files.items():
        sources = [path.read_text() for path in (file, file.with_suffix(".pyi")) if path.exists()]
        graph[module] = {
            target for source in sources for _, target in arrows(module, source, files)
        }
    return graph


def test_no_circles() -> None:
    """No module imports itself through others, not even in functions, for types or in stubs."""
    found = [" ".join(sorted(set(circle))) for circle in circles(imports_of_modules())]
    assert sorted(found) == sorted(STUB_CIRCLES), "\n" + "\n".join(found)


def test_a_circle_is_found() -> None:
    """The check names the modules of a circle."""
    (found,) = circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert set(found) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("module", "source", "line"),
    [
        ("graphopt.ir.dialect.a", "def f():\n    import jax.numpy", 2),
        ("graphopt.ir.program.a", "from graphopt.ir.dialect import op", 1),
        ("graphopt.ir.dialect.ops.a", "from ....passes import dce", 1),
        ("graphopt.ir.formats.a", "import os\nfrom ... import static", 2),
        ("graphopt.passes.fusions.a", "from graphopt.lowering.registry import lowers", 1),
        ("graphopt.passes.fusions.a", "import importlib\nimportlib.import_module('jax')", 2),
        ("graphopt.lowering.a", "import graphopt.passes.dce", 1),
        ("graphopt.runtime.a", "from graphopt.static import Program", 1),
        ("graphopt.frontend.a", "from graphopt.tensor.math import add", 1),
        ("graphopt.errors", "import numpy", 1),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str, line: int) -> None:
    """The check finds imports in functions, relative and dynamic imports, and names the line."""
    (found,) = violations(module, source)
    assert found.startswith(f"{module}:{line}: ")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("graphopt.ir.dialect.a", "import os.path, numpy as np\nfrom xdsl.ir import Operation"),
        ("graphopt.ir.dialect.ops.a", "from . import b\nfrom ..types import tensor"),
        ("graphopt.lowering.a", "import jax\nfrom graphopt.ir.dialect.op import PdOp"),
        (
            "graphopt.runtime.a",
            "from graphopt.passes.table import order\nimport graphopt.lowering",
        ),
    ],
)
def test_an_allowed_import_is_not_reported(module: str, source: str) -> None:
    """Allowed imports pass."""
    assert violations(module, source) == []


# -- what is attached ------------------------------------------------------------------------------

ATTACHED = {
    "distribution.transformed": {"Transform.of_distribution"},
    "fluid.sequence_operators": {"Block.on_append.instead"},
    "frontend.sequence_notes": {"Block.on_append.after"},
    "ir.translate": {"Block.on_append.infer"},
    "runtime.compiled_program": {"Executor.compiled_for_trainers"},
    "tensor.methods": {"Variable"},
    "tensor.program_methods": {"Block", "Operator", "Program", "Variable"},
}
"""What importing a module adds to classes of other modules; docs/explanation/the-house.md says why.

A class without an attribute gets methods.
"""


MAY_ATTACH = re.compile(r"\bsetattr\(|^\S.*\.\w+ = ", re.MULTILINE)
"""The text of a module that sets an attribute in a loop or at its top."""


def attachments(tree: ast.Module) -> set[str]:
    """Collect the attributes of imported classes that a module sets, and the classes it extends."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("graphopt")
        for alias in node.names
        if alias.name[0].isupper()
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and names_in(node.func) == {"setattr"}:
            found |= names_in(node.args[0])
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    for loop in loops:
        if not found.isdisjoint(names_in(loop.target)):
            found |= names_in(loop.iter)
    found &= imported
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Attribute) and not names_in(target).isdisjoint(imported):
                found.add(ast.unparse(target))
    return found


def test_what_is_attached_is_listed() -> None:
    """Attachments are in the table here, and with a reason on the page of the house."""
    page = (ROOT / "docs" / "explanation" / "the-house.md").read_text("utf-8")
    section = page.partition("## What is attached")[2].partition("\n## ")[0]
    found: dict[str, set[str]] = {}
    for module, file in modules().items():
        source = file.read_text("utf-8")
        # parsing all takes long
        if MAY_ATTACH.search(source) and (added := attachments(ast.parse(source))):
            found[module.removeprefix("graphopt.")] = added
    assert found == ATTACHED
    missing = [module for module in ATTACHED if f"`{module.replace('.', '/')}" not in section]
    assert not missing


PUBLIC = re.compile(r"^\| `(graphopt[\w.]*)` \|", re.MULTILINE)


def public_modules() -> list[str]:
    """List the modules that programs and plugins may import, from their page."""
    page = ROOT / "docs" / "reference" / "public-modules.md"
    return PUBLIC.findall(page.read_text("utf-8"))


def test_examples_import_public_modules() -> None:
    """Examples and pages import modules of the page of public modules only."""
    public = public_modules()
    known = modules()
    assert set(public) <= known.keys()
    sources = {file: file.read_text("utf-8") for file in (ROOT / "examples").rglob("*.py")}
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        sources[page] = "\n".join(dedent(block) for block in blocks)
    found = [
        f"{file.relative_to(ROOT)}: {name}"
        for file, source in sources.items()
        for name in re.findall(r"^\s*(?:from|import) (graphopt[\w.]*)", source, re.MULTILINE)
        if not any(f"{name}.".startswith(f"{module}.") for module in public)
    ]
    assert not found, "\n" + "\n".join(found)


# Imports each module named on its standard input in a process of its own. The packages that all of
# them use are imported once, before the forks.
IMPORT_EACH = """
import importlib, os, sys, traceback
import jax, numpy, xdsl.dialects.builtin, xdsl.pattern_rewriter
for module in sys.stdin.read().split():
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            print(module)
    else:
        try:
            importlib.import_module(module)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_every_module_imports_alone() -> None:
    """Each module can be the first import of a process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT_EACH],
        input="\n".join(modules()),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stdout, f"cannot be imported first: {done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "modules", ["graphopt, graphopt.ir, graphopt.passes", "graphopt.cli.opt, graphopt.cli.universe"]
)
def test_jax_is_not_imported_early(modules: str) -> None:
    """`import graphopt` and the command-line tool start without importing JAX."""
    code = f"import sys, {modules}; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False", f"importing {modules} imports jax"


HELP = """
import io, sys
from contextlib import redirect_stdout, suppress
from graphopt.cli.opt import main

sys.argv[1:] = ["--help"]
with suppress(SystemExit), redirect_stdout(io.StringIO()) as shown:
    main()
assert "simplify" in shown.getvalue()
print(*sys.modules)
"""


def test_help_imports_no_pass() -> None:
    """graphopt-opt lists passes and arguments without any pass, dialect, xDSL or NumPy."""
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    imported = done.stdout.split()
    assert "graphopt.passes.table.order" in imported
    passes = [name for name in imported if name.startswith("graphopt.passes.")]
    assert not [name for name in passes if not name.startswith("graphopt.passes.table")]
    assert not {"xdsl", "numpy", "jax", "graphopt.ir"} & set(imported)


@pytest.mark.parametrize("stage", STAGES)
def test_root_link_points_into_the_package(stage: str) -> None:
    """The four stages are links at the root, which survive moving the checkout."""
    link = ROOT / stage
    if not (ROOT / ".git").exists() and not link.is_symlink():
        pytest.skip("an unpacked sdist has no links")
    assert link.is_symlink(), f"{stage} is no symbolic link; make one: ln -s graphopt/{stage} ."
    assert os.readlink(link) == f"graphopt/{stage}"
    assert link.is_dir(), f"{stage} points nowhere"


TEXT_SUFFIXES = {"", ".cfg", ".md", ".mlir", ".py", ".sh", ".toml", ".txt", ".yaml"}
OWN_DOT_NAMES = {".ci", ".github", ".gitignore", ".pre-commit-config.yaml"}
# each begins with a letter that it has, by which a search is quick
FOREIGN = re.compile(r"/(?<![\w.]/)(?:tmp|work|root|farm|home|Users)/|pypi\.\w|pythonhosted\.")


def text_files() -> Iterator[Path]:
    """Yield the text files of the checkout: no links, no environments, no generated files."""
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
    """No file depends on the machine that it was written on."""
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for file in text_files()
        if FOREIGN.search(text := file.read_text("utf-8"))
        for number, line in enumerate(text.splitlines(), start=1)
        if FOREIGN.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


# -- what is caught --------------------------------------------------------------------------------

CATCH_ALL = {
    "lowering.host call_or_instead": "the run raises it when the step has ended",
    "runtime.compile.kernel_probes KernelProbes._measure": "on a thread of its own, by call_aside",
    "runtime.compile.kernel_trial main": "a process of its own",
    "runtime.disk.entries _read": "on a thread of its own, by call_aside",
    "runtime.state.aside aside": "raised when the call has ended",
    "runtime.state.aside aside.run": "a thread of its own",
    "runtime.steps.forms Forms.work": "the thread of the background",
}
"""The functions on the way of a run that keep any exception to themselves, and the reason."""


def catching_all(tree: ast.AST, name: str = "") -> Iterator[str]:
    """Yield the functions that catch any exception, and neither raise it nor check if it repeats.

    A handler of a signal, or another thread, may raise it between any two instructions.
    """
    for node in ast.iter_child_nodes(tree):
        is_named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        inner = f"{name}.{node.name}".strip(".") if is_named else name
        if isinstance(node, ast.ExceptHandler):
            caught = {"Exception"} if node.type is None else names_in(node.type)
            raises = isinstance(node.body[-1], ast.Raise) or "comes_again" in names_in(node)
            if not caught.isdisjoint({"Exception", "BaseException"}) and not raises:
                yield inner
        yield from catching_all(node, inner)


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_what_interrupts_a_run_is_not_caught() -> None:
    """Interrupts are caught only where the table gives a reason."""
    rooms = ("ir", "passes", "lowering", "reference", "runtime", "frontend.calls")
    found = {
        f"{name.removeprefix('graphopt.')} {function}"
        for name, file in modules().items()
        if name.removeprefix("graphopt.").startswith(rooms)
        and "except" in (source := file.read_text("utf-8"))
        for function in catching_all(ast.parse(source))
    }
    assert found == set(CATCH_ALL)
