"""Two versions of a whole program against each other, in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.errors import comes_again
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import (
    PREPARED,
    STATE,
    function_signature,
    main_function,
    prepare_function,
)
from graphopt.ir.dtypes import DType
from graphopt.passes.engine.numerics import Numbers, Numerics
from graphopt.passes.engine.validation import (
    FAILED,
    NOT_VALIDATED,
    VALIDATED,
    Instance,
    Programs,
    Verdict,
)
from graphopt.reference.boundary import bind_values, rounds, sizes
from graphopt.reference.interpreter import evaluate, supports
from graphopt.reference.registry import Unsupported
from graphopt.reference.stored import Array, by_variable, stored_inputs
from graphopt.reference.validate import LARGEST, SIZES, NotSeen, difference, validate_instance

# the kinds of numbers for feeds and state; other kinds rarely reach far into a program
KINDS = (Numbers.ORDINARY, Numbers.ZEROS, Numbers.KINKS, Numbers.MODERATE)


def validate_programs(programs: Programs) -> Verdict:
    """Compare the results of two programs for the same feeds and state."""
    for module in (programs.before, programs.after):
        for op in module.walk():
            if op.name.startswith("pd.") and not supports(op) and op.name != "pd.yield":
                return Verdict(
                    NOT_VALIDATED, f"the reference interpreter has no rule for {op.name}"
                )
    problem = "no inputs fit"
    for size in SIZES:
        elements = _elements(programs.before, size)
        if elements > LARGEST:
            return Verdict(NOT_VALIDATED, "its values are too large to be interpreted")
        try:
            message = _differ(programs, size, elements)
        except (Unsupported, ValueError, IndexError, AssertionError, KeyError) as error:
            problem = f"the program cannot be interpreted: {error}".splitlines()[0]
            continue
        return Verdict(FAILED, message) if message else Verdict(VALIDATED)
    return Verdict(NOT_VALIDATED, problem)


def _differ(programs: Programs, size: int, elements: int) -> str:
    """Describe the first result that differs; "" when none does."""
    taken = _inputs(programs.before)
    for filling in rounds(list(taken.values()), KINDS, size, elements):
        arrays = bind_values(list(taken.values()), filling, size, wide=False)
        inputs = {f"{kind} {name}": arrays[value] for (kind, name), value in taken.items()}
        given = by_variable(programs.before, inputs)
        # the order in which a derivative sums its terms is not guaranteed
        trained = any(isinstance(op, Grad) for op in programs.before.walk())
        numerics = Numerics.REASSOCIATING if trained else programs.numerics
        numerics = max(numerics, programs.numerics, key=list(Numerics).index)
        for precision in ("float64", "declared"):
            if precision == "declared" and numerics is not Numerics.BIT_EXACT:
                continue  # the error of many ops together has no bound
            before, after = (
                _results(module, given, precision) for module in (programs.before, programs.after)
            )
            message = _first(before, after, given, numerics, precision)
            if message:
                return f"on {filling.words()}, {message}"
    return ""


def _inputs(module: ModuleOp) -> dict[tuple[str, str], SSAValue]:
    """Collect the feeds and the state that `@main` and `@prepare` read, by kind and name."""
    functions = (main_function(module), prepare_function(module))
    return {
        (port.kind, port.name): value
        for function in functions
        if function is not None
        for port, value in zip(function_signature(function).arguments, function.args, strict=True)
        if port.kind != PREPARED
    }


def _results(module: ModuleOp, given: Mapping[str, Array], precision: str) -> dict[str, Array]:
    named = {name.partition(" ")[2]: array for name, array in given.items()}
    found = evaluate(module, stored_inputs(module, named), precision=precision)  # pyright: ignore
    return by_variable(module, found)


def _first(
    before: Mapping[str, Array],
    after: Mapping[str, Array],
    given: Mapping[str, Array],
    numerics: Numerics,
    precision: str,
) -> str:
    kept = {name: array for name, array in given.items() if name.startswith(STATE)}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, kept.get(name)), after.get(name, kept.get(name))
        if old is None or new is None:
            return f"{name} is {'new' if old is None else 'gone'}"
        if old.shape != new.shape:
            return f"{name}: the shape {list(old.shape)} becomes {list(new.shape)}"
        if old.dtype.kind in "biu" or new.dtype.kind in "biu":
            if not np.array_equal(old, new):
                return f"{name} changes"
            continue
        message = difference(
            old.astype(np.result_type(old, new)),
            new.astype(np.result_type(old, new)),
            numerics,
            DType(old.dtype.name),
            precision,  # pyright: ignore
        )
        if message:
            return f"{name}: {message}"
    return ""


def _elements(module: ModuleOp, size: int) -> int:
    values = [v for op in module.walk() for v in op.results]
    return sum(int(np.prod(sizes(value, size), dtype=float)) for value in values)


def validate(instance: Instance | Programs) -> Verdict:
    """Compare the old values of a rewrite with the new ones, or two programs."""

    def verdict() -> Verdict:
        if isinstance(instance, Programs):
            return validate_programs(instance)
        return validate_instance(instance)

    try:
        return verdict()
    except NotSeen as why:
        return Verdict(NOT_VALIDATED, str(why))
    except Exception as error:  # a bug in the interpreter must not stop the optimizer
        if not comes_again(verdict, error):
            raise
        name = type(error).__name__
        return Verdict(NOT_VALIDATED, f"the reference interpreter failed: {name}: {error}")
