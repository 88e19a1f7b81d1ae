"""Programs with explicit gradient operators: whole derivatives are raised, other operators stay.

The network is s = relu(x w) + x w with the mean of s squared as its loss; the tests change its
backward pass and compute the result by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.program import Operator, Program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.runtime.compiled_program import CompiledProgram

Array = np.ndarray[Any, Any]
Slots = Mapping[str, Sequence[str]]
Step = tuple[str, Slots, Slots, Mapping[str, Any]]

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 3)).astype(np.float32)
W = RNG.standard_normal((3, 5)).astype(np.float32)
SEED: Step = ("fill_constant", {}, {"Out": ["loss@GRAD"]}, {"shape": [], "value": 1.0, "dtype": 5})
FLAT = {"dim": [], "reduce_all": True}


def forward() -> list[Step]:
    return [
        ("mul", {"X": ["x"], "Y": ["w"]}, {"Out": ["h"]}, {}),
        ("relu", {"X": ["h"]}, {"Out": ["r"]}, {}),
        ("elementwise_add", {"X": ["r"], "Y": ["h"]}, {"Out": ["s"]}, {"axis": -1}),
        ("square", {"X": ["s"]}, {"Out": ["l"]}, {}),
        ("reduce_mean", {"X": ["l"]}, {"Out": ["loss"]}, FLAT),
    ]


def backward() -> dict[str, Step]:
    """Return the gradient operators by name, in order, so that tests can change some."""
    return {
        "seed": SEED,
        "mean": (
            "reduce_mean_grad",
            {"X": ["l"], "Out@GRAD": ["loss@GRAD"]},
            {"X@GRAD": ["l@GRAD"]},
            FLAT,
        ),
        "square": (
            "square_grad",
            {"X": ["s"], "Out@GRAD": ["l@GRAD"]},
            {"X@GRAD": ["s@GRAD"]},
            {},
        ),
        "add": (
            "elementwise_add_grad",
            {"X": ["r"], "Y": ["h"], "Out@GRAD": ["s@GRAD"]},
            {"X@GRAD": ["r@GRAD"], "Y@GRAD": ["h@GRAD@RENAME@0"]},
            {"axis": -1},
        ),
        "relu": (
            "relu_grad",
            {"Out": ["r"], "Out@GRAD": ["r@GRAD"]},
            {"X@GRAD": ["h@GRAD@RENAME@1"]},
            {},
        ),
        "sum": (
            "sum",
            {"X": ["h@GRAD@RENAME@0", "h@GRAD@RENAME@1"]},
            {"Out": ["h@GRAD"]},
            {},
        ),
        "mul": (
            "mul_grad",
            {"X": ["x"], "Y": ["w"], "Out@GRAD": ["h@GRAD"]},
            {"X@GRAD": [], "Y@GRAD": ["w@GRAD"]},
            {},
        ),
        "sgd": (
            "sgd",
            {"Param": ["w"], "Grad": ["w@GRAD"], "LearningRate": ["rate"]},
            {"ParamOut": ["w"]},
            {},
        ),
    }


def scaled(name: str, factor: float) -> Step:
    return ("scale", {"X": [name]}, {"Out": [name]}, {"scale": factor, "bias": 0.0})


def insert(steps: dict[str, Step], after: str, step: Step) -> None:
    """Insert a step after another one."""
    names = list(steps)
    later = {name: steps.pop(name) for name in names[names.index(after) + 1 :]}
    steps |= {"inserted": step, **later}


def program_of(steps: Sequence[Step]) -> Program:
    """Build a program as read from a file, with unchecked operators."""
    program = Program()
    block = program.global_block()
    shapes = {"x": (-1, X.shape[1]), "w": W.shape, "rate": (1,), "loss": (), "loss@GRAD": ()}
    for type, inputs, outputs, attrs in steps:
        names = [n for slots in (inputs, outputs) for group in slots.values() for n in group]
        for name in names:
            shape = shapes.get(name, W.shape if name.startswith("w") else (-1, W.shape[1]))
            persistable = name in ("w", "rate", "rows")
            block.create_var(name, shape, "float32", persistable=persistable)
        block.ops.append(Operator(block, type, inputs, outputs, attrs))
    return program


def run(program: Program | CompiledProgram, fetches: Sequence[str]) -> list[Array]:
    """Run one step, and return its fetches."""
    scope = static.global_scope()
    scope.var("w").get_tensor().set(W)
    scope.var("rate").get_tensor().set(np.full((1,), 0.1, np.float32))
    return static.Executor(paddle.CPUPlace()).run(program, feed={"x": X}, fetch_list=list(fetches))


def by_hand(*, around: float = 1.0, through: float = 1.0, below: float = 1.0) -> Array:
    """Compute the gradient of w with factors for the two paths to h and for the part below."""
    h = X.astype(np.float64) @ W
    s = np.maximum(h, 0.0) + h
    back = 2.0 * s / s.size
    return X.T.astype(np.float64) @ (below * (around * back + through * back * (h > 0)))


def counts(program: Program, fetches: Sequence[str] = ("w@GRAD",)) -> tuple[int, int]:
    """Count `pd.grad` and `pd.vjp` of the program, without copies that only mark a gradient."""
    ops = list(parse_program(program, ["x"], fetches).walk())
    return (
        sum(isinstance(op, Grad) and not isinstance(op.of[0].owner, Assign) for op in ops),
        sum(isinstance(op, Vjp) for op in ops),
    )


def check(program: Program, expected: Array) -> None:
    (found,) = run(program, ["w@GRAD"])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    updated = np.asarray(static.global_scope().var("w").get_tensor())
    np.testing.assert_allclose(updated, W - 0.1 * expected, rtol=1e-4, atol=1e-6)


def changed(edit: Callable[[dict[str, Step]], None] | None = None) -> Program:
    steps = backward()
    if edit is not None:
        edit(steps)
    return program_of([*forward(), *steps.values()])


def test_the_standard_structure_is_one_derivative() -> None:
    program = changed()
    assert counts(program) == (1, 0)
    check(program, by_hand())


def test_intermediate_gradients_can_be_fetched() -> None:
    """A derivative of a middle value becomes one more result of the single derivative."""
    program = changed()
    assert counts(program, ["w@GRAD", "h@GRAD", "s@GRAD"]) == (1, 0)
    h, s = run(program, ["h@GRAD", "s@GRAD"])
    np.testing.assert_allclose(X.T @ h, by_hand(), rtol=1e-4)
    np.testing.assert_allclose(h, s * (1 + (X @ W > 0)), rtol=1e-4)


def test_a_part_of_a_sum_that_is_fetched() -> None:
    """A part of a gradient is no derivative of a value: the operators stay."""
    program = changed()
    grads, vjps = counts(program, ["h@GRAD@RENAME@1"])
    assert (grads, vjps > 0) == (0, True)
    found, _ = run(program, ["h@GRAD@RENAME@1", "w@GRAD"])
    h = X @ W
    np.testing.assert_allclose(found, 2 * (np.maximum(h, 0) + h) / h.size * (h > 0), rtol=1e-4)


@pytest.mark.parametrize("factor", [0.5, 1.0, 8.0])
def test_any_seed(factor: float) -> None:
    def edit(steps: dict[str, Step]) -> None:
        steps["seed"] = (*SEED[:3], {**SEED[3], "value": factor})

    program = changed(edit)
    assert counts(program) == (1, 0)
    check(program, by_hand(below=factor))


def test_one_gradient_doubled_in_the_middle() -> None:
    """A path with a doubled gradient is no derivative."""

    def edit(steps: dict[str, Step]) -> None:
        insert(steps, "add", scaled("h@GRAD@RENAME@0", 2.0))

    program = changed(edit)
    grads, vjps = counts(program)
    assert grads == 0 and vjps == 5
    found = paddle.explain(program, fetch_list=["w@GRAD"])
    told = found.to_json()["gradients"]
    assert told["kept_operators"] == 5
    assert len(told["reasons"]) == 1
    assert told["reasons"][0] in " ".join(str(found).split())
    check(program, by_hand(around=2.0))


def test_a_whole_gradient_doubled() -> None:
    """There is one derivative above the change and one below it."""

    def edit(steps: dict[str, Step]) -> None:
        insert(steps, "sum", scaled("h@GRAD", 2.0))

    program = changed(edit)
    assert counts(program) == (2, 0)
    check(program, by_hand(below=2.0))


def test_one_gradient_dropped() -> None:
    """The sum omits one path, though its gradient is present."""

    def edit(steps: dict[str, Step]) -> None:
        steps["sum"] = ("sum", {"X": ["h@GRAD@RENAME@1"]}, {"Out": ["h@GRAD"]}, {})

    program = changed(edit)
    assert counts(program)[0] == 0
    check(program, by_hand(around=0.0))


def test_one_way_stopped() -> None:
    """Without the activation's gradient operator, no gradient passes through its result."""

    def edit(steps: dict[str, Step]) -> None:
        del steps["relu"]
        steps["sum"] = ("assign", {"X": ["h@GRAD@RENAME@0"]}, {"Out": ["h@GRAD"]}, {})

    program = changed(edit)
    grads = [op for op in parse_program(program, ["x"], []).walk() if isinstance(op, Grad)]
    assert [len(grad.no_grad) for grad in grads] == [1]
    assert counts(program) == (1, 0)
    check(program, by_hand(through=0.0))


def test_stopped_by_zeros() -> None:
    def edit(steps: dict[str, Step]) -> None:
        steps["relu"] = (
            "fill_zeros_like",
            {"X": ["h"]},
            {"Out": ["h@GRAD@RENAME@1"]},
            {},
        )

    program = changed(edit)
    assert counts(program) == (1, 0)
    check(program, by_hand(through=0.0))


def test_stopped_before_the_operator() -> None:
    """The activation's gradient operator gets zeros as its cotangent."""

    def edit(steps: dict[str, Step]) -> None:
        insert(steps, "add", ("fill_zeros_like", {"X": ["r"]}, {"Out": ["r@GRAD"]}, {}))

    program = changed(edit)
    assert counts(program) == (1, 0)
    check(program, by_hand(through=0.0))


def test_a_stopped_gradient_that_is_fetched() -> None:
    """A fetched gradient cannot belong to a value at which gradients stop."""

    def edit(steps: dict[str, Step]) -> None:
        rest = ("fill_zeros_like", {"X": ["r"]}, {"Out": ["zero"]}, {})
        insert(steps, "add", rest)
        steps["relu"] = ("relu_grad", {"Out": ["r"], "Out@GRAD": ["zero"]}, *steps["relu"][2:])

    program = changed(edit)
    check(program, by_hand(through=0.0))
    found, gradient = run(program, ["r@GRAD", "w@GRAD"])
    h = X @ W
    np.testing.assert_allclose(found, 2 * (np.maximum(h, 0) + h) / h.size, rtol=1e-4)
    np.testing.assert_allclose(gradient, by_hand(through=0.0), rtol=1e-4, atol=1e-6)


def test_names_do_not_matter_much() -> None:
    """Gradients are recognized by operands and results, whatever their names."""
    renamed = {"s@GRAD": "a", "r@GRAD": "b", "h@GRAD": "c", "h@GRAD@RENAME@1": "d"}
    program = changed()
    for old, new in renamed.items():
        for op in program.global_block().ops:
            op.rename(old, new)
        program.global_block().create_var(new, (-1, W.shape[1]), "float32")
    assert counts(program) == (1, 0)
    check(program, by_hand())


def test_a_gradient_operator_of_nothing() -> None:
    def edit(steps: dict[str, Step]) -> None:
        steps["relu"] = ("relu_grad", {"Out": ["s"], "Out@GRAD": ["r@GRAD"]}, *steps["relu"][2:])

    with pytest.raises(UnsupportedError, match="no earlier operator relu"):
        run(changed(edit), ["w@GRAD"])


def test_other_attributes() -> None:
    def edit(steps: dict[str, Step]) -> None:
        steps["add"] = (*steps["add"][:3], {"axis": 0})

    with pytest.raises(UnsupportedError, match="has axis = 0"):
        run(changed(edit), ["w@GRAD"])


def on_two_devices(program: Program) -> CompiledProgram:
    return CompiledProgram(program).with_data_parallel(
        loss_name="loss", places=static.cpu_places(2)
    )


def test_data_parallel_without_a_derivative() -> None:
    """The update's gradient is summed over devices, and starts from each one's loss share."""

    def edit(steps: dict[str, Step]) -> None:
        insert(steps, "add", scaled("h@GRAD@RENAME@0", 2.0))

    program = changed(edit)
    assert counts(program)[1] > 0
    run(on_two_devices(program), ["loss"])
    updated = np.asarray(static.global_scope().var("w").get_tensor())
    np.testing.assert_allclose(updated, W - 0.1 * by_hand(around=2.0), rtol=1e-4, atol=1e-6)


def test_data_parallel_with_an_update_by_something_else() -> None:
    """An update by a gradient of no parameter is refused, as its sum is undefined."""

    def edit(steps: dict[str, Step]) -> None:
        insert(steps, "add", scaled("h@GRAD@RENAME@0", 2.0))
        inputs = {"Param": ["rows"], "Grad": ["h@GRAD"], "LearningRate": ["rate"]}
        steps["odd"] = ("sgd", inputs, {"ParamOut": ["rows"]}, {})

    with pytest.raises(UnsupportedError, match=r"pd\.vjp"):
        run(on_two_devices(changed(edit)), ["loss"])


def test_data_parallel_below_a_change() -> None:
    """A derivative that starts from another one's result is already scaled."""

    def edit(steps: dict[str, Step]) -> None:
        insert(steps, "sum", scaled("h@GRAD", 2.0))

    run(on_two_devices(changed(edit)), ["loss"])
    updated = np.asarray(static.global_scope().var("w").get_tensor())
    np.testing.assert_allclose(updated, W - 0.1 * by_hand(below=2.0), rtol=1e-4, atol=1e-6)


@pytest.mark.every(2)
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_dropout_takes_the_same_mask(factor: float) -> None:
    """The mask is the same in a derivative, and in a separate gradient operator."""
    keep = {"dropout_prob": 0.5, "dropout_implementation": "upscale_in_train"}
    steps = backward()
    steps["add"] = (*steps["add"][:2], {"X@GRAD": ["r@GRAD"], "Y@GRAD": ["h@GRAD@RENAME@0"]}, {})
    steps["relu"] = (
        "dropout_grad",
        {"Mask": ["mask"], "Out@GRAD": ["r@GRAD"]},
        {"X@GRAD": ["h@GRAD@RENAME@1"]},
        keep,
    )
    before = forward()
    before[1] = ("dropout", {"X": ["h"]}, {"Out": ["r"], "Mask": ["mask"]}, keep)
    order = list(steps.values())
    if factor != 1.0:
        order.insert(5, scaled("h@GRAD@RENAME@1", factor))
    program = program_of([*before, *order])
    assert (counts(program)[0] == 0) == (factor != 1.0)
    r, s, w = run(program, ["r", "s", "w@GRAD"])
    assert 0 < np.count_nonzero(r) < r.size
    back = 2 * s / s.size
    np.testing.assert_allclose(w, X.T @ (back + factor * 2 * back * (r != 0)), rtol=1e-4, atol=1e-6)
