"""The networks of Paddle's own fusion tests, with the counts that these tests expect.

Where a pattern here takes more than Paddle's, a comment at the number says so.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.passes.engine.fusion import Applied, Declined
from graphopt.passes.table.report import Report
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.passes.flags.nets import feed, ops_of, optimized, strategy


def fired(report: Report) -> Counter[str]:
    """Count how often each fusion happened."""
    kinds = (o.rule for o in report.outcomes if isinstance(o, Applied))
    return Counter(kind for kind in kinds if kind.startswith("fuse"))


def reasons(report: Report) -> set[str]:
    """Collect the names of the reasons why fusions declined."""
    declined = [item for item in report.outcomes if isinstance(item, Declined)]
    return {item.reason.name for item in [*report.near, *declined]}


# -- fuse_elewise_add_act_ops ----------------------------------------------------------------------

ELEWISE = "fuse_elewise_add_act_ops"


def scaled(name: str) -> Any:
    """Multiply a feed by a parameter, so that the program can be trained."""
    return paddle.multiply(feed(name), static.create_parameter([8], "float32"))


def pair() -> tuple[Any, Any]:
    return scaled("x"), scaled("y")


@pytest.mark.parametrize(
    ("build", "functors"),
    [
        (lambda: F.relu(paddle.add(*pair())), '["relu", "elementwise_add"]'),
        (lambda: paddle.tanh(paddle.add(*pair())), '["tanh", "elementwise_add"]'),
        (lambda: paddle.scale(paddle.add(*pair()), 3.0), '["scale", "elementwise_add"]'),
        (lambda: paddle.add(scaled("x"), F.relu(scaled("y"))), '["elementwise_add", "relu"]'),
        (lambda: paddle.add(F.relu(scaled("x")), scaled("y")), '["elementwise_add", "relu"]'),
        # Paddle leaves sigmoid, for which its fused kernel has no backward
        (lambda: F.sigmoid(paddle.add(*pair())), '["sigmoid", "elementwise_add"]'),
    ],
)
@pytest.mark.parametrize("train", [False, True])
def test_add_and_activation(build: Callable[[], Any], functors: str, train: bool) -> None:
    """Both orders and operands fuse, also in training, where Paddle fuses relu and tanh alone."""
    module, report = optimized(build, train=train, fuse_elewise_add_act_ops=True)
    assert fired(report) == {"fuse-elewise-add-act": 1}
    assert f"functor_list = {functors}" in str(module)


def read_twice() -> Any:
    total = paddle.add(*pair())
    return paddle.add(paddle.exp(F.relu(total)), paddle.exp(total))


def with_bias() -> Any:
    return paddle.exp(paddle.scale(paddle.add(*pair()), 3.0, bias=1.0))


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (read_twice, "used-elsewhere"),
        (with_bias, "scale-has-bias"),
        (lambda: F.softmax(paddle.add(*pair())), ""),
    ],
)
def test_add_and_activation_refused(build: Callable[[], Any], reason: str) -> None:
    """Another reader, a scale with a bias, or an unsupported activation prevents the fusion."""
    _, report = optimized(build, train=False, fuse_elewise_add_act_ops=True)
    assert not fired(report)
    assert not reason or reason in reasons(report)


def test_a_fetched_sum_is_left_alone() -> None:
    """A fetched sum is not fused; Paddle fuses it: an error in 1.8, no value in 2.6."""
    with fresh() as (main, _):
        total = paddle.add(*pair())
        out = F.relu(total)
        found = paddle.explain(main, strategy(fuse_elewise_add_act_ops=True), [total, out])
    assert found.flags[ELEWISE].status == "refused"
    assert "fetched" in found.flags[ELEWISE].text


# -- fuse_relu_depthwise_conv ----------------------------------------------------------------------


def depthwise(read: bool = False) -> Any:
    x = F.relu(nn.Conv2D(4, 4, 1)(feed("images", 4, 6, 6)))
    out = nn.Conv2D(4, 4, 3, padding=1, groups=4)(x)
    return paddle.add(out, x) if read else out


@pytest.mark.parametrize("train", [False, True])
def test_relu_before_a_depthwise_convolution(train: bool) -> None:
    """The relu becomes a property of the convolution; with another reader it stays."""
    module, report = optimized(depthwise, train=train, fuse_relu_depthwise_conv=True)
    assert fired(report) == {"fuse-relu-depthwise-conv": 1}
    assert ops_of(module)["relu"] == 0
    assert "fuse_relu_before_depthwise_conv = true" in str(module)
    _, report = optimized(lambda: depthwise(True), train=train, fuse_relu_depthwise_conv=True)
    assert (fired(report), "used-elsewhere" in reasons(report)) == ({}, True)


# -- fuse_gemm_epilogue ----------------------------------------------------------------------------


class ThreeLinear(nn.Layer):
    """Three linear layers with activations, then products and sums of other shapes."""

    def __init__(self, hidden: int, activation: Callable[[], Any]) -> None:
        super().__init__()
        sizes = ((hidden, 4 * hidden), (4 * hidden, hidden), (hidden, hidden))
        self.linear = nn.LayerList([nn.Linear(*size) for size in sizes])
        self.activation = nn.LayerList([activation() for _ in sizes])

    def forward(self, x: Any, other: Any, more: Any) -> Any:
        h = self.activation[0](self.linear[0](x))
        h = self.activation[1](self.linear[1](h))
        side = paddle.matmul(h, other)
        h = self.activation[2](self.linear[2](h))
        return paddle.add(paddle.add(paddle.matmul(h, other), more), side)


def three_linear(activation: Callable[[], Any]) -> Any:
    other = static.data("other", [1, 8, 8], "float32")
    return ThreeLinear(8, activation)(feed("x", 4, 8), other, feed("more", 4, 8))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU])
def test_three_linear_layers(activation: Callable[[], Any]) -> None:
    """Three linear layers fuse with their derivatives; the two other products stay.

    Paddle leaves 1 activation and the gradients of 2: there the derivative of an activation joins
    the linear layer after it, here each layer has its own.
    """
    module, report = optimized(lambda: three_linear(activation), fuse_gemm_epilogue=True)
    assert fired(report) == {"fuse-gemm-epilogue": 3}
    ops = ops_of(module)
    assert (ops["fused_gemm_epilogue"], ops["matmul"], ops["add"]) == (3, 2, 2)
    assert ops["relu"] + ops["gelu"] == 0
    kind = "relu" if activation is nn.ReLU else "gelu"
    assert str(module).count(f'activation = "{kind}"') == 3


def test_fc_is_a_linear_layer() -> None:
    """`static.nn.fc` is fused; it builds Paddle's `mul`, which Paddle's pass never takes."""
    _, report = optimized(
        lambda: static.nn.fc(static.nn.fc(feed(), 8, activation="relu"), 4), fuse_gemm_epilogue=True
    )
    assert fired(report) == {"fuse-gemm-epilogue": 2}


def test_what_is_no_bias() -> None:
    """An addend that is no bias is not fused; Paddle checks neither its rank nor its size."""
    x = feed
    _, report = optimized(
        lambda: paddle.add(paddle.matmul(x(), static.data("w", [8, 8])), x("y")),
        train=False,
        fuse_gemm_epilogue=True,
    )
    assert not fired(report)


# -- fused_attention -------------------------------------------------------------------------------


class Attention(nn.Layer):
    """Attention with one projection for queries, keys and values, before or after its norm."""

    def __init__(self, width: int, heads: int, *, perm: Any = (0, 2, 1, 3), axis: int = -1) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.perm, self.axis = list(perm), axis
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(1e-10, mode="upscale_in_train")

    def forward(self, x: Any, mask: Any) -> Any:
        qkv = self.project(self.norm(x))
        qkv = paddle.transpose(paddle.reshape(qkv, [0, 0, 3 * self.heads, self.size]), self.perm)
        q, k, v = paddle.split(qkv, 3, axis=1)
        scores = paddle.matmul(paddle.scale(q, self.size**-0.5), k, transpose_y=True)
        weights = F.dropout(F.softmax(paddle.add(scores, mask), self.axis), 0.1)
        mixed = paddle.transpose(paddle.matmul(weights, v), [0, 2, 1, 3])
        mixed = paddle.reshape(mixed, [0, 0, self.heads * self.size])
        return paddle.add(x, self.dropout(self.out(mixed)))


def attention(heads: int = 2, **options: Any) -> Any:
    mask = static.data("mask", [None, heads, 4, 4], "float32")
    h = nn.Linear(8, 8)(feed("x", 4, 8))
    return Attention(8, heads, **options)(h, mask)


def test_attention() -> None:
    """A linear layer, one attention op, the loss, one derivative and the updates remain."""
    module, report = optimized(attention, fused_attention=True)
    assert fired(report) == {"fused-attention": 1}
    names = [op.name for op in module.walk() if op.name.startswith("pd.")]
    assert [name for name in names if name != "pd.sgd"] == [
        *("pd.matmul", "pd.add", "pd.fused_attention"),
        *("pd.mean", "pd.full", "pd.grad"),
    ]


def test_attention_of_the_library() -> None:
    """Attention with three projections is fused, which Paddle's pass does not match."""
    _, report = optimized(
        lambda: nn.MultiHeadAttention(8, 2)(feed("x", 4, 8)), fused_attention=True
    )
    assert fired(report) == {"fused-attention": 1}


@pytest.mark.parametrize("wrong", [{"axis": 1}, {"axis": 2}, {"perm": (0, 2, 3, 1), "heads": 4}])
def test_attention_of_another_shape(wrong: dict[str, Any]) -> None:
    """Another softmax axis or transpose prevents the fusion; Paddle checks neither."""
    options: dict[str, Any] = {"heads": 2, **wrong}

    def build() -> Any:
        heads = options["heads"]
        if "perm" not in wrong:
            return attention(**options)
        mask = static.data("mask", [None, heads, 2, 2], "float32")
        x = feed("x", 4, 8)
        qkv = paddle.reshape(nn.Linear(8, 24)(x), [0, 0, 12, 2])
        q, k, v = paddle.split(paddle.transpose(qkv, [0, 2, 3, 1]), 3, axis=1)
        scores = paddle.add(paddle.matmul(q, k, transpose_y=True), mask)
        mixed = paddle.matmul(F.softmax(scores), v)
        return paddle.reshape(paddle.transpose(mixed, [0, 3, 1, 2]), [0, 0, 8])

    _, report = optimized(build, fused_attention=True)
    assert not fired(report)


# -- fused_feedforward -----------------------------------------------------------------------------

LEGAL = [
    (pre, residual, first, second)
    for pre, residual, first, second in itertools.product((True, False), repeat=4)
    if pre or residual
]


@pytest.mark.every(3)
@pytest.mark.parametrize("activation", [F.gelu, F.relu])
@pytest.mark.parametrize("branch_first", [True, False])
def test_feed_forward(activation: Callable[[Any], Any], branch_first: bool) -> None:
    """All 12 legal forms are fused, with the residual on either side."""
    assert len(LEGAL) == 12
    for pre, residual, first, second in LEGAL:

        def build(
            pre: bool = pre, residual: bool = residual, first: bool = first, second: bool = second
        ) -> Any:
            x = feed("x", 4, 8)
            norm, up, down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
            h = activation(up(norm(x) if pre else x))
            h = down(F.dropout(h, 0.1) if first else h)
            h = F.dropout(h, 0.1) if second else h
            if residual:
                h = paddle.add(h, x) if branch_first else paddle.add(x, h)
            return h if pre else norm(h)

        module, report = optimized(build, fused_feedforward=True)
        assert fired(report) == {"fused-feedforward": 1}, (pre, residual, first, second)
        assert set(ops_of(module)) == {"fused_feedforward", "mean", "full", "grad", "sgd"}


# -- fused updates ---------------------------------------------------------------------------------


def groups(make: Callable[[], Any], rate: float = 0.5, **flags: Any) -> Counter[str]:
    """Count the updates of a net with two layers, whose second has another learning rate."""
    with fresh() as (main, _):
        x = feed()
        slow = paddle.ParamAttr(learning_rate=rate)
        h = F.relu(nn.Linear(8, 8)(x))
        loss = paddle.mean(nn.Linear(8, 4, weight_attr=slow, bias_attr=slow)(h))
        make().minimize(loss)
        after = paddle.explain(main, strategy(**flags), [loss]).to_json()["ops"]["after"]
    updates = ("adam", "adamw", "sgd", "fused_adam_", "fused_sgd")
    named = {name.removeprefix("pd."): count for name, count in after.items()}
    return Counter({name: named[name] for name in updates if name in named})


def test_a_group_for_each_learning_rate() -> None:
    """Each learning rate has its group; each kind of optimizer has its flag."""
    assert groups(lambda: paddle.optimizer.SGD(0.1), fuse_all_optimizer_ops=True) == {
        "fused_sgd": 2
    }
    adamw = paddle.optimizer.AdamW
    assert groups(lambda: adamw(0.1), fuse_adamw=True) == {"fused_adam_": 2}
    assert groups(lambda: adamw(0.1), fuse_all_optimizer_ops=True) == {"adamw": 4}
    assert groups(lambda: paddle.optimizer.Adam(0.1), fuse_adamw=True) == {"adam": 4}
    ratio = {"lr_ratio": lambda parameter: 0.5 if ".b_" in parameter.name else 1.0}
    assert groups(lambda: adamw(0.1, **ratio), 1.0, fuse_adamw=True) == {"fused_adam_": 2}
    assert groups(lambda: adamw(0.1, **ratio), 0.5, fuse_adamw=True) == {"adamw": 4}
