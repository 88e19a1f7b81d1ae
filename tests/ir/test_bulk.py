"""Changes of many values at once, and work that grows linearly.

The tests count calls of Python functions, not seconds, so a busy machine changes nothing.
"""

from __future__ import annotations

import gc
import math
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.attrs import NUMBER
from graphopt.ir.dialect.bulk import open_operands, replace_uses
from graphopt.ir.dialect.collector import paused_collector
from graphopt.ir.dialect.text import text_of
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.table.manager import optimize


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("replaced", [1, 3, 50])
def test_uses_are_replaced_everywhere(opened: bool, replaced: int) -> None:
    """Operands and uses agree, however many values are replaced and in whichever way."""
    values = [test.TestOp(result_types=[f32]).results[0] for _ in range(100)]
    new = [test.TestOp(result_types=[f32]).results[0] for _ in range(replaced)]
    values[0].name_hint = "first"
    wide, narrow = test.TestOp(operands=[*values, values[0]]), test.TestOp(operands=values[:2])
    pairs: dict[SSAValue, SSAValue] = dict(zip(values, new, strict=False))
    if opened:
        with open_operands([wide, narrow]):
            replace_uses(pairs)
    else:
        replace_uses(pairs)
    wanted = [pairs.get(value, value) for value in (*values, values[0])]
    assert list(wide.operands) == wanted and list(narrow.operands) == wanted[:2]
    for value in (*values, *new):
        uses = {(use.operation, use.index) for use in value.uses}
        held = ((op, n) for op in (wide, narrow) for n, v in enumerate(op.operands) if v is value)
        assert uses == set(held)
    assert new[0].name_hint == "first" and isinstance(wide.operands[:1], tuple)


def test_zeros_of_both_signs_stay_apart() -> None:
    """The cache of attributes distinguishes -0.0 from 0.0."""
    for value in (0.0, -0.0, 0.0, -0.0):
        assert math.copysign(1, NUMBER.decode(NUMBER.encode(value))) == math.copysign(1, value)


def test_the_collector_comes_back() -> None:
    """The collector is off only inside the block, and on again after an error."""
    with pytest.raises(ZeroDivisionError), paused_collector():
        assert not gc.isenabled()
        _ = 1 / 0
    assert gc.isenabled()


GROWN_OLD = """
import gc, weakref
from graphopt.ir.dialect.collector import keep_imported

class Node: pass

node = Node()
node.itself = node
held, node = weakref.ref(node), None
keep_imported("it")
assert not any(gc.get_count()[1:]) and gc.get_freeze_count() == 0 and held() is not None
gc.collect()
assert held() is None
gc.freeze()
count = gc.get_freeze_count()
keep_imported.__wrapped__("it")
assert gc.get_freeze_count() == count
"""


@pytest.mark.exhaustive
def test_what_is_imported_grows_old_and_is_still_looked_at() -> None:
    """Old garbage is collected; objects that the caller froze stay frozen."""
    subprocess.run([sys.executable, "-c", GROWN_OLD], check=True)


def program(layers: int) -> tuple[static.Program, tuple[str, ...], tuple[str, ...]]:
    """Build a training program with batch norms, which update state; return feed and loss, too."""
    main = static.Program()
    with static.program_guard(main, static.Program()), paddle.utils.unique_name.guard():
        h = static.data("x", [4, 3, 2, 2])
        for _ in range(layers):
            h = static.nn.batch_norm(static.nn.conv2d(h, 3, 1), act="relu")
        loss = paddle.mean(h)
        paddle.optimizer.AdamW(0.001).minimize(loss)
    return main, ("x",), (loss.name,)


def calls_of(work: Callable[[], Any]) -> int:
    """Count the calls of Python functions."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.exhaustive
def test_work_grows_with_the_program_and_not_faster() -> None:
    """Parsing, all fusions and printing call as many functions per layer in a longer program."""
    strategy = static.BuildStrategy()
    for flag in ("fuse_bn_act_ops", "fuse_elewise_add_act_ops", "fuse_adamw"):
        setattr(strategy, flag, True)

    def stages(layers: int) -> list[int]:
        given = program(layers)
        module = parse_program(*given)
        return [
            calls_of(lambda: parse_program(*given)),
            calls_of(lambda: text_of(module)),
            calls_of(lambda: optimize(module, strategy.pass_context(), verify_each=False)),
        ]

    stages(2)  # fills the caches
    for short, long in zip(stages(10), stages(40), strict=True):
        assert long < 4.4 * short
