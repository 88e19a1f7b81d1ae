"""Every test of the runtime starts with an empty global scope and its own CPU_NUM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphopt import static
from graphopt.ir.program import unique_name


@pytest.fixture(autouse=True)
def _fresh_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a new scope, names from zero, and an environment that is restored."""
    monkeypatch.setenv("CPU_NUM", "1")
    with static.scope_guard(static.Scope()), unique_name.guard():
        yield
