"""The environment of every test: the JAX platform, hypothesis profiles, a name for this folder.

JAX reads its settings when it is first imported, so this file sets them before any test module:
the CPU, as four devices (`DEVICES`), and code that compiles quickly rather than well, which takes a
third of the time. `make test-slow` (which sets GRAPHOPT_OPTIMIZED_TESTS) and `make conformance` run
the code that users run.

Test modules share code (samples, comparisons) by importing it from `graphopt_tests`, which stands
for this folder: `from graphopt_tests.ops import activation` is `tests/ops/activation.py`. The
folder's own name is taken, because xDSL's wheel installs a top-level package called `tests`; and
the folder is not put on `sys.path`, where `ir` or `passes` inside it would shadow others. To get
every module of a folder, use `graphopt_tests.sample_modules`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import itertools
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, lru_cache
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

DEVICES = 4
TESTS = Path(__file__).parent
ROOT = TESTS.parent
# the JAX that tests are made fast for; with another they only run
PINNED = version("jaxlib").startswith("0.10.")

# Variables that say something to a test run. What else programs listen to is taken away, so that
# tests do the same wherever they are run, and so do the processes that they start.
SAID = (
    *("GRAPHOPT_CORPUS", "GRAPHOPT_OPTIMIZED_TESTS", "GRAPHOPT_UPDATE_PAGES"),
    *("GRAPHOPT_PADDLE_PYTHON", "GRAPHOPT_TEST_PLATFORM"),
)
HEARD = re.compile(
    r"(FLAGS|GRAPHOPT|JAX|PADDLE|XLA|ONEDNN|DNNL)_\w+|CPU_NUM|XDG_CACHE_HOME"
    r"|COLUMNS|LINES|(NO|FORCE)_COLOR|PYTHON(OPTIMIZE|WARNINGS|DONTWRITEBYTECODE)"
    r"|OMP_NUM_THREADS|(PJRT_)?NPROC"
)


def set_environment() -> None:
    """Remove variables that would change a run, and set JAX to the CPU with several devices."""
    for name in list(os.environ):
        if HEARD.fullmatch(name) and name not in SAID:
            del os.environ[name]
    flags = {"--xla_force_host_platform_device_count": str(DEVICES)}
    if not os.environ.get("GRAPHOPT_OPTIMIZED_TESTS"):
        flags |= {
            "--xla_backend_optimization_level": "0",
            "--xla_llvm_disable_expensive_passes": "true",
            "--xla_cpu_parallel_codegen_split_count": "1",
        }
        # half of the time that is left; later versions end when they see a flag they do not know
        if PINNED:
            flags["--xla_cpu_use_fusion_emitters"] = "false"
    os.environ["XLA_FLAGS"] = " ".join(f"{flag}={value}" for flag, value in flags.items())
    # `make test-gpu` runs some of them elsewhere
    os.environ["JAX_PLATFORMS"] = os.environ.get("GRAPHOPT_TEST_PLATFORM", "cpu")
    if "GRAPHOPT_TEST_PLATFORM" in os.environ:  # numbers are compared with those of CPUs
        os.environ["FLAGS_graphopt_tf32"] = "0"
    # nothing is kept between processes, so no program needs a key
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def name_this_folder(name: str) -> None:
    """Make `import <name>.x` import the module `x` of this folder."""
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(TESTS)]
    sys.modules[name] = importlib.util.module_from_spec(spec)


assert "jax" not in sys.modules, "JAX was imported before its settings: see tests/conftest.py"
set_environment()
# and bytecode is kept: without it each process that a test starts compiles the package again
sys.dont_write_bytecode = False

# passes are checked one by one, and a wrong one is named
os.environ["GRAPHOPT_VERIFY_EACH"] = "1"
# and those that fail on purpose leave no file
os.environ["GRAPHOPT_CRASH_DIR"] = ""
# one form of each program; tests of the other one ask for it
os.environ["FLAGS_graphopt_tier"] = "full"
# and its numbers are those of XLA, however long it runs; on a GPU those of its kernels
os.environ["FLAGS_graphopt_kernels"] = "on" if "GRAPHOPT_TEST_PLATFORM" in os.environ else "off"
# nothing is kept in the cache directory of whoever runs the tests
os.environ["FLAGS_graphopt_cache_dir"] = ""

# Modules and collected tests stay until the end, so the collector does not look at them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()
    if PINNED and "jax" in sys.modules:
        share_contexts()


def share_contexts() -> None:
    """Let JAX lower 50 programs in each MLIR context: a context takes longer than most programs."""
    from jax._src.interpreters import mlir

    make, programs = mlir.make_ir_context, itertools.count()
    kept = lru_cache(maxsize=1)(lambda _: make())
    mlir.make_ir_context = lambda: kept(next(programs) // 50)


pytest.register_assert_rewrite("graphopt_tests")
name_this_folder("graphopt_tests")


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Import a test module once, even if another one imports it from `graphopt_tests`.

    pytest knows it under another name. An import error is ignored here: pytest raises it again and
    reports it.
    """
    parts = module_path.relative_to(ROOT).with_suffix("").parts
    with suppress(Exception, pytest.skip.Exception):
        module = importlib.import_module(".".join(("graphopt_tests", *parts[1:])))
        sys.modules[".".join(parts)] = module


# what makes the cases of a module more than those of `make test`, beside the mark `exhaustive`
MORE_BY = {"hypothesis.core", "graphopt_tests.example_counts"}
if "GRAPHOPT_CORPUS" in os.environ:
    MORE_BY.add("graphopt_tests.model_files")


def imports_from(name: str) -> set[str]:
    """Collect the modules that define what a module has imported."""
    values = vars(sys.modules[name]).values()
    return {m for m in (getattr(v, "__module__", None) for v in values) if isinstance(m, str)}


@cache
def has_more(name: str) -> bool:
    """Return whether a module, or one that it imports, counts its cases by the profile."""
    found = imports_from(name)
    for other in {n for n in found if n.startswith("graphopt_tests.") and n in sys.modules}:
        found |= imports_from(other)
    return not MORE_BY.isdisjoint(found)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but each n-th quick case under `every(n)`, and tests that have more cases."""
    numbers = Counter[str]()
    for item in items:
        every = item.get_closest_marker("every")
        if every and not any(item.get_closest_marker(name) for name in ("exhaustive", "slow")):
            function = item.nodeid.partition("[")[0]
            if numbers[function] % every.args[0]:
                item.add_marker(pytest.mark.exhaustive)
            numbers[function] += 1
        module = item.module if isinstance(item, pytest.Function) else None
        if module and has_more(module.__name__):
            item.add_marker(pytest.mark.more)


# `ci` and `all` (make test-all) try the same examples every time; `search` looks for new ones:
# HYPOTHESIS_PROFILE=search make test
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=8)
settings.register_profile("all", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("search", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
# Hypothesis would parse all of the package for constants to try, six seconds in each process, and
# try those of the modules that happen to be imported by then: other examples in each process.
providers._get_local_constants = lambda: providers._local_constants


def at_the_root() -> set[str]:
    """List the names at the root of the checkout, without those that begin with a dot."""
    return {name for name in os.listdir(ROOT) if not name.startswith(".")}


THERE = at_the_root()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fail a test that leaves a file at the root, which is the working directory of most tests."""
    yield
    left = at_the_root() - THERE
    THERE.update(left)
    assert not left, f"{', '.join(sorted(left))} is left in {ROOT}: write into tmp_path"


@pytest.fixture(autouse=True)
def numbers_of_its_own() -> None:
    """Seed each test alike, so that it fails always or never, whatever ran before it."""
    from graphopt.runtime.state.generator import default_generator

    default_generator().manual_seed(0).seeded = False
    np.random.seed(0)
    random.seed(0)


@pytest.fixture(autouse=True)
def flags_as_before() -> Iterator[None]:
    """Restore the flags that a test sets, so that no later test depends on them."""
    from graphopt.runtime.settings import flags

    before = dict(flags._set)
    yield
    flags._set.clear()
    flags._set.update(before)
    flags._checks.clear()


@pytest.fixture
def fresh_state() -> Iterator[None]:
    """Give a test its own programs, scope and unique names."""
    from graphopt_tests.frontend.programs import fresh

    with fresh():
        yield


@pytest.fixture
def sixty_four_bits() -> Iterator[None]:
    """Trace and run rules with 64-bit types, as programs do."""
    import jax

    with jax.enable_x64(True):
        yield
