"""paddle.summary and Program.summary: rows, totals as Paddle 2.6 prints them, errors."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static, utils
from graphopt.debug.summary import summary_of_layer


class Net(nn.Layer):
    """Two parts with layers of their own, and a function between them."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.BatchNorm2D(6), nn.MaxPool2D(2, 2)
        )
        self.fc = nn.Sequential(nn.Linear(6 * 14 * 14, 10))

    def forward(self, x: static.Variable) -> static.Variable:
        return self.fc(paddle.flatten(self.features(x), 1))


# as Paddle 2.6.2 prints it for this network
ROWS = [
    ("Conv2D-1", ((1, 1, 28, 28),), (1, 6, 28, 28), 60),
    ("ReLU-1", ((1, 6, 28, 28),), (1, 6, 28, 28), 0),
    ("BatchNorm2D-1", ((1, 6, 28, 28),), (1, 6, 28, 28), 24),
    ("MaxPool2D-1", ((1, 6, 28, 28),), (1, 6, 14, 14), 0),
    ("Linear-1", ((1, 1176),), (1, 10), 11770),
]
TOTALS = """\
Total params: 11,854
Trainable params: 11,842
Non-trainable params: 12
Forward pass: 108.2 kFLOP

Input size (MB): 0.00
Forward/backward pass size (MB): 0.12
Params size (MB): 0.05
Estimated Total Size (MB): 0.16
"""


@pytest.fixture
def net() -> Net:
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        return Net()


@pytest.mark.parametrize(
    "given",
    [
        {"input_size": (None, 1, 28, 28)},
        {"input_size": [(1, 1, 28, 28)], "dtypes": ["float32"]},
        {"input_size": static.InputSpec([-1, 1, 28, 28], "float32", "x")},
        {"input": np.zeros((1, 1, 28, 28), "float32")},
    ],
)
def test_a_layer(net: Net, given: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    """The table is printed; the layer and the current program do not change."""
    before = str(static.default_main_program())
    found = paddle.summary(net, **given)
    assert found == {"total_params": 11854, "trainable_params": 11842}
    printed = capsys.readouterr().out
    assert printed.endswith(TOTALS)
    assert "Conv2D-1       [1, 1, 28, 28]  [1, 6, 28, 28]       60  84.7 kFLOP" in printed
    assert "<td" in found._repr_html_() and "Conv2D-1" in found._repr_html_()
    assert net.training and not net.fc[0]._forward_post_hooks
    assert str(static.default_main_program()) == before


def test_rows_of_a_layer(net: Net) -> None:
    """Shapes and parameters equal Paddle's; operations count the products only."""
    found = summary_of_layer(net, [((1, 1, 28, 28), "float32")])
    assert [(r.name, r.inputs, r.output, r.parameters) for r in found.rows] == ROWS
    products = {row.name: row.flops for row in found.rows if row.flops}
    assert products == {"Conv2D-1": 2 * 6 * 28 * 28 * 9, "Linear-1": 2 * 1176 * 10}


def test_a_program() -> None:
    """Each forward op has a row, and the totals agree; the reshape of a bias has no row."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        loss = paddle.mean(Net()(static.data("x", [None, 1, 28, 28], "float32")))
        paddle.optimizer.SGD(0.1).minimize(loss)
        found = static.default_main_program().summary()
    assert (found.total_params, found.trainable_params) == (11854, 11842)
    assert repr(found).startswith("Layer (type)") and "<td" in found._repr_html_()
    rows = {row.name: row for row in found.table()}
    assert list(rows) == [
        *("conv2d-1", "add-1", "relu-1", "batch_norm-1", "pool2d-1"),
        *("flatten-1", "matmul-1", "add-2", "mean-1"),
    ]
    assert (rows["add-1"].parameters, rows["matmul-1"].parameters) == (6, 11760)
    assert found.flops == 2 * 6 * 28 * 28 * 9 + 2 * 1176 * 10
    assert max(map(len, str(found).splitlines())) <= 100


def test_errors(net: Net) -> None:
    """A missing size raises Paddle's message; an object that is no network raises TypeError."""
    with pytest.raises(ValueError, match="input_size and input cannot be None"):
        paddle.summary(net)
    with pytest.raises(ValueError, match="2 dtypes for 1 inputs"):
        paddle.summary(net, (1, 1, 28, 28), ["float32", "int64"])
    with pytest.raises(TypeError, match="must be a Layer or a Program"):
        paddle.summary(3)


def test_a_layer_with_state_keeps_its_own() -> None:
    """The call for the summary leaves no tensor of its program in the layer."""

    class Counter(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", paddle.zeros([1]))
            self.steps = [paddle.zeros([1])]

        def forward(self, x):  # type: ignore[no-untyped-def]
            self.calls = self.calls + 1
            self.steps[0] = self.steps[0] + 10
            return x * 0 + self.calls + self.steps[0]

    net = Counter()
    summary_of_layer(net, [((1,), "float32")])
    traced = paddle.jit.to_static(net)
    one = np.ones(1, "float32")
    assert [float(traced(one).numpy()[0]) for _ in range(2)] == [11.0, 22.0]
