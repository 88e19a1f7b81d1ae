"""ONNX files as models: names, sizes, functions, blocks, untrusted files, training."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FormatError, LimitError, ProgramError, UnsafeError, UnsupportedError
from graphopt.ir.formats import Limits, load_model
from graphopt.ir.program import Parameter
from graphopt.models.model import ImportedModel, read_model

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402  (needs the package)

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Array = np.ndarray[Any, Any]


def value(name: str, shape: Sequence[int | str] | None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, array: Any, dtype: str = "float32") -> Any:
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def made(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    tensors: Sequence[Any] = (),
    opset: int = 17,
    functions: Sequence[Any] = (),
) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def read(folder: Path, model: Any) -> ImportedModel:
    path = folder / "m.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return read_model(path)


def ran(folder: Path, model: Any, **feed: Any) -> list[Array]:
    return read(folder, model).run(feed)


X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def classifier() -> Any:
    """Build a layer over any number of rows, with its parameters in the file."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["/fc/out"], name="/fc/Gemm", transB=1),
        helper.make_node("Relu", ["/fc/out"], ["scores"], name="/act/Relu"),
    ]
    tensors = [tensor("w", X[:2]), tensor("b", [0.5, -0.5])]
    return made(nodes, [value("x", ["N", 4])], [value("scores", ["N", 2])], tensors)


def test_a_model(tmp_path: Path) -> None:
    """A model keeps its names and open sizes, and its trained tensors are parameters."""
    model = read(tmp_path, classifier())
    block = model.program.global_block()
    assert (model.feed_names, model.fetch_names) == (["x"], ["scores"])
    assert block.var("x").shape == (-1, 4) and block.var("/fc/out").shape == (-1, 2)
    assert [type(block.var(name)) for name in ("w", "b")] == [Parameter, Parameter]
    assert sorted(model.parameters) == ["b", "w"]
    wanted = np.maximum(X @ X[:2].T + [0.5, -0.5], 0)
    for rows in (3, 2):
        (found,) = model.run({"x": X[:rows]})
        np.testing.assert_allclose(found, wanted[:rows], rtol=1e-6)


def test_the_node_is_the_line(tmp_path: Path) -> None:
    model = read(tmp_path, classifier())
    (op,) = (op for op in model.program.global_block().ops if op.type == "onnx.Gemm")
    assert str(op.location) == "m.onnx:/fc/Gemm:1"


def test_it_trains(tmp_path: Path) -> None:
    """A model trains; the statistics of a batch normalization stay, as they have no gradient."""
    names = ["s", "b", "mean", "var"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("BatchNormalization", ["h", *names], ["n"]),
        helper.make_node("ReduceMean", ["n"], ["y"], axes=[1], keepdims=1),
    ]
    weights = [tensor("w", X[:, :2].T.repeat(2, 0)[:4, :3]), *(tensor(n, [1, 2, 3]) for n in names)]
    model = made(nodes, [value("x", ["N", 4])], [value("y", ["N", 1])], weights)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    scope, startup = static.Scope(), static.Program()
    with static.scope_guard(scope):
        loaded = paddle.import_model(path)
        before = {name: scope.find_var(name).get_tensor() for name in loaded.parameters}
        before = {name: np.array(array) for name, array in before.items()}
        with static.program_guard(loaded.program, startup):
            y = loaded.program.global_block().var("y")
            loss = paddle.mean(y * y)
            paddle.optimizer.SGD(1e-4).minimize(loss)
        exe = static.Executor()
        exe.run(startup)
        losses = [exe.run(loaded.program, {"x": X}, [loss])[0] for _ in range(3)]
        after = {name: np.array(scope.find_var(name).get_tensor()) for name in before}
    assert losses[0] > losses[1] > losses[2]
    changed = {name for name, array in after.items() if not np.array_equal(array, before[name])}
    assert changed == {"w", "s", "b"}


def test_names_that_are_numbers(tmp_path: Path) -> None:
    """Names that are numbers, as PyTorch writes them, get a letter: xDSL drops a bare `_0`."""
    nodes = [
        helper.make_node("Relu", ["0"], ["1"]),
        helper.make_node("Neg", ["1"], ["2"]),
        helper.make_node("Abs", ["1"], ["3"]),  # that nothing reads
    ]
    model = read(tmp_path, made(nodes, [value("0", [3, 4])], [value("2", [3, 4])]))
    assert "%v1 = pd.relu(%v0)" in str(model.module())
    np.testing.assert_array_equal(model.run([X])[0], -np.maximum(X, 0))


def test_sizes_follow_through_what_pytorch_writes(tmp_path: Path) -> None:
    """Sizes are known after the padding, paired reversal and transposition that PyTorch writes."""
    nodes = [
        helper.make_node("Concat", ["two", "none"], ["four"], axis=0),
        helper.make_node("Reshape", ["four", "pairs"], ["p"]),
        helper.make_node("Slice", ["p", "last", "first", "zero", "last"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0]),
        helper.make_node("Reshape", ["t", "flat"], ["around"]),
        helper.make_node("Pad", ["x", "around"], ["y"]),
    ]
    numbers = {"two": [1, 2], "none": [0, 0], "pairs": [-1, 2], "flat": [-1], "zero": [0]}
    numbers |= {"last": [-1], "first": [-9]}
    tensors = [tensor(name, array, "int64") for name, array in numbers.items()]
    model = read(tmp_path, made(nodes, [value("x", [3, 4])], [value("y", None)], tensors))
    assert model.program.global_block().var("y").shape == (3, 7)
    (found,) = model.run([X])
    np.testing.assert_array_equal(found, np.pad(X, ((0, 0), (1, 2))))


def test_what_is_a_number_and_what_a_parameter(tmp_path: Path) -> None:
    """Shapes and scalars are constants; a tensor that is large or has axes is state."""
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Mul", ["r", "half"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
    ]
    tensors = [tensor("shape", [0, 2, -1], "int64"), tensor("half", 0.5), tensor("bias", [1, 2])]
    model = read(tmp_path, made(nodes, [value("x", ["N", 4])], [value("y", None)], tensors))
    assert sorted(model.parameters) == ["bias"]
    assert model.program.global_block().var("y").shape == (-1, 2, 2)
    np.testing.assert_array_equal(model.run([X])[0], X.reshape(3, 2, 2) * 0.5 + [1, 2])


def test_large_whole_numbers_keep_their_digits(tmp_path: Path) -> None:
    numbers = [2**63 - 1, -(2**63), 2**53 + 1, 5]
    nodes = [helper.make_node("Add", ["x", "n"], ["y"])]
    inputs, outputs = [value("x", [4], INT64)], [value("y", [4], INT64)]
    model = made(nodes, inputs, outputs, [tensor("n", numbers, "int64")])
    (found,) = ran(tmp_path, model, x=np.zeros(4, np.int64))
    assert found.tolist() == numbers


def test_computed_numbers_from_the_end(tmp_path: Path) -> None:
    """A computed index may count from the end; an index that is fed directly may not."""
    rows = np.arange(200, dtype=np.float32).reshape(50, 4)
    nodes = [helper.make_node("Cast", ["x"], ["i"], to=INT64)]
    nodes.append(helper.make_node("Gather", ["rows", "i"], ["y"]))
    model = made(nodes, [value("x", ["N"])], [value("y", None)], [tensor("rows", rows)])
    (found,) = ran(tmp_path, model, x=np.array([1, -1], np.float32))
    np.testing.assert_array_equal(found, rows[[1, -1]])
    model = made(nodes[1:], [value("i", ["N"], INT64)], [value("y", None)], [tensor("rows", rows)])
    with pytest.raises(IndexError, match="'i' was fed -1"):
        ran(tmp_path, model, i=np.array([1, -1]))


def test_numbers_that_are_fed(tmp_path: Path) -> None:
    """A fed axis is known when it is fed; each axis is a program of its own."""
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"])]
    inputs = [value("x", ["N", "M"]), value("axis", [], INT64)]
    model = read(tmp_path, made(nodes, inputs, [value("y", ["N", "M"])]))
    for axis in (0, 1, 0):
        (found,) = model.run({"x": X, "axis": np.array(axis)})
        np.testing.assert_array_equal(found, X.cumsum(axis))
    with pytest.raises(UnsupportedError, match="the axis must be known, but depend on feeds"):
        model.module()


def test_sizes_that_a_rule_needs(tmp_path: Path) -> None:
    """If a rule needs the sizes, each set of sizes is compiled."""
    nodes = [helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)]
    model = read(tmp_path, made(nodes, [value("x", ["N", 1, "H", "W"])], [value("y", None)]))
    for height in (2, 4):
        (found,) = model.run([np.ones((1, 1, height, 6), np.float32)])
        assert found.shape == (1, 4, height // 2, 3)


# Functions and blocks --------------------------------------------------------------------------


def function(name: str, nodes: Sequence[Any], attributes: Sequence[str] = ()) -> Any:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["c"], nodes, opsets, attributes)


def test_functions_are_written_out(tmp_path: Path) -> None:
    """A function is inlined with the attributes of its call, under names that show the call."""
    leaky = helper.make_node("LeakyRelu", ["a"], ["t"], name="leak")
    reference = leaky.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT)
    reference.ref_attr_name = "slope"
    inner = function("Inner", [leaky, helper.make_node("Neg", ["t"], ["c"])], ["slope"])
    nodes = [
        helper.make_node("Inner", ["x"], ["t"], domain="own", slope=0.5, name="first"),
        helper.make_node("Inner", ["t"], ["y"], domain="own", slope=0.0, name="second"),
    ]
    model = made(nodes, [value("x", [3, 4])], [value("y", [3, 4])], functions=[inner])
    loaded = read(tmp_path, model)
    np.testing.assert_array_equal(loaded.run([X])[0], -np.maximum(-np.where(X > 0, X, X / 2), 0))
    places = [str(op.location) for op in loaded.program.global_block().ops if op.location]
    assert any("first/leak" in place for place in places)


def test_functions_do_not_call_themselves(tmp_path: Path) -> None:
    again = function("Loop", [helper.make_node("Loop", ["a"], ["c"], domain="own")])
    nodes = [helper.make_node("Loop", ["x"], ["y"], domain="own")]
    model = made(nodes, [value("x", [2])], [value("y", [2])], functions=[again])
    with pytest.raises(FormatError, match="no function to call itself"):
        read(tmp_path, model)


def test_functions_do_not_grow_without_end(tmp_path: Path) -> None:
    """Twenty functions that each call the next one four times are 2^40 nodes."""
    functions = [
        function(
            f"F{i}",
            [
                helper.make_node(f"F{i + 1}", [before], [after], domain="own")
                for before, after in (("a", "p"), ("p", "q"), ("q", "r"), ("r", "c"))
            ],
        )
        for i in range(20)
    ]
    functions.append(function("F20", [helper.make_node("Neg", ["a"], ["c"])]))
    nodes = [helper.make_node("F0", ["x"], ["y"], domain="own")]
    model = made(nodes, [value("x", [2])], [value("y", [2])], functions=functions)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(LimitError, match="at most 1000 nodes after functions are inlined"):
        load_model(tmp_path / "m.onnx", limits=Limits(operators=1000))


def branch(name: str, op_type: str) -> Any:
    """Build a graph that reads a value of the enclosing graph."""
    return helper.make_graph(
        [helper.make_node(op_type, ["x"], [name])], name, [], [value(name, None)]
    )


def test_branches(tmp_path: Path) -> None:
    node = helper.make_node(
        *("If", ["flag"], ["y"]), then_branch=branch("t", "Neg"), else_branch=branch("e", "Abs")
    )
    model = made([node], [value("flag", [], BOOL), value("x", [3, 4])], [value("y", [3, 4])])
    loaded = read(tmp_path, model)
    for flag, wanted in ((True, -X), (False, np.abs(X))):
        np.testing.assert_array_equal(loaded.run([np.array(flag), X])[0], wanted)


def test_a_loop_with_what_it_carries_and_collects(tmp_path: Path) -> None:
    """A body may swap its carried values, because all of them are copied at once."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["a", "b"], ["sum"]),
            helper.make_node("Identity", ["sum"], ["out"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [value("i", [], INT64), value("go", [], BOOL), value("a", [2]), value("b", [2])],
        [value("on", [], BOOL), value("b", [2]), value("sum", [2]), value("out", [2])],
    )
    node = helper.make_node("Loop", ["n", "", "a0", "b0"], ["a1", "b1", "all"], body=body)
    inputs = [value("a0", [2]), value("b0", [2])]
    outputs = [value("a1", [2]), value("b1", [2]), value("all", None)]
    model = made([node], inputs, outputs, [tensor("n", 4, "int64")])
    one = np.ones(2, np.float32)
    a, b, every = ran(tmp_path, model, a0=one, b0=one)
    assert (a.tolist(), b.tolist()) == ([5, 5], [8, 8])
    assert every[:, 0].tolist() == [2, 3, 5, 8]


def node(type_: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(type_, inputs.split(), outputs.split(), **attributes)


def list_of(name: str) -> Any:
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


def test_lists_of_tensors(tmp_path: Path) -> None:
    """Elements are inserted, read, erased, counted and joined at constant or fed positions."""
    nodes = [
        node("SplitToSequence", "x sizes", "parts", axis=1),
        node("SplitToSequence", "x", "rows", keepdims=0),
        node("SequenceAt", "parts last", "b"),
        node("SequenceConstruct", "b b", "two"),
        node("SequenceInsert", "two row", "three"),
        node("SequenceInsert", "three row last", "four"),
        node("SequenceErase", "four first", "less"),
        node("SequenceLength", "four", "count"),
        node("ConcatFromSequence", "less", "joined", axis=0),
        node("ConcatFromSequence", "rows", "stacked", axis=1, new_axis=1),
        node("SequenceAt", "rows at", "row_at"),
        node("Identity", "rows", "again"),
        node("SequenceLength", "again", "length"),
        node("SequenceEmpty", "", "none"),
        node("SequenceLength", "none", "zero"),
    ]
    tensors = [tensor("sizes", [1, 3], "int64"), tensor("last", -1, "int64")]
    tensors += [tensor("first", 0, "int64"), tensor("row", X[:1, 1:])]
    names = ("b", "count", "joined", "stacked", "row_at", "length", "zero")
    inputs = [value("x", [3, 4]), value("at", [], INT64)]
    model = made(nodes, inputs, [value(n, None) for n in names], tensors)
    from onnx.reference import ReferenceEvaluator

    model_in = read(tmp_path, model)
    for at in (0, 2, -1, -3):
        feed = {"x": X, "at": np.array(at)}
        wanted = ReferenceEvaluator(model).run(None, feed)
        for name, new, old in zip(names, model_in.run(feed), wanted, strict=True):
            np.testing.assert_array_equal(new, old, err_msg=name)


@pytest.mark.parametrize(
    ("shape", "sizes", "result"),
    [
        ((2, 3, 1), (1, 1, 0), (2, 3, 0)),
        ((0, 3, 2), (1, 3, 1), (0, 3, 2)),
        ((1, 3, 2), (4, 1, 1), (4, 3, 2)),
    ],
)
def test_expand_to_fed_sizes(
    shape: tuple[int, ...], sizes: tuple[int, ...], result: tuple[int, ...], tmp_path: Path
) -> None:
    """A size of 1 keeps the size of the operand, and 0 is a size as any other.

    The second run is not compiled for just the numbers that it is fed.
    """
    model = made(
        [helper.make_node("Expand", ["x", "sizes"], ["y"])],
        [value("x", ["a", 3, "b"]), value("sizes", [3], INT64)],
        [value("y", ["c", 3, "d"])],
    )
    imported = read(tmp_path, model)
    for x, wanted in ((np.ones((2, 3, 2)), (2, 1, 2)), (np.ones(shape), sizes)):
        (y,) = imported.run({"x": x.astype("float32"), "sizes": np.array(wanted)})
    assert y.shape == result


def test_a_list_that_a_loop_fills(tmp_path: Path) -> None:
    """The list has as many elements as the loop has iterations, which are fed."""
    body = helper.make_graph(
        [
            node("Identity", "go", "go_on"),
            node("Add", "before x", "after"),
            node("SequenceInsert", "list after", "longer"),
        ],
        "body",
        [value("i", [], INT64), value("go", [], BOOL), value("before", [2]), list_of("list")],
        [value("go_on", [], BOOL), value("after", [2]), list_of("longer")],
    )
    nodes = [
        node("SequenceEmpty", "", "empty"),
        helper.make_node("Loop", ["n", "", "start", "empty"], ["end", "list"], body=body),
        node("ConcatFromSequence", "list", "y", axis=0, new_axis=1),
        node("SequenceLength", "list", "count"),
    ]
    inputs = [value("x", [2]), value("start", [2]), value("n", [], INT64)]
    outputs = [value("y", ["steps", 2]), value("count", [], INT64)]
    model = read(tmp_path, made(nodes, inputs, outputs))
    x, start = np.array([1, 2], np.float32), np.zeros(2, np.float32)
    for count in (1, 3):
        y, length = model.run({"x": x, "start": start, "n": np.array(count)})
        np.testing.assert_array_equal(y, np.outer(np.arange(1, count + 1), x))
        assert length == count


def test_a_list_of_tensors_as_a_result(tmp_path: Path) -> None:
    nodes = [node("SequenceConstruct", "x x", "y")]
    outputs = [list_of("y")]
    with pytest.raises(UnsupportedError, match="output 'y' is a list of tensors"):
        read(tmp_path, made(nodes, [value("x", [2])], outputs))
    nodes.append(node("Relu", "y", "z"))
    with pytest.raises(UnsupportedError, match="Relu of a list of tensors is not supported"):
        read(tmp_path, made(nodes, [value("x", [2])], [value("z", None)]))


def test_a_scan_backwards_along_another_axis(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "item"], ["next"]),
            helper.make_node("Identity", ["next"], ["out"]),
        ],
        "body",
        [value("state", [3]), value("item", [3])],
        [value("next", [3]), value("out", [3])],
    )
    node = helper.make_node(
        "Scan",
        ["s", "x"],
        ["last", "all"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[1],
    )
    inputs, outputs = (
        [value("s", [3]), value("x", [3, 4])],
        [value("last", [3]), value("all", None)],
    )
    last, every = ran(tmp_path, made([node], inputs, outputs), s=np.zeros(3, np.float32), x=X)
    np.testing.assert_array_equal(last, X.sum(1))
    np.testing.assert_array_equal(every, X[:, ::-1].cumsum(1).T)


def squeezed_before(*after: Any) -> Any:
    """Build `squeeze` of a last axis as PyTorch writes it: the sizes decide the rank of `v`."""
    squeezed = helper.make_graph(
        [helper.make_node("Squeeze", ["x", "last"], ["s"])], "t", [], [value("s", None)]
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "one"], ["size"]),
        helper.make_node("Equal", ["size", "one"], ["is_one"]),
        helper.make_node(
            *("If", ["is_one"], ["v"]), then_branch=squeezed, else_branch=branch("e", "Identity")
        ),
        *after,
    ]
    tensors = [tensor("last", [1], "int64"), tensor("one", 1, "int64")]
    return made(nodes, [value("x", ["N", "M"])], [value("y", None)], tensors)


def ops_in(model: ImportedModel) -> list[str]:
    return [op.name for op in model.module().walk()]


def test_sides_of_another_rank_by_the_sizes_that_are_fed(tmp_path: Path) -> None:
    """Only one branch fits its readers: a run takes it or fails, and the module has no other."""
    loaded = read(tmp_path, squeezed_before(helper.make_node("Transpose", ["v"], ["y"], perm=[0])))
    np.testing.assert_array_equal(loaded.run([X[:, :1]])[0], X[:, 0])
    with pytest.raises(ProgramError):
        loaded.run([X])
    assert "pd.squeeze" in ops_in(loaded) and "pd.if" not in ops_in(loaded)


def test_sides_of_another_rank_that_both_fit(tmp_path: Path) -> None:
    """A run has only its sizes' branch; a written module has the later ops in both branches."""
    pytest.importorskip("onnx_ir")
    from onnx.reference import ReferenceEvaluator

    total = helper.make_node("ReduceSum", ["w"], ["y"], keepdims=0)
    loaded = read(tmp_path, squeezed_before(helper.make_node("Exp", ["v"], ["w"]), total))
    assert ops_in(loaded).count("pd.if") == 1
    loaded.export(tmp_path / "out.onnx")
    written: Any = ReferenceEvaluator(str(tmp_path / "out.onnx"))
    for x in (X, X[:, :1]):
        wanted = np.exp(x).sum()
        np.testing.assert_allclose(loaded.run([x])[0], wanted, rtol=1e-6)
        np.testing.assert_allclose(written.run(None, {"x": x})[0], wanted, rtol=1e-6)


def test_results_of_two_ranks_are_known_in_a_run_only(tmp_path: Path) -> None:
    loaded = read(tmp_path, squeezed_before(helper.make_node("Exp", ["v"], ["y"])))
    for x in (X, X[:, :1]):
        wanted = np.exp(x if x.shape[1] > 1 else x[:, 0])
        np.testing.assert_allclose(loaded.run([x])[0], wanted, rtol=1e-6)
    with pytest.raises(UnsupportedError, match="different types"):
        loaded.module()


# Refusals and files that cannot be trusted -----------------------------------------------------


def test_all_refusals_are_one_message(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["a"], name="words"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.STRING, name="narrow"),
        helper.make_node("Elu", ["x"], ["d"], name="curve", beta=1.0),
    ]
    outputs = [value(name, None) for name in "bcd"]
    with pytest.raises(UnsupportedError) as caught:
        read(tmp_path, made(nodes, [value("x", [2])], outputs))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("m.onnx: 3 of 8 operators cannot be translated:")
    assert "'onnx.StringNormalizer' has no translation" in lines[1] and "m.onnx:words:1" in lines[1]
    assert "no type for string; use another one" in lines[2] and "narrow" in lines[2]
    assert "the attribute 'beta' is not supported" in lines[3] and "curve" in lines[3]


def external(location: str, **numbers: int) -> Any:
    """Build a model with one tensor in another file."""
    model = classifier()
    weight = model.graph.initializer[0]
    entries = {"location": location, **{key: str(number) for key, number in numbers.items()}}
    weight.data_location = TensorProto.EXTERNAL
    weight.ClearField("raw_data")
    for key, text in entries.items():
        weight.external_data.add(key=key, value=text)
    return model


def test_tensors_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + X[:2].tobytes())
    model = read(tmp_path, external("w.bin", offset=8, length=32))
    np.testing.assert_array_equal(model.parameters["w"], X[:2])


@pytest.mark.parametrize(
    ("location", "numbers", "error", "text"),
    [
        ("../w.bin", {}, UnsafeError, "stored in the folder"),
        ("/etc/passwd", {}, UnsafeError, "stored in the folder"),
        ("link", {}, UnsafeError, "stored in the folder"),
        ("gone.bin", {}, FormatError, "which does not exist"),
        ("w.bin", {"offset": 1}, FormatError, "expected bytes 1..33 of"),
        ("w.bin", {"length": 31}, FormatError, "expected 32 bytes in 'w.bin', found 31"),
        ("w.bin", {"offset": -8}, FormatError, "expected offset to be a number of bytes"),
    ],
)
def test_files_that_tensors_may_not_be_in(
    tmp_path: Path, location: str, numbers: dict[str, int], error: type[Exception], text: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "w.bin").write_bytes(X[:2].tobytes())
    (folder / "link").symlink_to(tmp_path / "w.bin")
    with pytest.raises(error, match=text):
        read(folder, external(location, **numbers))


def changed(change: Any) -> Any:
    model = classifier()
    change(model)
    return model


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            lambda m: m.graph.node[0].input.__setitem__(0, "later"),
            FormatError,
            "no input, .* defines",
        ),
        (lambda m: m.graph.node[0].output.__setitem__(0, "x"), FormatError, "defined once"),
        (
            lambda m: m.graph.initializer[0].dims.append(-1),
            FormatError,
            "expected sizes of 0 or more",
        ),
        (lambda m: m.graph.initializer[0].dims.append(2**62), LimitError, "at most .* bytes"),
        (lambda m: m.graph.initializer[0].dims.extend([1] * 9), LimitError, "at most 9 dimensions"),
        (lambda m: m.graph.initializer[0].dims.append(3), FormatError, "expected 96 bytes"),
        (lambda m: m.ClearField("graph"), FormatError, "expected a graph"),
        (lambda m: m.opset_import[0].__setattr__("version", 99), UnsupportedError, "opset 99"),
        (
            lambda m: m.graph.input[0].type.tensor_type.__setattr__("elem_type", 8),
            UnsupportedError,
            "'x' is string",
        ),
        (
            lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
            UnsupportedError,
            "'x' has no shape",
        ),
        (lambda m: m.graph.node[0].input.append("w"), ProgramError, "malformed"),
    ],
)
def test_models_that_make_no_sense(
    tmp_path: Path, change: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        read(tmp_path, changed(change))


def nested(depth: int) -> Any:
    """Nest branches `depth` deep."""
    inner = branch("t", "Neg")
    for _ in range(depth):
        node = helper.make_node("If", ["flag"], ["t"], then_branch=inner, else_branch=inner)
        inner = helper.make_graph([node], "g", [], [value("t", None)])
    return inner


def test_graphs_are_not_nested_without_end(tmp_path: Path) -> None:
    """Depth and number of graphs are bounded: each graph here holds the next one twice."""
    node = nested(8).node
    model = made(node, [value("flag", [], BOOL), value("x", [2])], [value("t", [2])])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(LimitError, match="graphs at most 5 deep"):
        load_model(tmp_path / "m.onnx", limits=Limits(block_depth=5))
    with pytest.raises(LimitError, match="at most 100 graphs"):
        load_model(tmp_path / "m.onnx", limits=Limits(blocks=100))


@pytest.mark.parametrize(
    ("kind", "attributes", "operand", "text"),
    [
        ("Split", {"num_outputs": 2**40}, None, "the number of outputs is 1"),
        ("Resize", {"mode": "cubic"}, ["", "", [3, 2**40]], "rows of the result; at most"),
        ("LRN", {"size": 2**40}, None, "neighbouring channels; at most 1024"),
    ],
)
def test_counts_are_bounded(
    tmp_path: Path, kind: str, attributes: dict[str, Any], operand: Any, text: str
) -> None:
    """A number in a file cannot decide how much is computed before a run."""
    names = ["x"] if operand is None else ["x", "", "", "n"]
    tensors = [] if operand is None else [tensor("n", operand[-1], "int64")]
    nodes = [helper.make_node(kind, names, ["y"], **attributes)]
    with pytest.raises(UnsupportedError, match=text):
        read(tmp_path, made(nodes, [value("x", [3, 4])], [value("y", None)], tensors, opset=18))


def test_every_cut_file_is_refused_by_name(tmp_path: Path) -> None:
    data = classifier().SerializeToString()
    for end in range(2, len(data), 7):
        with pytest.raises((FormatError, UnsupportedError)):
            read(tmp_path, data[:end])


@pytest.mark.exhaustive
def test_nothing_needs_to_be_installed(tmp_path: Path) -> None:
    """Reading a model and running passes on it needs neither the package onnx nor JAX."""
    (tmp_path / "m.onnx").write_bytes(classifier().SerializeToString())
    code = (
        "import sys\n"
        "sys.modules.update(onnx=None, onnx_ir=None, jax=None)\n"
        "from graphopt.ir.formats import load_model\n"
        f"print(load_model({str(tmp_path / 'm.onnx')!r}).feed_names)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['x']\n"


def test_numbers_in_every_field(tmp_path: Path) -> None:
    """Tensors may use any field of the format: packed varints, floats, bits of halves, booleans."""
    kinds: dict[int, tuple[list[Any], str]] = {
        TensorProto.INT64: ([1, -1, 2**40, -(2**63)], "int64"),
        TensorProto.INT32: ([1, -1, 2**31 - 1, -(2**31)], "int32"),
        TensorProto.INT8: ([1, -1, 127, -128], "int8"),
        TensorProto.BOOL: ([1, 0, 0, 1], "bool"),
        TensorProto.FLOAT: ([1.5, -0.25, 0, 3], "float32"),
        TensorProto.DOUBLE: ([1.5, -0.25, 0, 3], "float64"),
        TensorProto.FLOAT16: ([1.5, -0.25, 0, 3], "float16"),
        TensorProto.UINT16: ([1, 0, 2**16 - 1], "uint16"),
        TensorProto.UINT32: ([1, 0, 2**32 - 1], "uint32"),
        TensorProto.UINT64: ([1, 0, 2**63 - 1], "uint64"),
        TensorProto.INT4: ([1, -8, 7], "int4"),
        TensorProto.UINT4: ([1, 15, 0, 9, 2], "uint4"),
        TensorProto.UINT2: ([1, 3, 0, 2, 2], "uint2"),
        TensorProto.INT2: ([1, -2, 0], "int2"),
        TensorProto.FLOAT4E2M1: ([1.5, -0.5, 6], "float4_e2m1fn"),
        TensorProto.FLOAT8E4M3FN: ([1.5, -0.25, 448], "float8_e4m3fn"),
        TensorProto.FLOAT8E5M2: ([1.5, -0.25, 57344], "float8_e5m2"),
    }
    for number, (numbers, dtype) in kinds.items():
        given = [helper.make_tensor("n", number, [len(numbers)], numbers)]
        given.append(numpy_helper.from_array(numpy_helper.to_array(given[0]), "raw"))
        nodes = [helper.make_node("Identity", ["n"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
        nodes.append(helper.make_node("Identity", ["raw"], ["w"]))
        outputs = [value("y", [4], number), value("z", [1]), value("w", [4], number)]
        model = made(nodes, [value("x", [1])], outputs, given, opset=25)
        found, _, again = ran(tmp_path, model, x=np.ones(1, np.float32))
        for each in (found, again):
            assert (str(each.dtype), each.tolist()) == (
                dtype,
                numpy_helper.to_array(given[0]).tolist(),
            )


@pytest.mark.parametrize("tier", ["host", "full"])
def test_numbers_in_narrow_types(tier: str, tmp_path: Path) -> None:
    """Floats of one byte or less saturate, or become nan; integers keep their low bits."""
    kinds = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ, TensorProto.UINT4)
    kinds += (TensorProto.INT2, TensorProto.UINT32, TensorProto.FLOAT4E2M1)
    nodes, outputs = list[Any](), list[Any]()
    for number in kinds:
        nodes.append(helper.make_node("Cast", ["x"], [f"n{number}"], to=number))
        nodes.append(helper.make_node("Cast", [f"n{number}"], [f"y{number}"], to=FLOAT))
        outputs.append(value(f"y{number}", [6]))
    nodes.append(helper.make_node("Cast", ["x"], ["n"], to=kinds[0], saturate=0))
    nodes.append(helper.make_node("Cast", ["n"], ["y"], to=FLOAT))
    model = made(nodes, [value("x", [6])], [*outputs, value("y", [6])], opset=25)
    given = np.array([0.3, 5, -6, 4e9, 500, 1.2], np.float32)
    paddle.set_flags({"FLAGS_graphopt_tier": tier})
    try:
        found = ran(tmp_path, model, x=given)
    finally:
        paddle.set_flags({"FLAGS_graphopt_tier": "auto"})
    nan = np.nan
    wanted = [
        [0.3125, 5, -6, 448, 448, 1.25],
        [0.3125, 5, -6, 57344, 512, 1.25],
        [0, 5, 10, 0, 4, 1],
        [0, 1, -2, 0, 0, 1],
        [0, 5, 2.0**32 - 6, 4e9, 500, 1],
        [0.5, 4, -6, 6, 6, 1],
        [0.3125, 5, -6, nan, nan, 1.25],
    ]
    for new, old in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(new, np.array(old, np.float32))
