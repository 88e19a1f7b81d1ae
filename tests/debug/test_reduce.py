"""Delta reduction keeps the interesting ops and no others; its programs are valid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import Array
from graphopt.debug.differences import run
from graphopt.debug.reduce import record
from graphopt.debug.shrink import plain_inputs, shrink_sizes
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.testing import parse, programs, random_inputs, reduce_module
from graphopt.testing.programs import Generated

PROGRAM = """
func.func @main(%x: tensor<?x6xf32> {pd.feed = "x"}, %w: tensor<6x4xf32> {pd.state = "w"})
    -> (tensor<?x4xf32> {pd.fetch = "y"}, tensor<?x6xf32> {pd.fetch = "z"}) {
  %a = pd.exp(%x) : tensor<?x6xf32>
  %b = pd.matmul(%a, %w) : (tensor<?x6xf32>, tensor<6x4xf32>) -> tensor<?x4xf32>
  %c = pd.relu(%b) : tensor<?x4xf32>
  %d = pd.tanh(%c) : tensor<?x4xf32>
  %z = pd.tanh(%a) : tensor<?x6xf32>
  %y = pd.exp(%d) : tensor<?x4xf32>
  func.return %y, %z : tensor<?x4xf32>, tensor<?x6xf32>
}
"""


def has(*names: str):
    """Build a predicate that is true for modules with all these ops."""

    def interesting(module: ModuleOp, inputs: Mapping[str, Array]) -> bool:
        found = [op.name for op in module.walk()]
        return all(name in found for name in names)

    return interesting


def ops(module: ModuleOp) -> list[str]:
    """List the names of the ops of `@main`."""
    return [op.name for op in main_function(module).body.block.ops][:-1]


def test_values_where_ops_were() -> None:
    """An operand whose producer is removed becomes a feed, with the recorded value."""
    module = parse(PROGRAM)
    inputs = random_inputs(module)
    values = record(module, inputs)
    reduced = reduce_module(module, inputs, has("pd.relu"), values=values)
    assert ops(reduced.module) == ["pd.relu"]
    assert signature_of(reduced.module).feeds == ("b",)
    (found,) = run(reduced.module, reduced.inputs).values()
    np.testing.assert_allclose(
        found, np.maximum(np.exp(inputs["x"]) @ inputs["w"], 0), rtol=1e-5, atol=1e-6
    )


def test_ops_that_belong_together_stay() -> None:
    """Two connected ops stay, with feeds only for the operands of their pattern."""
    module = parse(PROGRAM)

    def interesting(module: ModuleOp, inputs: Mapping[str, Array]) -> bool:
        for op in module.walk():
            if op.name == "pd.tanh" and op.operands[0].owner in (all_ops := list(module.walk())):
                return op.operands[0].owner.name == "pd.relu" and bool(all_ops)  # pyright: ignore
        return False

    reduced = reduce_module(module, {}, interesting)
    assert ops(reduced.module) == ["pd.relu", "pd.tanh"]
    assert signature_of(reduced.module).fetches == ("d",)
    assert reduced.inputs == {}


def test_a_guess_around_the_culprit_saves_tries() -> None:
    """Ops in focus are tried first, with the producers of their operands."""
    module = parse(PROGRAM)
    (relu,) = (op for op in module.walk() if op.name == "pd.relu")
    interesting = has("pd.relu", "pd.matmul")
    guided = reduce_module(module, {}, interesting, focus=[relu])
    assert ops(guided.module) == ["pd.matmul", "pd.relu"]
    assert guided.tried <= reduce_module(module, {}, interesting).tried


def test_what_is_not_interesting_is_refused() -> None:
    """A program that is not interesting cannot be reduced; an exception counts as no."""
    with pytest.raises(ValueError, match="not interesting"):
        reduce_module(parse(PROGRAM), {}, has("pd.conv2d"))
    with pytest.raises(ValueError, match="not interesting"):
        reduce_module(parse(PROGRAM), {}, lambda *_: bool(1 / 0))


def test_the_number_of_tries_is_bounded() -> None:
    """When the tries are used up, the best program so far is returned."""
    reduced = reduce_module(parse(PROGRAM), {}, has("pd.exp"), most=2)
    assert reduced.tried <= 2
    assert "pd.exp" in ops(reduced.module)


@pytest.mark.exhaustive
@settings(max_examples=8)
@given(programs())
def test_every_part_is_a_program(generated: Generated) -> None:
    """Each candidate is valid, also for training programs with gradients and updates."""
    module = generated.module
    seen: list[int] = []

    def interesting(part: ModuleOp, inputs: Mapping[str, Array]) -> bool:
        part.verify()
        verify_ssa(part)
        assert len({p.name for p in signature_of(part).arguments}) == len(inputs)
        seen.append(len(ops(part)))
        return "pd.grad" in ops(part)

    inputs = random_inputs(module)
    values = {
        value: np.zeros(()) for op in main_function(module).body.block.ops for value in op.results
    }
    reduced = reduce_module(module, inputs, interesting, values=values)
    assert ops(reduced.module) == ["pd.grad"]
    assert len(seen) > 1


def test_sizes_become_small() -> None:
    """All dimensions of one size shrink together, and the arrays with them."""
    module = parse(PROGRAM)
    inputs = random_inputs(module, unknown=5)
    smaller, fed = shrink_sizes(module, inputs, has("pd.matmul"))
    assert {name: array.shape for name, array in fed.items()} == {"x": (2, 2), "w": (2, 2)}
    assert "tensor<?x2xf32>" in str(smaller)
    run(smaller, fed)

    def keeps_six(module: ModuleOp, inputs: Mapping[str, Array]) -> bool:
        return inputs["x"].shape[1] == 6

    _, fed = shrink_sizes(module, inputs, keeps_six)
    assert {name: array.shape for name, array in fed.items()} == {"x": (2, 6), "w": (6, 2)}


def test_inputs_become_plain() -> None:
    """Small inputs are rounded, large ones become random, unless only the original fails."""
    module = parse(PROGRAM)
    inputs = random_inputs(module, unknown=50)
    plain = plain_inputs(module, inputs, lambda _, given: given["w"][0, 0] == inputs["w"][0, 0])
    assert not isinstance(plain["x"], np.ndarray)
    assert plain["x"].array().shape == (50, 6)
    assert plain["w"] is inputs["w"]
    plain = plain_inputs(module, inputs, lambda *_: True)
    assert isinstance(plain["w"], np.ndarray)
    np.testing.assert_array_equal(plain["w"], np.round(inputs["w"]))
