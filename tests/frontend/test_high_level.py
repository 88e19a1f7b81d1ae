"""`paddle.Model`, its callbacks and `paddle.flops`, against recordings of Paddle 2.6.2."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.high_level_cases import NAMES, Case

RECORDED = Path(__file__).parents[1] / "data" / "high_level.json"
QUICK = {"batch_size": 2, "verbose": 0, "shuffle": False}
Spec = static.InputSpec


pytestmark = pytest.mark.usefixtures("fresh_state")


@pytest.mark.parametrize(
    "name", [n if n == "line" else pytest.param(n, marks=pytest.mark.exhaustive) for n in NAMES]
)
def test_as_paddle(name: str) -> None:
    """Output, callback arguments, results and files are those of Paddle."""
    recorded = json.loads(RECORDED.read_text("utf-8"))[name]
    found = json.loads(json.dumps(Case(paddle, name).run()))
    assert found.keys() == recorded.keys()
    for key, wanted in recorded.items():
        for what, value in wanted.items():
            assert is_near(found[key][what], value), (key, what, found[key][what], value)


def is_near(found: Any, wanted: Any) -> bool:
    """Compare values up to the last digits of numbers, those in texts included."""
    if isinstance(wanted, str):
        number = r"\d+\.\d+(?:e-?\d+)?"
        texts = [re.sub(number, "", text) for text in (found, wanted)]
        numbers = [[float(n) for n in re.findall(number, text)] for text in (found, wanted)]
        return texts[0] == texts[1] and is_near(*numbers)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(is_near(found[k], wanted[k]) for k in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(is_near, found, wanted))
    if isinstance(wanted, float):
        return abs(found - wanted) <= 2e-3 + 1e-3 * abs(wanted)
    return found == wanted


def made(**options: Any) -> paddle.Model:
    """Return a prepared linear model."""
    net = nn.Linear(2, 1)
    model = paddle.Model(net, Spec([None, 2], "float32", "x"), Spec([None, 1], "float32", "y"))
    model.prepare(paddle.optimizer.SGD(0.1, parameters=net.parameters()), nn.MSELoss(), **options)
    return model


def batches() -> list[list[np.ndarray[Any, Any]]]:
    """Return a list of batches, which a script may pass instead of a Dataset."""
    return [[np.ones((2, 2), "float32"), np.zeros((2, 1), "float32")]] * 3


def test_any_batches_and_stops(tmp_path: Path) -> None:
    """Lists of arrays are data; a stop ends one `fit`; an inference model is saved at its path."""
    model = made()
    seen: list[int] = []

    class Count(paddle.callbacks.Callback):
        def on_train_batch_end(self, step: int, logs: Any = None) -> None:
            seen.append(step)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.stop_training = True

    model.fit(batches(), callbacks=Count(), epochs=2, verbose=0)
    model.fit(batches(), callbacks=Count(), epochs=2, verbose=0, num_iters=2)
    assert seen == [0, 1, 2, 0, 1]
    before = model.predict_batch([np.ones((2, 2), "float32")])[0]
    model.save(str(tmp_path / "m"), training=False)
    saved = paddle.import_model(tmp_path / "m")
    np.testing.assert_allclose(saved.run([np.ones((2, 2), "float32")])[0], before, rtol=1e-6)


def test_a_reduced_rate_is_the_rate_of_the_program() -> None:
    """The next step uses the reduced rate."""
    model = made()
    slow = paddle.callbacks.ReduceLROnPlateau("loss", 0.5, patience=1, min_delta=9.0, verbose=0)
    model.fit(batches(), batches(), epochs=3, verbose=0, callbacks=slow)
    assert model._optimizer.get_lr() == pytest.approx(0.025)
    weight = model.parameters()[0]
    x, y = batches()[0]
    before, error = weight.numpy(), model.predict_batch([x])[0][0, 0]
    model.train_batch([x], [y])
    np.testing.assert_allclose(weight.numpy() - before, -0.025 * 2 * error, rtol=5e-3)


def test_half_precision() -> None:
    """`amp_configs` is a level or a dict; the loss scaling is saved with the optimizer."""
    model = made(amp_configs={"level": "O1", "init_loss_scaling": 8.0})
    assert float(model.train_batch(*[[each] for each in batches()[0]])[0]) >= 0
    assert any("loss_scaling" in name for name in model._ready().optimizer_state())
    with pytest.raises(ValueError, match="amp_configs has no init_scaling"):
        made(amp_configs={"init_scaling": 8.0})
    with pytest.raises(ValueError, match="'O0', 'O1' or 'O2', found 'O7'"):
        made(amp_configs="O7")


def test_mistakes(tmp_path: Path) -> None:
    """Each error names the mistake, and its remedy."""
    net = nn.Linear(2, 1)
    with pytest.raises(TypeError, match="'inputs' must be list or dict"):
        paddle.Model(net)
    with pytest.raises(ValueError, match=r"Requires Input\[0\].name"):
        paddle.Model(net, Spec([None, 2]))
    model = paddle.Model(net, Spec([None, 2], "float32", "x"))
    with pytest.raises(AssertionError, match=r"please call `model.prepare\(\)` first"):
        model.predict_batch([np.ones((1, 2), "float32")])
    with pytest.raises(TypeError, match="int is not sub class of Metric"):
        model.prepare(metrics=3)
    model = made()
    with pytest.raises(UnsupportedError, match="gradient_merge"):
        model.train_batch([np.ones((1, 2), "float32")], [np.ones((1, 1), "float32")], update=False)
    with pytest.raises(ValueError, match=r"eval_batch\(\) takes 1 inputs \(x\), got 2"):
        model.eval_batch([1, 2], [3])
    state = {"weight": np.ones((3, 1), "float32"), "bias": np.zeros(1, "float32")}
    paddle.save(state, str(tmp_path / "m.pdparams"))
    with pytest.raises(ValueError, match=r"weight receives a shape \[3, 1\]"):
        model.load(str(tmp_path / "m"))
    with pytest.warns(UserWarning, match="Skip loading for weight"):
        model.load(str(tmp_path / "m"), skip_mismatch=True)
    with pytest.warns(UserWarning, match="there is no 'acc' to watch; the evaluation gives loss"):
        stop = paddle.callbacks.EarlyStopping("acc")
        model.fit(batches(), batches(), verbose=0, callbacks=stop)
    with pytest.raises(UnsupportedError, match="which graphopt does not use"):
        paddle.callbacks.VisualDL("logs")


class Kinds(nn.Layer):
    """A network of layers that `paddle.flops` counts, and of others."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(2, 4, 3, groups=2, bias_attr=False)
        self.back = nn.Conv2DTranspose(4, 2, 3)
        self.adaptive, self.pool = nn.AdaptiveAvgPool2D(2), nn.AvgPool2D(2)
        self.sigmoid, self.prelu = nn.Sigmoid(), nn.PReLU()

    def forward(self, x: Any) -> Any:
        return self.adaptive(self.pool(self.prelu(self.sigmoid(self.back(self.conv(x))))))


DETAIL = """\
+-----------------------+--------------+--------------+--------+-------+
|       Layer Name      | Input Shape  | Output Shape | Params | Flops |
+-----------------------+--------------+--------------+--------+-------+
|        conv2d_0       | [1, 2, 8, 8] | [1, 4, 6, 6] |   36   |  1296 |
|   conv2d_transpose_0  | [1, 4, 6, 6] | [1, 2, 8, 8] |   74   |  4736 |
| adaptive_avg_pool2d_0 | [1, 2, 4, 4] | [1, 2, 2, 2] |   0    |   40  |
|      avg_pool2d_0     | [1, 2, 8, 8] | [1, 2, 4, 4] |   0    |   32  |
|       sigmoid_0       | [1, 2, 8, 8] | [1, 2, 8, 8] |   0    |   0   |
|       p_re_lu_0       | [1, 2, 8, 8] | [1, 2, 8, 8] |   1    |   0   |
+-----------------------+--------------+--------------+--------+-------+
Total Flops: 6104     Total Params: 111
"""


def test_flops(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers and the table are Paddle's; a script can count other layers."""
    net = Kinds()
    assert paddle.flops(net, [1, 2, 8, 8], print_detail=True) == 6104
    assert capsys.readouterr().out.endswith(DETAIL)
    assert net.training and paddle.flops(paddle.vision.models.LeNet(), [1, 1, 28, 28]) == 347560

    def count(layer: Any, x: Any, y: Any) -> None:
        layer.total_ops += 7

    assert paddle.flops(net, [1, 2, 8, 8], {nn.Sigmoid: count}) == 6111
    x = static.data("x", [2, 3], "float32")
    static.nn.fc(x, 5)
    assert paddle.flops(static.default_main_program(), [2, 3]) > 0
    with pytest.raises(TypeError, match="'net' must be a Layer or a Program"):
        paddle.flops(3, [1])
