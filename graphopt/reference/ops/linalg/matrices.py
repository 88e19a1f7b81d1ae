"""Diagonals, vector products, and sums of products by Einstein's notation."""

from __future__ import annotations

import math
import string

import numpy as np

from graphopt.ir.dialect.ops.index import DiagEmbed
from graphopt.ir.dialect.ops.linalg import matrices as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def _of_offset(rows: int, columns: int, offset: int) -> tuple[Array, Array]:
    """Compute the row and the column of each element on a diagonal."""
    row, column = max(-offset, 0), max(offset, 0)
    steps = np.arange(max(min(rows - row, columns - column), 0))
    return row + steps, column + steps


@rule(ops.Diagonal)
def diagonal(input: Array, offset: int, axis1: int, axis2: int) -> Array:
    last = np.moveaxis(input, (axis1, axis2), (-2, -1))
    return last[(..., *_of_offset(last.shape[-2], last.shape[-1], offset))]


@rule(ops.Trace)
def trace(input: Array, offset: int, axis1: int, axis2: int) -> Array:
    return np.sum(diagonal(input, offset, axis1, axis2), axis=-1)


def _square(x: Array, offset: int) -> Array:
    """Make a square matrix with the indices of x's last axis on a diagonal, -1 elsewhere."""
    size = x.shape[-1] + abs(offset)
    places = np.full((size, size), -1)
    places[_of_offset(size, size, offset)] = np.arange(x.shape[-1])
    return places


@rule(DiagEmbed)
def diag_embed(input: Array, offset: int, dim1: int, dim2: int) -> Array:
    return np.moveaxis(_place_elements(input, _square(input, offset), 0.0), (-2, -1), (dim1, dim2))


def _place_elements(x: Array, places: Array, other: float) -> Array:
    """Take elements along the last axis by number, `other` where the number is below 0."""
    filler = np.asarray(other).astype(x.dtype)
    if not x.shape[-1]:
        return np.full((*x.shape[:-1], *places.shape), filler)
    return np.where(places >= 0, x[..., np.maximum(places, 0)], filler)


@rule(ops.Diag)
def diag(x: Array, offset: int, padding_value: float) -> Array:
    if x.ndim == 2:
        return x[_of_offset(x.shape[0], x.shape[1], offset)]
    return _place_elements(x, _square(x, offset), padding_value)


@rule(ops.Cross)
def cross(x: Array, y: Array, axis: int) -> Array:
    at = x.shape.index(3) if axis == 9 else axis
    (a, b, c), (d, e, f) = np.moveaxis(x, at, 0), np.moveaxis(y, at, 0)
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], at)


# Einstein notation ------------------------------------------------------------------------------


@rule(ops.Einsum)
def einsum(inputs: tuple[Array, ...], equation: str) -> Array:
    terms, _, result = _without_dots(equation.replace(" ", ""), inputs).partition("->")
    letters = terms.split(",")
    sizes: dict[str, int] = {}
    for term, x in zip(letters, inputs, strict=True):
        for letter, size in zip(term, x.shape, strict=True):
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    simple = [_simple(x, term, sizes) for x, term in zip(inputs, letters, strict=True)]
    following = ["".join(term for _, term in simple[at:]) + result for at in range(1, len(simple))]
    total, have = _sum_letters(*simple[0], following[0] if following else result)
    for (x, term), later in zip(simple[1:], [*following[1:], result], strict=bool(following)):
        total, have = _multiply_operands(total, have, *_sum_letters(x, term, have + later), later)
    # letters that only named axes of size 1
    missing = [letter for letter in result if letter not in have]
    total = np.reshape(total, total.shape + (1,) * len(missing))
    order = [(have + "".join(missing)).index(letter) for letter in result]
    return np.transpose(total, order)


def _without_dots(equation: str, inputs: tuple[Array, ...]) -> str:
    """Replace `...` in an equation by letters, the last of them for the last axis."""
    free = "".join(c for c in string.ascii_letters if c not in equation)
    terms, _, result = equation.partition("->")
    named: list[str] = []
    most = 0
    for term, x in zip(terms.split(","), inputs, strict=True):
        count = x.ndim - len(term.replace("...", ""))
        named.append(term.replace("...", free[len(free) - count :] if count else ""))
        most = max(most, count)
    return f"{','.join(named)}->{result.replace('...', free[len(free) - most :] if most else '')}"


def _simple(x: Array, term: str, sizes: dict[str, int]) -> tuple[Array, str]:
    """Remove an operand's broadcast axes, and take diagonals until each letter occurs once."""
    kept = [i for i, c in enumerate(term) if x.shape[i] == sizes[c]]
    x, term = np.reshape(x, [x.shape[i] for i in kept]), "".join(term[i] for i in kept)
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            x = diagonal(x, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term


def _sum_letters(x: Array, term: str, others: str) -> tuple[Array, str]:
    """Sum over the letters that no other term has."""
    own = tuple(i for i, c in enumerate(term) if c not in others)
    return np.sum(x, axis=own) if own else x, "".join(c for c in term if c in others)


def _multiply_operands(x: Array, of_x: str, y: Array, of_y: str, later: str) -> tuple[Array, str]:
    """Multiply two operands as matrices, and sum over letters that no later term has."""
    both = [c for c in of_x if c in of_y]
    batch, inner = [c for c in both if c in later], [c for c in both if c not in later]
    left, right = [c for c in of_x if c not in of_y], [c for c in of_y if c not in of_x]

    def matrices(z: Array, term: str, *groups: list[str]) -> Array:
        ordered = np.transpose(z, [term.index(c) for group in groups for c in group])
        sizes = dict(zip(term, z.shape, strict=True))
        return np.reshape(ordered, [math.prod(sizes[c] for c in group) for group in groups])

    product = np.matmul(
        matrices(x, of_x, batch, left, inner), matrices(y, of_y, batch, inner, right)
    )
    sizes = dict(zip(of_x, x.shape, strict=True)) | dict(zip(of_y, y.shape, strict=True))
    have = [*batch, *left, *right]
    return np.reshape(product, [sizes[c] for c in have]), "".join(have)
