"""Bisect names a pass that is made wrong, for each pass of a platform, of storage or of updates.

Each pass is made wrong in its turn: after its first rewrite, a result of the program is multiplied.
The steps match a run on the pass's platform, on the first example of its page in which the pass
rewrites an op although the other passes run, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from graphopt.debug.compare import interpret_module, random_inputs
from graphopt.debug.program_source import subjects
from graphopt.debug.search import Suspect, find_wrong_rewrite
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import Applied, Fusion, FusionPass, Match, Outcome
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.passes.table.conditions import ANY_PROGRAM
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.order import ROWS, Phase
from graphopt.passes.table.registry import own_passes
from graphopt.passes.table.schedule import steps
from graphopt.passes.target.choose_kernel import FORMS
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.testing import load_page, parse
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.passes.flags.nets import strategy

PAGES = Path(__file__).parents[1] / "passes"
NAMES = tuple(
    dict.fromkeys(
        row.pass_name
        for row in ROWS
        if row.flag == ANY_PROGRAM or row.phase in (Phase.TARGET, Phase.UPDATE)
        # its blocks are tried for a form that competes, which no other tool has
        if row.pass_name != "pack-filters"
    )
)
PHASES = {row.pass_name: row.phase for row in ROWS}
FLAGS = {row.pass_name: row.flag for row in ROWS if row.flag != ANY_PROGRAM}
KERNELS = {
    "fuse-cudnn-attention": ("gpu", "cudnn"),
    "fuse-pallas-attention": ("tpu", "pallas"),
    "choose-attention": ("gpu", "cudnn"),
}


def setup_of(name: str) -> PassContext:
    """Build the context of a run in which this pass rewrites an op."""
    if name in KERNELS:
        platform, kernel = KERNELS[name]
        return PassContext({}, platform=platform, attention_kernel=kernel)
    if name in ("choose-kernel", "fuse-conv-epilogue"):
        return PassContext({}, platform="cpu", kernels=FORMS)
    if name == "stack-counters":
        return PassContext({}, platform="gpu")
    flag = FLAGS.get(name)
    if name == "choose-group-kernel":
        return PassContext({str(flag): True}, platform="gpu")
    return pass_context_for(None if flag is None else strategy(**{flag: True}), "cpu")


def break_pass(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make a pass of the table wrong."""
    made = own_passes()[name]()
    if not issubclass(made, FusionPass):
        assert issubclass(made, RewritePass)
        right = made.rewrite

        def rewrite(self: Any, module: ModuleOp) -> list[Outcome]:
            outcomes = right(self, module)
            if any(isinstance(outcome, Applied) for outcome in outcomes):
                multiply_result(module)
            return outcomes

        monkeypatch.setattr(made, "rewrite", rewrite)
        return
    for rule in {type(rule) for rule in made.RULES}:
        monkeypatch.setattr(rule, "results", wrong_results(rule))


def wrong_results(rule: type[Fusion]) -> Any:
    right = rule.results

    def results(self: Fusion, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        (old, new), *others = right(self, match, fused).items()
        return {old: multiplied(new), **dict(others)}

    return results


def multiply_result(module: ModuleOp) -> None:
    """Make the first result with fractions half as large again."""
    returned = main_function(module).body.block.last_op
    assert returned is not None
    at = next(i for i, v in enumerate(returned.operands) if dtype_of(v.type).is_floating)
    returned.operands[at] = multiplied(returned.operands[at])


def multiplied(value: SSAValue) -> SSAValue:
    made = Scale.make(value, scale=1.5)
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    assert block is not None and block.first_op is not None
    if isinstance(value.owner, Block):
        block.insert_op_before(made, block.first_op)
    else:
        block.insert_op_after(made, value.owner)
    return made.results[0]


def suspects(name: str) -> Iterator[Suspect]:
    """Yield the examples on the page of a pass, with the steps of a run and the page's options."""
    for case in load_page(PAGES / f"{name}.md"):
        module = parse(case.before)
        chosen = tuple(
            replace(step, passes=(case.make_pass(),)) if step.names == name else step
            for step in steps(setup_of(name))
        )
        yield Suspect(module, chosen, random_inputs(module), interpret_module, interpret_module)


def of_each_kind() -> Iterator[Any]:
    """Yield all pass names; the first of each phase and kind is always tried."""
    seen: set[tuple[Phase, bool, bool]] = set()
    for name in NAMES:
        kind = (PHASES[name], issubclass(own_passes()[name](), FusionPass), name in KERNELS)
        yield pytest.param(name, marks=pytest.mark.exhaustive) if kind in seen else name
        seen.add(kind)


@pytest.mark.parametrize("name", [*of_each_kind()])
def test_bisect_names_the_wrong_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bisect finds nothing while the pass is right, and names the pass that was made wrong."""
    suspect = next(
        s for s in suspects(name) if any(n.startswith(name) for n in s.run_passes().asked)
    )
    assert find_wrong_rewrite(suspect) is None
    suspect.trials.clear()
    break_pass(monkeypatch, name)
    found = find_wrong_rewrite(suspect)
    assert found is not None
    assert found.pass_name == name


SCRIPT = """
import numpy as np
import paddle
paddle.enable_static()
x = paddle.static.data("x", [None, 3, 5, 5])
hidden = paddle.static.nn.conv2d(x, 4, 3)
loss = paddle.mean(hidden)
paddle.optimizer.SGD(0.1).minimize(loss)
exe = paddle.static.Executor()
exe.run(paddle.static.default_startup_program())
exe.run(feed={"x": np.ones((2, 3, 5, 5), "float32")}, fetch_list=[loss])
"""


def test_a_plain_program_of_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Bisect runs the passes of the program's platform, and finds the wrong one."""
    (tmp_path / "train.py").write_text(SCRIPT)
    with fresh():
        (subject,) = subjects(str(tmp_path / "train.py"), [], plain=False)
    assert subject.steps is not None
    suspect = Suspect(
        subject.module, subject.steps, subject.known, interpret_module, interpret_module
    )
    assert find_wrong_rewrite(suspect) is None
    suspect.trials.clear()
    break_pass(monkeypatch, "store-filters")
    found = find_wrong_rewrite(suspect)
    assert found is not None and found.pass_name == "store-filters"
