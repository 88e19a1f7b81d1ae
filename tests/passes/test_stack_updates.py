"""Mixed precision, merged gradients and a clipped norm: few ops for many parameters, equal bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import nn, static
from graphopt.debug.compare import assert_same_results, interpret_module
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.storage.stack_updates import StackUpdates
from graphopt.runtime.compile.compilation import Compilation, Optimized
from graphopt.testing import parse
from graphopt_tests.example_counts import examples
from graphopt_tests.frontend.programs import fresh

LAYERS = 4
FLAG = "FLAGS_graphopt_without"


def minimized() -> Any:
    """Build linear layers of one shape with their optimizer; return the loss."""
    x = static.data("x", [2, 3], "float32")
    for _ in range(LAYERS):
        x = nn.Linear(3, 3)(x)
    loss = paddle.mean(x)
    adam = paddle.optimizer.AdamW(0.1, grad_clip=nn.ClipGradByGlobalNorm(1.0))
    scaled = static.amp.decorate(adam, init_loss_scaling=8.0, use_dynamic_loss_scaling=True)
    paddle.incubate.optimizer.GradientMergeOptimizer(scaled, k_steps=2).minimize(loss)
    return loss


def optimized(loss: Any) -> Optimized:
    """Optimize the program as compiled for a CPU."""
    program = static.default_main_program()
    places = (paddle.CPUPlace(),)
    return Compilation(program, ("x",), (loss.name,), places=places).optimize()


def counted(each: Optimized) -> Counter[str]:
    return Counter(op.name for op in each.module.walk())


def inputs_of(module: Any, extreme: float) -> dict[str, Any]:
    """Make the state before the second of two steps; one gradient sum has this number."""
    draw = np.random.default_rng(0)
    arguments = zip(
        signature_of(module).arguments, main_function(module).body.block.args, strict=True
    )
    found = {
        port.name: np.abs(draw.standard_normal(shape_of(a.type))).astype(dtype_of(a.type).numpy)
        for port, a in arguments
    }
    found["gradient_merge_k"][:], found["gradient_merge_step"][:] = 2, 1
    next(v for name, v in found.items() if name.endswith("@GradientMerge")).flat[0] = extreme
    return found


def test_few_ops_and_the_same_bits() -> None:
    """Weights share one update, and so do biases, with norms and selects, also if not finite."""
    with fresh():
        loss = minimized()
        stacked = optimized(loss)
        paddle.set_flags({FLAG: "stack-updates"})
        try:
            alone = optimized(loss)
        finally:
            paddle.set_flags({FLAG: ""})
    new, old = counted(stacked), counted(alone)
    assert (old["pd.adamw"], new["pd.adamw"], new["pd.fused_adam_"]) == (2 * LAYERS, 0, 2)
    assert (old["pd.squared_l2_norm"], new["pd.squared_l2_norm"]) == (2 * LAYERS, 0)
    assert old["pd.where"] - new["pd.where"] == (2 * LAYERS - 2) * 6
    for extreme in (1.0, np.inf):
        inputs = inputs_of(stacked.module, extreme)
        found = interpret_module(stacked.module, inputs)
        for name, value in interpret_module(alone.module, inputs).items():
            np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value), name)
        kept = [name for name, value in inputs.items() if name.endswith(".w_0")]
        assert kept
        for name in kept:
            same = np.array_equal(np.asarray(found[f"pd.state {name}"]), inputs[name])
            assert same == (extreme != 1.0), name


def test_ops_that_share_all_operands_are_no_stack() -> None:
    """A moving average casts its decay for each parameter, which is no item of a stack."""
    with fresh():
        x = static.data("x", [2, 3], "float32")
        for _ in range(LAYERS):
            x = nn.Linear(3, 3)(x)
        loss = paddle.mean(x)
        paddle.optimizer.Adam(0.1, grad_clip=nn.ClipGradByValue(0.1)).minimize(loss)
        static.ExponentialMovingAverage(0.8).update()
        stacked = optimized(loss)
        paddle.set_flags({FLAG: "stack-updates"})
        try:
            alone = optimized(loss)
        finally:
            paddle.set_flags({FLAG: ""})
    inputs = {
        port.name: np.full(shape_of(argument.type), 0.5, dtype_of(argument.type).numpy)
        for port, argument in zip(
            signature_of(alone.module).arguments,
            main_function(alone.module).body.block.args,
            strict=True,
        )
    }
    found = interpret_module(stacked.module, inputs)
    for name, value in interpret_module(alone.module, inputs).items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value), name)


SHAPES = ("", "1x", "3x", "2x3x")
# what gradients take: the ops of each, in which %{g} is the gradient and %{v} the result before,
# and ops of all together, which begin with "="
STEPS = (
    ("scale(%{g}) {{scale = {number}}}",),
    ("multiply(%{g}, %c)",),
    ("multiply(%one, %{g})",),
    ("subtract(%{g}, %all)",),
    ("subtract(%c{i}, %{g})",),
    ("multiply(%{g}, %all{i})",),
    ("where(%flag, %p{i}, %{g})",),
    ("clip(%{g}) {{max = 0.5, min = -0.5}}",),
    ("cast(%{g}) {{dtype = f16}}", "cast(%{v}) {{dtype = f32}}"),
    ("squared_l2_norm(%{g})", "reshape(%{v}) {{shape = []}}", "multiply(%{g}, %{v})"),
    ("squared_l2_norm(%{g})", "=add_n(inputs = [{every}])", "reshape(%{v}) {{shape = []}}",
     "multiply(%{g}, %{v})"),
    ("sum(%{g})", "subtract(%{g}, %{v})"),
    ("sum(%{g}) {{axis = [0]}}", "subtract(%{g}, %{v})"),
    ("add(%{g}, %{g})",),
    ("add(%{g}, %{other})",),
)  # fmt: skip
EXAMPLES = examples(300)


def updates(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """Draw the text of updates of parameters of one shape, whose gradients take the same steps.

    Some parameters skip a step or have another number in it, gradients are shared or fetched,
    and an update may read another one's result.
    """

    def seldom() -> bool:
        return draw(st.integers(0, 9)) == 9

    shape, count = draw(st.sampled_from(SHAPES)), draw(st.integers(2, 4))
    type_, one = f"tensor<{shape}f32>", f"tensor<{'1x' if shape else ''}f32>"
    arguments = [f"feed %one: {one}", f"feed %all: {type_}", "feed %c: tensor<f32>"]
    arguments += ["feed %flag: tensor<i1>", "state %lr: tensor<1xf32>"]
    for i in range(count):
        arguments += [f"feed %g{i}: {type_}", f"feed %all{i}: {type_}", f"feed %c{i}: tensor<f32>"]
        arguments += [f"state %p{i}: {type_}", f"state %m{i}: {type_}"]
    lines: list[str] = []

    def add(op: str) -> str:
        lines.append(f"%v{len(lines)} = pd.{op}")
        return f"v{len(lines) - 1}"

    flows = [f"g{0 if seldom() else i}" for i in range(count)]
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)):
        made = list(flows)
        for op in step:
            if "axis" in op and not shape:
                continue
            every = ", ".join(f"%{v}" for v in made)
            if op.startswith("="):
                made = [add(op[1:].format(every=every))] * count
                continue
            numbers = [0.25 if seldom() else 0.5 for _ in flows]
            others = flows[1:] + flows[:1]
            made = [
                add(op.format(g=g, v=v, i=i, number=number, other=other))
                for i, (g, v, number, other) in enumerate(
                    zip(flows, made, numbers, others, strict=True)
                )
            ]
        flows = [old if seldom() else new for old, new in zip(flows, made, strict=True)]
    new: list[str] = []
    with_momentum = draw(st.booleans())
    for i, flow in enumerate(flows):
        gradient = add(f"add(%{flow}, %{new[-1]})") if new and seldom() else flow
        if with_momentum:
            read = f"%p{i}, %{gradient}, %m{i}, %lr"
            lines.append(f"%n{i}, %s{i} = pd.momentum({read}) {{mu = 0.9}}")
            new.append(f"n{i}")
        else:
            new.append(add(f"sgd(%p{i}, %{gradient}, %lr)"))
    fetched = [flow for flow in dict.fromkeys(flows) if seldom()]
    gives = [f'state "p{i}": {type_}' for i in range(count)]
    gives += [f'fetch "{flow}": {type_}' for flow in fetched]
    if with_momentum:
        fetched += [f"s{i}" for i in range(count)]
        gives += [f'state "m{i}": {type_}' for i in range(count)]
    lines.append(
        f"func.return {', '.join(f'%{name}' for name in (*new, *fetched))} : "
        f"{', '.join([type_] * len(gives))}"
    )
    body = "\n".join(lines)
    return f"func.func @main({', '.join(arguments)}) -> ({', '.join(gives)}) {{\n{body}\n}}"


@pytest.mark.exhaustive
def test_random_updates_compute_the_same() -> None:
    """New parameters and fetches are equal; the signature does not change."""
    stacked = 0

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        nonlocal stacked
        before = parse(updates(data.draw))
        after = before.clone()
        outcomes = StackUpdates(fewest=2).rewrite(after)
        after.verify()
        stacked += any(isinstance(outcome, Applied) for outcome in outcomes)
        assert signature_of(before) == signature_of(after)
        assert_same_results(before, after, run=interpret_module)

    check()
    assert stacked > EXAMPLES // 4, stacked
