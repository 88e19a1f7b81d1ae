"""Text models on several places, with the numbers of Paddle 1.8.5."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import FeedError
from graphopt.fluid import layers
from graphopt_tests.frontend.programs import fresh

# after one step of SGD with a rate of 0.1
LOSSES = [0.713026762008667, 1.034633755683899]
SCORES = [
    [0.41824063658714294, 0.5817593336105347],
    [0.4255574643611908, 0.5744425058364868],
    [0.19154533743858337, 0.8084546327590942],
    [0.3407396078109741, 0.6592603325843811],
]
WEIGHT = [
    [0.07657686620950699, 0.023423148319125175],
    [0.2836333215236664, 0.21636667847633362],
    [0.49068978428840637, 0.4093102216720581],
]
WORD_4 = [1.1979788541793823, 1.2979787588119507, 1.3979787826538086]
UNEVEN = [0.7999999523162842, 5.5]
UNEVEN_WEIGHT = [-2.799999952316284, -3.049999952316284]


def starting(name: str, *shape: int) -> Any:
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape) / 10
    return fluid.ParamAttr(name=name, initializer=fluid.initializer.NumpyArrayInitializer(values))


def value(name: str) -> list[Any]:
    return np.array(fluid.global_scope().find_var(name).get_tensor()).tolist()


def parallel(loss: Any, rate: float, **options: Any) -> Any:
    """Run the startup program; return the executor and the program on two places."""
    fluid.optimizer.SGD(rate).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program())
    places = [fluid.CPUPlace()] * 2
    return exe, program.with_data_parallel(loss_name=loss.name, places=places, **options)


@pytest.mark.exhaustive
def test_a_text_model_on_two_places() -> None:
    """Of four sentences, three words are on one place and four on the other."""
    words = fluid.create_lod_tensor(np.arange(1, 8).reshape(-1, 1), [[2, 1, 3, 1]])
    feed = {"x": words, "y": np.array([[0], [1], [0], [1]])}
    with fresh():
        x = fluid.data("x", [None, 1], "int64", lod_level=1)
        rows = layers.embedding(x, [10, 3], param_attr=starting("emb", 10, 3))
        pooled = layers.sequence_pool(rows, "sum")
        scores = layers.fc(pooled, 2, act="softmax", param_attr=starting("w", 3, 2))
        y = fluid.data("y", [None, 1], "int64")
        loss = layers.mean(layers.cross_entropy(scores, y))
        exe, program = parallel(loss, 0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            losses, found = exe.run(program, feed=feed, fetch_list=[loss, scores])
        np.testing.assert_allclose(losses, LOSSES, rtol=1e-5)
        np.testing.assert_allclose(found, SCORES, rtol=1e-5)
        np.testing.assert_allclose(value("w"), WEIGHT, rtol=1e-4)
        np.testing.assert_allclose(value("emb")[4], WORD_4, rtol=1e-5)


def test_feeds_with_different_rows_are_warned_about_once() -> None:
    """Seven rows of one feed and three of another are split 4 + 3 and 2 + 1."""
    feed = {
        "x": np.arange(14, dtype="float32").reshape(7, 2),
        "i": np.array([1, 3, 5], "float32"),
    }
    with fresh():
        x, i = fluid.data("x", [None, 2]), fluid.data("i", [None])
        out = layers.fc(x, 1, param_attr=starting("w", 2, 1), bias_attr=False)
        loss = layers.mean(out) * layers.mean(i)
        exe, program = parallel(loss, 0.1)
        with pytest.warns(UserWarning, match=r"different numbers of rows \(x 7, i 3\)"):
            (losses,) = exe.run(program, feed=feed, fetch_list=[loss])
        np.testing.assert_allclose(losses, UNEVEN, rtol=1e-5)
        np.testing.assert_allclose(np.ravel(value("w")), UNEVEN_WEIGHT, rtol=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exe.run(program, feed=feed, fetch_list=[loss])
        main = fluid.CompiledProgram(fluid.default_main_program())
        weighted = main.with_data_parallel(
            loss.name, places=[fluid.CPUPlace()] * 2, sample_weighted=True
        )
        with pytest.raises(FeedError, match="but the feeds have different numbers of rows"):
            exe.run(weighted, feed=feed, fetch_list=[loss])
