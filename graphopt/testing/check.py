"""One call that tests a pass: `check_pass(MyPass)`.

On generated programs with the pass's patterns planted, it checks each rewrite against the ops that
it replaces, on the kinds of numbers of its class of numerics. It checks, too, that the pass leaves
valid IR and the signature, changes no output, gradient or state, finds nothing to do a second time,
and fires at all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as HypothesisPhase
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from graphopt.debug.compare import assert_same_bits, check_preserves_meaning
from graphopt.debug.differences import run
from graphopt.debug.reduce import reduce_module
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.dialect.text import text_of
from graphopt.passes.engine.fusion import Applied, Fusion, FusionPass, sweep
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.passes.engine.validation import Checked, validating
from graphopt.reference.programs import validate
from graphopt.testing.programs import Generated, programs


def check_pass(
    tested: type[ModulePass] | ModulePass,
    *,
    plant: Sequence[Fusion] = (),
    examples: int = 25,
    must_fire: int = 5,
    bits: bool = True,
) -> int:
    """Test a pass on generated programs; return how often it changed something.

    A FusionPass plants its own RULES; `plant` are patterns for any other pass. `must_fire` is the
    least number of changes over all `examples`. For a pass of the class bit-exact the bits are
    compared too, in programs without gradients, unless `bits` is False. Raises AssertionError,
    which names the rewrite first and ends with the program that fails; TypeError for a pass without
    `numerics`, and for a pattern with an op that cannot be planted.
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

    def try_programs(training: bool, check: Callable[[ModuleOp], int], count: int) -> None:
        @settings(
            max_examples=count,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),  # pyright: ignore
            phases=(HypothesisPhase.generate, HypothesisPhase.explicit),
            print_blob=False,
        )
        @given(programs(plant=patterns, training=training))
        def each(generated: Generated) -> None:
            nonlocal fired
            with _naming(made, generated.module):
                fired += check(generated.module)

        try:
            each()
        except AssertionError as error:
            # Hypothesis adds the whole program to a message that ends with its failing part
            error.__notes__ = []
            raise

    def same_meaning(module: ModuleOp) -> int:
        _check_rewrites(made, module)
        changed = module.clone()
        changes = check_preserves_meaning(module, transform, run=run)
        transform(changed)
        assert signature_of(changed) == signature_of(module), "changed the signature"
        assert not transform(changed), "found something to do a second time"
        return changes

    def same_bits(module: ModuleOp) -> int:
        changed = module.clone()
        if transform(changed):
            assert_same_bits(module, changed)
        return 0

    try_programs(True, same_meaning, examples)
    if bits and numerics is Numerics.BIT_EXACT:
        try_programs(False, same_bits, max(examples // 2, 1))
    assert fired >= must_fire, f"{made.name} changed something {fired} times, not {must_fire}"
    return fired


@contextmanager
def _naming(made: ModulePass, module: ModuleOp) -> Generator[None]:
    """Prefix an error inside the block with the pass, and append the program before it."""
    try:
        yield
    except _WrongRewrite as error:
        raise AssertionError(str(error)) from None
    except (AssertionError, VerifyException) as error:
        said = str(error).strip()
        raise AssertionError(
            f"{made.name}: {said}\n\nThe program before:\n{text_of(module)}"
        ) from error


class _WrongRewrite(Exception):
    """A rewrite that the validator rejects, with the smallest program where it does."""


def _check_rewrites(made: ModulePass, module: ModuleOp) -> None:
    """Validate each rewrite against the ops that it replaces, in a copy of the module."""
    wrong = _first_wrong(made, module)
    if wrong is None:
        return
    reduced = reduce_module(
        module, {}, lambda part, inputs: _first_wrong(made, part) is not None, most=100
    )
    wrong = _first_wrong(made, reduced.module) or wrong
    words = wrong.text.removeprefix(f"{wrong.anchor}, ")
    raise _WrongRewrite(
        f"{wrong.rule}: the rewrite at {wrong.anchor} is wrong, {words}\n\n"
        f"The program before:\n{text_of(reduced.module)}"
    )


def _first_wrong(made: ModulePass, module: ModuleOp) -> Checked | None:
    """Find the first rewrite of the pass that computes something else."""
    with validating(validate) as validation:
        transformer(made)(module.clone())
    return next(iter(validation.failed), None)


def transformer(made: ModulePass) -> Callable[[ModuleOp], int]:
    """Build a function that runs the pass on a module and counts its changes."""

    def transform(module: ModuleOp) -> int:
        if isinstance(made, FusionPass):
            rules = [(made.name, rule) for rule in made.RULES]
            outcomes = sweep(module, rules, numerics={made.name: made.numerics})
        elif isinstance(made, RewritePass):
            outcomes = made.rewrite(module)
        else:
            before = str(module)
            made.apply(new_context(), module)
            return int(str(module) != before)
        return sum(isinstance(outcome, Applied) for outcome in outcomes)

    return transform
