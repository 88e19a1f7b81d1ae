"""Saved training programs: loading one with Paddle's record, and running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.ir.formats.model import read_any_program
from graphopt.ir.program import Program
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt_tests import model_files

Array = np.ndarray[Any, Any]


@dataclass
class Recorded:
    """A training program, its state at start and end, and each step's numbers."""

    main: Program
    startup: Program
    fetches: list[str]
    feeds: list[dict[str, Array]]
    outputs: list[list[Array]]
    rates: list[float] | None
    before: dict[str, Array]
    after: dict[str, Array]
    noise: dict[str, float]
    """How far Paddle's own result moves when the parameters are off by 1e-6."""

    @property
    def loss(self) -> str:
        """The name of the loss."""
        return self.fetches[0]

    def put(self, scope: static.Scope) -> None:
        """Set the state to its recorded values."""
        for name, array in self.before.items():
            scope.var(name).get_tensor().set(array)


class Saved(NamedTuple):
    """A folder with a training program, and its files in one format."""

    case: Path
    artifact: dict[str, Any] | None


def training_cases() -> dict[str, Saved]:
    """Collect every recorded training program; Paddle 3's names end in `/pir`."""
    found: dict[str, Saved] = {}
    for case in sorted(model_files.cases(), key=lambda case: case.name):
        about = model_files.meta(case)
        if about.get("kind") != "training":
            continue
        for artifact in about.get("artifacts", [None]):
            is_pir = artifact is not None and artifact["format"] == "pir"
            # of some cases we keep only the files of one release
            if artifact is None or (case / artifact["main"]).exists():
                found[f"{case.name}/pir" if is_pir else case.name] = Saved(case, artifact)
    return found


def load(saved: Saved) -> Recorded:
    """Load a recorded training program."""
    case, artifact = saved
    about = model_files.meta(case)
    if artifact is not None:
        main, startup = case / artifact["main"], case / artifact["startup"]
        names, folder = dict(map(_name, artifact["fetches"].items())), main.parent
    else:
        main, startup = case / "main.program", case / "startup.program"
        names, folder = {"loss": about["loss_var"]}, case
    steps = range(about["steps"] if "steps" in about else len(about["losses"]))
    outputs, inputs = arrays(case / "outputs.npz"), arrays(case / "inputs.npz")
    names = {"loss": names.pop("loss"), **names}
    keys = ["losses" if key == "loss" else key for key in names]
    unused = artifact.get("unused_state", ()) if artifact else ()
    after = arrays(folder / "state5.npz")
    return Recorded(
        read_any_program(main.read_bytes(), str(main)),
        read_any_program(startup.read_bytes(), str(startup)),
        list(names.values()),
        [feed_of(inputs, step) for step in steps],
        [[outputs[key][step] for key in keys] for step in steps],
        [float(outputs["lr"][step]) for step in steps] if about.get("lr_schedule") else None,
        arrays(folder / "state0.npz"),
        {name: array for name, array in after.items() if name not in unused},
        artifact.get("perturb_1e-6_params", {}) if artifact else {},
    )


def _name(entry: tuple[str, Any]) -> tuple[str, str]:
    """Return a fetch and its variable; unnamed values of PIR get the names of their import."""
    fetch, variable = entry
    if isinstance(variable, dict):
        variable = f"{variable['op'].partition('.')[2]}_{variable['value']}"
    return fetch, variable


def arrays(file: Path) -> dict[str, Array]:
    """Read the arrays of an npz file."""
    with np.load(file) as held:
        return {name: held[name] for name in held.files}


def feed_of(inputs: dict[str, Array], step: int) -> dict[str, Array]:
    """Select the inputs of one step."""
    prefix = f"s{step}/"
    return {n.removeprefix(prefix): a for n, a in inputs.items() if n.startswith(prefix)}


def run(
    recorded: Recorded,
    program: Program | CompiledProgram | None = None,
    *,
    fetches: Sequence[str] | None = None,
    start: bool = False,
) -> tuple[list[list[Array]], dict[str, Array]]:
    """Run each recorded step; return its fetches, and the state at the end.

    With `start` the startup program sets the state.
    """
    scope = static.Scope()
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(scope):
        if start:
            executor.run(recorded.startup)
        else:
            recorded.put(scope)
        found: list[list[Array]] = []
        for step, feed in enumerate(recorded.feeds):
            if recorded.rates is not None:
                like = recorded.before["learning_rate_0"]
                rate = np.full_like(like, recorded.rates[step])
                scope.var("learning_rate_0").get_tensor().set(rate)
            names = recorded.fetches if fetches is None else list(fetches)
            found.append(executor.run(program or recorded.main, feed=feed, fetch_list=names))
        state = {n: np.asarray(scope.var(n).get_tensor()) for n in recorded.after}
    return found, state


def check_outputs(recorded: Recorded, found: list[list[Array]]) -> None:
    """Raise AssertionError unless every step's fetches equal Paddle's."""
    for new, old in zip(found, recorded.outputs, strict=True):
        for one, other in zip(new, old, strict=True):
            np.testing.assert_allclose(
                np.ravel(one), np.ravel(other), rtol=1e-3, atol=1e-5 * (1 + np.abs(other).max())
            )


def check_state(recorded: Recorded, state: dict[str, Array]) -> None:
    """Raise AssertionError unless the final state equals Paddle's."""
    for name, old in recorded.after.items():
        largest = float(np.abs(old).max()) if old.size else 0.0
        noise = 30 * max((v for n, v in recorded.noise.items() if name.startswith(n)), default=0.0)
        np.testing.assert_allclose(
            state[name], old, rtol=1e-3, atol=1e-4 * largest + noise + 1e-6, err_msg=name
        )
