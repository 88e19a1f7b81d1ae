"""The version that scripts see, and the helpers of paddle.utils and paddle.framework."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import graphopt
from graphopt import fluid
from graphopt.frontend.script import run_script
from graphopt.utils import deprecated, require_version, run_check, try_import


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ("import paddle", "2.6.2"),
        ("import paddle, paddle.static as static", "2.6.2"),
        ("import paddle\nimport paddle.fluid as fluid", "1.8.5"),
        ("import paddle\nfrom paddle import fluid", "1.8.5"),
        ("import paddle\nimport theirs", "1.8.5"),
    ],
)
def test_scripts_see_the_version_of_their_names(
    head: str, wanted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that itself uses fluid sees 1.8's version from its first line on."""
    (tmp_path / "theirs.py").write_text("import paddle.fluid as fluid\n")
    body = """
    from paddle.version import full_version, major
    print(paddle.__version__, full_version, major)
    paddle.version.show()
    """
    path = tmp_path / "script.py"
    path.write_text(head + "\n" + textwrap.dedent(body))
    assert run_script(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{wanted} {wanted} {wanted[0]}"
    assert lines[1:4] == [f"full_version: {wanted}", f"major: {wanted[0]}", f"minor: {wanted[2]}"]
    assert graphopt.__version__ == graphopt.version.full_version == "0.2.0"


def test_a_script_sees_the_release_of_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script sees the release of the flag; without it, the error recommends the flag."""
    path = tmp_path / "script.py"
    path.write_text(
        "import paddle, paddle.fluid as fluid\n"
        "if paddle.version.major < '2':\n"
        "    raise Exception('PaddlePaddle version 2.0.0-rc0 or higher is required')\n"
        "fluid.require_version('2.0')\n"
        "print(paddle.__version__)\n"
    )
    assert run_script(path) == 1
    assert "FLAGS_graphopt_paddle_version=2.4.2" in capsys.readouterr().err
    monkeypatch.setenv("FLAGS_graphopt_paddle_version", "2.4.2")
    assert run_script(path) == 0
    assert capsys.readouterr().out == "2.4.2\n"
    monkeypatch.setenv("FLAGS_graphopt_paddle_version", "two")
    with pytest.raises(ValueError, match="should look like"):
        run_script(path)


def test_ranges_of_versions() -> None:
    require_version("2.0", "2.7")
    fluid.require_version("1.6.0")
    with pytest.raises(Exception, match=r"3\.0 or later is required, but these are .* 2\.6\.2"):
        require_version("3.0")
    with pytest.raises(Exception, match=r"from 2\.0 to 2\.1 is required, but .* 1\.8\.5"):
        fluid.require_version("2.0", "2.1")
    with pytest.raises(ValueError, match="should look like"):
        require_version("two")


def test_small_helpers() -> None:
    assert try_import("math").sqrt(4) == 2
    with pytest.raises(ImportError, match=r"`pip install no_such_package`"):
        try_import("no_such_package.part")
    with pytest.raises(ImportError, match=r"^mine$"):
        try_import("no_such_package", "mine")
    assert deprecated(update_to="paddle.abs", since="2.0.0")(len) is len


def test_run_check(capsys: pytest.CaptureFixture[str]) -> None:
    run_check()
    assert capsys.readouterr().out.startswith("graphopt works well on ")


def test_framework() -> None:
    framework = graphopt.framework
    assert framework.ParamAttr is graphopt.ParamAttr
    assert framework.Program is graphopt.static.Program
    assert framework.get_default_dtype() == "float32"
    assert not framework.in_dynamic_mode()
