"""The reference interpreter on the cases recorded from Paddle, instead of the lowering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from graphopt.conformance.cases import Corpus
from graphopt.conformance.check import check
from graphopt.ir.dialect.signature import signature_of
from graphopt.lowering import replication
from graphopt.reference import evaluate, is_random, supports

CASES = Path(__file__).parents[1] / "conformance" / "cases"


class Interpreted:
    """Evaluates modules by the interpreter if it has a rule for each op; counts them."""

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise
        self.done: list[bool] = []

    def __call__(self, module: Any, inputs: Any, context: Any) -> Any:
        ops = [op for op in module.walk() if op.name.startswith("pd.")]
        able = all(supports(op) and not is_random(op) for op in ops) and context.lanes == 1
        self.done.append(able)
        if not able:
            return self.otherwise(module, inputs, context)
        names = [name for _, name in inputs]

        def compute(values: Any) -> Any:
            arrays = {n: np.asarray(v[0]) for n, v in zip(names, values, strict=True)}
            found = evaluate(module, arrays)
            ports = signature_of(module).results
            return [(np.asarray(found[f"{port.kind} {port.name}"]),) for port in ports]

        if context.by_op:  # arrays have values, and results any size
            return compute(list(inputs.values()))
        shapes = jax.eval_shape(lambda i: self.otherwise(module, i, context), inputs)
        return jax.pure_callback(compute, shapes, list(inputs.values()))


@pytest.mark.slow
def test_recorded_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter gives Paddle's numbers, gradients and trained parameters, too."""
    corpus = Corpus(CASES)
    interpreted = Interpreted(replication.evaluate)
    monkeypatch.setattr(replication, "evaluate", interpreted)
    chosen = corpus.cases[::20]
    compared, wrong = 0, list[str]()
    for case in chosen:
        if case["section"] == "data-parallel":
            continue
        interpreted.done.clear()
        complaints = check(corpus, case).complaints
        if interpreted.done and all(interpreted.done):
            compared += 1
            wrong += [f"{case['id']}: {complaint}" for complaint in complaints]
    assert not wrong, "\n".join(wrong)
    assert compared > len(chosen) // 2
