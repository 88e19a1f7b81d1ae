"""Names of the parts of a program that is compiled to be looked at."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import jax
from xdsl.ir import Operation


@contextmanager
def names_are_kept() -> Generator[None]:
    """An executable on disk is not taken for one whose parts have other names."""
    name = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def variable_of(op: Operation) -> str:
    """The name of the first result, or of the last operand: a layer's weight, where it has one."""
    values = (*op.results, *reversed(op.operands))
    return next((value.name_hint for value in values if value.name_hint), "")
