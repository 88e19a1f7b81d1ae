"""Module finders: names of other releases, and advice about modules that graphopt lacks."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_ROOT = __name__.partition(".")[0]
# Module names of other releases and their names here. A file whose functions are in several files
# here maps to their package.
_RENAMED = {
    "base": "fluid",
    "core": "fluid.core",
    "distributed.transpiler": "fluid.transpiler",
    "fluid.annotations": "utils",
    "fluid.core_avx": "fluid.core",
    "fluid.core_noavx": "fluid.core",
    "fluid.layer_helper_base": "fluid.layer_helper",
    "framework.core": "fluid.core",
    "framework.io": "framework",
    "jit.api": "jit",
    "metric.metrics": "metric",
    "nn.functional.extension": "nn.functional",
    **{
        f"nn.initializer.{kind}": "nn.initializer"
        for kind in (
            *("assign", "constant", "dirac", "initializer", "kaiming"),
            *("normal", "orthogonal", "uniform", "xavier"),
        )
    },
    **dict.fromkeys(
        [f"nn.layer.{kind}" for kind in ("distance", "loss", "pooling", "vision")], "nn.layer"
    ),
    "static.nn.loss": "static.nn",
    "static.nn.metric": "static",
    "tensor.ops": "tensor",
    "utils.unique_name": "fluid.unique_name",
    "vision.transforms.transforms": "vision.transforms",
}


def own_name(name: str) -> str:
    """Map a module name of Paddle, or Paddle's name below `graphopt`, to the module's name here."""
    inner = name.partition(".")[2]
    first = inner
    while first and first not in _RENAMED:
        first = first.rpartition(".")[0]
    inner = _RENAMED.get(first, "") + inner.removeprefix(first)
    return f"{_ROOT}.{inner}".rstrip(".")


class RenamedModules(MetaPathFinder):
    """The first module finder: maps names of other releases to modules named differently here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the spec of a renamed module under its name here; None for other modules."""
        if fullname.partition(".")[0] != _ROOT or own_name(fullname) == fullname:
            return None
        return same_module(fullname)


class MissingNames(MetaPathFinder):
    """The last module finder: explains imports of names that graphopt lacks."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        """Raise ImportError for a public name of Paddle; return None for other names."""
        if not fullname.startswith(f"{_ROOT}.") or fullname.rpartition(".")[2].startswith("_"):
            return
        from graphopt.frontend.missing import words

        name = fullname.replace(_ROOT, "paddle", 1)
        text = words(name)
        if text is not None:
            # under another name, the import system would replace the message
            raise ModuleNotFoundError(text, name=name)


def explain_imports() -> None:
    """Install the two finders before and after the others, once."""
    if not any(isinstance(finder, MissingNames) for finder in sys.meta_path):
        sys.meta_path.insert(0, RenamedModules())
        sys.meta_path.append(MissingNames())


def same_module(name: str) -> ModuleSpec:
    """Build the spec of a graphopt module under another name, or raise ModuleNotFoundError."""
    own = own_name(name)
    try:
        found = importlib.util.find_spec(own)
    except (ModuleNotFoundError, ValueError):
        found = None
    if found is None:
        from graphopt.frontend.missing import words

        text = words(name) or f"graphopt has no module {name}"
        raise ModuleNotFoundError(text, name=name)
    is_package = found.submodule_search_locations is not None
    return ModuleSpec(name, _SameModule(own), is_package=is_package)


class _SameModule(Loader):
    """Loads an alias as the graphopt module itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # the import system has replaced the module's spec
        module.__spec__ = self.spec
