"""Saved models with branches, loops and recurrent layers can train: derivatives and a step.

The derivative is compared with differences of the loss along it; also for models of a corpus.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.formats import LoadedModel
from graphopt.ir.program import Variable
from graphopt_tests.runtime.test_models import CASES, load, put_parameters, recorded

MODELS = (
    "fluid18_while_array",
    "infer_crnn_ctc",
    "infer_loop_if",
    "infer_lstm_classifier",
    "infer_static_case_nested",
    "infer_static_cond",
    "infer_static_while_array",
    "infer_tdnn_speech",
)


def trainable(model: LoadedModel) -> list[Variable]:
    """List the parameters, without the program's own state, such as moving statistics."""
    block = model.program.global_block()
    changed = {name for op in block.ops for name in op.output_arg_names}
    names = [n for n, array in model.parameters.items() if array.dtype.kind == "f"]
    return [block.var(n) for n in names if n not in changed and block.has_var(n)]


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_and_a_step(name: str) -> None:
    """A step against the derivative lowers the loss by the predicted amount."""
    if name not in CASES:
        pytest.skip(f"{name} is in the corpus only")
    model = load(CASES[name])
    feeds, _ = recorded(CASES[name])[0]
    with static.scope_guard(static.Scope()):
        put_parameters(model)
        block = model.program.global_block()
        with static.program_guard(model.program, static.Program()):
            outputs = [block.var(fetched) for fetched in model.fetch_names]
            means = [paddle.mean(x * x) for x in outputs if x.dtype == "float32"]
            loss = sum(means[1:], start=means[0])
            pairs = zip(trainable(model), static.gradients([loss], trainable(model)), strict=True)
            found: list[tuple[Variable, Any]] = [(p, g) for p, g in pairs if g is not None]
        executor = static.Executor(paddle.CPUPlace())
        given = {feed: feeds[feed] for feed in model.feed_names}
        before, *gradients = executor.run(
            model.program, given, [loss, *(gradient for _, gradient in found)]
        )
        assert len(gradients) >= 2
        slope = float(np.sqrt(sum(np.sum(np.square(g, dtype="float64")) for g in gradients)))

        def moved(step: float) -> float:
            """Compute the loss after a step of this length along the derivative."""
            for (parameter, _), gradient in zip(found, gradients, strict=True):
                new = model.parameters[parameter.name] + np.float32(step / slope) * gradient
                static.global_scope().var(parameter.name).get_tensor().set(new)
            return float(executor.run(model.program, given, [loss])[0])

        width = 2e-3
        differences = (moved(width) - moved(-width)) / (2 * width)
        np.testing.assert_allclose(slope, differences, rtol=2e-2, atol=1e-5)
        assert moved(-width) < before


def test_text_in_pictures_is_learnt() -> None:
    """A saved CRNN, whose parameters are plain variables, learns by CTC, Adam and a clip."""
    if "infer_crnn_ctc" not in CASES:
        pytest.skip("infer_crnn_ctc is in the corpus only")
    model = load(CASES["infer_crnn_ctc"])
    feeds, _ = recorded(CASES["infer_crnn_ctc"])[0]
    count, steps = len(feeds["x"]), 15
    startup = static.Program()
    with static.scope_guard(static.Scope()):
        with static.program_guard(model.program, startup):
            found = model.program.global_block().var(model.fetch_names[0])
            label = static.data("label", [count, 3], "int32")
            ends = [static.data(name, [count], "int64") for name in ("steps", "letters")]
            for parameter in trainable(model):
                parameter.stop_gradient = False
            logits = paddle.transpose(found, [1, 0, 2])
            loss = paddle.nn.functional.ctc_loss(logits, label, *ends)
            clip = paddle.nn.ClipGradByGlobalNorm(10.0)
            adam = paddle.optimizer.Adam(0.01, parameters=trainable(model), grad_clip=clip)
            adam.minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        put_parameters(model)
        feed = {
            "x": feeds["x"],
            "label": np.tile(np.array([1, 2, 3], "int32"), (count, 1)),
            "steps": np.full(count, steps),
            "letters": np.full(count, 3),
        }
        losses = [float(executor.run(model.program, feed, [loss])[0]) for _ in range(8)]
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))
