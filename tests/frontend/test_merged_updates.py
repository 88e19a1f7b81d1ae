"""Operators that update several parameters at once equal one operator per parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh, run

DRAW = np.random.RandomState(0)
SHAPES = [(2, 3), (4,)]


def values(state: list[str]) -> dict[str, list[Any]]:
    """Draw parameters, gradients and state of an optimizer, by slot."""
    drawn = {
        slot: [DRAW.rand(*shape).astype("float32") for shape in SHAPES]
        for slot in ["Param", "Grad", *state]
    }
    for slot in drawn:
        if slot.endswith("Pow"):
            drawn[slot] = [np.array([0.9], "float32"), np.array([0.5], "float32")]
    return drawn


def stepped(type: str, given: dict[str, list[Any]], attrs: Any, rates: int = 1) -> list[Any]:
    """Return parameters and state after one step, by one operator or by one per parameter."""
    merged = type.startswith("merged_")
    with fresh():
        feed: dict[str, Any] = {}
        slots: dict[str, list[Any]] = {}
        given = given | {"LearningRate": [np.array([0.1], "float32")] * rates}
        for slot, arrays in given.items():
            feed |= {f"{slot}{i}": array for i, array in enumerate(arrays)}
            slots[slot] = [
                static.data(f"{slot}{i}", array.shape, "float32") for i, array in enumerate(arrays)
            ]
        block = static.default_main_program().global_block()
        made = {
            f"{slot}Out": [block.create_var(f"{slot}{i}.out", dtype="float32") for i in range(2)]
            for slot in given
            if slot not in ("Grad", "LearningRate")
        }
        if merged:
            block.append_op(type, slots, made, attrs({}))
        for i in range(0 if merged else 2):
            own = {slot: [found[min(i, len(found) - 1)]] for slot, found in slots.items()}
            outs = {slot: [found[i]] for slot, found in made.items()}
            block.append_op(type, own, outs, attrs({"i": i}))
        return run([value for found in made.values() for value in found], **feed)


def momentum(which: dict[str, int]) -> dict[str, Any]:
    method, coefficient = ["l2_decay", ""], [0.3, 0.0]
    own = which.get("i")
    return {
        "mu": 0.9,
        "use_nesterov": True,
        "regularization_method": method if own is None else method[own],
        "regularization_coeff": coefficient if own is None else coefficient[own],
    }


def adam(which: dict[str, int]) -> dict[str, Any]:
    return {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-6}


@pytest.mark.parametrize("rates", [1, 2])
@pytest.mark.parametrize(
    ("type", "attrs", "state"),
    [
        ("momentum", momentum, ["Velocity"]),
        ("adam", adam, ["Moment1", "Moment2", "Beta1Pow", "Beta2Pow"]),
    ],
)
def test_merged(type: str, attrs: Any, state: list[str], rates: int) -> None:
    given = values(state)
    one_by_one = stepped(type, given, attrs, rates)
    for got, wanted in zip(stepped(f"merged_{type}", given, attrs, rates), one_by_one, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_without_penalties() -> None:
    """Empty lists mean no regularization."""

    def bare(which: dict[str, int]) -> dict[str, Any]:
        none = {"regularization_method": [], "regularization_coeff": []}
        return {"mu": 0.9, **({} if which else none)}

    given = values(["Velocity"])
    merged = stepped("merged_momentum", given, bare)
    for got, wanted in zip(merged, stepped("momentum", given, bare), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_slots_of_different_lengths_are_refused() -> None:
    given = values(["Velocity"])
    given["Grad"].append(given["Grad"][0])
    with pytest.raises(ProgramError, match="2 parameters and 3 variables in the slot 'Grad'"):
        stepped("merged_momentum", given, momentum)
