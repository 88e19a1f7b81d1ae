"""Runs a function of variables, in a program of its own, on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt import static
from graphopt_tests.frontend.programs import fresh


def computed(function: Callable[..., Any], **given: Any) -> list[Any]:
    """Run a function of fed variables in a program of its own; return all results in one list."""
    with fresh():
        inputs = {name: static.data(name, v.shape, v.dtype.name) for name, v in given.items()}
        made = function(**inputs)
        fetches: list[Any] = []
        for each in made if isinstance(made, (list, tuple)) else [made]:
            fetches += each if isinstance(each, list) else [each]
        exe = static.Executor()
        startup = static.default_startup_program()
        if startup.global_block().ops:
            exe.run(startup)
        return exe.run(feed=given, fetch_list=fetches)
