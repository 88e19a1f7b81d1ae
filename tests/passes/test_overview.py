"""The report on one screen: gains of passes, kinds of refusals, layers and repeated blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static, utils
from graphopt.runtime.explain import Explanation

F = nn.functional


@contextmanager
def fresh() -> Iterator[static.Program]:
    """Set a new default program."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        yield static.default_main_program()


def conv_bn(x: static.Variable, channels: int, kernel: int, stride: int = 1) -> static.Variable:
    """Build a convolution and a batch normalization."""
    padding = kernel // 2
    conv = static.nn.conv2d(x, channels, kernel, stride=stride, padding=padding, bias_attr=False)
    return static.nn.batch_norm(conv)


def bottleneck(x: static.Variable, channels: int, stride: int) -> static.Variable:
    """Build a residual block of three convolutions."""
    y = F.relu(conv_bn(x, channels, 1))
    y = F.relu(conv_bn(y, channels, 3, stride))
    y = conv_bn(y, 4 * channels, 1)
    alike = x.shape[1] == 4 * channels and stride == 1
    return F.relu(y + (x if alike else conv_bn(x, 4 * channels, 1, stride)))


def resnet(blocks: tuple[int, ...]) -> static.Variable:
    """Build a training step of a ResNet with so many blocks in each stage; return the loss."""
    image = static.data("image", [None, 3, 32, 32], "float32")
    label = static.data("label", [None, 1], "int64")
    x = F.max_pool2d(F.relu(conv_bn(image, 64, 7, 2)), 3, 2, 1)
    for stage, count in enumerate(blocks):
        for number in range(count):
            x = bottleneck(x, 64 << stage, 2 if stage and not number else 1)
    logits = static.nn.fc(paddle.flatten(F.adaptive_avg_pool2d(x, 1), 1), 10)
    loss = paddle.mean(F.cross_entropy(logits, label))
    paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return loss


@pytest.fixture(scope="module")
def resnet50() -> Explanation:
    """Explain three flags on a training step of ResNet-50, one of whose sums is fetched."""
    with fresh() as main:
        loss = resnet((3, 4, 6, 3))
        sums = [op for op in main.global_block().ops if op.type == "elementwise_add"]
        strategy = static.BuildStrategy()
        strategy.fuse_bn_act_ops = strategy.fuse_all_optimizer_ops = True
        strategy.nccl_comm_num = 2
        return paddle.explain(main, strategy, [loss, sums[4].output("Out")[0]])


@pytest.mark.exhaustive
def test_one_screen(resnet50: Explanation) -> None:
    """A ResNet-50 in training explains itself in 60 lines of 100 columns."""
    lines = str(resnet50).splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    fused = "33 x batch_norm + relu, 15 x batch_norm + add + relu"
    assert lines[1] == f"48 fusions of 111 ops: {fused}"
    assert lines[0].startswith("342 ops before, ")
    assert len(resnet50.text("all").splitlines()) > 200
    assert resnet50._repr_html_().count("<table>") == 3


@pytest.mark.exhaustive
def test_did_my_residual_blocks_fuse(resnet50: Explanation) -> None:
    """Fused blocks share a line; the block that was not fused has one with the reason."""
    blocks = [row for row in resnet50.blocks() if row.kind == "residual block"]
    assert [(row.count, len(row.ops.split(", "))) for row in blocks] == [(4, 4), (11, 4), (1, 4)]
    fused = {(each.ops, count) for each, count in blocks[1].fused}
    assert fused == {(("batch_norm", "relu"), 2), (("batch_norm", "add", "relu"), 1)}
    (last,) = [row for row in blocks if row.refused]
    assert last.numbers == (5,)
    assert last.refused[0].startswith("not fuse-bn-add-act: the result of `add` is fetched (")
    words = " ".join(str(resnet50).split())
    assert "11 x residual block: 3 conv2d, " in words
    assert "no. 5" in words and "`add` is fetched" in words


def test_gains(resnet50: Explanation) -> None:
    """Fusions of one sweep have separate op counts and times."""
    rows = {row.name: row for row in resnet50.table()}
    first, second = rows["fuse_bn_add_act_ops"], rows["fuse_bn_act_ops"]
    assert (first.fired, first.candidates) == (15, 16)
    assert first.ops_before - first.ops_after == 2 * 15
    assert (second.ops_before, second.ops_after) == (first.ops_after, first.ops_after - 33)
    assert first.seconds != second.seconds
    assert first.saved.traffic > 0
    found = resnet50.to_json()["passes"]
    one = [ran for ran in found if ran["pass"] in (first.pass_name, second.pass_name)]
    assert len({(ran["sweep"], ran["ops_after"]) for ran in one}) == 1
    assert rows["stack-state"].saved.state_arrays > 100
    assert (second.fired, second.candidates) == (33, 34)
    update = rows["fuse_all_optimizer_ops"]
    assert update.ops_before - update.ops_after == 160


def test_kinds_of_refusals(resnet50: Explanation) -> None:
    """Each kind of refusal is a row with count, edit and lines; ops are named by family."""
    rows = resnet50.refusals()
    (fetched,) = [row for row in rows if row.kind == "used-elsewhere"]
    assert (rows[0], fetched.count, len(fetched.lines)) == (fetched, 1, 1)
    assert fetched.fix.startswith("fetch another value")
    (training,) = [row for row in rows if row.kind == "training"]
    assert training.count == 53
    # a batch norm that is only added is no near miss of one with an activation
    near = [row for row in rows if row.near and row.pass_name == "fuse-bn-act"]
    assert [(row.kind, row.count) for row in near] == [("op-between", 1)]
    assert not any("relu6" in row.text for row in rows)
    data = json.loads(json.dumps(resnet50.to_json()))
    assert data["schema"] == 2
    assert [row["count"] for row in data["refusals"]] == [row.count for row in rows]
    assert sum(row["count"] for row in data["blocks"]) == sum(r.count for r in resnet50.blocks())


def test_the_blocks_of_a_transformer() -> None:
    """Attention and feed-forward are one block each, whose ops are all fused."""
    with fresh() as main:
        x = static.data("x", [None, 8, 16], "float32")
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1)
        out = nn.TransformerEncoder(layer, 3)(x)
        strategy = static.BuildStrategy()
        strategy.fused_attention = strategy.fused_feedforward = True
        found = paddle.explain(main, strategy, [out])
    rows = [(row.kind, row.count, row.fused_ops == row.ops_in_each) for row in found.blocks()]
    assert rows == [("attention", 3, True), ("residual block", 3, True)]
    assert re.search(r"3 x +attention: .* fused_attention", str(found))


def test_a_plain_program_has_no_blocks_to_show() -> None:
    """Without fusions the report has no section on layers."""
    with fresh() as main:
        out = static.nn.fc(static.data("x", [None, 4], "float32"), 3)
        found = paddle.explain(main, fetch_list=[out])
    assert "layers and blocks" not in str(found)


def test_fusions_in_a_loop() -> None:
    """The ops of a loop belong to its block."""
    with fresh() as main:
        x = static.data("x", [2, 4], "float32")
        weight = static.create_parameter([4, 4], "float32")
        bias = static.create_parameter([4], "float32")
        i = paddle.full([1], 0, "int64")
        _, out = static.nn.while_loop(
            lambda i, h: i < 3,
            lambda i, h: [i + 1, F.relu(paddle.matmul(h, weight) + bias)],
            [i, x],
        )
        strategy = static.BuildStrategy()
        strategy.fuse_gemm_epilogue = True
        found = paddle.explain(main, strategy, [out])
    (row,) = [row for row in found.blocks() if row.fused]
    assert "while" in row.ops and "matmul" in row.ops
    assert (row.fused_ops, row.ops_in_each >= 4) == (3, True)


def test_measured_steps() -> None:
    """With `measure`, a step is timed with all flags and without each; state does not change."""
    with fresh() as main, static.scope_guard(static.Scope()):
        loss = paddle.mean(static.nn.fc(static.data("x", [None, 4], "float32"), 3))
        paddle.optimizer.SGD(0.1).minimize(loss)
        static.Executor(paddle.CPUPlace()).run(static.default_startup_program())
        weight = static.global_scope().find_var("fc_0.w_0")
        assert weight is not None
        before = weight.numpy()
        strategy = static.BuildStrategy()
        strategy.fuse_gemm_epilogue = strategy.fuse_bn_act_ops = True
        feed = {"x": np.ones((2, 4), "float32")}
        found = paddle.explain(main, strategy, [loss], measure=feed)
        np.testing.assert_array_equal(weight.numpy(), before)
    measured = found.to_json()["measured"]
    assert measured["step_ms"] > 0 and list(measured["gained_ms"]) == ["fuse_gemm_epilogue"]
    assert re.search(r" step ms +pass ms\n", str(found))
    rows = {row.name: row.gained_ms for row in found.table()}
    assert rows["fuse_gemm_epilogue"] is not None and rows["fuse_bn_act_ops"] is None


def test_no_batch_norm_is_missed_where_there_is_none() -> None:
    """A convolution without a batch norm is no candidate for folding, and not refused."""
    with fresh() as main:
        x = static.data("x", [2, 3, 8, 8], "float32")
        out = F.relu(static.nn.conv2d(x, 4, 3))
        found = paddle.explain(main, static.BuildStrategy(), [out.name])
    (row,) = [row for row in found.table() if row.pass_name == "fold-batch-norm"]
    assert row.candidates == 0
    assert not [row for row in found.refusals() if row.pass_name == "fold-batch-norm"]


def test_a_group_is_one_op() -> None:
    """Ops in groups, and ops that prepare weights, do not count as ops of a step."""
    with fresh() as main:
        x = static.data("x", [64, 512], "float32")
        away = x - paddle.mean(x, axis=-1, keepdim=True)
        out = away / paddle.sqrt(paddle.mean(away * away, axis=-1, keepdim=True) + 1.0)
        strategy = static.BuildStrategy()
        strategy.build_cinn_pass = True
        found = paddle.explain(main, strategy, [out.name])
    report = found.report
    assert report.after == {"pd.fusion_group": 1} and report.in_groups == 7
    assert (
        "7 ops before, 1 after, for cpu\n1 group of 7 ops in all; each group counts as one op\n"
        in str(found)
    )
    assert found.to_json()["ops"]["in_groups"] == 7
    with fresh() as main:
        x = static.data("x", [None, 3, 8, 8], "float32")
        out = conv_bn(x, 4, 3)
        found = paddle.explain(main.clone(for_test=True), static.BuildStrategy(), [out.name])
    report = found.report
    assert report.ops_before == 2 and report.ops_after <= 5 < report.prepared
    assert f"\n{report.prepared} more ops with only parameters as operands: run once" in str(found)


def test_a_fusion_of_several_new_ops() -> None:
    """A fusion's row counts all its new ops; preparation is no cost of a step."""
    with fresh() as main:
        x = static.data("x", [None, 3, 8, 8], "float32")
        out = conv_bn(x, 4, 3)
        found = paddle.explain(main.clone(for_test=True), static.BuildStrategy(), [out.name])
    rows = {row.name: row for row in found.table()}
    fold = rows["fold-batch-norm"]
    (ran,) = [ran for ran in found.report.ran if ran.pass_name == "fold-batch-norm"]
    assert fold.fired == 1
    assert fold.ops_before - fold.ops_after == ran.ops_before - ran.ops_after < 0
    assert rows["prepare-weights"].saved.traffic > 0
    assert found.report.cost_after.flops == found.report.cost_before.flops > 0
