"""What every test runs under: the JAX platform, hypothesis profiles, a name for this folder.

JAX reads its settings when it is first imported, so they are set here, before any test module:
the CPU, as four devices (`DEVICES`), and code that is compiled quickly rather than well, which
takes less than half the time. What XLA_FLAGS already says is left: `make test-slow` and
`make conformance` run the code that users run.

Test modules share code (samples, comparisons) by importing it from `graphopt_tests`, which stands
for this folder: `from graphopt_tests.ops import activation` is `tests/ops/activation.py`. The
folder's own name is taken, because xDSL's wheel installs a top-level package called `tests`; and
the folder is not put on `sys.path`, where `ir` or `passes` inside it would shadow others. To get
every module of a folder, use `graphopt_tests.sample_modules`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from hypothesis import settings

DEVICES = 4
TESTS = Path(__file__).parent


def set_jax_environment() -> None:
    """Ask for the CPU with several devices, as far as the environment leaves that open."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    flags = os.environ.get("XLA_FLAGS", "").split()
    given = {flag.partition("=")[0] for flag in flags}
    wanted = {
        "--xla_force_host_platform_device_count": DEVICES,
        "--xla_backend_optimization_level": 0,
        "--xla_llvm_disable_expensive_passes": "true",
    }
    flags += [f"{flag}={value}" for flag, value in wanted.items() if flag not in given]
    os.environ["XLA_FLAGS"] = " ".join(flags)


def name_this_folder(name: str) -> None:
    """Make `import <name>.x` mean the module `x` of this folder."""
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(TESTS)]
    sys.modules[name] = importlib.util.module_from_spec(spec)


assert "jax" not in sys.modules, "JAX was imported before its settings: see tests/conftest.py"
set_jax_environment()

# passes are checked one by one, and a wrong one is named
os.environ.setdefault("GRAPHOPT_VERIFY_EACH", "1")
# and those that fail on purpose leave no file
os.environ["GRAPHOPT_CRASH_DIR"] = ""
# nothing is kept in the cache directory of whoever runs the tests
os.environ["FLAGS_graphopt_cache_dir"] = ""

pytest.register_assert_rewrite("graphopt_tests")
name_this_folder("graphopt_tests")

# `ci` tries the same examples every time; `search` looks for new ones:
# HYPOTHESIS_PROFILE=search make test
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("search", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
