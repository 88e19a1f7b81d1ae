"""Places: the devices of a program, by argument, CPU_NUM and flags."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import device, fluid, static
from graphopt.errors import DeviceError, UnsupportedError
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.devices import places as places_module
from graphopt.runtime.devices.places import as_place, device_of, distinct_devices
from graphopt_tests.runtime.nets import Net, close, fc_mean, rows

FEED = rows(0, 1, 2, 3)


def parallel(net: Net, places: Any = None) -> CompiledProgram:
    return CompiledProgram(net.main).with_data_parallel(net.loss.name, places=places)


def test_set_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors without a place run on the device that was set."""
    monkeypatch.setattr(places_module, "_chosen", [])
    assert paddle.set_device("cpu") == static.Executor().place == paddle.CPUPlace()
    monkeypatch.setattr(places_module, "supports", lambda platform: platform == "gpu")
    paddle.set_device("gpu:3")
    assert (paddle.get_device(), static.Executor().place) == ("gpu:3", paddle.CUDAPlace(3))
    assert static.Executor(paddle.CPUPlace()).place == paddle.CPUPlace()


@pytest.mark.parametrize(
    "call",
    [
        lambda: paddle.set_device("gpu"),
        lambda: static.Executor(paddle.CUDAPlace(0)),
        lambda: static.Executor("gpu:1"),
    ],
)
def test_a_device_that_jax_was_not_installed_for(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], object]
) -> None:
    """Naming such a device is an error at once, which says what to install."""
    monkeypatch.setattr(places_module, "supports", lambda platform: False)
    monkeypatch.setattr(places_module, "_DRIVER", Path("/no/driver"))
    with pytest.raises(
        DeviceError, match=r"pip install -U 'graphopt\[cuda13\]' \('graphopt\[cuda12"
    ):
        call()


@pytest.mark.parametrize(("driver", "extra"), [("580.65.06", "cuda13"), ("550.54.15", "cuda12")])
def test_the_backend_for_a_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, driver: str, extra: str
) -> None:
    """The extra is for the newest CUDA of the driver, and is one of the package's."""
    version = tmp_path / "version"
    version.write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Sun Jul\nGCC 13\n"
    )
    monkeypatch.setattr(places_module, "supports", lambda platform: False)
    monkeypatch.setattr(places_module, "_DRIVER", version)
    with pytest.raises(DeviceError, match=rf"'graphopt\[{extra}\]' \(the driver is {driver[:3]}\)"):
        static.Executor(paddle.CUDAPlace(0))
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (needed,) = project["optional-dependencies"][extra]
    assert needed.startswith(f"jax[{extra}]")
    assert needed.partition("]")[2] in "".join(project["dependencies"])


def test_cpu_num(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU_NUM is read at a program's first run, if no places are given."""
    monkeypatch.setenv("CPU_NUM", "2")
    net = fc_mean(train=False)
    program = parallel(net)
    close(net.run(FEED, net.loss, program)[0], [1.0, 5.0])
    monkeypatch.setenv("CPU_NUM", "4")
    close(net.run(FEED, net.loss, program)[0], [1.0, 5.0])
    close(net.run(FEED, net.loss, parallel(net))[0], [0.0, 2.0, 4.0, 6.0])
    assert len(static.cpu_places()) == 4 and len(static.cpu_places(3)) == 3
    close(net.run(FEED, net.loss, parallel(net, static.cpu_places(2)))[0], [1.0, 5.0])


def test_cpu_num_is_not_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One device is used, with a notice on several cores, and the variable is set."""
    monkeypatch.delenv("CPU_NUM")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert len(static.cpu_places()) == 1
    assert os.environ["CPU_NUM"] == "1"
    assert "CPU_NUM is not set" in capsys.readouterr().err
    static.cpu_places()
    assert capsys.readouterr().err == ""


def test_cpu_num_that_is_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable."""
    net = fc_mean()
    monkeypatch.setenv("CPU_NUM", "0")
    with pytest.raises(ValueError, match=r"CPU_NUM should be a number .* found '0'"):
        net.run(FEED, net.loss, parallel(net))
    monkeypatch.setenv("CPU_NUM", "two")
    with pytest.raises(ValueError, match=r"CPU_NUM .* 'two'"):
        static.cpu_places()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: static.cpu_places(-1), "must be 1 or more, found -1"),
        (lambda: static.cpu_places(0), "must be 1 or more, found 0"),
        (lambda: static.cpu_places("2"), "must be an int, found str"),
        (lambda: static.cuda_places([-1]), "must be 0 or more, found -1"),
        (lambda: paddle.CUDAPlace("x"), "must be an int, found str"),
    ],
)
def test_numbers_of_places(call: Callable[[], object], text: str) -> None:
    """Fewer than one place, and negative devices, are refused on creation."""
    with pytest.raises((ValueError, TypeError), match=text):
        call()


def test_more_places_than_devices() -> None:
    """Replicas then share a device, with the same results."""
    net = fc_mean(train=False)
    program = net.parallel(6)
    (loss,) = net.run(rows(*range(6)), net.loss, program)
    close(loss, [0, 2, 4, 6, 8, 10])
    assert program.stats.items() >= {"runs": 1, "mapper": "vmap", "devices": 6}.items()


def test_one_place_and_strings() -> None:
    """A single place, or its name, is a list of one."""
    net = fc_mean(train=False)
    for places in (paddle.CPUPlace(), "cpu", ["cpu", "cpu:0"]):
        count = len(places) if isinstance(places, list) else 1
        assert len(net.run(FEED, net.loss, parallel(net, places))[0]) == count
    assert as_place("GPU:2") == paddle.CUDAPlace(2) and as_place("tpu") == paddle.TPUPlace(0)
    for wrong in ("moon", "cpu:x", 3, None):
        with pytest.raises(TypeError, match="expected a place"):
            as_place(wrong)


def test_places_must_fit_the_executor() -> None:
    """No places, or places of another kind than the executor's, are refused."""
    net = fc_mean()
    with pytest.raises(ValueError, match="No places for execution"):
        parallel(net, [])
    with pytest.raises(ValueError, match="Place type not match"):
        net.run(FEED, net.loss, parallel(net, [paddle.CUDAPlace(0)] * 2))


def test_devices_that_do_not_exist() -> None:
    """The error names the place and suggests another one."""
    with pytest.raises(UnsupportedError, match=r"Place\(xpu:0\) does not exist here"):
        device_of(paddle.XPUPlace(0))


def test_distinct_devices() -> None:
    """CPU places are numbered by position; the result is None if there are too few devices."""
    found = distinct_devices(static.cpu_places(2))
    assert found is not None and len(set(found)) == 2
    assert distinct_devices(static.cpu_places(99)) is None


def test_cuda_places_follow_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places come from FLAGS_selected_gpus, else from JAX."""
    monkeypatch.setenv("FLAGS_selected_gpus", "1,3")
    assert static.cuda_places() == [paddle.CUDAPlace(1), paddle.CUDAPlace(3)]
    assert static.cuda_places([0]) == [paddle.CUDAPlace(0)]


SCRIPT = """
import graphopt as paddle
from graphopt import static
import jax
x = static.data("x", [None, 1], "float32")
y = paddle.mean(x)
program = static.CompiledProgram(static.default_main_program()).with_data_parallel()
found = static.Executor(paddle.CPUPlace()).run(program, {"x": [[1], [2], [3]]}, [y])
print(found[0].tolist(), program.stats["mapper"], len(jax.devices()))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("flags", ["", "--xla_force_host_platform_device_count=1"])
def test_cpu_num_makes_devices(flags: str) -> None:
    """Before JAX starts, CPU_NUM splits the host into devices, unless XLA_FLAGS does."""
    environment = {**os.environ, "CPU_NUM": "3", "XLA_FLAGS": flags}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    wanted = "vmap 1" if flags else "shard_map 3"
    assert done.stdout.strip() == f"[1.0, 2.0, 3.0] {wanted}"


@pytest.mark.parametrize(
    ("environment", "plugins", "place"),
    [
        ("", "", paddle.CPUPlace()),
        ("cpu", "gpu", paddle.CPUPlace()),
        ("cuda,cpu", "", paddle.CUDAPlace(0)),
        ("tpu", "", as_place("tpu")),
        ("", "gpu", paddle.CUDAPlace(5)),  # as JAX says
        ("another", "", paddle.CUDAPlace(5)),
    ],
)
def test_likely_place(
    environment: str, plugins: str, place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAX is queried only if it could have other devices than the environment says."""
    monkeypatch.setenv("JAX_PLATFORMS", environment)
    monkeypatch.setattr(places_module, "_chosen", [])
    monkeypatch.setattr(places_module, "supports", lambda platform: platform == plugins)
    monkeypatch.setattr(places_module, "default_place", lambda: paddle.CUDAPlace(5))
    assert places_module.likely_place() == place


def test_explain_before_a_run_is_about_all_places() -> None:
    """The report of a data-parallel program has the passes of its run, with collectives."""
    net = fc_mean()
    program = net.parallel(2)
    found = paddle.explain(program, fetch_list=[net.loss])
    net.run(FEED, net.loss, program)
    (ran,) = program.explanations()
    assert found.applied("all-reduce-gradients") == ran.applied("all-reduce-gradients") > 0
    assert [p["pass"] for p in found.to_json()["passes"]] == [
        p["pass"] for p in ran.to_json()["passes"]
    ]


def test_a_gpu_that_is_not_there_may_be_the_best_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the flag, a missing GPU becomes the best device, with a warning."""
    monkeypatch.setattr(places_module, "devices_of", lambda platform: ())
    monkeypatch.setenv("FLAGS_graphopt_cuda_place", "best")
    with pytest.warns(UserWarning, match=r"Place\(gpu:1\) does not exist here; Place\(cpu:0\)"):
        assert as_place(paddle.CUDAPlace(1)) == paddle.CPUPlace()
    with pytest.warns(UserWarning, match="FLAGS_graphopt_cuda_place=best"):
        assert static.cuda_places() == [paddle.CPUPlace()]
    with pytest.warns(UserWarning, match="does not exist here"):
        assert static.Executor(paddle.CUDAPlace(0)).place == paddle.CPUPlace()
    monkeypatch.setattr(
        places_module, "devices_of", lambda platform: ["a tpu"][platform != "tpu" :]
    )
    with pytest.warns(UserWarning, match=r"Place\(tpu:0\) is used instead"):
        assert as_place("gpu:0") == paddle.TPUPlace(0)
    monkeypatch.setattr(places_module, "devices_of", lambda platform: ["a device"])
    assert as_place("gpu:0") == paddle.CUDAPlace(0)
    monkeypatch.setenv("FLAGS_graphopt_cuda_place", "any")
    with pytest.raises(ValueError, match="should be strict or best, found 'any'"):
        as_place("gpu:0")


def test_scripts_that_ask_for_cuda_get_it_where_the_best_device_replaces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "_supports_cuda", lambda: False)
    monkeypatch.setattr(places_module, "devices_of", lambda platform: ())
    assert not paddle.is_compiled_with_cuda()
    monkeypatch.setenv("FLAGS_graphopt_cuda_place", "best")
    assert paddle.is_compiled_with_cuda() and fluid.core.is_compiled_with_cuda()
    with pytest.warns(UserWarning, match="does not exist here"):
        assert fluid.core.get_cuda_device_count() == 1


def test_startup_on_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy draws the same numbers, and steps move them to the device."""
    cpu = device_of(paddle.CPUPlace())
    there = cpu.client.local_devices()[1]
    monkeypatch.setattr(places_module, "supports", lambda platform: True)
    monkeypatch.setattr(
        places_module, "devices_of", lambda platform: (there if platform == "gpu" else cpu,)
    )
    monkeypatch.setenv("FLAGS_graphopt_tier", "auto")
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [2, 3], "float32")
        hidden = static.nn.fc(x, 4, name="layer")
        paddle.optimizer.SGD(0.0).minimize(paddle.mean(hidden))
        values: list[Any] = []
        for place in (paddle.CPUPlace(), paddle.CUDAPlace(0)):
            with static.scope_guard(static.Scope()):
                paddle.seed(3)
                exe = static.Executor(place)
                exe.run(static.default_startup_program())
                assert [words.partition(":")[0] for words in exe.stats["tiers"]] == ["host"]
                exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[hidden])
                weight = static.global_scope().find_var("layer.w_0")
                assert weight is not None
                values.append(np.asarray(weight.value))
    assert weight.value.devices() == {there}
    np.testing.assert_array_equal(*values)
