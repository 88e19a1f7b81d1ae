"""The packages that users install: the wheel holds graphopt/ alone, and equals the sdist's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterable, Mapping
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
STAGES = ("ir", "passes", "lowering", "runtime")


# building takes seconds
pytestmark = pytest.mark.exhaustive


def run_build(source: Path, out: Path, *options: str) -> Path:
    """Build `source` into `out` with the installed hatchling; return the wheel."""
    command = [sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(out)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, cwd=out.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from that sdist."""
    out = tmp_path_factory.mktemp("built") / "dist"
    out.mkdir()
    wheel = run_build(ROOT, out)
    (sdist,) = out.glob("*.tar.gz")
    return sdist, wheel


def contents(wheel: Path) -> Mapping[str, bytes]:
    """Read the files of a wheel by name."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    """The wheel has every module of graphopt/, typed, and no other top-level name."""
    files = contents(built[1])
    tops = {name.partition("/")[0] for name in files}
    (metadata,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops == {"graphopt", metadata}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "graphopt").rglob("*.py")}
    assert modules - set(files) == set()
    assert {"graphopt/py.typed", "graphopt/report/assets/page.js"} <= set(files)


def test_wheel_metadata(built: tuple[Path, Path]) -> None:
    """The command, the xDSL entry point, the extras and the license are declared."""
    facts = {name: data for name, data in contents(built[1]).items() if ".dist-info/" in name}
    files = {name.partition("/")[2]: data.decode() for name, data in facts.items()}
    entry_points = files["entry_points.txt"]
    assert "graphopt-opt = graphopt.cli.opt:main" in entry_points
    assert "[xdsl.universe]\ngraphopt = graphopt.cli.universe:UNIVERSE" in entry_points
    assert files["licenses/LICENSE"] == (ROOT / "LICENSE").read_text("utf-8")
    metadata = Parser().parsestr(files["METADATA"])
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"demo", "dev", "export", "testing"} <= set(metadata.get_all("Provides-Extra") or [])


def test_wheel_passes_check_wheel_contents(built: tuple[Path, Path]) -> None:
    """The checker of `make wheel` finds no problem."""
    command = [sys.executable, "-m", "check_wheel_contents", "--toplevel", "graphopt"]
    done = subprocess.run([*command, str(built[1])], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_sdist_is_a_complete_copy_of_the_sources(built: tuple[Path, Path]) -> None:
    """The sdist has the tests and their data; the root links are not packed as second copies."""
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert not {name for name in names if name.partition("/")[0] in STAGES}
    assert {
        "LICENSE",
        "Makefile",
        "README.md",
        "constraints.txt",
        "graphopt/py.typed",
        "pyproject.toml",
        "tests/conftest.py",
    } <= names


def test_what_is_committed_at_the_root_is_packed(built: tuple[Path, Path]) -> None:
    """Every committed file at the root is packed, so a stray file of a run shows."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    command = ["git", "ls-files"]
    listed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    committed = {name.partition("/")[0] for name in listed.splitlines()}
    with tarfile.open(built[0]) as archive:
        packed = {name.split("/")[1] for name in archive.getnames()}
    assert {name for name in committed - packed if not name.startswith(".")} == set(STAGES)


def test_wheel_from_the_checkout_is_the_wheel_from_the_sdist(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """The links at the root of the checkout do not change what is packed."""
    out = tmp_path / "dist"
    out.mkdir()
    assert contents(run_build(ROOT, out, "--wheel")) == contents(built[1])


def needed(requirements: Iterable[str]) -> Mapping[str, Distribution]:
    """Find the installed distributions that satisfy requirements, and in turn their own."""
    found = dict[str, Distribution]()
    waiting = list(requirements)
    while waiting:
        wanted = Requirement(waiting.pop())
        name = canonicalize_name(wanted.name)
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found[name] = distribution(name)
        assert found[name].version in wanted.specifier
        waiting += found[name].requires or ()
    return found


def make_environment(folder: Path, requirements: Iterable[str]) -> tuple[Path, Path]:
    """Make an environment with these requirements only; return its Python and its commands.

    Its packages are links to the packages of the tests' environment.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    places = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", places))
    for package in needed(requirements).values():
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            (packages / top).symlink_to(str(package.locate_file(top)))
    tools = Path(sysconfig.get_path("scripts", "venv", places))
    return tools / "python", tools


@pytest.mark.smoke
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_is_installed_and_used(built: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    """README's example runs outside the checkout, in an environment of the declared requirements.

    `make test-latest` runs this on the newest Python.
    """
    package = built[1] if kind == "wheel" else built[0]
    (metadata,) = (data for name, data in contents(built[1]).items() if name.endswith("/METADATA"))
    requirements = Parser().parsestr(metadata.decode()).get_all("Requires-Dist") or []
    if kind == "sdist":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        requirements += project["build-system"]["requires"]
    python, tools = make_environment(tmp_path / "venv", requirements)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, str(package)], check=True)
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    (program,) = (block for block in blocks if "import" in block)
    (tmp_path / "example.py").write_text(program)
    of_tests = ("FLAGS_", "GRAPHOPT_", "JAX_", "XLA_", "PYTHON")
    env = {name: value for name, value in os.environ.items() if not name.startswith(of_tests)}
    env["XDG_CACHE_HOME"] = str(tmp_path)
    for words in (
        [python, "example.py"],
        [tools / "graphopt", "--version"],
        [tools / "graphopt", "run", "example.py"],
        [tools / "graphopt-opt", "--help"],
    ):
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
