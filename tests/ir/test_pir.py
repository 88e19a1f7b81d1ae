"""Programs of Paddle 3: the translation of their operators, values, blocks and state."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FormatError, LimitError, UnsupportedError
from graphopt.ir.formats import Limits, load_model
from graphopt.ir.formats.model import read_any_program
from graphopt.ir.formats.pir.rows import ROWS
from graphopt.ir.formats.pir_json.reader import read_pir
from graphopt.ir.program import Operator, OpRole, Parameter, Program
from graphopt_tests import model_files
from graphopt_tests.model_files import MODELS

PIR = Path(__file__).parents[1] / "data" / "pir"
FLOAT = {"#": "0.t_f32"}


def type_of(*dims: int, element: Any = FLOAT) -> Any:
    return {"#": "0.t_dtensor", "D": [element, list(dims), "NCHW", [], 0]}


def attr(name: str, kind: str, value: Any) -> Any:
    return {"N": name, "AT": {"#": kind, "D": value}}


def op(name: str, operands: list[int], *results: Any, **fields: Any) -> dict[str, Any]:
    """Build an operator; each result is an id, or an id and a type."""
    made = [r if isinstance(r, tuple) else (r, type_of(2)) for r in results]
    return {
        "#": name,
        "I": [{"%": number} for number in operands],
        "O": [{"%": number, "TT": type_} for number, type_ in made],
        "A": fields.pop("attrs", []),
        "OA": [],
        **fields,
    }


def block(*ops: Any, args: list[int] | None = None) -> dict[str, Any]:
    return {
        "blocks": [{"args": [{"#": a, "TT": type_of(2)} for a in args or []], "ops": list(ops)}]
    }


def file_of(*ops: Any, version: Any = 4) -> bytes:
    code = {"magic": "pir", "trainable": True, "version": version}
    return json.dumps({"base_code": code, "program": {"regions": [block(*ops)]}}).encode()


def program_of(*ops: Any) -> Program:
    return read_any_program(file_of(*ops), "it")


def data(number: int, name: str = "x", type_: Any = None) -> Any:
    return op("1.data", [], (number, type_ or type_of(2)), attrs=[attr("name", "0.a_str", name)])


def fetch(number: int, column: int = 0) -> Any:
    name = attr("name", "0.a_str", f"fetch_name_{column}")
    return op("1.fetch", [number], attrs=[name, attr("col", "0.a_i32", column)])


def full(number: int, value: float, shape: list[int] | None = None) -> Any:
    attrs = [
        attr("shape", "1.a_intarray", [1] if shape is None else shape),
        attr("value", "0.a_f64", value),
        attr("dtype", "1.a_dtype", "float32"),
    ]
    return op("1.full", [], (number, type_of(1)), attrs=attrs)


def run(program: Program, feed: dict[str, Any]) -> list[Any]:
    names = [found.input("X")[0] for found in program.global_block().ops if found.type == "fetch"]
    return static.Executor(paddle.CPUPlace()).run(program, feed, names)


X = np.array([1.0, -2.0], "float32")


# Operators and values --------------------------------------------------------------------------


def test_constants_become_attributes_and_other_operands_stay_tensors() -> None:
    constant = program_of(data(1), full(2, 3.0), op("1.scale", [1, 2], 3), fetch(3))
    (scale,) = [found for found in constant.global_block().ops if found.type == "scale"]
    assert scale.attrs["scale"] == 3.0 and scale.inputs == {"X": ["x"]}
    assert [found.type for found in constant.global_block().ops] == ["feed", "scale", "fetch"]
    assert run(constant, {"x": X})[0].tolist() == [3.0, -6.0]
    open_ = program_of(data(1), data(2, "k", type_of(1)), op("1.scale", [1, 2], 3), fetch(3))
    assert run(open_, {"x": X, "k": np.array([2.0], "float32")})[0].tolist() == [2.0, -4.0]


def test_values_are_called_after_their_operator_unless_the_file_names_them() -> None:
    program = program_of(data(1), op("1.relu", [1], 2), op("1.exp", [2], 7), fetch(7))
    types = {found.type: found for found in program.global_block().ops}
    assert types["relu"].output("Out") == ["relu_2"]
    assert types["exp"].output("Out") == ["fetch_name_0"]
    taken = program_of(data(1, "relu_2"), op("1.relu", [1], 2), fetch(1), fetch(2, 1))
    assert [v for v in taken.global_block().vars if "relu" in v] == ["relu_2"]


def test_an_operator_in_place_changes_its_operand_for_later_readers() -> None:
    step = op("1.increment_", [2], 3, attrs=[attr("value", "0.a_f32", 1.0)])
    program = program_of(data(1), op("1.exp", [1], 2), step, op("1.tanh", [2], 4), fetch(4))
    (found,) = run(program, {"x": X})
    np.testing.assert_allclose(found, np.tanh(np.exp(X) + 1), rtol=1e-5)


def test_a_constant_that_is_overwritten_is_not_one() -> None:
    step = op("1.increment_", [2], (3, type_of(1)), attrs=[attr("value", "0.a_f32", 1.0)])
    program = program_of(data(1), full(2, 1.0), step, op("1.scale", [1, 2], 4), fetch(4))
    assert run(program, {"x": X})[0].tolist() == [2.0, -4.0]


def test_an_operator_without_legacy_form_is_kept_and_fails_when_it_runs() -> None:
    program = program_of(data(1), op("3.mine", [1], 2), op("1.relu", [2], 3), fetch(3))
    assert [found.type for found in program.global_block().ops][1] == "custom_op.mine"
    with pytest.raises(UnsupportedError, match=r"custom_op\.mine"):
        run(program, {"x": X})
    decimals = attr("exclusive", "0.a_bool", True)
    newer = program_of(data(1), op("1.cumprod", [1], 2, attrs=[decimals]), fetch(2))
    with pytest.raises(UnsupportedError, match=r"pd_op\.cumprod"):
        run(newer, {"x": X})


def test_attributes_that_legacy_has_not_are_left_out_where_they_say_nothing() -> None:
    attrs = [
        *(attr(name, "0.a_i32", value) for name, value in (("repeats", 2), ("axis", 0))),
        attr("output_size", "0.a_i64", -1),
    ]
    program = program_of(data(1), op("1.repeat_interleave", [1], 2, attrs=attrs), fetch(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = run(program, {"x": X})
    assert found.tolist() == [1, 1, -2, -2]


def test_frames_are_read_and_their_sum() -> None:
    def named(**values: int) -> list[Any]:
        return [attr(name, "0.a_i32", value) for name, value in values.items()]

    frames = op("1.frame", [1], 2, attrs=named(frame_length=1, hop_length=1, axis=-1))
    total = op("1.overlap_add", [2], 3, attrs=named(hop_length=1, axis=-1))
    (found,) = run(program_of(data(1), frames, total, fetch(3)), {"x": X})
    np.testing.assert_array_equal(found, X)


def test_lists_of_tensors() -> None:
    both = {"#": "0.t_vec", "D": [type_of(2), type_of(2)]}
    axis = op(
        "1.full_int_array",
        [],
        (9, type_of(1)),
        attrs=[attr("value", "0.a_array", [{"#": "0.a_i64", "D": 0}])],
    )
    program = program_of(
        data(1),
        op("1.exp", [1], 2),
        op("0.combine", [1, 2], (3, both)),
        axis,
        op("1.concat", [3, 9], (4, type_of(4))),
        op("0.split", [3], 5, 6),
        fetch(4),
        fetch(6, 1),
    )
    found = run(program, {"x": X})
    np.testing.assert_allclose(found[0], np.concatenate([X, np.exp(X)]), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.exp(X), rtol=1e-6)


def test_loop_results_are_copied_all_at_once() -> None:
    """A body that yields its arguments in the other order swaps them."""
    flag = type_of(1, element={"#": "0.t_bool"})
    less = op("1.less_than", [-1, 3], (11, flag))
    first = op("1.less_than", [1, 3], (4, flag))
    step = op("1.increment_", [-1], (10, type_of(1)), attrs=[attr("value", "0.a_f32", 1.0)])
    body = block(step, less, op("2.yield", [11, 10, -3, -2]), args=[-1, -2, -3])
    loop = op("1.while", [4, 1, 2, 6], (7, type_of(1)), 8, 9, regions=[body])
    counter = data(1, "i", type_of(1))
    program = program_of(
        counter, data(2, "x"), full(3, 3.0), first, op("1.exp", [2], 6), loop, fetch(8), fetch(9, 1)
    )
    feeds = {"i": np.zeros([1], "float32"), "x": X}
    found = run(program, feeds)
    np.testing.assert_allclose(found, [np.exp(X), X], rtol=1e-6)


# Whole programs --------------------------------------------------------------------------------


def training_folders() -> list[Path]:
    """List the training programs that both releases saved."""
    return [
        case
        for case in model_files.cases()
        if (case / "pir" / "main.json").exists() and (case / "pdmodel" / "main.pdmodel").exists()
    ]


# What the releases write otherwise: a matrix product, the start of differentiation, the sum of
# norms, the flat copy of recurrent weights; constants are attributes or not.
OTHERWISE = {
    *("mul", "mul_grad", "matmul_v2", "matmul_v2_grad", "fill_any_like", "fill_constant", "sum"),
    *("stack", "reduce_sum", "coalesce_tensor", "cast", "assign_value"),
}
# Slots that only one of the releases fills, and that no computation needs.
NOTES = {"XShape", "Moment2Max", "Moment2MaxOut", "ReserveSpace", "MasterParamOut"}


def signature(found: Operator) -> tuple[Any, ...]:
    def slots(of: dict[str, list[str]]) -> Any:
        return tuple(sorted((s, len(names)) for s, names in of.items() if names and s not in NOTES))

    return found.type, slots(found.inputs), slots(found.outputs)


@pytest.mark.parametrize("case", training_folders(), ids=lambda case: case.name)
def test_a_training_program_has_the_operators_of_the_old_format(case: Path) -> None:
    old = load_model(case / "pdmodel" / "main.pdmodel").program
    new = load_model(case / "pir" / "main.json").program

    def signatures(program: Program) -> Counter[Any]:
        ops = [found for found in program.global_block().ops if found.type not in OTHERWISE]
        return Counter(map(signature, ops))

    assert signatures(new) == signatures(old)
    assert not any("." in found.type for found in new.global_block().ops)
    updates = [found for found in new.global_block().ops if found.role & OpRole.OPTIMIZE]
    assert updates and all(v.persistable for v in map(_updated, updates))
    assert {p.name for p in new.all_parameters() if p.trainable} <= set(
        model_files.meta(case)["artifacts"][-1]["persistables"]
    )
    forward = new.clone(for_test=True).global_block().ops
    assert not any(found.type.endswith("_grad") for found in forward)


def _updated(found: Operator) -> Any:
    return found.block.var(found.output_arg_names[0])


@pytest.mark.parametrize("case", training_folders(), ids=lambda case: case.name)
def test_a_startup_program_makes_the_state(case: Path) -> None:
    startup = load_model(case / "pir" / "startup.json").program
    main = load_model(case / "pir" / "main.json").program
    static.Executor(paddle.CPUPlace()).run(startup)
    for variable in main.list_vars():
        if variable.persistable:
            value = static.global_scope().var(variable.name).value
            assert value is not None and tuple(value.shape) == variable.shape, variable.name
    made = startup.global_block().vars
    assert all(isinstance(made[p.name], Parameter) for p in main.all_parameters())


def test_gradients_are_called_after_what_they_are_gradients_of() -> None:
    program = load_model(MODELS / "train_mlp_sgd" / "pir" / "main.json").program
    for found in program.global_block().ops:
        if found.type == "sgd":
            assert found.input("Grad") == [f"{found.input('Param')[0]}@GRAD"]


@pytest.mark.exhaustive
def test_a_saved_copy_in_the_old_format_gives_the_same(tmp_path: Path) -> None:
    """A model of the new format, written in the old one and read again, gives the same results."""
    case = MODELS / "infer_lenet"
    model = load_model(case / "model.json")
    scope, executor = static.Scope(), static.Executor(paddle.CPUPlace())
    for name, array in model.parameters.items():
        scope.var(name).get_tensor().set(array)
    with np.load(case / "inputs.npz") as inputs:
        feed = {name: inputs[name] for name in model.feed_names}
    block = model.program.global_block()
    before = executor.run(model.program, feed, model.fetch_names, scope=scope)
    with static.scope_guard(scope):
        static.save_inference_model(
            str(tmp_path / "copy"),
            [block.var(name) for name in model.feed_names],
            [block.var(name) for name in model.fetch_names],
            executor,
            program=model.program,
        )
    copy = load_model(tmp_path / "copy")
    fresh = static.Scope()
    for name, array in copy.parameters.items():
        fresh.var(name).get_tensor().set(array)
    after = executor.run(copy.program, feed, copy.fetch_names, scope=fresh)
    np.testing.assert_allclose(before, after, rtol=1e-6)


def test_paddles_own_function_loads_it(tmp_path: Path) -> None:
    case = MODELS / "infer_lenet"
    for name in ("model.json", "model.pdiparams"):
        (tmp_path / name).write_bytes((case / name).read_bytes())
    executor = static.Executor(paddle.CPUPlace())
    program, feeds, fetches = static.load_inference_model(str(tmp_path / "model"), executor)
    with np.load(case / "inputs.npz") as inputs, np.load(case / "outputs.npz") as outputs:
        (found,) = executor.run(program, {feeds[0]: inputs[feeds[0]]}, fetches)
        np.testing.assert_allclose(found, outputs["out0"], rtol=1e-4, atol=1e-5)


@pytest.mark.exhaustive
def test_a_list_used_everywhere_is_bounded() -> None:
    """Operators name every element of a list, so a small file could become a large program."""
    many = {"#": "0.t_vec", "D": [type_of(2)] * 3000}
    ops = [data(1), op("0.combine", [1] * 3000, (2, many))]
    ops += [op("1.add_n", [2], number) for number in range(3, 1500)]
    with pytest.raises(LimitError, match="elements of lists"):
        program_of(*ops, fetch(4))


def test_every_row_has_slots_for_what_it_names() -> None:
    for name, row in ROWS.items():
        assert row.operands or row.results, name
        slots = [operand.slot for operand in row.operands if operand.slot]
        assert len(set(slots)) == len(slots), name
        assert not row.forward or row.type.endswith("_grad"), name


# What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", "expected an object"),
        (b'{"base_code": NaN}', "NaN"),
        (b'{"a": 1, "a": 1}', "each key of an object once"),
        (file_of(version=5), r"version in 0\.\.4"),
        (file_of(data(1), data(1)), "defined once"),
        (file_of(op("9.relu", [])), "dialect"),
        (file_of(fetch(0)), "1 operands"),
        (file_of(data(1), fetch(1, 1)), "columns of 'fetch'"),
        (file_of(op("1.full", [], 1)), "attribute 'shape' that is integers"),
        (file_of(data(1, ""), fetch(1)), "attribute 'name' that is a text"),
        (file_of(data(1), op("1.if", [1], 2), fetch(2)), "a condition and two regions"),
        (file_of(op("0.combine", [], (1, type_of())), fetch(1)), "is a list"),
    ],
)
def test_unsound_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        read_any_program(content, "it.json")
    assert "it.json" in str(caught.value)


def test_limits_are_kept() -> None:
    content = file_of(data(1), op("1.relu", [1], 2), fetch(2))
    read_pir(content, "it", Limits(operators=3, variables=2, blocks=1, json_bytes=len(content)))
    for limit in ({"operators": 2}, {"variables": 1}, {"blocks": 0}, {"json_bytes": 10}):
        with pytest.raises(LimitError):
            read_pir(content, "it", Limits(**limit))
    with pytest.raises(LimitError):
        read_pir(b"[" * 100_000, "it")
    nested = op("1.if", [1], regions=[block(), block()])
    for _ in range(70):
        nested = op("1.if", [1], regions=[block(nested), block()])
    with pytest.raises(LimitError, match="deep"):
        read_pir(file_of(data(1), nested), "it")


def test_a_linear_operator_of_paddle_3_3_trains_as_there() -> None:
    """One step of two linear operators gives Paddle's numbers; the second transposes its weight."""
    random = np.random.default_rng
    shapes = {"w": (3, 4), "b": (4,), "v": (5, 4), "c": (5,)}
    state: dict[str, Any] = {
        name: random(0).standard_normal(shape).astype("float32") for name, shape in shapes.items()
    }
    state["learning_rate_0"] = np.float32(0.1)
    model = paddle.import_model(PIR / "linear_v2.json", state)
    with np.load(PIR / "linear_v2.npz") as recorded:
        expected = dict(recorded)
    (loss,) = model.run({"x": expected["X"]})
    np.testing.assert_allclose(loss, expected["loss"], rtol=1e-6)
    for name, key in {"w": "W1", "b": "B1", "v": "v1", "c": "c1"}.items():
        slot = model.scope.find_var(name)
        assert slot is not None
        np.testing.assert_allclose(slot.numpy(), expected[key], rtol=1e-6, atol=1e-7)
    assert [op.name for op in model.module().walk()].count("pd.grad") == 1


@pytest.mark.parametrize(
    "first",
    [
        "graphopt.ir.formats.pir",
        pytest.param("graphopt.ir.formats", marks=pytest.mark.exhaustive),
    ],
)
def test_either_package_can_be_imported_first(first: str) -> None:
    subprocess.run([sys.executable, "-c", f"import {first}"], check=True)


def lenet() -> paddle.ImportedModel:
    """Import a network of Paddle 3 with its parameters."""
    return paddle.import_model(MODELS / "infer_lenet" / "model.json")


def test_a_pdmodel_has_the_attributes_that_paddle_writes(tmp_path: Path) -> None:
    """A .pdmodel has Paddle's attributes, except those that only its kernels read."""
    lines = (PIR.parent / "pdmodel_attributes.tsv").read_text().splitlines()
    wanted = {name: names.split() for name, names in (line.split("\t") for line in lines)}
    program = load_model(lenet().export(tmp_path / "m.pdmodel").path).program
    checked = [found for found in program.global_block().ops if found.type in wanted]
    assert {"conv2d", "elementwise_add", "pool2d"} <= {found.type for found in checked}
    for found in checked:
        missing = [name for name in wanted[found.type] if name not in found.attrs]
        assert not missing, (found.type, missing)


@pytest.mark.slow
def test_a_pdmodel_is_read_by_another_reader(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    model = lenet()
    path = model.export(tmp_path / "m.pdmodel").path
    block = model.program.global_block()
    feed: list[Any] = []
    for name in model.feed_names:
        shape = [2 if dim < 0 else dim for dim in block.var(name).shape]
        feed.append(np.full(shape, 0.5, block.var(name).dtype.numpy))
    results = openvino.Core().compile_model(str(path), "CPU")(feed)
    for ours, theirs in zip(model.run(feed), results.values(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.every(2)
@pytest.mark.parametrize("case", ["two", "direct"])
def test_the_gradient_of_a_loop_is_that_of_paddle(case: str) -> None:
    """Three steps of 3, 2 and 0 iterations give Paddle's losses and parameters.

    The first loop carries two tensors and captures three, one of which has a gradient already; the
    result of the second loop is the loss itself.
    """
    with np.load(PIR / f"while_{case}.npz") as recorded:
        expected = dict(recorded)
    state = {"w": expected["W"], "u": expected["U"], "learning_rate_0": np.float32(0.5)}
    model = paddle.import_model(PIR / f"while_{case}.json", state)
    assert len(model.fetch_names) == 1
    for count, loss in zip((3, 2, 0), expected["losses"], strict=True):
        (found,) = model.run({"x": expected["X"], "n": np.array([count], "int64")})
        np.testing.assert_allclose(found, loss, rtol=1e-5)
    for name in ("w", "u"):
        slot = model.scope.find_var(name)
        assert slot is not None
        np.testing.assert_allclose(slot.numpy(), expected[name], rtol=1e-5, atol=1e-6)


def test_a_stack_of_something_else_than_a_gradient_is_kept() -> None:
    """A second loop that computes something else is not taken for a gradient."""
    text = (PIR / "while_direct.json").read_text().replace("1.tanh_grad", "1.add")
    program = read_any_program(text.encode())
    found = {found.type for block in program.blocks for found in block.ops}
    assert "while_grad" not in found and "cf.stack_create" in found
