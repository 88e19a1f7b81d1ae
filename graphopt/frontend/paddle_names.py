"""`import paddle` as graphopt: an importer for one process, and hints for missing names.

A module `paddle.x` is the same object as `graphopt.x`, so that no class exists twice.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from graphopt.frontend.absent import Absent, AbsentModule
from graphopt.frontend.finders import own_name, same_module
from graphopt.frontend.missing import missing_module, paddle_modules, words
from graphopt.frontend.version import now_fluid, version_hint

_ROOT = __name__.partition(".")[0]


class PaddleFinder(MetaPathFinder):
    """Resolves `paddle` and its modules to graphopt's modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the spec of a module of `paddle`; None for other modules.

        A module that graphopt is known to lack can be imported, also as `graphopt.…`, and raises at
        each call. Other missing modules raise ModuleNotFoundError. A module of Paddle for which
        graphopt has no file has the names of its package.
        """
        top, _, rest = fullname.partition(".")
        if top == _ROOT and missing_module(f"paddle.{rest}"):
            return ModuleSpec(fullname, _Absent(words(f"paddle.{rest}") or ""), is_package=True)
        if top != "paddle":
            return None
        if fullname == "paddle.fluid":
            now_fluid()
        try:
            return same_module(fullname)
        except ModuleNotFoundError:
            package, _, last = fullname.rpartition(".")
            above = sys.modules.get(package)
            known = isinstance(above, AbsentModule) or last in paddle_modules().get(package, ())
            namesake = getattr(above, last, None)
            # a module would replace the function of that name
            if not known or (callable(namesake) and not isinstance(namesake, Absent)):
                raise
            text = f"graphopt has no module {fullname}. Instead: the names of {package}"
            return ModuleSpec(fullname, _Absent(text, above), is_package=True)


class _Absent(Loader):
    """Creates a placeholder for a module that graphopt lacks."""

    def __init__(self, words: str, package: ModuleType | None = None) -> None:
        self.words = words
        self.package = package

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name, self.words, self.package)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: `create_module` has built the module."""


def forget() -> None:
    """Remove every `paddle` module, and the placeholders of missing ones, from `sys.modules`."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, AbsentModule):
            # the import system has set it as an attribute of its parent in graphopt
            parent, _, last = name.rpartition(".")
            vars(sys.modules.get(own_name(parent), module)).pop(last, None)
        elif name.partition(".")[0] != "paddle":
            continue
        del sys.modules[name]


def hint(error: BaseException) -> str | None:
    """Compose advice for an error about a missing name or a release; None for other errors."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        module, name = error.obj.__name__, error.name
    elif isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        found = re.match(r"cannot import name '(\w+)'", str(error))
        module, name = error.name, found.group(1) if found else ""
    else:
        return version_hint(error)
    if not module or module.partition(".")[0] != _ROOT:
        return None
    full = f"paddle{module.removeprefix(_ROOT)}.{name}".rstrip(".")
    return words(full) or f"graphopt has no {full}"
