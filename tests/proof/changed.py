"""The programs of some pages with one op changed, and the outcome of the pass on each.

Each op is replaced by another one of its kind, reads its operands in the other order, or is left
out. The outcomes are recorded in `tests/data/changed_ops.txt`. With GRAPHOPT_UPDATE_PAGES in the
environment their test writes the file again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.shape import Concat
from graphopt.passes.engine.fusion import Applied
from graphopt.passes.engine.naming import show_op
from graphopt.testing import Case, parse
from graphopt.testing.mutations import BINARY, SIBLINGS, ops_of, replace_op
from graphopt_tests.proof.corpus import FUSIONS
from graphopt_tests.proof.told import TESTS, fusion_cases
from graphopt_tests.proof.transforms import one_pass

KEPT = TESTS / "data" / "changed_ops.txt"
# the programs with the most ops of their patterns
TITLES = {
    "fused-attention": (
        "As nn.TransformerEncoderLayer writes it",
        "Rotary positions of heads",
        "Keys that are repeated, or expanded",
    ),
    "fused-feedforward": ("As nn.TransformerEncoderLayer writes it",),
    "fuse-dot-product-attention": ("As nn.MultiHeadAttention writes it",),
    "fuse-gemm-epilogue": ("A linear layer with its activation",),
    "fuse-bn-add-act": ("A residual block",),
    "fold-batch-norm": ("A convolution with a bias",),
}


def outcomes(name: str) -> list[str]:
    """List a line for each changed op in the programs of a pass: its reasons, or its fusions."""
    transform = one_pass(FUSIONS[name]())
    found: list[str] = []
    for case in _cases(name):
        for words, module in changes(case.before):
            told = [
                f"fused {len(each.replaced)} ops" if isinstance(each, Applied) else each.reason.name
                for each in transform(module)
            ]
            module.verify()
            found.append(f"{name} | {case.title} | {words} | {', '.join(told) or 'no pattern'}")
    return found


def _cases(name: str) -> Iterator[Case]:
    """Yield the cases of a pass whose ops are changed."""
    wanted = TITLES.get(name, ())
    return (case for case in fusion_cases() if case.pass_name == name and case.title in wanted)


def changes(text: str) -> Iterator[tuple[str, ModuleOp]]:
    """Yield the program with one op changed, in every way that types allow, and the change."""
    for at, original in enumerate(ops_of(parse(text))):
        kind = type(original)
        others = dict.fromkeys(o for family in SIBLINGS if kind in family for o in family)
        for other in [other for other in others if other is not kind]:
            module = parse(text)
            op = ops_of(module)[at]
            count = 2 if issubclass(other, BINARY) else 1
            attrs = {k: v for k, v in op.attr_values().items() if k in attr_kinds(other)}
            if len(op.operands) >= count and replace_op(op, other, attrs, op.operands[:count]):
                yield f"{show_op(original)} is {other.name}", module
        if isinstance(original, (*BINARY, Concat)):
            module = parse(text)
            op = ops_of(module)[at]
            if _turned(op):
                yield f"{show_op(original)} is turned round", module
        module = parse(text)
        if _left_out(ops_of(module)[at]):
            yield f"{show_op(original)} is left out", module


def _turned(op: PdOp) -> bool:
    """Swap the first two operands of an op; return whether the op allows it."""
    turned: list[SSAValue] = [*op.operands[1::-1], *op.operands[2:]]
    op.operands = turned
    try:
        op.verify()
    except VerifyException:
        return False
    return True


def _left_out(op: PdOp) -> bool:
    """Replace an op by its first operand of the result's type; return whether this removed it."""
    result = op.results[0] if op.results else None
    for value in op.operands:
        if result is not None and value.type == result.type:
            result.replace_all_uses_with(value)
            unread = not any(other.uses for other in op.results)
            if unread:
                op.detach()
                op.erase()
            return unread
    return False


@cache
def kept(name: str) -> list[str]:
    """Return the recorded lines of a pass."""
    return [line for line in KEPT.read_text().splitlines() if line.startswith(f"{name} | ")]
