"""The validator of rewrites: old and new values compared in the interpreter."""

from __future__ import annotations

from graphopt.errors import comes_again
from graphopt.passes.engine.validation import NOT_VALIDATED, Instance, Programs, Verdict
from graphopt.reference.programs import validate_programs
from graphopt.reference.validate import NotSeen, validate_instance


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
    except Exception as error:  # a mistake in the interpreter must not stop the optimizer
        if not comes_again(verdict, error):
            raise
        name = type(error).__name__
        return Verdict(NOT_VALIDATED, f"the reference interpreter failed: {name}: {error}")
