"""Mappings and sets of Variables (paddle.autograd.backward_utils)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphopt import static
from graphopt.autograd.backward_utils import ValueDict, ValueSet
from graphopt.ir.program import Program, Variable


@pytest.fixture
def pair() -> Iterator[tuple[Variable, Variable]]:
    with static.program_guard(Program()):
        yield static.data("x", [2], "float32"), static.data("y", [2], "float32")


def test_a_mapping_from_variables(pair: tuple[Variable, Variable]) -> None:
    """Keys are found by identity, and no operator is appended to compare them."""
    x, y = pair
    found: ValueDict[int] = ValueDict({x: 1})
    found[None] = 3
    assert (found[x], found.get(y), found.get(y, 7), y in found, len(found)) == (
        1,
        None,
        7,
        False,
        2,
    )
    with pytest.raises(KeyError, match="is not in ValueDict"):
        found[y]
    with pytest.raises(KeyError, match="is not in ValueDict"):
        found.pop(y)
    with pytest.raises(TypeError, match="must be a Variable or None, found str"):
        found["x"] = 4  # pyright: ignore[reportArgumentType]
    other = found.copy()
    assert other.setdefault(y, 9) == 9 and other.pop(x) == 1
    assert [key is x for key in found] == [True, False] and list(other.values()) == [3, 9]
    assert not x.block.ops


def test_a_mapping_makes_its_entries(pair: tuple[Variable, Variable]) -> None:
    """With a factory, reading an absent key creates an entry; `get` and `in` do not."""
    found: ValueDict[list[int]] = ValueDict(default_factory=list)
    assert found.get(pair[0]) is None and pair[0] not in found and not found
    found[pair[0]].append(2)
    assert repr(found.copy()[pair[0]]) == "[2]" and found.copy()[pair[1]] == []
    assert repr(found) == f"ValueDict({pair[0]}: [2])"


def test_a_set_of_variables(pair: tuple[Variable, Variable]) -> None:
    """Set operators return sets of Variables."""
    x, y = pair
    both, one = ValueSet([x, y, x]), ValueSet([y])
    assert (len(both), len(both & one), len(both - one), len(one | both)) == (2, 1, 1, 2)
    assert next(iter(both - one)) is x
    one.update([x, y])
    one.remove(y)
    assert [value is x for value in one.copy()] == [True] and one.pop() is x and not one
    with pytest.raises(KeyError):
        one.remove(x)
    with pytest.raises(TypeError, match="must be a Variable or None"):
        one.add(1)  # pyright: ignore[reportArgumentType]
    assert not x.block.ops
