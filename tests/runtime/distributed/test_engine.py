"""The rank of a process and the address of the first one, from the variables of its engine."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jax._src.clusters import ClusterEnv
from jax._src.clusters.k8s_cluster import K8sCluster

import graphopt as paddle
from graphopt.errors import WorldError
from graphopt.runtime.distributed import engine
from graphopt.runtime.distributed.world import World, free_ports, world_of_environment

SLURM = {
    "SLURM_JOB_ID": "8193",
    "SLURM_STEP_NODELIST": "node[007,012-014],other2",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_NODES": "5",
    "SLURM_STEP_TASKS_PER_NODE": "2(x4)",
}
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
OPEN_MPI_5 = {
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-a-12@1",
    "JAX_COORDINATOR_PORT": "6171",
}
TORCHRUN = {
    "WORLD_SIZE": "4",
    "RANK": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
# as Kubeflow Trainer sets them in the pods of a TrainJob
OF_JAX = {
    "JAX_NUM_PROCESSES": "2",
    "JAX_PROCESS_ID": "1",
    "JAX_COORDINATOR_ADDRESS": "train-node-0-0.train:29500",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "JOB_COMPLETION_INDEX": "1",
}


@pytest.fixture(autouse=True)
def _ask_again(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in {**SLURM, **OPEN_MPI, **OPEN_MPI_5, **TORCHRUN, **OF_JAX}:
        monkeypatch.delenv(name, raising=False)
    engine.started_by.cache_clear()
    yield
    engine.started_by.cache_clear()


def world(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> World | None:
    """Read the world of a process with these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return world_of_environment()


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        (SLURM, (5, 8, "node007:61441", 1)),
        (OF_JAX, (1, 2, "train-node-0-0.train:29500", None)),
        ({**SLURM, "JAX_COORDINATOR_PORT": "7000"}, (5, 8, "node007:7000", 1)),
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "1(x8)"}, (5, 8, "node007:61441", None)),
        ({**SLURM, "CUDA_VISIBLE_DEVICES": "3"}, (5, 8, "node007:61441", None)),
        (OPEN_MPI, (3, 4, "10.96.0.1:62624", 1)),
        (OPEN_MPI_5, (1, 2, "127.0.0.1:6171", 1)),
        (TORCHRUN, (2, 4, "node1:29501", 0)),
        ({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": ""}, (2, 4, "node1:29500", 0)),
    ],
)
def test_variables_of_engines(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: tuple[Any, ...]
) -> None:
    """They give rank, number of processes, address of the first, and the process's device."""
    found = world(monkeypatch, variables)
    assert found is not None
    assert (found.trainer, found.trainers, found.endpoints[0], found.device) == wanted


def test_all_have_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of one Slurm step share a token; another job has another one."""
    tokens: list[str] = []
    for changed in ({"SLURM_PROCID": "0"}, {"SLURM_PROCID": "7"}, {"SLURM_JOB_ID": "8194"}):
        engine.started_by.cache_clear()
        found = world(monkeypatch, {**SLURM, **changed})
        assert found is not None
        tokens.append(found.token)
    assert tokens[0] == tokens[1] != tokens[2]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {**SLURM, "SLURM_NTASKS": "1", "SLURM_PROCID": "0"},
        # a shell of salloc or sbatch, outside of a step
        {name: value for name, value in SLURM.items() if "STEP" not in name},
        {**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0"},
        {**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"},
        # any pod of Kubernetes has this one
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1"},
        {**SLURM, "PADDLE_TRAINERS_NUM": "1"},
    ],
)
def test_alone(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """A single process of an engine, or one that declares itself alone, has no world."""
    assert world(monkeypatch, variables) is None


def test_variables_of_paddle_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the user or the launcher win over an engine's."""
    own = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "1", "PADDLE_MASTER": "a:1"}
    found = world(monkeypatch, {**SLURM, **TORCHRUN, **own})
    assert found is not None
    assert (found.trainer, found.trainers, found.endpoints) == (1, 2, ("a:1",))


JOB = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "3"}


def forbid() -> bool:
    """Raise the error of a pod that may not read the API."""
    raise RuntimeError("Kubernetes API Error: 403 - Forbidden")


def test_a_jobset(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX's detection of Kubernetes is used, replaced here; pods own their devices."""
    told = {
        "is_env_present": lambda: True,
        "get_process_count": lambda: 16,
        "get_process_id": lambda: 3,
        "get_local_process_id": lambda: None,
        "get_coordinator_address": lambda **_: "train-workers-0-0.train:55527",
    }
    for name, answer in told.items():
        monkeypatch.setattr(K8sCluster, name, staticmethod(answer))
    found = world(monkeypatch, JOB)
    assert found is not None
    assert (found.trainer, found.trainers, found.device) == (3, 16, None)
    assert found.meeting_place == ("train-workers-0-0.train", 55527)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        (JOB, "cannot determine the process number under Kubernetes: .*403.*TRAINERS_NUM=1"),
        ({**OPEN_MPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "does not give the address"),
        ({**TORCHRUN, "RANK": "4"}, "the trainer id is 4, but this is a job of 4 trainers"),
        ({**TORCHRUN, "WORLD_SIZE": "four"}, "WORLD_SIZE is 'four'"),
        ({**OF_JAX, "JAX_PROCESS_ID": "2"}, "the trainer id is 2, but this is a job of 2"),
        ({**OF_JAX, "JAX_COORDINATOR_ADDRESS": "train"}, "'train' is not an endpoint"),
        ({**SLURM, "SLURM_PROCID": "first"}, "process number under Slurm: .*'first'"),
    ],
)
def test_refused(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], told: str) -> None:
    """An engine with missing or invalid variables is named, with the variables to set."""
    monkeypatch.setattr(K8sCluster, "is_env_present", staticmethod(forbid))
    with pytest.raises(WorldError, match=told):
        world(monkeypatch, variables)


def test_another_release_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release of JAX may lack its detection of engines, which is not public."""
    monkeypatch.delattr(ClusterEnv, "auto_detect_unset_distributed_params")
    with pytest.raises(WorldError, match="process number under Slurm: AttributeError"):
        world(monkeypatch, SLURM)


SCRIPT = """
import sys
import numpy as np
import graphopt as paddle
from graphopt import static

paddle.enable_static()
x = static.data("x", [None, 96], "float32")
paddle.seed(7)
out = x
for _ in range(12):
    out = out + paddle.tanh(paddle.nn.Linear(96, 96)(out))
loss = paddle.mean(paddle.square(out))
paddle.optimizer.Momentum(0.01).minimize(loss)
strategy = static.BuildStrategy()
strategy.shard_parameters = True
env, devices = paddle.distributed.ParallelEnv(), int(sys.argv[2])
paddle.distributed.init_parallel_env()
exe = static.Executor(paddle.CPUPlace())
exe.run(static.default_startup_program())
program = static.CompiledProgram(static.default_main_program()).with_data_parallel(
    loss.name, strategy, places=[paddle.CPUPlace()] * devices
)
rows = np.random.default_rng(0).normal(size=(8, 96)).astype("float32")
share = 8 // env.nranks
for _ in range(2):
    exe.run(program, {"x": rows[env.rank * share :][:share]}, [loss])
text = str(program._compiled_programs()[0].module)
assert "again = true" in text and "pd.layers" in text
scope = static.global_scope()
np.savez(f"{sys.argv[1]}/{env.nranks}-{env.rank}.npz", **{
    v.name: np.array(scope.find_var(v.name).get_tensor())
    for v in static.default_main_program().list_vars() if v.persistable and scope.find_var(v.name)
})
if len(sys.argv) > 3 and env.rank == 1:
    raise ValueError("on purpose")
exe.run(program, {"x": rows[env.rank * share :][:share]}, [loss])
print(f"trainer {env.rank} of {env.nranks} is done")
"""


# where `python` is the one that runs the tests
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
# the first words of a line that starts a script -> the arguments before it, on this machine
STARTS = {
    "mpirun": "mpirun --allow-run-as-root --oversubscribe -n 2 python",
    "srun": "srun -n 2 --overcommit python",
    "python -m graphopt.launch": "python -m graphopt.launch --nproc 2 --devices-per-proc 2",
}


# a controller and a node on this machine, for one user and without munge
SLURM_CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/node
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


def idle_nodes() -> bool:
    """True when a Slurm runs that has idle nodes."""
    told = subprocess.run(["sinfo", "-h", "-t", "idle"], capture_output=True, check=False)
    return told.returncode == 0 and bool(told.stdout)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the machine's Slurm, or start one for this test if it is installed (slurm-wlm)."""
    search = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    daemons = [shutil.which(name, path=search) for name in ("slurmctld", "slurmd")]
    if shutil.which("srun") is None:
        pytest.skip("needs Slurm (slurm-wlm)")
    if idle_nodes():
        yield
        return
    folder = tmp_path / "slurm"
    (folder / "node").mkdir(parents=True)
    config, host = folder / "slurm.conf", socket.gethostname().partition(".")[0]
    ports, user = free_ports("127.0.0.1", 2), getpass.getuser()
    config.write_text(SLURM_CONF.format(host=host, ports=ports, user=user, folder=folder))
    monkeypatch.setenv("SLURM_CONF", str(config))
    started = [subprocess.Popen([name, "-D"]) for name in daemons if name is not None]
    try:
        limit = time.monotonic() + 60.0
        while not idle_nodes():
            assert time.monotonic() < limit, (folder / "slurmctld.log").read_text()
            time.sleep(0.5)
        yield
    finally:
        for process in reversed(started):  # the node reports to the controller at its end
            process.terminate()
            process.wait(60)


@pytest.fixture(params=STARTS)
def start(request: pytest.FixtureRequest) -> str:
    """Choose the starter of two processes; skip if the engine is not installed."""
    if request.param == "srun":
        request.getfixturevalue("slurm")
    elif shutil.which(request.param.partition(" ")[0], path=PATH) is None:
        pytest.skip("needs Open MPI (openmpi-bin)")
    return request.param


@pytest.mark.slow
def test_two_processes(start: str, tmp_path: Path) -> None:
    """Two processes of two devices each train as one with four, with sharded parameters.

    Both name a failing one in one line, and all end.
    """
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    root = str(Path(engine.__file__).parents[3])

    def run(line: str, devices: int, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*line.split(), str(script), str(tmp_path), str(devices), *more],
            capture_output=True,
            text=True,
            timeout=300,
            env={
                **os.environ,
                "PATH": PATH,
                "PYTHONPATH": root,
                "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            },
        )

    done = run(STARTS[start], 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trainer 1 of 2 is done" in done.stdout
    assert run("python", 4).returncode == 0
    wanted = np.load(tmp_path / "1-0.npz")
    for rank in range(2):
        found = np.load(tmp_path / f"2-{rank}.npz")
        for name in wanted.files:
            np.testing.assert_allclose(found[name], wanted[name], 1e-5, 1e-6, err_msg=name)
    failed = run(STARTS[start], 2, "fail")
    assert failed.returncode != 0
    assert "stops: trainer 1" in failed.stdout + failed.stderr
    assert "failed: ValueError: on purpose" in failed.stdout + failed.stderr


GUIDE = Path(engine.__file__).parents[3] / "docs" / "how-to" / "train-on-many-machines.md"


@pytest.mark.slow
def test_lines_of_the_guide(start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's script, started by the guide's lines, trains the same weights.

    Variables hold the particulars of this machine: two tasks of Slurm on one processor, root.
    """
    text = GUIDE.read_text("utf-8")
    script = re.search(r"^```python\n(# train\.py\n.*?)^```$", text, re.MULTILINE | re.DOTALL)
    line = re.search(rf"^{start} .*train\.py", text, re.MULTILINE)
    assert script is not None and line is not None
    (tmp_path / "train.py").write_text(script[1], "utf-8")
    own = {
        "PATH": PATH,
        "PYTHONPATH": str(GUIDE.parents[2]),
        "CPU_NUM": "1",
        "SLURM_NTASKS": "2",
        "SLURM_OVERCOMMIT": "1",
        "SLURM_MPI_TYPE": "none",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)

    def run(command: str) -> str:
        done = subprocess.run(
            shlex.split(command), cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    saved = tmp_path / "checkpoint" / "model.pdparams"
    assert "trainer 1 of 2: loss " in run(line[0])
    together = saved.read_bytes()
    assert "trainer 0 of 1: loss " in run("python train.py")
    alone = paddle.load(str(saved))
    saved.write_bytes(together)
    for name, values in paddle.load(str(saved)).items():
        np.testing.assert_allclose(values, alone[name], 1e-4, 1e-5, err_msg=name)
