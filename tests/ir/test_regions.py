"""Ops with regions: their text, invalid ones, and their translation from programs."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import ParseError, VerifyException

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, UnsupportedError
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.dot import to_dot
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import If, Scan, While, join
from graphopt.ir.dialect.ops.math import Exp
from graphopt.ir.dialect.regions import captured_values, inner_ops
from graphopt.ir.dialect.text import text_of
from graphopt.ir.dialect.types import show, tensor
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.ir.formats.protobuf.program_desc import read_program, write_program
from graphopt.ir.program import AttrKind, Program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.ir.translate.prune import prune
from graphopt.tensor.array import array_length, array_read, array_write
from graphopt.tensor.blocks import ConditionalBlock
from graphopt.tensor.blocks import While as WhileBlock
from graphopt.testing import parse
from graphopt_tests.frontend.programs import fresh

TEXT = """\
func.func @main(
  %x: tensor<?x4xf32> {pd.feed = "x"}, %c: tensor<1xi1> {pd.feed = "c"}
) -> (tensor<?x4xf32> {pd.fetch = "y"}) {
  %one = pd.full() {shape = [4], value = 1.0} : () -> tensor<4xf32>
  %h = pd.if(%c) : (tensor<1xi1>) -> tensor<?x4xf32> {
    %e = pd.exp(%x) : tensor<?x4xf32>
    pd.yield(values = [%e]) : (tensor<?x4xf32>) -> ()
  } else {
    pd.yield(values = [%x]) : (tensor<?x4xf32>) -> ()
  }
  %s, %k = pd.while(%c, carried = [%h, %one]) {trips = 3}
    : (tensor<1xi1>, tensor<?x4xf32>, tensor<4xf32>) -> (tensor<?x4xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<?x4xf32>, %b: tensor<4xf32>):
    %sum = pd.add(%a, %b) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    pd.yield(values = [%c, %sum, %b]) : (tensor<1xi1>, tensor<?x4xf32>, tensor<4xf32>) -> ()
  }
  %all = pd.scan(memories = [%one], sequences = [%s]) {reverse = true}
    : (tensor<4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32> {
  ^bb0(%m: tensor<4xf32>, %item: tensor<4xf32>):
    %next = pd.multiply(%m, %item) : tensor<4xf32>
    pd.yield(values = [%next, %next]) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }
  %own = pd.pylayer(inputs = [%all]) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
    %t = pd.tanh(%all) : tensor<?x4xf32>
    pd.yield(values = [%t]) : (tensor<?x4xf32>) -> ()
  } backward {
  ^bb0(%seed: tensor<?x4xf32>):
    %d = pd.multiply(%seed, %one) : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    pd.yield(values = [%d]) : (tensor<?x4xf32>) -> ()
  }
  func.return %own : tensor<?x4xf32>
}
"""


def text(module: ModuleOp, *, generic: bool = False) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def ops_of(module: ModuleOp, kind: type[PdOp]) -> list[PdOp]:
    return [op for op in module.walk() if isinstance(op, kind)]


def built(fetches: Sequence[str], feeds: Sequence[str] = ("x",)) -> ModuleOp:
    """Build and verify the module of the default program."""
    module = parse_program(static.default_main_program(), feeds, fetches)
    module.verify()
    verify_ssa(module)
    return module


def count(value: int) -> paddle.static.Variable:
    return paddle.full([1], value, "int64")


# Text and verification ------------------------------------------------------------------------


@pytest.mark.parametrize("generic", [False, True])
def test_text_round_trip(generic: bool) -> None:
    """Both text forms parse to the same module."""
    module = parse(TEXT)
    module.verify()
    verify_ssa(module)
    printed = text(module, generic=generic)
    again = Parser(new_context(), printed).parse_module()
    again.verify()
    assert again.is_structurally_equivalent(module)
    assert text(again, generic=generic) == printed


BAD = {
    "bool of one element": ("pd.if(%c) : (tensor<1xi1>)", "pd.if(%one) : (tensor<4xf32>)"),
    "yielded by the first region": (
        "pd.yield(values = [%e]) : (tensor<?x4xf32>) -> ()",
        "pd.yield(values = [%one]) : (tensor<4xf32>) -> ()",
    ),
    "2 values for 3": (
        "pd.yield(values = [%c, %sum, %b]) : (tensor<1xi1>, tensor<?x4xf32>, tensor<4xf32>) -> ()",
        "pd.yield(values = [%c, %sum, %b, %b]) : (tensor<1xi1>, tensor<?x4xf32>, tensor<4xf32>, "
        "tensor<4xf32>) -> ()",
    ),
    "yielded by the second region": (
        "values = [%d]) : (tensor<?x4",
        "values = [%one]) : (tensor<4",
    ),
    "the items of the results": ("[%next, %next]) : (tensor<4xf32>, t", "[%next]) : (t"),
    "ends with pd.yield": ("    pd.yield(values = [%x]) : (tensor<?x4xf32>) -> ()\n", ""),
}


@pytest.mark.parametrize("reason", BAD)
def test_what_does_not_fit_is_refused(reason: str) -> None:
    """Regions must take and yield what the op declares; the parser's error has a position."""
    have, wrong = BAD[reason]
    assert have in TEXT
    reason = reason.replace("2 values for 3", "values for")
    with pytest.raises((ParseError, VerifyException), match=reason):
        parse(TEXT.replace(have, wrong))


def test_a_value_ends_with_its_region() -> None:
    """A value that a region defines cannot be used outside of it."""
    module = parse(TEXT)
    exp = ops_of(module, Exp)[0]
    (branch,) = ops_of(module, If)
    block = branch.parent
    assert block is not None
    block.insert_op_after(Exp.make(exp.results[0]), branch)
    with pytest.raises(VerifyException, match="used before it is defined"):
        verify_ssa(module)


def test_captured_values() -> None:
    """Captured values are listed in the order of first use; inner ops are listed, too."""
    module = parse(TEXT)
    (branch,), (loop,), (scan,) = (ops_of(module, kind) for kind in (If, While, Scan))
    assert [v.name_hint for v in captured_values(branch)] == ["x"]
    assert [v.name_hint for v in captured_values(loop)] == ["c"]
    assert captured_values(scan) == []
    assert [op.name for op in inner_ops(loop)] == ["pd.add", "pd.yield"]


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        (([2, 3], "float32"), ([2, 3], "float32"), "[2, 3] float32"),
        (([2, -1], "float32"), ([-1, 3], "float32"), "[-1, -1] float32"),
        (([2, 3], "float32"), ([2, 4], "float32"), None),
        (([2], "float32"), ([2], "float64"), None),
        (([2], "float32"), ([2, 1], "float32"), None),
    ],
)
def test_join(a: tuple[list[int], str], b: tuple[list[int], str], joined: str | None) -> None:
    """The joined type covers both types: a size that only one knows is unknown."""
    found = join(tensor(*a), tensor(*b))
    assert (found and show(found)) == joined


def test_dot() -> None:
    """A region is a box, which shows its arguments and yielded values."""
    dot = to_dot(parse(TEXT))
    assert dot.count("subgraph cluster_") == 6
    assert '[shape=oval, label="item"]' in dot
    assert dot.count("style=dashed") == 6


def test_unused_and_repeated_ops_go() -> None:
    """xDSL's cse and dce reach into regions; an unused loop is removed as a whole."""
    module = parse(TEXT.replace("func.return %own", "func.return %h"))
    dce(module)
    assert not ops_of(module, While)
    twice = TEXT.replace(
        "pd.yield(values = [%e])", "%f = pd.exp(%x) : tensor<?x4xf32>\npd.yield(values = [%f])"
    )
    module = parse(twice)
    CommonSubexpressionElimination().apply(new_context(), module)
    dce(module)
    assert len(ops_of(module, Exp)) == 1


# Programs -------------------------------------------------------------------------------------


def test_a_cond_is_one_op() -> None:
    """Two conditional blocks and their merges are one `pd.if`, without intermediate names."""
    with fresh():
        x = static.data("x", [None, 3], "float32")
        first, (second,) = static.nn.cond(
            paddle.sum(x) > 0, lambda: (x * 2, [x + 1]), lambda: (x, [x * x])
        )
        module = built([first.name, second.name])
    (branch,) = ops_of(module, If)
    assert [show(t) for t in branch.result_types] == ["[-1, 3] float32"] * 2
    assert not any(isinstance(op, If) for op in inner_ops(branch))


def test_nested_conds_and_loops() -> None:
    """Regions nest as blocks do."""
    with fresh():
        x, i = static.data("x", [2, 3], "float32"), count(0)

        def body(i, h):  # type: ignore[no-untyped-def]
            return [i + 1, static.nn.cond(paddle.sum(h) > 0, lambda: h - 1, lambda: h * h)]

        i, h = static.nn.while_loop(lambda i, h: i < 4, body, [i, paddle.assign(x)])
        module = built([h.name])
    (loop,) = ops_of(module, While)
    assert loop.attr("trips") == 4
    assert [op.name for op in inner_ops(loop)].count("pd.if") == 1


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("start", "step", "go", "trips"),
    [
        (0, lambda i: i + 1, lambda i: i < 5, 5),
        (9, lambda i: i - 2, lambda i: i >= 0, 5),
        (1, lambda i: i * 3, lambda i: i <= 80, 4),
        (7, lambda i: i + 1, lambda i: i < 5, 0),
        (0, lambda i: i + 1, lambda i: paddle.logical_and(i < 8, i != 3), 3),
        (0, lambda i: i, lambda i: i < 1, None),
        (0, lambda i: i + 1, lambda i: i < 5000, None),
    ],
)
def test_trips(start, step, go, trips) -> None:  # type: ignore[no-untyped-def]
    """The number of iterations is known if it follows from constants and is not too large."""
    with fresh():
        i, y = count(start), paddle.full([2], 1.0)
        i, y = static.nn.while_loop(lambda i, y: go(i), lambda i, y: [step(i), y * 2], [i, y])
        module = built([y.name], feeds=[])
    assert ops_of(module, While)[0].attr("trips") == trips


def test_trips_depend_on_a_feed() -> None:
    """The number of iterations is unknown if the bound is fed."""
    with fresh():
        n, i = static.data("n", [1], "int64"), count(0)
        (i,) = static.nn.while_loop(lambda i: i < n, lambda i: [i + 1], [i])
        module = built([i.name], feeds=["n"])
    assert ops_of(module, While)[0].attr("trips") is None


def test_a_lone_block_changes_what_has_a_value() -> None:
    """Without a second branch the other region yields the old value."""
    with fresh():
        x = static.data("x", [3], "float32")
        y = x * 2
        with ConditionalBlock([paddle.sum(x) > 0], is_scalar_condition=True).block():
            paddle.assign(y + 1, y)
        module = built([y.name])
    (branch,) = ops_of(module, If)
    assert isinstance(branch, If)
    assert branch.yielded_values(1)[0].name_hint == "tmp"


def test_a_name_without_a_value() -> None:
    """A variable that only one branch or a loop computes may have no value: reading it fails."""
    with fresh() as (main, _):
        x = static.data("x", [3], "float32")
        y = main.global_block().create_var("y", [3], "float32")
        with ConditionalBlock([paddle.sum(x) > 0], is_scalar_condition=True).block():
            paddle.assign(x, y)
        z = y + 1
        with pytest.raises(UnsupportedError, match="'y' has a value only if the condition"):
            built([z.name])
    with fresh() as (main, _):
        i, y = count(0), main.global_block().create_var("y", [1], "int64")
        going = i < 3
        with WhileBlock(going).block():
            paddle.increment(i)
            paddle.assign(i, y)
            paddle.assign(i < 3, going)
        z = y + 1
        with pytest.raises(UnsupportedError, match="'y' has a value only if"):
            built([z.name], feeds=[])


def test_a_missing_feed_inside_a_block() -> None:
    """The error names the operator in the block that reads the missing feed."""
    with fresh():
        x, z = static.data("x", [3], "float32"), static.data("z", [3], "float32")
        y = static.nn.cond(paddle.sum(x) > 0, lambda: x + z, lambda: x)
        with pytest.raises(FeedError, match="Need feed data for variable z: operator elementwise"):
            built([y.name])


def test_arrays_unfold() -> None:
    """A loop over an array is unrolled while parsing, and no array remains."""
    with fresh():
        x, i = static.data("x", [3], "float32"), count(0)
        array = array_write(x, i)

        def body(i, a):  # type: ignore[no-untyped-def]
            value = array_read(a, i)
            after = i + 1
            return [after, array_write(paddle.tanh(value), after, a)]

        i, array = static.nn.while_loop(lambda i, a: i < 3, body, [i, array])
        last, length = array_read(array, i), array_length(array)
        module = built([last.name, length.name])
    assert not ops_of(module, While)
    assert text(module).count("pd.tanh") == 3
    assert "values = [4.0]" in text(module)


def control_program() -> tuple[str, ...]:
    """Build a program with branches and a loop; return the names to fetch."""
    x, i = static.data("x", [2, 3], "float32"), count(0)
    weight = static.create_parameter([3, 3], "float32", name="w")
    i, h = static.nn.while_loop(
        lambda i, h: i < 2, lambda i, h: [i + 1, paddle.matmul(h, weight)], [i, paddle.assign(x)]
    )
    y = static.nn.cond(paddle.sum(h) > 0, lambda: h, lambda: -h)
    unused = static.nn.cond(paddle.sum(h) > 1, lambda: h, lambda: h * 3)
    return y.name, unused.name


def test_saved_programs_keep_their_blocks() -> None:
    """Operators refer to their blocks as the format does, and read back with the same meaning."""
    with fresh() as (main, _):
        fetches = control_program()
        before = text(built(fetches))
    kinds = [
        op.attr_kinds["sub_block"] for b in main.blocks for op in b.ops if "sub_block" in op.attrs
    ]
    assert kinds == [AttrKind.BLOCK] * 5
    again = read_program(write_program(main))
    assert write_program(again) == write_program(main)
    assert text(parse_program(again, ["x"], fetches)) == before
    assert text(parse_program(main.clone(), ["x"], fetches)) == before


def test_prune_keeps_what_blocks_need() -> None:
    """Pruning keeps a control-flow operator whose results are read, and what its block reads."""
    with fresh() as (main, _):
        fetches = control_program()
    pruned: Program = prune(main, fetches[:1])
    types = [op.type for op in pruned.global_block().ops]
    assert (types.count("while"), types.count("conditional_block")) == (1, 2)
    assert "w" in text(parse_program(pruned, ["x"], fetches[:1]))


GROUP = """
func.func @main(feed %x: tensor<?x4xf32>) -> (fetch "y": tensor<?x4xf32>) {{
  %y = pd.fusion_group() {{inner = 16}} -> tensor<?x4xf32> {{
    {line}
    %y = pd.tanh(%e)
    pd.yield(values = [%y])
  }}
  func.return %y : tensor<?x4xf32>
}}
"""


def test_text_of_a_group() -> None:
    """A group prints as a region with its marks, and parses to the same module."""
    text = GROUP.format(line="%e = pd.exp(%x) attributes {pd.kept}")
    module = parse(text)
    assert str(parse(str(module))) == str(module)
    assert "%e = pd.exp(%x) attributes {pd.kept}" in text_of(module)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("^bb0(%e: tensor<?x4xf32>):", "its region takes no arguments"),
        (
            "%e = pd.fusion_group() -> tensor<?x4xf32> {\n pd.yield(values = [%x])\n }",
            "pd.fusion_group has regions or effects; leave it outside",
        ),
        (
            '%e = pd.exp(%x)\n pd.print(%x) {variable = "x"}',
            "pd.print has regions or effects; leave it outside",
        ),
    ],
)
def test_what_a_group_refuses(line: str, reason: str) -> None:
    """A group refuses arguments, control flow and effects."""
    with pytest.raises((ParseError, VerifyException), match=reason):
        parse(GROUP.format(line=line))


def test_a_group_yields_its_results() -> None:
    """A group that yields a value of another type is refused."""
    text = GROUP.format(line="%e = pd.exp(%x)").replace(
        "-> tensor<?x4xf32> {", "-> tensor<4xi32> {"
    )
    with pytest.raises((ParseError, VerifyException), match="yielded: value 0 is"):
        parse(text)
