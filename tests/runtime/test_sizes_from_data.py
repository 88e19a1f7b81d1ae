"""Sizes that a run decides: folded from shapes if possible, else op by op."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid
from graphopt.errors import UnsupportedError
from graphopt.lowering.dynamic import NeedsData
from graphopt.lowering.plan import Plan
from graphopt.lowering.replication import ALONE, replica_function
from graphopt.passes.table.explain import as_json, as_text
from graphopt.runtime.compile.compilation import Compilation

PACKAGE = str(Path(paddle.__file__).parent)
static = paddle.static
ROWS = np.arange(12, dtype="float32").reshape(3, 4) - 4


def program(build: Any) -> tuple[Any, Any, list[Any]]:
    """Build main and startup program, and the results of `build(x)` for x [-1, 4]."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        fetches = build(static.data("x", [None, 4], "float32"))
    return main, startup, fetches


def run(build: Any, **feed: Any) -> tuple[list[Any], dict[str, int]]:
    main, startup, fetches = program(build)
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        if startup.global_block().ops:
            executor.run(startup)
        found = executor.run(main, feed={"x": ROWS, **feed}, fetch_list=fetches)
    return found, executor.stats


def test_what_follows_from_shapes_is_one_xla_program() -> None:
    """Arithmetic on shapes is computed while the program is traced."""

    def build(x: Any) -> list[Any]:
        rows = paddle.shape(x)[0]
        twice = paddle.reshape(x, [rows * 2, 2])
        assert twice.shape == (-1, 2)
        ones = paddle.ones([rows, 3])
        cut = paddle.slice(x, [0], [rows - 2], [rows])
        return [twice, ones, cut]

    (twice, ones, cut), stats = run(build)
    np.testing.assert_array_equal(twice, ROWS.reshape(6, 2))
    assert ones.shape == (3, 3)
    np.testing.assert_array_equal(cut, ROWS[1:])
    assert stats["op_by_op"] == 0


def test_constants_are_ordinary_properties() -> None:
    """A constant tensor for a shape becomes a static property."""

    def build(x: Any) -> list[Any]:
        shape = paddle.concat([paddle.full([1], 2, "int64"), paddle.full([1], -1, "int64")])
        return [paddle.reshape(x, shape)]

    (out,), stats = run(build)
    assert out.shape == (2, 6)
    assert stats["op_by_op"] == 0


def test_a_fed_shape_is_a_constant() -> None:
    def build(x: Any) -> list[Any]:
        return [paddle.reshape(x, static.data("shape", [2], "int32"))]

    (out,), stats = run(build, shape=np.array([6, 2], "int32"))
    np.testing.assert_array_equal(out, ROWS.reshape(6, 2))
    assert stats["op_by_op"] == 0


def test_training_through_a_mask() -> None:
    """Values of data-dependent size have gradients, update state, and are in the statistics."""

    def build(x: Any) -> list[Any]:
        weight = paddle.create_parameter(
            [4], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)
        )
        kept = paddle.masked_select(x * weight, x > 0.0)
        loss = paddle.mean(kept)
        paddle.optimizer.SGD(1.0).minimize(loss)
        return [loss, weight]

    (loss, weight), stats = run(build)
    positive = np.where(ROWS > 0, ROWS, 0)
    count = (ROWS > 0).sum()
    np.testing.assert_allclose(loss, positive.sum() / count, rtol=1e-6)
    np.testing.assert_allclose(weight, 1 - positive.sum(0) / count, rtol=1e-6)
    assert stats["op_by_op"] == 1


def test_a_known_run_op_by_op_makes_few_calls() -> None:
    """Ops, rules and properties are looked up only in the first run."""

    def build(x: Any) -> list[Any]:
        chosen = paddle.masked_select(x, x > 0)
        for _ in range(30):
            chosen = paddle.scale(paddle.tanh(chosen), 0.5) + paddle.full([1], 0.25)
        return [chosen]

    main, _, fetches = program(build)
    executor, calls = static.Executor(paddle.CPUPlace()), list[str]()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls.append(frame.f_code.co_qualname)

    def step() -> Any:
        return executor.run(main, {"x": ROWS}, fetches)[0]

    first = step()
    step()
    sys.setprofile(note)
    try:
        again = step()
    finally:
        sys.setprofile(None)
    assert executor.stats["op_by_op"] == 1
    np.testing.assert_array_equal(again, first)
    ops = len(main.global_block().ops)
    assert len(calls) < 3 * ops, calls


def test_a_constant_that_became_state() -> None:
    """Another program donates its buffer; the next run has the constant again."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup):
        weight = static.create_global_var([3], 0.0, "float32", persistable=True, name="held_weight")
    reset, step = main.clone(), main.clone()
    with static.program_guard(reset, startup):
        x = static.data("x", [None, 4], "float32")
        fluid.layers.fill_constant([3], "float32", 2.0, out=reset.global_block().var("held_weight"))
        count = paddle.shape(paddle.nonzero(x))[0]
    with static.program_guard(step, startup):
        weight = step.global_block().var("held_weight")
        paddle.assign(weight + 1.0, weight)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    for _ in range(3):
        executor.run(reset, {"x": ROWS}, [count], scope=scope)
        for _ in range(2):
            (found,) = executor.run(step, fetch_list=[weight], scope=scope)
        np.testing.assert_array_equal(found, [4, 4, 4])
    assert executor.stats["op_by_op"] == 1


def test_random_numbers_of_a_fed_shape() -> None:
    def build(x: Any) -> list[Any]:
        shape = static.data("shape", [2], "int64")
        return [paddle.uniform(shape, min=0.0, max=1.0), paddle.uniform([50], min=0.0, max=1.0)]

    (fed, fixed), _ = run(build, shape=np.array([5, 10]))
    assert fed.shape == (5, 10)
    assert 0 <= fed.min() < fed.max() < 1
    assert not np.array_equal(fed.reshape(-1), fixed)


def test_several_steps_in_one_run() -> None:
    """The steps of one run follow each other, as in a compiled loop."""
    main, startup, fetches = program(_count)
    strategy = static.ExecutionStrategy()
    strategy.num_iteration_per_run = 3
    compiled = static.CompiledProgram(main).with_data_parallel(
        loss_name=fetches[0].name, exec_strategy=strategy, places=[paddle.CPUPlace()]
    )
    executor = static.Executor(paddle.CPUPlace())
    with static.scope_guard(static.Scope()):
        executor.run(startup)
        (_, weight) = executor.run(compiled, feed={"x": ROWS}, fetch_list=fetches)
    np.testing.assert_allclose(np.asarray(weight).reshape(-1), [-2.0])


def _count(x: Any) -> list[Any]:
    weight = paddle.create_parameter(
        [1], "float32", default_initializer=paddle.nn.initializer.Constant(1.0)
    )
    loss = paddle.sum(paddle.masked_select(weight, weight > -100.0))
    paddle.optimizer.SGD(1.0).minimize(loss)
    return [loss, weight]


def test_not_over_several_devices() -> None:
    main, _, (found,) = program(lambda x: [paddle.nonzero(x)])
    compiled = static.CompiledProgram(main).with_data_parallel(places=[paddle.CPUPlace()] * 2)
    executor = static.Executor(paddle.CPUPlace())
    with pytest.raises(UnsupportedError, match=r"nonzero.*op by op on one device"):
        executor.run(compiled, feed={"x": ROWS[:2]}, fetch_list=[found])


def test_explain_says_so() -> None:
    main, _, (found,) = program(lambda x: [paddle.nonzero(x)])
    compiled = static.CompiledProgram(main, build_strategy=static.BuildStrategy())
    static.Executor(paddle.CPUPlace()).run(compiled, feed={"x": ROWS}, fetch_list=[found])
    text = " ".join(compiled.explain().split())
    assert "runs op by op on one device, each op compiled alone: 'x' decides" in text
    assert "the size of pd.nonzero" in text


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: [paddle.reshape(x, x)], "must be an int32 or int64 Variable"),
        (lambda x: [paddle.masked_select(x, x)], "'mask' must be a Variable of dtype bool"),
        (lambda x: [paddle.roll(x, [paddle.shape(x)[0]])], "'shifts' cannot have Variables"),
        (lambda x: [paddle.bincount(x)], "'x' should be an integer tensor"),
        (lambda x: [paddle.bincount(paddle.cast(x, "int64"))], "elements of a vector"),
        (
            lambda x: [paddle.reshape(x, static.data("length", [None], "int64"))],
            "number of dimensions in 'shape' must be known",
        ),
    ],
)
def test_errors_when_building(build: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError, UnsupportedError), match=text):
        program(build)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_condition_on_shapes_takes_one_branch(rows: int) -> None:
    """Branches may differ in shape, as only one of them is in the XLA program."""

    def build(x: Any) -> list[Any]:
        many = paddle.shape(x)[0] > 1
        return [static.nn.cond(many, lambda: paddle.concat([x, x], axis=0), lambda: x * 2)]

    (out,), stats = run(build, x=ROWS[:rows])
    np.testing.assert_array_equal(out, np.tile(ROWS, (2, 1)) if rows > 1 else ROWS[:1] * 2)
    assert stats["op_by_op"] == 0


def test_a_branch_uses_sizes_from_outside() -> None:
    """Sizes computed before a branch on data are known inside it."""

    def build(x: Any) -> list[Any]:
        rows = paddle.shape(x)[0]
        positive = paddle.sum(x) > 0
        return [
            static.nn.cond(
                positive, lambda: paddle.ones([rows, 4]), lambda: paddle.full([rows, 4], 2.0) * x
            )
        ]

    (out,), stats = run(build)
    np.testing.assert_array_equal(out, ROWS * 2 if ROWS.sum() <= 0 else np.ones_like(ROWS))
    assert stats["op_by_op"] == 0


def test_a_branch_decides_a_size() -> None:
    """Op by op, a condition on data selects its branch before the other is examined."""

    def ranked(x: Any) -> list[Any]:
        positive = paddle.sum(x) > 100
        flat = paddle.flatten(x)
        return [static.nn.cond(positive, lambda: flat, lambda: paddle.masked_select(x, x > 0))]

    (out,), stats = run(ranked)
    np.testing.assert_array_equal(out, ROWS[ROWS > 0])
    assert stats["op_by_op"] == 1


def test_a_variable_that_one_branch_leaves_undefined() -> None:
    """Paddle's compiler of Python code gives it a magic number, whose shape is ignored."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4], "float32")
        many = paddle.shape(x)[0] > 1
        block = main.global_block()
        inner = main._create_block()
        made = block.create_var(name="made", shape=[-1, 4], dtype="float32")
        inner.append_op("scale", {"X": x}, {"Out": made}, {"scale": 3.0})
        main._rollback()
        scope = block.create_var(name="scope")
        block.append_op(
            "conditional_block",
            {"Cond": many, "Input": x},
            {"Out": made, "Scope": scope},
            {"sub_block": inner, "is_scalar_condition": True},
        )
        mask = paddle.cast(many, "int32")
        undefined = block.create_var(name="undefined_var_0", shape=[1], dtype="float32")
        values = {"shape": [1], "dtype": 5, "fp32_values": [1.77113e27]}
        block.append_op("assign_value", {}, {"Out": undefined}, values)
        merged = block.create_var(name="merged", shape=[-1, 4], dtype="float32")
        sources = {"X": [undefined, made], "Mask": mask}
        block.append_op("select_input", sources, {"Out": merged})
    executor = static.Executor(paddle.CPUPlace())
    (out,) = executor.run(main, {"x": ROWS}, ["merged"])
    np.testing.assert_array_equal(out, ROWS * 3)
    (nothing,) = executor.run(main, {"x": ROWS[:1]}, ["merged"])
    np.testing.assert_array_equal(nothing, np.zeros((1, 4)))


def test_one_row_after_the_other() -> None:
    """A slice at a loop's position is a lookup of static size.

    The loop variable has no value before the loop, as in `for i in range(n)` of Python code.
    """
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4], "float32")
        block = main.global_block()
        last = block.create_var(name="last", shape=[1], dtype="float32")
        values = {"shape": [1], "dtype": 5, "fp32_values": [1.77113e27]}
        block.append_op("assign_value", {}, {"Out": last}, values)

        def step(i: Any, total: Any, last: Any) -> list[Any]:
            inner = main.current_block()
            row = inner.create_var(name="row", shape=[4], dtype="float32")
            bounds = {"StartsTensorList": i, "EndsTensorList": i + 1}
            attrs = {"axes": [0], "starts": [-1], "ends": [-1], "decrease_axis": [0]}
            inner.append_op("slice", {"Input": x, **bounds}, {"Out": row}, attrs)
            return [i + 1, total * 2 + row, row]

        start = [paddle.zeros([], "int64"), paddle.zeros([4]), last]
        rows = paddle.cast(paddle.shape(x)[0], "int64")
        _, total, last = static.nn.while_loop(lambda i, t, n: i < rows, step, start)
    executor = static.Executor(paddle.CPUPlace())
    found, row = executor.run(main, {"x": ROWS}, [total, last])
    np.testing.assert_array_equal(found, ROWS[0] * 4 + ROWS[1] * 2 + ROWS[2])
    np.testing.assert_array_equal(row, ROWS[2])
    assert executor.stats["op_by_op"] == 0


FED: dict[str, Callable[[Any, Any], Any]] = {
    "interpolate": lambda x, n: paddle.nn.functional.interpolate(
        paddle.reshape(x, [1, 1, -1, 4]), size=[n, n], mode="bilinear"
    ),
    "slice": lambda x, n: x[:n] * 2,
    "full": lambda x, n: paddle.full([n], 1.0) + 1,
    "arange": lambda x, n: paddle.arange(n) + 1,
    "tile": lambda x, n: paddle.tile(x, [n, 1]),
    "expand": lambda x, n: paddle.expand(x[0], [n, 4]),
    "linspace": lambda x, n: paddle.linspace(0, 1, n),
    "one_hot": lambda x, n: paddle.nn.functional.one_hot(paddle.zeros([4], "int64"), n),
    "nonzero": lambda x, n: paddle.nonzero(x),
    "masked": lambda x, n: paddle.masked_select(x, x > 0),
    "in a branch": lambda x, n: static.nn.cond(
        paddle.sum(x) > 0, lambda: paddle.full([n], 1.0), lambda: paddle.full([n], 2.0)
    ),
    "two shapes": lambda x, n: static.nn.cond(n > 0, lambda: x[:1], lambda: x[:2]),
    "growing": lambda x, n: static.nn.while_loop(
        lambda i, h: i < n,
        lambda i, h: [i + 1, paddle.concat([h, h])],
        [paddle.zeros([], "int64"), x[:1]],
    )[1],
    "growing constant": lambda x, n: static.nn.while_loop(
        lambda i, h: i < n,
        lambda i, h: [i + 1, paddle.concat([h, h])],
        [paddle.zeros([], "int64"), paddle.zeros([1, 4])],
    )[1],
    "of a shape": lambda x, n: paddle.full([paddle.shape(x)[0] * 2], 1.0),
    "branch of a shape": lambda x, n: static.nn.cond(
        paddle.shape(x)[0] > 2, lambda: x[:1] + 0.0, lambda: x[:2] + 0.0
    ),
    "one shape": lambda x, n: static.nn.cond(n > 0, lambda: x + 1, lambda: x * 2),
    "a loop": lambda x, n: static.nn.while_loop(
        lambda i, h: i < n, lambda i, h: [i + 1, h * 2], [paddle.zeros([], "int64"), x]
    )[1],
    "plain": lambda x, n: x * paddle.cast(n, "float32"),
}


WHOLE = ("of a shape", "branch of a shape", "one shape", "a loop", "plain")


@pytest.mark.parametrize("form", FED)
def test_explain_says_what_the_trace_finds(form: str) -> None:
    """The report names op, variable and line where JAX cannot trace the program."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        made = FED[form](static.data("x", [3, 4]), static.data("n", [], "int64"))
    compilation = Compilation(main, ("x", "n"), (made.name,), None, (paddle.CPUPlace(),))
    module, report = compilation.optimize()
    plan = Plan.of(module)
    types = tuple(jax.ShapeDtypeStruct(port.shape, port.dtype.numpy) for port in plan.feeds)
    needs_data = False
    try:
        with jax.enable_x64(True):
            key = jax.ShapeDtypeStruct((2,), np.uint32)
            jax.eval_shape(replica_function(module, plan, ALONE), (), (), types, key)
    except NeedsData:
        needs_data = True
    said = as_json(report)
    assert bool(said["runs_op_by_op"]) == bool(said["op_by_op"]) == needs_data
    assert needs_data == (form not in WHOLE)
    for found in said["op_by_op"]:
        assert found["variable"]
        assert found["fix"]
        assert found["location"].rpartition(":")[0] == __file__
        assert found["location"] in as_text(report).replace("\n  ", " ")


def test_explain_counts_alike_ops_together() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x, n = static.data("x", [3, 4]), static.data("n", [], "int64")
        made = [x[:n] + 1.0, x[:, :n] * 2.0, paddle.nonzero(x)]
    text = str(paddle.explain(main, None, made))
    lines = [line for line in text.splitlines() if "decides" in line]
    assert "runs op by op on one device" in lines[0]
    assert "'n' decides 'ends' of pd.slice" in lines[0]
    assert text.count("(and at 1 more)") == 1
    assert "also: 'x' decides the size of pd.nonzero" in lines[1]


def test_sizes_share_what_was_made_op_by_op() -> None:
    """All sizes share the lookup of ops and the compiled regions."""

    def build(x: Any) -> list[Any]:
        (total,) = static.nn.while_loop(lambda n: n < 9, lambda n: [n * 2 + 1], [paddle.mean(x)])
        return [total, paddle.nonzero(x)]

    main, _, fetches = program(build)
    executor = static.Executor(paddle.CPUPlace())
    for rows in (2, 3, 4):
        executor.run(main, {"x": np.ones((rows, 4), "float32")}, fetches)
    forms = [each.form for each in executor._runner.executables()]
    assert len({id(form.step) for form in forms if form is not None}) == 1
    assert executor.stats["op_by_op"] == 3
