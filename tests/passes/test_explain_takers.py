"""With all fusions on, the most valuable one wins in any order of the flags, and is named."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import permutations

import pytest
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import nn, static
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.engine.fusion import Applied, FusionPass
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.explain import NOTHING, as_json, as_text, flag_results
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.order import ROWS, Phase
from graphopt.passes.table.schedule import select
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.frontend.programs import fresh

FLAGS = tuple(dict.fromkeys(row.flag for row in ROWS if row.phase is Phase.FUSE))


def everything() -> ModuleOp:
    """Build a program with a pattern for every fusion, and ops that several fusions match."""
    with fresh() as (main, _):
        image = static.data("image", [2, 4, 6, 6], "float32")
        hidden = nn.Conv2D(4, 4, 3, padding=1, groups=4)(nn.functional.relu(image))
        hidden = paddle.add(hidden, nn.functional.relu(nn.BatchNorm2D(4)(hidden)))
        hidden = nn.functional.relu(paddle.add(nn.BatchNorm2D(4)(hidden), image))
        unit = nn.functional.relu(nn.BatchNorm2D(4)(nn.Conv2D(4, 4, 1, bias_attr=False)(hidden)))
        rows = paddle.reshape(paddle.multiply(hidden, unit), [2, 18, 8])
        out = nn.TransformerEncoderLayer(8, 2, 12, activation="gelu")(rows)
        core = nn.functional.scaled_dot_product_attention(
            *(paddle.reshape(out, [2, 18, 2, 4]) for _ in range(3))
        )
        out = nn.functional.tanh(nn.Linear(4, 3)(core))
        out = nn.functional.sigmoid(paddle.add(out, paddle.mean(out)))
        return parse_program(main, ["image"], [out.name])


@pytest.fixture(scope="module")
def module() -> ModuleOp:
    return everything()


def strategy(flags: tuple[str, ...]) -> BuildStrategy:
    """Make a strategy on which these flags are set, in this order."""
    made = BuildStrategy()
    for flag in flags:
        setattr(made, flag, True)
    return made


def test_every_fusion_happens(module: ModuleOp) -> None:
    """Every fusion fires in the program."""
    report = optimize(module.clone(), strategy(FLAGS).pass_context())
    fired = {o.rule for o in report.outcomes if isinstance(o, Applied)}
    fusions = {made.name for _, made in select(report.context) if isinstance(made, FusionPass)}
    assert fusions <= fired, f"`everything` should have a pattern of {fusions - fired}"


@pytest.mark.exhaustive
def test_the_order_of_the_flags_does_not_matter(module: ModuleOp) -> None:
    """All orders select the same passes in the same order; runs of some give one result."""
    wanted = [row.pass_name for row, _ in select(PassContext(dict.fromkeys(FLAGS, True)))]
    for order in permutations(FLAGS[:6]):
        flags = dict.fromkeys((*order, *FLAGS[6:]), True)
        assert [row.pass_name for row, _ in select(PassContext(flags))] == wanted
    results: set[str] = set()
    shuffled = random.Random(0)
    for _ in range(6):
        after = module.clone()
        report = optimize(after, strategy(tuple(shuffled.sample(FLAGS, len(FLAGS)))).pass_context())
        results.add(str(after) + str(report.outcomes))
    assert len(results) == 1


def test_who_took_what(module: ModuleOp) -> None:
    """Each pattern that another fusion took is reported with the name of that fusion."""
    report = optimize(module.clone(), strategy(FLAGS).pass_context(), near=True)
    taken = {
        (anchor["pass"], anchor["reason"]["text"].removesuffix(" took the ops"))
        for anchor in as_json(report)["anchors"]
        if anchor["outcome"] == "near miss" and anchor["reason"]["name"] == "taken"
    }
    assert taken >= {
        ("fuse-gemm-epilogue", "fused-attention"),
        ("fuse-gemm-epilogue", "fused-feedforward"),
        ("fuse-dot-product-attention", "fused-attention"),
        ("fuse-elewise-add-act", "fuse-bn-add-act"),
    }, taken
    left = [o.reason for o in report.outcomes if not isinstance(o, Applied)]
    assert any(
        r.name == "left-to-larger" and "ends a pattern of fuse-bn-act" in r.text for r in left
    )


def test_a_near_miss_of_a_larger_fusion(module: ModuleOp) -> None:
    """A larger fusion's near miss is reported although a smaller one took the op."""
    with fresh() as (main, _):
        x = static.data("x", [2, 3, 8], "float32")
        hidden = paddle.exp(nn.Linear(8, 12)(x))
        out = paddle.add(x, nn.Linear(12, 8)(hidden))
        parsed = parse_program(main, ["x"], [out.name])
    flags = ("fused_feedforward", "fuse_gemm_epilogue")
    report = optimize(parsed, strategy(flags).pass_context(), near=True)
    assert len(report.applied("fuse-gemm-epilogue")) == 2
    (miss,) = {m.reason for m in report.near_misses("fused-feedforward")}
    assert miss.name == "other-op"
    assert miss.text.startswith("`activation` should be") and "found pd.exp" in miss.text


def test_near_misses_inside_a_branch() -> None:
    """Ops in regions are reported like others, with their lines."""
    with fresh() as (main, _):
        x = static.data("x", [2, 4], "float32")
        layer = nn.Linear(4, 4)

        def nearly() -> static.Variable:
            return paddle.add(paddle.exp(paddle.matmul(x, layer.weight)), layer.bias)

        def whole() -> static.Variable:
            return nn.functional.relu(layer(x))

        out = static.nn.cond(paddle.mean(x) > 0, nearly, whole)
        parsed = parse_program(main, ["x"], [out.name])
    report = optimize(parsed, strategy(("fuse_gemm_epilogue",)).pass_context(), near=True)
    assert len(report.applied("fuse-gemm-epilogue")) == 1
    near = report.near_misses("fuse-gemm-epilogue")
    assert [miss.reason.name for miss in near] == ["op-between"]  # once for all rules
    assert all(miss.location.startswith(__file__) for miss in near)


def test_a_pass_before_the_fusions_took_them() -> None:
    """In inference, fold-batch-norm takes the norms, and is named."""
    with fresh() as (main, _):
        x = static.data("x", [2, 4, 6, 6], "float32")
        hidden = x
        for _ in range(3):
            norm = nn.BatchNorm2D(4)
            norm.eval()
            hidden = nn.functional.relu(norm(nn.Conv2D(4, 4, 1)(hidden)))
        out = nn.functional.relu(paddle.add(hidden, x))
        parsed = parse_program(main, ["x"], [out.name])
    context = replace(strategy(("fuse_bn_act_ops",)).pass_context(), platform="cpu")
    report = optimize(parsed, context, near=True)
    assert len(report.applied("fold-batch-norm")) == 3
    misses = Counter(miss.reason.name for miss in report.near_misses("fuse-bn-act"))
    assert misses == {"taken": 3}  # nothing of the relu that has no norm in front
    assert "fold-batch-norm took the ops" in as_text(report)
    both = strategy(("fuse_bn_act_ops", "fuse_bn_add_act_ops")).pass_context()
    again = parse_program(main, ["x"], [out.name])
    larger = optimize(again, replace(both, platform="cpu"), near=True)
    # not an add of a bias, which fold-batch-norm made, without its norm
    assert not [m for m in larger.near_misses("fuse-bn-add-act") if "conv2d" in m.reason.text]
    (result,) = [found for found in flag_results(report) if found.flag == "fuse_bn_act_ops"]
    assert result.status == NOTHING
    portable = optimize(
        parse_program(main, ["x"], [out.name]),
        strategy(("fuse_bn_act_ops",)).pass_context(),
        near=True,
    )
    assert len(portable.applied("fuse-bn-act")) == 3


def test_a_place_is_one_candidate() -> None:
    """Adds without a product and relus without a norm are no candidates; a place counts once."""
    with fresh() as (main, _):
        x = static.data("x", [2, 8], "float32")
        hidden = nn.functional.relu(nn.Linear(8, 8)(x))
        out = nn.functional.relu(paddle.add(nn.Linear(8, 8)(hidden), x))
        flags = strategy(("fuse_gemm_epilogue", "fuse_bn_act_ops", "fuse_bn_add_act_ops"))
        rows = {row.pass_name: row for row in paddle.explain(main, flags, [out]).table()}
    found = {name: (row.fired, row.candidates) for name, row in rows.items() if row.asked}
    assert found == {
        "fuse-gemm-epilogue": (2, 2),
        "fuse-bn-add-act": (0, 0),
        "fuse-bn-act": (0, 0),
    }


def test_a_pattern_that_is_taken_and_refused() -> None:
    """When another fusion has the ops, the reason is the one without that fusion."""
    with fresh() as (main, _):
        x = static.data("x", [2, 8], "float32")
        hidden = nn.functional.relu(nn.Linear(8, 8)(x))
        out = nn.functional.sigmoid(nn.Linear(8, 8)(hidden))
        flags = strategy(("fuse_gemm_epilogue", "fused_feedforward"))
        report = paddle.explain(main, flags, [out])
    kinds = {row.kind for row in report.refusals() if row.pass_name == "fused-feedforward"}
    assert kinds == {"bare-layers"}
