"""Saved training programs after export and reload: by JAX alone, and as Paddle's files again.

Each gives the losses and the state that Paddle recorded; most of them are slow tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import export

import graphopt as paddle
from graphopt import static
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.runtime.nets import strategy
from graphopt_tests.runtime.training_models import (
    Recorded,
    Saved,
    check_outputs,
    check_state,
    load,
    run,
    training_cases,
)

FUSIONS = [name for name in BuildStrategy.all_settings() if name.startswith(("fuse_", "fused_"))]
QUICK = ("train_mlp_sgd", "train_mlp_sgd/pir")
# the losses of one were recorded for each of two devices
CASES = {name: saved for name, saved in training_cases().items() if "train_dp" not in name}
EVERY_CASE = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES]
)


def imported(saved: Saved, recorded: Recorded) -> paddle.ImportedModel:
    """Import the program, with the state at the start of the recorded run."""
    main = saved.artifact["main"] if saved.artifact else "main.program"
    with static.scope_guard(static.Scope()):
        return paddle.import_model(saved.case / main, recorded.before)


def names_of(about: dict[str, Any], where: str, role: str) -> list[str]:
    """List the arguments or results of a role, in order."""
    return [entry["name"] for entry in about[where] if entry["role"] == role]


@pytest.mark.every(3)
@EVERY_CASE
@pytest.mark.parametrize("fused", [False, True])
def test_step_by_jax_alone(name: str, tmp_path: Path, *, fused: bool) -> None:
    """State and inputs give new state and outputs, plain and with every fusion."""
    pytest.importorskip("flatbuffers")
    recorded = load(CASES[name])
    model, path = imported(CASES[name], recorded), tmp_path / "step.jaxexport"
    flags = strategy(**dict.fromkeys(FUSIONS, True)) if fused else None
    sizes = {n: a.shape for n, a in recorded.feeds[0].items() if n in model.feed_names}
    model.export(path, build_strategy=flags, sizes=sizes, platforms=("cpu",))

    about = json.loads(path.with_name(f"{path.name}.json").read_text())
    step = export.deserialize(bytearray(path.read_bytes()))
    read, inputs = (names_of(about, "arguments", role) for role in ("state", "input"))
    written, outputs = (names_of(about, "results", role) for role in ("state", "output"))
    state = dict(recorded.before)
    found: list[list[Any]] = []
    for number, feed in enumerate(recorded.feeds):
        if recorded.rates is not None:
            rate = np.full_like(state["learning_rate_0"], recorded.rates[number])
            state["learning_rate_0"] = rate
        keys = [np.array([0, number], np.uint32)] * len(names_of(about, "arguments", "key"))
        with jax.enable_x64(True):
            arrays = [*(state[n] for n in read), *(feed[n] for n in inputs), *keys]
            results = list(map(np.asarray, step.call(*arrays)))
        state.update(zip(written, results, strict=False))
        found.append([results[len(written) + outputs.index(recorded.loss)]])
    recorded.outputs = [each[:1] for each in recorded.outputs]
    check_outputs(recorded, found)
    check_state(recorded, state)


@EVERY_CASE
def test_saved_again(name: str, tmp_path: Path) -> None:
    """An imported program that `static.save` writes is imported and trains as before."""
    recorded = load(CASES[name])
    with static.scope_guard(static.Scope()):
        model = imported(CASES[name], recorded)
        for variable, array in model.parameters.items():
            static.global_scope().var(variable).get_tensor().set(array)
        static.save(model.program, str(tmp_path / "again"))
        recorded.main = paddle.import_model(tmp_path / "again").program
    found, state = run(recorded)
    check_outputs(recorded, found)
    check_state(recorded, state)
