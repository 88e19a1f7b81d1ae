"""einsum of two tensors -> matmul, between transposes and reshapes where the letters need them.

Fusions, and kernels for products, know matmul. The letters of an equation are in four groups: batch
letters are in both terms and the result, row letters in the first term and the result, column
letters in the second term and the result, and letters in both terms alone are summed over.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.linalg.matrices import Einsum
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.shape import Reshape, Transpose
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, replace


@dataclass(frozen=True)
class EinsumToMatmul(RewritePass):
    """Write einsums that are matrix products as matmul."""

    name = "einsum-to-matmul"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in list(module.walk()):
            if isinstance(op, Einsum):
                found = _product_of(op)
                if isinstance(found, Reason):
                    log.declined(op, found)
                elif log.allow(op):
                    log.applied(op)
                    replace(op, {op.results[0]: found.insert(Before(op))}, log)
        return log.outcomes


@dataclass(frozen=True)
class _Product:
    """x times y, with the letters of their axes and of the result."""

    x: SSAValue
    y: SSAValue
    terms: tuple[str, str]
    result: str

    @property
    def batch(self) -> str:
        """The letters of both terms and the result, in the order of the result."""
        return "".join(c for c in self.result if c in self.terms[0] and c in self.terms[1])

    @property
    def rows(self) -> str:
        """The letters of x and the result alone."""
        return "".join(c for c in self.result if c not in self.terms[1])

    @property
    def columns(self) -> str:
        """The letters of y and the result alone."""
        return "".join(c for c in self.result if c not in self.terms[0])

    @property
    def summed(self) -> str:
        """The letters that are summed over."""
        return "".join(c for c in self.terms[0] if c not in self.result)

    def exchange(self) -> _Product:
        """Swap the operands: y times x."""
        first, second = self.terms
        return _Product(self.y, self.x, (second, first), self.result)

    def sizes(self) -> dict[str, int]:
        """Map each letter to its size; where one term broadcasts a 1, use the other's size."""
        found: dict[str, int] = {}
        for value, term in zip((self.x, self.y), self.terms, strict=True):
            for letter, size in zip(term, shape_of(value.type), strict=True):
                found[letter] = size if found.get(letter, 1) == 1 else found[letter]
        return found

    def insert(self, before: Before) -> SSAValue:
        """Insert the transposes, reshapes and matmul of the product, and return its result."""
        batch, rows, columns, summed = self.batch, self.rows, self.columns, self.summed
        sizes = self.sizes()
        # without a batch, the rows may span several axes
        row_groups = [rows] if batch else [*rows]
        x = _arrange(self.x, self.terms[0], [*batch, *row_groups, summed], before)
        transposed = self.terms[1][-1] in summed
        last = [columns, summed] if transposed else [summed, columns]
        y = _arrange(self.y, self.terms[1], [*batch, *last], before)
        product = before(Matmul.make(x, y, transpose_y=transposed))
        groups, letters = [*batch, *row_groups, columns], batch + rows + columns
        if any(len(group) > 1 for group in groups):
            shape = _shape([sizes[c] for c in letters], _until_merged(groups))
            product = before(Reshape.make(product, shape=shape))
        return _transpose_operand(product, letters, self.result, before)


def _arrange(value: SSAValue, term: str, groups: Sequence[str], before: Before) -> SSAValue:
    """Transpose a tensor to the order of `groups`, and merge the axes of each group into one."""
    value = _transpose_operand(value, term, "".join(groups), before)
    if all(len(group) == 1 for group in groups):
        return value
    sizes = dict(zip("".join(groups), shape_of(value.type), strict=True))
    # merged axes have known sizes
    merged = [math.prod(sizes[c] for c in group) for group in groups]
    return before(Reshape.make(value, shape=_shape(merged, _until_merged(groups))))


def _transpose_operand(value: SSAValue, term: str, wanted: str, before: Before) -> SSAValue:
    if wanted == term:
        return value
    return before(Transpose.make(value, perm=[term.index(letter) for letter in wanted]))


def _until_merged(groups: Sequence[str]) -> int:
    """Count the leading groups of one axis, which the reshape copies."""
    return next((at for at, group in enumerate(groups) if len(group) > 1), len(groups))


def _shape(sizes: Sequence[int], same: int) -> tuple[int, ...]:
    """Build the shape of a reshape; 0 copies an unknown size among the first `same` axes."""
    return tuple(0 if at < same and n == UNKNOWN else n for at, n in enumerate(sizes))


def _product_of(op: Einsum) -> _Product | Reason:
    """Match an einsum as a matrix product, or return the reason that it is none."""
    inputs = op.operands
    terms, _, result = op.attr("equation").replace(" ", "").partition("->")
    if len(inputs) != 2:
        return _no_product(f"the einsum has {len(inputs)} tensors, and a matmul has two")
    if not dtype_of(op.results[0].type).is_floating:
        return _no_product(
            f"the result is of {dtype_of(op.results[0].type)}, not of floating point"
        )
    left, right = terms.split(",")
    first, second, result = _without_dots(op, left, right, result)
    found = _Product(inputs[0], inputs[1], (first, second), result)
    for term in (first, second, result):
        twice = next((c for c in term if term.count(c) > 1), "")
        if twice:
            return _no_product(
                f"the letter '{twice}' appears twice in a term, which takes a diagonal"
            )
    alone = next((c for c in first + second if (first + second + result).count(c) == 1), "")
    if alone:
        return _no_product(
            f"the letter '{alone}', over which a sum is taken, appears in one term only"
        )
    for letters, text in (
        (found.summed, "the einsum sums over no letter"),
        (found.rows, "the first tensor has no letter of its own in the result"),
        (found.columns, "the second tensor has no letter of its own in the result"),
    ):
        if not letters:
            return _no_product(text)
    return _check_sizes(_in_order(found))


def _in_order(found: _Product) -> _Product:
    """Order the operands of the product so that it needs the fewest transposes."""
    if found.batch:
        turn = found.result[-1] in found.rows
    else:  # a weight comes second
        x, y = (rank_of(value.type) for value in (found.x, found.y))
        turn = x < y or (x == y and found.result[-1] in found.rows)
    return found.exchange() if turn else found


def _check_sizes(found: _Product) -> _Product | Reason:
    """Check that summed axes agree and that summed and merged axes have known sizes.

    Return the product, or the reason that a size is missing.
    """
    shapes = [
        dict(zip(term, shape_of(value.type), strict=True))
        for term, value in zip(found.terms, (found.x, found.y), strict=True)
    ]
    for letter in found.summed:
        sizes = {shape[letter] for shape in shapes}
        if len(sizes) > 1 or UNKNOWN in sizes:
            named = " and ".join("?" if size == UNKNOWN else str(size) for size in sorted(sizes))
            text = f"the summed '{letter}' has the size {named}, and a size of 1 broadcasts"
            return Reason("size-unknown", text, "declare the data with known sizes")
    together = [group for group in (found.rows, found.columns) if len(group) > 1]
    if not found.batch:
        together = [found.columns] if len(found.columns) > 1 else []
    sizes = found.sizes()
    unknown = [c for group in together for c in group if sizes[c] == UNKNOWN]
    if unknown:
        text = f"the size of axis '{unknown[0]}', to be joined with another axis, is not known"
        return Reason("size-unknown", text, "declare the data with known sizes")
    return found


def _no_product(text: str) -> Reason:
    return Reason(
        "no-matrix-product", text, "none: no matmul computes the same, so the op stays an einsum"
    )


def _without_dots(op: Einsum, first: str, second: str, result: str) -> tuple[str, str, str]:
    """Replace `...` in the terms by letters, aligned at the last axis."""
    free = "".join(c for c in string.ascii_letters if c not in first + second + result)

    def name_ellipsis(term: str, value: SSAValue) -> str:
        before, _, after = term.partition("...")
        count = rank_of(value.type) - len(before) - len(after)
        return before + free[len(free) - count :] + after

    return (
        name_ellipsis(first, op.operands[0]),
        name_ellipsis(second, op.operands[1]),
        name_ellipsis(result, op.results[0]),
    )
