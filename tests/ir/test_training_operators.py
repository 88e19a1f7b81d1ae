"""Operators that only saved training programs have: storage, loss scaling, recomputation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.ops.rearrange import TriangleOf
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.program import Operator, Program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt_tests.runtime.training_models import load, training_cases

Array = np.ndarray[Any, Any]
Slots = Mapping[str, Sequence[str]]


def computed(
    type: str,
    inputs: Mapping[str, Mapping[str, Array]],
    outputs: Mapping[str, Sequence[str]],
    **attrs: Any,
) -> dict[str, Array]:
    """Compute one operator on these inputs, which are grouped by slot and name."""
    program = Program()
    block = program.global_block()
    feed = {name: array for slot in inputs.values() for name, array in slot.items()}
    for name, array in feed.items():
        block.create_var(name, array.shape, array.dtype.name)
    for names in outputs.values():
        for name in names:
            block.create_var(name)
    slots = {slot: list(held) for slot, held in inputs.items()}
    block.ops.append(Operator(block, type, slots, outputs, attrs))
    wanted = [name for names in outputs.values() for name in names]
    found = static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=wanted)
    return dict(zip(wanted, found, strict=True))


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def test_coalesce_tensor() -> None:
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), f32(7, 8)
    found = computed(
        "coalesce_tensor",
        {"Input": {"a": a, "b": b}},
        {"Output": ["c", "d"], "FusedOutput": ["flat"]},
        use_align=False,
        copy_data=True,
        dtype=5,
    )
    np.testing.assert_array_equal(found["flat"], [*a.reshape(-1), *b])
    np.testing.assert_array_equal(found["c"], a)


def test_coalesce_tensor_with_gaps() -> None:
    with pytest.raises(UnsupportedError, match="use_align"):
        computed(
            "coalesce_tensor",
            {"Input": {"a": f32(1)}},
            {"Output": ["c"], "FusedOutput": ["flat"]},
            use_align=True,
        )


def test_norm() -> None:
    x = f32(3, 4).reshape(1, 2)
    found = computed("norm", {"X": {"x": x}}, {"Out": ["out"], "Norm": ["norm"]}, axis=1)
    np.testing.assert_allclose(found["out"], [[0.6, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(found["norm"], [[5.0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "unscaled", "found_infinite"),
    [
        ([[1, 2], [3, 4]], [[0.125, 0.25], [0.375, 0.5]], False),
        ([[1, 2], [np.inf, 4]], [[0.125, 0.25], [np.nan, 0]], True),
        ([[np.nan, 2], [3, 4]], [[np.nan, 0], [0, 0]], True),
    ],
)
def test_check_finite_and_unscale(
    x: list[list[float]], unscaled: list[list[float]], found_infinite: bool
) -> None:
    """check_finite_and_unscale gives the numbers of Paddle 2.6."""
    found = computed(
        "check_finite_and_unscale",
        {"X": {"a": f32(*x[0]), "b": f32(*x[1])}, "Scale": {"scale": f32(8)}},
        {"Out": ["c", "d"], "FoundInfinite": ["found"]},
    )
    np.testing.assert_array_equal(found["c"], f32(*unscaled[0]))
    np.testing.assert_array_equal(found["d"], f32(*unscaled[1]))
    assert found["found"].tolist() == [found_infinite]


@pytest.mark.parametrize(
    ("between", "flag", "one_factor"),
    [
        ("", "found", True),
        ("reads", "found", False),
        ("", "other", False),
        ("joins", "joined", True),
        ("overwrites", "found", False),
    ],
)
def test_gradients_that_become_zeros_have_one_factor(
    between: str, flag: str, one_factor: bool
) -> None:
    """Gradients share one factor if `update_loss_scaling` zeroes them before another op reads."""
    program = Program()
    block = program.global_block()
    feed = {"a": f32(1, 2), "b": f32(np.inf, 3), "c": f32(4, 5), "scale": f32(8)}
    feed |= dict.fromkeys(("good", "bad"), np.zeros(1, np.int32))
    feed["other"] = np.array([True])
    for name, array in feed.items():
        block.create_var(name, array.shape, array.dtype.name)
    for name, shape in {"found": [1], "joined": [1], "both": [2]}.items():
        block.create_var(name, shape, "bool")
    block.create_var("seen")

    def append(type: str, inputs: Slots, outputs: Slots, **attrs: Any) -> None:
        block.ops.append(Operator(block, type, inputs, outputs, attrs))

    gradients = ["a", "b", "c"]
    slots = {"X": gradients, "Scale": ["scale"]}, {"Out": gradients, "FoundInfinite": ["found"]}
    append("check_finite_and_unscale", *slots)
    if between == "reads":
        append("scale", {"X": ["c"]}, {"Out": ["seen"]}, scale=1.0)
    elif between == "joins":
        append("concat", {"X": ["found", "other"]}, {"Out": ["both"]}, axis=0)
        append("reduce_any", {"X": ["both"]}, {"Out": ["joined"]}, reduce_all=True, keep_dim=True)
    elif between == "overwrites":
        append("assign", {"X": ["other"]}, {"Out": ["found"]})
    state = {"PrevLossScaling": ["scale"], "InGoodSteps": ["good"], "InBadSteps": ["bad"]}
    after = {"LossScaling": ["scale"], "OutGoodSteps": ["good"], "OutBadSteps": ["bad"]}
    append(
        "update_loss_scaling",
        {"X": gradients, "FoundInfinite": [flag], **state},
        {"Out": gradients, **after},
        incr_every_n_steps=3,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2.0,
        decr_ratio=0.5,
    )
    fetches = [*gradients, "scale", *(["seen"] if between == "reads" else [])]
    module = parse_program(program, tuple(feed), tuple(fetches))
    assert any(isinstance(op, TriangleOf) for op in module.walk()) != one_factor
    found = static.Executor(paddle.CPUPlace()).run(program, feed=feed, fetch_list=fetches)
    for gradient in found[:3]:
        np.testing.assert_array_equal(gradient, f32(0, 0))
    if between == "reads":
        np.testing.assert_array_equal(found[-1], f32(0, 0))


@pytest.mark.parametrize("scale", [2.0**126, 2.0**127, 3e38, 2.0**-100, 3.0])
def test_unscaling_by_very_large_and_small_numbers(scale: float) -> None:
    """A large scale's inverse is denormal, and would flush the gradients to zero."""
    found = computed(
        "check_finite_and_unscale",
        {"X": {"a": f32(0.75 * scale, -0.25 * scale, 0.0)}, "Scale": {"scale": f32(scale)}},
        {"Out": ["c"], "FoundInfinite": ["found"]},
    )
    np.testing.assert_allclose(
        found["c"], f32(0.75 * scale, -0.25 * scale, 0.0) / np.float32(scale)
    )
    assert found["found"].tolist() == [False]


@pytest.mark.parametrize(
    ("infinite", "scale", "good", "bad", "after"),
    [
        (False, 8.0, 0, 0, (8.0, 1, 0)),
        (False, 8.0, 2, 1, (16.0, 0, 0)),
        (True, 8.0, 1, 0, (8.0, 0, 1)),
        (True, 8.0, 1, 1, (4.0, 0, 0)),
        (True, 1.5, 1, 1, (1.0, 0, 0)),
        (False, 3e38, 2, 0, (3e38, 0, 0)),
    ],
)
def test_update_loss_scaling(
    infinite: bool, scale: float, good: int, bad: int, after: tuple[float, int, int]
) -> None:
    """update_loss_scaling gives the numbers of Paddle 2.6."""
    found = computed(
        "update_loss_scaling",
        {
            "X": {"x": f32(1, 2)},
            "FoundInfinite": {"infinite": np.array([infinite])},
            "PrevLossScaling": {"scale": f32(scale)},
            "InGoodSteps": {"good": np.array([good], np.int32)},
            "InBadSteps": {"bad": np.array([bad], np.int32)},
        },
        {
            "Out": ["y"],
            "LossScaling": ["new"],
            "OutGoodSteps": ["more_good"],
            "OutBadSteps": ["more_bad"],
        },
        incr_every_n_steps=3,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2.0,
        decr_ratio=0.5,
        stop_update=False,
    )
    np.testing.assert_array_equal(found["y"], f32(0, 0) if infinite else f32(1, 2))
    assert (found["more_good"].item(), found["more_bad"].item()) == after[1:]
    np.testing.assert_allclose(found["new"], [after[0]], rtol=1e-6)


def test_repeated_operators() -> None:
    """Operators that recompute values before their gradients, to save memory, change no number."""
    recorded = load(training_cases()["train_mlp_sgd"])
    block = recorded.main.global_block()
    ops = block.ops
    at = next(i for i, op in enumerate(ops) if op.type == "relu_grad")
    again: list[Operator] = []
    for op in (o for o in ops[:at] if o.type in ("mul", "elementwise_add")):
        if op.output_arg_names[0].startswith("fc_0"):
            again.append(op.copy_to(block))
    for name in [name for op in again for name in op.output_arg_names]:
        variable = block.var(name)
        block.create_var(f"{name}.subprog_0", variable.shape, variable.dtype)
        for op in (*again, *ops[at:]):
            op.rename(name, f"{name}.subprog_0")
    ops[at:at] = again
    module = parse_program(recorded.main, recorded.feeds[0], recorded.fetches)
    assert sum(isinstance(op, Grad) for op in module.walk()) == 1
    assert not any(isinstance(op, Vjp) for op in module.walk())


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("drop", "does not compute the gradient"),
        ("scale", "not the gradient of a result of its forward operator while|does not compute"),
    ],
)
def test_gradients_inside_a_loop_that_are_not_standard(edit: str, message: str) -> None:
    recorded = load(training_cases()["train_while_loop"])
    block = next(
        b for b in recorded.main.blocks if any(op.type == "matmul_v2_grad" for op in b.ops)
    )
    if edit == "drop":
        block.ops[:] = [op for op in block.ops if op.type != "matmul_v2_grad"]
    else:
        (name,) = next(op for op in block.ops if op.type == "tanh_grad").output_arg_names
        at = next(i for i, op in enumerate(block.ops) if op.type == "tanh_grad")
        attrs = {"scale": 2.0, "bias": 0.0}
        block.ops.insert(at + 1, Operator(block, "scale", {"X": [name]}, {"Out": [name]}, attrs))
    with pytest.raises(UnsupportedError, match=message):
        parse_program(recorded.main, recorded.feeds[0], recorded.fetches)


def test_unscaling_has_no_chain() -> None:
    """No factor depends on another: XLA would recompute a chain for each of its readers."""
    program = Program()
    block = program.global_block()
    gradients, outs = ([f"{letter}{at}" for at in range(16)] for letter in "xy")
    for name in gradients:
        block.create_var(name, [2], "float32")
    block.create_var("scale", [1], "float32")
    for name in (*outs, "found"):
        block.create_var(name)
    slots = {"X": gradients, "Scale": ["scale"]}, {"Out": outs, "FoundInfinite": ["found"]}
    block.ops.append(Operator(block, "check_finite_and_unscale", *slots, {}))
    module = parse_program(program, (*gradients, "scale"), (*outs, "found"))
    depth: dict[Any, int] = {}
    for op in main_function(module).body.block.ops:
        before = max((depth.get(value, 0) for value in op.operands), default=0)
        depth.update(dict.fromkeys(op.results, before + 1))
    assert max(depth.values()) < len(gradients)
