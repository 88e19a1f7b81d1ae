"""Records the public names of releases of Paddle in `graphopt/frontend/public_names.txt`.

    python tests/frontend/record_public_names.py PYTHON [PYTHON ...]

Each PYTHON is an interpreter that has one release installed. Public are the names in a module's
`__all__`, the modules that have one and the packages above them, the plain modules of MORE, and the
members of the classes of CLASSES.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = Path(__file__).parents[2] / "graphopt" / "frontend" / "public_names.txt"
# modules without `__all__` whose names scripts use
MORE = (
    *("paddle", "paddle.version", "paddle.fluid", "paddle.fluid.layer_helper"),
    "paddle.fluid.layers.utils",
)
# classes whose members are public, under the name that they have in 2.x
CLASSES = {
    "paddle.Tensor": ("paddle.Tensor", "paddle.static.Variable", "paddle.fluid.framework.Variable"),
    "paddle.static.Program": ("paddle.static.Program", "paddle.fluid.framework.Program"),
    "paddle.nn.Layer": ("paddle.nn.Layer",),
    "paddle.optimizer.Optimizer": (
        *("paddle.optimizer.Optimizer", "paddle.fluid.optimizer.Optimizer"),
    ),
    "paddle.static.Executor": ("paddle.static.Executor", "paddle.fluid.executor.Executor"),
}
# modules of Paddle's own machinery
INNER = (
    *("proto", "tests", "libs", "cinn", "sot", "dy2static", "pir_dy2static", "cost_model"),
    *("decomposition", "auto_tuner", "meta_optimizers", "meta_parallel", "ps", "passes"),
)


def modules(root: ModuleType) -> dict[str, ModuleType]:
    """Import a package and all of its modules that can be imported."""
    found: dict[str, ModuleType] = {}
    todo = [root]
    while todo:
        module = todo.pop()
        found[module.__name__] = module
        for info in pkgutil.iter_modules(getattr(module, "__path__", []), module.__name__ + "."):
            last = info.name.rpartition(".")[2]
            if last in INNER or last.startswith("_"):
                continue
            try:
                todo.append(importlib.import_module(info.name))
            except (Exception, SystemExit):  # it needs another package
                continue
    return found


def is_own(value: Any) -> bool:
    """Return whether a value is Paddle's own, and not a module."""
    owner = getattr(value, "__module__", None) or ""
    return owner.partition(".")[0] == "paddle" and not inspect.ismodule(value)


def names_of_this_release() -> dict[str, list[str]]:
    """Collect the public names of the installed Paddle, by module or class."""
    import paddle

    found: dict[str, set[str]] = defaultdict(set)
    for space, module in modules(paddle).items():
        names = list(getattr(module, "__all__", None) or ())
        if space in MORE:
            names += [name for name, value in vars(module).items() if is_own(value)]
        public = {
            name for name in names if name.isidentifier() and not name.startswith(("_", "monkey_"))
        }
        if public:
            found[space] |= public
            while "." in space:
                space, _, last = space.rpartition(".")
                found[space].add(last)
    for space, places in CLASSES.items():
        for place in places:
            module, _, name = place.rpartition(".")
            try:
                owner = getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                continue
            found[space] |= {member for member in dir(owner) if not member.startswith("_")}
    return {space: sorted(names) for space, names in found.items()}


def merged(releases: dict[str, dict[str, list[str]]]) -> list[str]:
    """Write the lines of the file: for each set of releases, modules and the names they share."""
    having: dict[tuple[str, str], list[str]] = defaultdict(list)
    for release, spaces in releases.items():
        for space, names in spaces.items():
            for name in names:
                having[space, name].append(release)
    sections: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (space, name), own in sorted(having.items()):
        sections[" ".join(own)][space].append(name)
    lines = []
    for section, spaces in sorted(sections.items()):
        lines.append(f"[{section}]")
        lines += [f"{space}: {' '.join(names)}" for space, names in spaces.items()]
    return lines


def main() -> None:
    """Run each interpreter, and write the file."""
    warnings.simplefilter("ignore")
    releases: dict[str, dict[str, list[str]]] = {}
    for python in sys.argv[1:]:
        done = subprocess.run(
            [python, __file__], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
        release, names = json.loads(done.stdout.splitlines()[-1])
        releases[release] = names
    if releases:
        TARGET.write_text("\n".join(merged(dict(sorted(releases.items())))) + "\n", "utf-8")
    else:
        names = names_of_this_release()
        import paddle

        print(json.dumps([paddle.__version__, names]))


if __name__ == "__main__":
    main()
