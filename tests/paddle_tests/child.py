"""One file of Paddle's tests, run by unittest; writes each outcome at once as a line of JSON.

python -m graphopt run tests/paddle_tests/child.py FILE LOG MEMORY

It may take MEMORY GiB, and runs at low priority.
"""

from __future__ import annotations

import builtins
import collections
import collections.abc
import importlib
import importlib.util
import json
import os
import resource
import sys
import time
import traceback
import unittest
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

HERE = Path(__file__).parent


class Logged(unittest.TestResult):
    """Writes each outcome at once, so that a crash keeps the earlier ones."""

    def __init__(self, log: Any) -> None:
        super().__init__()
        self.log = log

    def say(self, test: Any, outcome: str, error: Any = None) -> None:
        """Write one line."""
        text = "".join(traceback.format_exception(*error)) if error else ""
        row = {"case": test.id(), "outcome": outcome, "seconds": time.time() - self.began}
        self.log.write(json.dumps({**row, "error": text[-4000:]}) + "\n")
        self.log.flush()

    def startTest(self, test: Any) -> None:
        self.began = time.time()
        super().startTest(test)
        self.say(test, "started")

    def addSuccess(self, test: Any) -> None:
        self.say(test, "pass")

    def addFailure(self, test: Any, err: Any) -> None:
        self.say(test, "fail", err)

    def addError(self, test: Any, err: Any) -> None:
        self.say(test, "error", err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.say(test, "skip")


def module_of(path: Path, name: str) -> Any:
    """Load a file as a module."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def older_python() -> ModuleType:
    """Build a stand-in for the package six, with the names that the tests use."""
    module, moves = ModuleType("six"), ModuleType("six.moves")
    moves.__dict__.update(range=range, xrange=range, zip=zip, reduce=reduce, filter=filter, map=map)
    moves.__dict__.update(builtins=builtins, reload_module=importlib.reload)
    module.__dict__.update(
        iteritems=lambda mapping: iter(mapping.items()),
        string_types=(str,),
        integer_types=(int,),
        text_type=str,
        PY2=False,
        PY3=True,
        b=str.encode,
        moves=moves,
    )
    sys.modules.setdefault("six.moves", moves)
    sys.modules.setdefault("six.moves.builtins", builtins)
    return module


def prepare() -> None:
    """Add the names of NumPy 1 and of older Pythons that the tests use, and the package six.

    Also add single operators, which graphopt itself does without.
    """
    for name, kind in (("bool", bool), ("int", int), ("float", float), ("object", object)):
        if name not in vars(np):
            setattr(np, name, kind)
    vars(np).setdefault("product", np.prod)
    vars(np).setdefault("alltrue", np.all)
    reshape = np.reshape
    np.reshape = lambda a, *shape, newshape=None, **more: reshape(
        a, *(shape if newshape is None else (newshape,)), **more
    )
    for name in ("Callable", "Iterable", "Mapping", "Sequence"):
        if name not in vars(collections):
            setattr(collections, name, getattr(collections.abc, name))
    sys.modules.setdefault("six", older_python())
    sys.path.insert(0, str(HERE))
    importlib.import_module("single_operators").offer()


def main(file: Path, log: Path) -> None:
    """Load the file with `base.py` as its `op_test`, and run its cases."""
    sys.path[:0] = [str(file.parent), str(file.parent.parent)]
    with log.open("w", encoding="utf-8") as out:
        try:
            prepare()
            sys.modules["op_test"] = module_of(HERE / "base.py", "op_test")
            tests = module_of(file, file.stem)
            suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
        except BaseException:
            row = {"case": file.stem, "outcome": "import", "error": traceback.format_exc()[-4000:]}
            out.write(json.dumps(row) + "\n")
            return
        suite.run(Logged(out))


def limit(memory: int) -> None:
    """Limit the memory of this process, in GiB, and lower its priority."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory << 30, memory << 30))
    os.nice(10)


if __name__ == "__main__":
    limit(int(sys.argv[3]))
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # threads that a test has left do not matter
