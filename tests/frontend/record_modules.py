"""Records the modules of Paddle's releases in `graphopt/frontend/paddle_modules.txt`.

    python tests/frontend/record_modules.py FOLDER [FOLDER ...]

Each FOLDER is the installed package `paddle` of a release. Modules in packages of Paddle's own
machinery are not recorded, only the packages.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).parents[2] / "graphopt" / "frontend" / "paddle_modules.txt"
LEFT_OUT = ("tests", "libs", "include")
INNER = (
    *("auto_parallel", "auto_tuner", "cinn", "decomposition", "dy2static", "elastic", "launch"),
    *("meta_optimizers", "meta_parallel", "passes", "pir_dy2static", "prim", "ps", "rpc", "slim"),
    *("sot", "dygraph_to_static", "cost_model", "gast"),
)


def modules(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield the modules in a package and below it, each with its package."""
    for path in sorted(folder.iterdir()):
        if path.stem.startswith(("_", "test_")) or path.stem in LEFT_OUT:
            continue
        if path.suffix == ".py":
            yield name, path.stem
        elif (path / "__init__.py").exists():
            yield name, path.name
            if path.name not in INNER:
                yield from modules(path, f"{name}.{path.name}")


def main() -> None:
    """Write the file."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in sys.argv[1:]:
        for package, module in modules(Path(folder), "paddle"):
            found[package].add(module)
    lines = [f"{package}: {' '.join(sorted(found[package]))}" for package in sorted(found)]
    TARGET.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
