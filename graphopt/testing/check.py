"""One call that tests a pass: `check_pass(MyPass)`.

On generated programs, with the pass's patterns planted, it checks that the pass leaves valid IR and
the signature, changes no output, gradient or state beyond its numerics class, finds nothing to do a
second time, and fires at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as HypothesisPhase
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.debug.compare import assert_same_bits, check_preserves_meaning
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.signature import signature_of
from graphopt.passes.engine.fusion import Applied, Fusion, FusionPass, sweep
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.testing.programs import Generated, programs


def check_pass(
    tested: type[ModulePass] | ModulePass,
    *,
    plant: Sequence[Fusion] = (),
    examples: int = 25,
    must_fire: int = 5,
    bits: bool = True,
) -> int:
    """Test a pass on generated programs; how often it changed something.

    A FusionPass plants its own RULES; `plant` are patterns for any other pass. `must_fire` is the
    least number of changes over all `examples`. For a pass of the class bit-exact the bits are
    compared too, in programs without gradients, unless `bits` is False. Raises AssertionError or
    VerifyException with the program that fails, TypeError for a pass without `numerics`.
    """
    made = tested() if isinstance(tested, type) else tested
    numerics = getattr(made, "numerics", None)
    if not isinstance(numerics, Numerics):
        raise TypeError(
            f"{made.name} should say how it changes numbers: a class attribute `numerics`, "
            "one of graphopt.passes.engine.numerics.Numerics"
        )
    patterns = [*plant, *(made.RULES if isinstance(made, FusionPass) else ())]
    transform = transformer(made)
    fired = 0

    def run(training: bool, check: Callable[[ModuleOp], int], count: int) -> None:
        @settings(
            max_examples=count,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),  # pyright: ignore
            phases=(HypothesisPhase.generate, HypothesisPhase.explicit),
        )
        @given(programs(plant=patterns, training=training))
        def each(generated: Generated) -> None:
            nonlocal fired
            fired += check(generated.module)

        each()

    def same_meaning(module: ModuleOp) -> int:
        changed = module.clone()
        changes = check_preserves_meaning(module, transform)
        transform(changed)
        assert signature_of(changed) == signature_of(module), "the signature changed"
        assert not transform(changed), f"{made.name} found something to do a second time"
        return changes

    def same_bits(module: ModuleOp) -> int:
        changed = module.clone()
        if transform(changed):
            assert_same_bits(module, changed)
        return 0

    run(True, same_meaning, examples)
    if bits and numerics is Numerics.BIT_EXACT:
        run(False, same_bits, max(examples // 2, 1))
    assert fired >= must_fire, f"{made.name} changed something {fired} times, not {must_fire}"
    return fired


def transformer(made: ModulePass) -> Callable[[ModuleOp], int]:
    """A function that runs the pass on a module and says how much it changed."""

    def transform(module: ModuleOp) -> int:
        if isinstance(made, FusionPass):
            outcomes = sweep(module, [(made.name, rule) for rule in made.RULES])
        elif isinstance(made, RewritePass):
            outcomes = made.rewrite(module)
        else:
            before = str(module)
            made.apply(new_context(), module)
            return int(str(module) != before)
        return sum(isinstance(outcome, Applied) for outcome in outcomes)

    return transform
