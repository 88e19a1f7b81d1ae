"""The modules that `import graphopt` loads, and names that are loaded on first use."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import graphopt
from graphopt.frontend import lazy

STUB = Path(graphopt.__file__).with_suffix(".pyi")
NAMES = lazy.names_in(STUB, "graphopt")

pytestmark = pytest.mark.smoke


def output_of(code: str) -> str:
    """Run code in a fresh Python, and return its output."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_graphopt_loads_nothing_else() -> None:
    """The import loads no front end, no IR, and none of their libraries."""
    show = "print(*sorted(n for n in sys.modules if n.partition('.')[0] in names))"
    code = f"import sys, graphopt; names = ('graphopt', 'jax', 'xdsl', 'numpy'); {show}"
    assert (
        output_of(code)
        == "graphopt graphopt.frontend graphopt.frontend.finders graphopt.frontend.lazy"
    )


def test_every_name_is_what_the_stub_says() -> None:
    """Every name of the stub is an attribute, and in `dir` and `*`."""
    assert len(NAMES) > 300
    for name, source in NAMES.items():
        found = getattr(graphopt, name)
        plain = found if isinstance(found, ModuleType) else getattr(found, "_plain", found)
        assert plain is lazy.load(source), name
    assert set(NAMES) <= set(dir(graphopt))
    space: dict[str, object] = {}
    exec("from graphopt import *", space)
    assert set(graphopt.__all__) <= set(space)


def test_no_file_of_functions_has_the_name_of_a_function() -> None:
    """Otherwise `from graphopt.tensor import x` would give the function until the file loads."""
    files = {file.stem for file in (STUB.parent / "tensor").glob("*.py")}
    assert not files & set(dir(graphopt.tensor)) - set(vars(graphopt.tensor))


def test_forms_in_place_can_be_had_first() -> None:
    assert output_of("import graphopt; print(graphopt.abs_.__qualname__)") == "abs_"


def test_aliases_and_modules() -> None:
    """An assignment in the stub is another name of one object; packages are modules."""
    assert graphopt.Tensor is graphopt.static.Variable
    assert graphopt.bool == "bool"
    assert NAMES["nn"] == ("graphopt.nn", "")
    assert pickle.loads(pickle.dumps(graphopt.ParamAttr)) is graphopt.ParamAttr


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The message begins as Python's; refused names exist to explain themselves."""
    with pytest.raises(AttributeError, match="module 'graphopt' has no attribute 'reluu'"):
        _ = graphopt.reluu
    with pytest.raises(NotImplementedError, match="dynamic mode"):
        graphopt.grad()


@pytest.mark.parametrize(
    "package",
    ["static", "tensor.math"]
    + [
        pytest.param(name, marks=pytest.mark.exhaustive) for name in ("fluid", "nn", "models.model")
    ],
)
def test_any_package_first(package: str) -> None:
    """Variables and programs have their methods, whichever package is imported first."""
    code = (
        f"import graphopt.{package}; from graphopt.ir.program import Program, Variable; "
        "print(Variable.__add__, Variable.abs, Program.state_dict, Variable.__matmul__)"
    )
    assert output_of(code).count("<function") == 4
