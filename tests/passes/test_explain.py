"""explain: the effect of every flag; near misses name the missing part; JSON, strict, locks."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, SSAValue

import graphopt as paddle
from graphopt import static
from graphopt.errors import LockError, StrictError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Add, Exp, Multiply, Scale, Subtract
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.signature import FEED, FETCH, main_function
from graphopt.ir.dialect.text import text_of
from graphopt.models.model import import_model
from graphopt.passes.engine import near_misses
from graphopt.passes.engine.fusion import (
    Applied,
    Fusion,
    FusionPass,
    Match,
    Node,
    Reason,
    Value,
    refusal,
    sweep,
)
from graphopt.passes.engine.matching import matches
from graphopt.passes.engine.near_misses import NearMisses
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.explain import as_json, as_text
from graphopt.passes.table.manager import PassRun
from graphopt.passes.table.registry import own_passes
from graphopt.passes.table.report import pass_rows
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.testing import Case, load_page, parse
from graphopt_tests.cli.test_opt import MODELS, opt
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.runtime.nets import strategy as flags

PAGES = sorted((Path(__file__).parents[1] / "passes").glob("*.md"))
CASES = [case for page in PAGES for case in load_page(page)]
FUSIONS = {
    name: loaded
    for name, loaded in ((name, load()) for name, load in own_passes().items())
    if issubclass(loaded, FusionPass)
}
# every case of a page in which a fusion fires
FIRING = [c for c in CASES if c.pass_name in FUSIONS and c.expected_kind == "mlir"]


# -- the mutation proof ----------------------------------------------------------------------------
# Each rule's first matching pattern on its page is changed by one constraint; the reason names it.


def matched(module: ModuleOp, rule: Fusion) -> Match | None:
    for op in module.walk():
        if isinstance(op, PdOp):
            for match in matches(rule.root, op):
                if refusal(rule, match) is None:
                    return match
    return None


def firing_rules() -> Iterator[tuple[Case, Fusion]]:
    """Yield each rule of each fusion, with the first case of its page in which it matches."""
    parse_once = cache(lambda case: parse(case.before))
    for name, fusion in FUSIONS.items():
        for rule in fusion.RULES:
            for case in (case for case in FIRING if case.pass_name == name):
                if matched(parse_once(case), rule) is not None:
                    yield case, rule
                    break


RULES = [
    pytest.param(
        *(case, rule),
        id=type(rule).__name__,
        # rules of one class differ in what an op's attributes are
        marks=pytest.mark.exhaustive if type(rule) is type(before) else (),
    )
    for (_, before), (case, rule) in itertools.pairwise([(None, None), *firing_rules()])
]


def given(module: ModuleOp, name: str, rule: Fusion) -> list[Reason]:
    """List all reasons of one rule."""
    near = NearMisses(module, [(name, rule)])
    outcomes = sweep(module, [(name, rule)], [near])
    return [o.reason for o in (*outcomes, *near.left()) if not isinstance(o, Applied)]


def told(module: ModuleOp, name: str, rule: Fusion) -> list[tuple[str, str]]:
    """List names and texts of all reasons of one rule."""
    return [(reason.name, reason.text) for reason in given(module, name, rule)]


def test_every_rule_is_mutated() -> None:
    """Each rule of each fusion has a page with a case in which it fires."""
    wanted = {type(rule).__name__ for fusion in FUSIONS.values() for rule in fusion.RULES}
    assert {str(param.id) for param in RULES} == wanted


def inner_nodes(case: Case, rule: Fusion, *, once: bool = True) -> list[Node]:
    """List the nodes of the pattern in this case, without its root and optional nodes.

    With `once`, only nodes whose result has one use: changing others is several flaws.
    """
    match = matched(parse(case.before), rule)
    assert match is not None
    return [
        node
        for node, op in match.ops.items()
        if op is not match.root
        and not node.optional
        and (len(list(op.results[0].uses)) == 1 or not once)
    ]


def keeps_the_rest(case: Case, rule: Fusion, node: Node) -> bool:
    """Return whether another op of the same type can replace a node on the same operands."""
    match = matched(parse(case.before), rule)
    assert match is not None
    op = match[node]
    is_end = all(isinstance(operand, Value) for operand in node.operands)
    return is_end or isinstance(op, Add) or op.operands[0].type == op.results[0].type


def mutate(case: Case, rule: Fusion, change: Callable[[ModuleOp, Match], None]) -> ModuleOp:
    """Change the case's program at the match of the rule."""
    module = parse(case.before)
    match = matched(module, rule)
    assert match is not None
    change(module, match)
    module.verify()
    return module


@pytest.mark.every(5)
@pytest.mark.parametrize(("case", "rule"), RULES)
def test_another_reader_is_named(case: Case, rule: Fusion) -> None:
    """Mutation: an inner value gets a second reader, or is fetched."""
    for node in inner_nodes(case, rule, once=False):

        def read(module: ModuleOp, match: Match, node: Node = node) -> None:
            op = match[node]
            assert op.parent is not None
            op.parent.insert_op_after(Exp.make(op.results[0]), op)

        def fetch(module: ModuleOp, match: Match, node: Node = node) -> None:
            add_fetch(module, match[node])

        reasons = told(mutate(case, rule, read), case.pass_name, rule)
        assert ("used-elsewhere", f"the result of `{node.name}` is also read by pd.exp") in reasons
        reasons = told(mutate(case, rule, fetch), case.pass_name, rule)
        assert ("used-elsewhere", f"the result of `{node.name}` is fetched ('mutant')") in reasons


def add_fetch(module: ModuleOp, op: PdOp) -> None:
    """Fetch the first result of an op under the name `mutant`."""
    function = main_function(module)
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    last.operands = [*last.operands, op.results[0]]
    types = function.function_type
    function.function_type = FunctionType.from_lists(
        list(types.inputs), [*types.outputs, op.results[0].type]
    )
    assert function.res_attrs is not None
    added = DictionaryAttr({FETCH: StringAttr("mutant")})
    function.res_attrs = ArrayAttr([*function.res_attrs, added])


def add_feed(module: ModuleOp, kind: Attribute) -> SSAValue:
    """Add a feed of this type."""
    function = main_function(module)
    block = function.body.block
    value = block.insert_arg(kind, len(block.args))
    types = function.function_type
    function.function_type = FunctionType.from_lists([*types.inputs, kind], list(types.outputs))
    assert function.arg_attrs is not None
    added = DictionaryAttr({FEED: StringAttr("mutant")})
    function.arg_attrs = ArrayAttr([*function.arg_attrs, added])
    return value


@pytest.mark.parametrize(("case", "rule"), RULES)
def test_another_op_is_named(case: Case, rule: Fusion) -> None:
    """Mutation: one op of the pattern is replaced, and its producers stay.

    Without an op that defines the pattern there is no near miss.
    """
    for node in inner_nodes(case, rule):
        if not keeps_the_rest(case, rule, node):
            continue

        def change(module: ModuleOp, match: Match, node: Node = node) -> None:
            op = match[node]
            if isinstance(op, Add):
                other: PdOp = Multiply.make(*op.operands)
            elif op.operands[0].type == op.results[0].type:
                other = Exp.make(op.operands[0])
            else:
                other = Exp.make(add_feed(module, op.results[0].type))
            assert op.parent is not None
            op.parent.insert_op_before(other, op)
            op.results[0].replace_all_uses_with(other.results[0])

        reasons = given(mutate(case, rule, change), case.pass_name, rule)
        expected = f"`{node.name}` should be {node.expected}, found"
        if node in rule.defining:
            assert not any(expected in reason.text for reason in reasons), reasons
            continue
        named = [r for r in reasons if r.name == "other-op" and r.text.startswith(expected)]
        assert named and named[0].fix == f"compute this value by {node.expected}", reasons


@pytest.mark.parametrize(("case", "rule"), RULES)
def test_another_end_is_named(case: Case, rule: Fusion) -> None:
    """Mutation: another op reads the operands of the last op."""
    below = [o for o in rule.root.operands if isinstance(o, Node) and not o.optional]
    if rule.root.optional or not below or rule.root in rule.defining:
        pytest.skip("the pattern may end earlier, or is defined by its end")
    node = below[0]

    def change(module: ModuleOp, match: Match) -> None:
        root, below = match.root, match[node]
        assert root.parent is not None
        x = below.results[0]
        other = Subtract.make(x, x) if len(rule.root.operands) > 1 else Exp.make(x)
        root.parent.insert_op_before(other, root)
        for result in root.results:
            result.replace_all_uses_with(add_feed(module, result.type))
        root.detach()
        root.erase()

    reasons = told(mutate(case, rule, change), case.pass_name, rule)
    expected = f"`{node.name}` should be read by {rule.root.expected}, but is read by pd."
    assert any(n == "other-reader" and t.startswith(expected) for n, t in reasons), reasons


@pytest.mark.parametrize(("case", "rule"), RULES)
def test_an_op_between_is_named(case: Case, rule: Fusion) -> None:
    """Mutation: an op is inserted between two ops of the pattern."""
    for node in inner_nodes(case, rule):

        def change(module: ModuleOp, match: Match, node: Node = node) -> None:
            op = match[node]
            between = Assign.make(op.results[0])
            assert op.parent is not None
            op.parent.insert_op_after(between, op)
            op.results[0].replace_uses_with_if(
                between.results[0], lambda use: use.operation is not between
            )

        reasons = told(mutate(case, rule, change), case.pass_name, rule)
        expected = f" stands between `{node.name}` and "
        assert any(n == "op-between" and expected in t for n, t in reasons), reasons


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.pass_name in FUSIONS and c.expected_kind == "refused"],
    ids=lambda c: f"{c.pass_name}: {c.title}",
)
def test_refused_cases_are_explained(case: Case) -> None:
    """A page's refusal is in the text and in the JSON form, with its remedy."""
    run = PassRun(parse(case.before), PassContext({}), near=True)
    run.fuse([("the flag", FUSIONS[case.pass_name]())])
    report = run.finish()
    anchors = as_json(report)["anchors"]
    if case.expected != "no pattern":
        name = case.expected.partition(":")[0]
        assert name in {a["reason"]["name"] for a in anchors if a["outcome"] == "refused"}
        assert name in as_text(report)
    json.dumps(as_json(report))


def test_a_pattern_that_another_pass_took() -> None:
    """The report says which rule took an op."""
    case = next(c for c in FIRING if c.pass_name == "fuse-bn-add-act")
    run = PassRun(parse(case.before), PassContext({}), near=True)
    names = ("fuse-bn-add-act", "fuse-elewise-add-act")
    run.fuse([(name, FUSIONS[name]()) for name in names])
    taken = [m.reason for m in run.finish().near_misses("fuse-elewise-add-act")]
    assert ("taken", "fuse-bn-add-act took the ops") in [(r.name, r.text) for r in taken]


# -- the functions that users call -----------------------------------------------------------------


@pytest.fixture
def program() -> Iterator[tuple[static.Program, list[static.Variable]]]:
    """Build a linear layer with relu, whose sum can be fetched."""
    with fresh():
        x = static.data("x", [None, 4], "float32")
        weight, bias = (static.create_parameter(shape, "float32") for shape in ([4, 8], [8]))
        total = paddle.matmul(x, weight) + bias
        out = paddle.nn.functional.relu(total)
        yield static.default_main_program(), [out, total]


Net = tuple[static.Program, list[static.Variable]]


def test_explain_needs_no_run(program: Net) -> None:
    """Each flag that is set has a status; the fetched sum prevents the larger fusion."""
    main, fetches = program
    strategy = flags(fuse_gemm_epilogue=True, fuse_bn_act_ops=True, nccl_comm_num=2)
    found = paddle.explain(main, strategy)
    assert found.applied("fuse-gemm-epilogue") == 1
    assert found.flags["fuse_gemm_epilogue"].status == "applied"
    assert found.flags["fuse_bn_act_ops"].status == "nothing to do"
    assert found.flags["nccl_comm_num"].status == "no effect here"
    assert f"{Path(__file__).name}:" in str(found)
    assert __file__ in found.text("all")
    found = paddle.explain(main, strategy, fetches)
    data = found.to_json()
    refused = [a for a in data["anchors"] if a["outcome"] == "refused"]
    assert {a["reason"]["name"] for a in refused} == {"used-elsewhere"}
    assert all(a["location"].startswith(__file__) and a["reason"]["fix"] for a in refused)
    assert data["schema"] == 2
    assert sum(data["ops"]["before"].values()) == 3


def test_strict_refuses_silent_flags(program: Net) -> None:
    """A flag without effect is an error, from explain and before the first run."""
    main, fetches = program
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    feed = {"x": np.ones((2, 4), "float32")}
    good = static.CompiledProgram(main, flags(fuse_gemm_epilogue=True), strict=True)
    exe.run(good, feed=feed, fetch_list=fetches[:1])
    for strategy in (flags(fuse_bn_act_ops=True), flags(nccl_comm_num=2)):
        with pytest.raises(StrictError, match=r"fuse_bn_act_ops: nothing|nccl_comm_num: no eff"):
            paddle.explain(main, strategy, strict=True)
        compiled = static.CompiledProgram(main, strategy, strict=True)
        for _ in range(2):
            with pytest.raises(StrictError):
                exe.run(compiled, feed=feed, fetch_list=fetches[:1])
    paddle.explain(main, flags(fuse_bn_act_ops=False), strict=True)


def test_compiled_program_tells_near_misses(program: Net) -> None:
    """explain() of a program that ran reports near misses, for one flag if it is named."""
    main, (out, _) = program
    product = paddle.matmul(out, out, transpose_y=True)
    out = paddle.add(out, (product - 1.5 * product).sum(axis=-1, keepdim=True))
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    compiled = static.CompiledProgram(main, flags(fuse_bn_act_ops=True, fuse_gemm_epilogue=True))
    exe.run(compiled, feed={"x": np.ones((2, 4), "float32")}, fetch_list=[])
    assert compiled.explanations()[0].applied("fuse-bn-act") == 0
    exe.run(compiled, feed={"x": np.ones((2, 4), "float32")}, fetch_list=[out])
    assert "near miss" not in compiled.explain("fuse_bn_act_ops")
    text = compiled.explain("fuse_gemm_epilogue")
    assert "near miss at pd.matmul" in text
    assert "`matmul` should be read by pd.add, but is " in text
    assert "bn" not in text


def test_a_mark_counts_as_a_change() -> None:
    """A pass that only marks variables of the signature counts as applied."""
    text = """
func.func @main(feed %x: tensor<2xf32>, state %s: tensor<2xf32>, state %t: tensor<2xf32>)
    -> (state "s": tensor<2xf32>, state "t": tensor<2xf32>) {
  %y = pd.add(%s, %x)
  %z = pd.add(%t, %x)
  func.return %y, %z : tensor<2xf32>, tensor<2xf32>
}"""
    run = PassRun(parse(text), PassContext({}), near=True)
    run.one("", own_passes()["mark-per-replica"]()())
    (row,) = pass_rows(run.finish())
    assert (row.fired, row.candidates) == (2, 2)


def test_a_reader_of_another_kind_is_no_near_miss(program: Net) -> None:
    """A product of activations is no linear layer, nor is one that is only fetched."""
    main, (out, _) = program
    scores = paddle.nn.functional.softmax(paddle.matmul(out, out, transpose_y=True))
    found = paddle.explain(main, flags(fuse_gemm_epilogue=True), [paddle.matmul(scores, out)])
    (row,) = (row for row in found.table() if row.name == "fuse_gemm_epilogue")
    assert (row.fired, row.candidates) == (1, 1)


def test_what_cannot_be_there_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a softmax, no op is tried as the end of attention."""
    tried: list[PdOp] = []

    def counted(root: Node, op: PdOp, **given: Any) -> Iterator[Match]:
        tried.append(op)
        return matches(root, op, **given)

    monkeypatch.setattr(near_misses, "matches", counted)
    case = next(c for c in FIRING if c.pass_name == "fuse-gemm-epilogue")
    rules = [(name, rule) for name in ("fused-attention",) for rule in FUSIONS[name].RULES]
    assert not NearMisses(parse(case.before), rules).left() and not tried
    case = next(c for c in FIRING if c.pass_name == "fused-attention")
    assert not NearMisses(parse(case.before), rules).left() and tried


def test_what_a_larger_fusion_took_is_no_candidate() -> None:
    """A pattern that another pass took counts for that pass alone."""
    case = next(c for c in FIRING if c.pass_name == "fuse-bn-add-act")
    run = PassRun(parse(case.before), PassContext({}), near=True)
    names = ("fuse-bn-add-act", "fuse-elewise-add-act")
    run.fuse([(name, FUSIONS[name]()) for name in names])
    rows = {row.pass_name: (row.fired, row.candidates) for row in pass_rows(run.finish())}
    assert rows == {"fuse-bn-add-act": (1, 1), "fuse-elewise-add-act": (0, 0)}


def test_lock_file(program: Net, tmp_path: Path) -> None:
    """A lock file pins the counts; a rewrite that stops is an error that names it."""
    main, fetches = program
    lock, strategy = tmp_path / "fusions.lock", flags(fuse_gemm_epilogue=True)
    paddle.explain(main, strategy).write_lock(lock)
    paddle.explain(main, strategy).check_lock(lock)
    with pytest.raises(LockError, match="fuse-gemm-epilogue: 1 in the file, 0 now"):
        paddle.explain(main, flags()).check_lock(lock)
    lock.write_text("[]")
    with pytest.raises(ValueError, match="not a lock file"):
        paddle.explain(main, strategy).check_lock(lock)
    with pytest.raises(TypeError, match="expected a Program"):
        paddle.explain(fetches)  # pyright: ignore


# -- the command -----------------------------------------------------------------------------------

RESNET = str(MODELS / "infer_resnet18" / "model.pdmodel")
PORTABLE = (RESNET, "--platform", "none", "--build-strategy")


def test_a_saved_model_is_told_as_it_runs() -> None:
    """A model is explained with the passes of its platform, or portably on request."""
    model = import_model(MODELS / "infer_lenet" / "model")
    told = model.explain()
    assert "after, for cpu\n" in told and "\nprepare-weights " in told
    assert " with only parameters as operands: run once, not in each step\n" in told
    assert "func.func @prepare" in str(model.module())
    assert "after, for any platform (portable" in model.explain(portable=True)
    assert "func.func @prepare" not in str(model.module(portable=True))


@pytest.mark.exhaustive
def test_command_explains_one_flag_and_json() -> None:
    """--explain=FLAG explains one flag, --explain-format json prints data."""
    given = [*PORTABLE, "fuse_bn_act_ops,fuse_gemm_epilogue"]
    _, _, err = opt(*given, "--explain=fuse_gemm_epilogue")
    assert "fuse_gemm_epilogue (" in err
    assert "fuse_bn_act_ops" not in err
    _, _, err = opt(*given, "--explain", "--explain-format", "json")
    data = json.loads(err)
    assert {f["flag"]: f["times"] for f in data["flags"]}["fuse_bn_act_ops"] == 9
    _, _, err = opt(RESNET, "-p", "fuse-bn-act,dce", "--explain")
    assert re.search(r"^fuse-bn-act +9 of \d+ ", err, re.MULTILINE)
    assert re.search(r"^dce +\d+ of ", err, re.MULTILINE)
    _, _, err = opt(RESNET, "-p", "fuse-bn-act,dce", "--explain=all")
    assert "-p (fuse-bn-act" in err and err.count("  applied at pd.relu") == 9


@pytest.mark.exhaustive
def test_command_locks_and_is_strict(tmp_path: Path) -> None:
    """--write-lock, --check-lock and --strict end with status 1 and one message."""
    lock = str(tmp_path / "fusions.lock")
    assert opt(*PORTABLE, "fuse_bn_act_ops", "--write-lock", lock)[0] == 0
    assert opt(*PORTABLE, "fuse_bn_act_ops", "--check-lock", lock)[0] == 0
    status, _, err = opt(*PORTABLE, "fuse_bn_act_ops=0", "--check-lock", lock)
    assert (status, "fuse-bn-act: 9 in the file, 0 now" in err) == (1, True)
    status, _, err = opt(RESNET, "--build-strategy", "fuse_adamw", "--strict")
    assert (status, "fuse_adamw: nothing to do" in err) == (1, True)


def test_two_flaws_are_no_near_miss() -> None:
    """A near miss has one flaw; two flaws are no near miss."""
    module = parse(next(c for c in FIRING if c.pass_name == "fuse-bn-add-act").before)
    rule = FUSIONS["fuse-bn-add-act"].RULES[0]
    match = matched(module, rule)
    assert match is not None
    for op in list(match.ops.values()):
        if op.results[0].uses and op is not match.root:
            between = Scale.make(op.results[0], scale=2.0)
            assert op.parent is not None
            op.parent.insert_op_after(between, op)
            op.results[0].replace_uses_with_if(
                between.results[0], lambda use, between=between: use.operation is not between
            )
    assert not list(matches(rule.root, match.root, tolerant=True))


def test_a_saved_model_is_explained_with_its_outputs() -> None:
    """The outputs are the fetch operators' variables, not every unread result."""
    model = paddle.import_model(MODELS / "infer_bert_mini" / "model")
    found = paddle.explain(model.program, flags(fused_attention=True, fused_feedforward=True))
    assert {row.name: row.fired for row in found.table()}["fused_attention"] == 2


def test_a_plain_program_has_the_passes_of_its_run() -> None:
    """Explaining a program without a strategy runs only the passes of its run."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4], "float32")
        y = paddle.scale(paddle.exp(x), 1.0)
    made = Compilation(main, ("x",), (y.name,), None, (paddle.CPUPlace(),))
    compiled = compile_program(made)
    looked = made.optimize(near=True)
    assert [ran.pass_name for ran in looked.report.ran] == [
        ran.pass_name for ran in compiled.report.ran
    ]
    assert text_of(looked.module) == text_of(compiled.module)
