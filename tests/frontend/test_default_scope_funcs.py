"""The current scope, and functions that run in it (fluid.default_scope_funcs)."""

from __future__ import annotations

import pytest

from graphopt.fluid import default_scope_funcs as scopes


def test_a_local_scope_sees_the_one_around_it_and_ends() -> None:
    scopes.var("outer").set_int(1)

    def inside() -> None:
        found = scopes.find_var("outer")
        assert found is not None
        assert found.get_int() == 1
        scopes.var("inner")

    scopes.scoped_function(inside)
    assert scopes.find_var("inner") is None
    with pytest.raises(RuntimeError, match="enter_local_scope"):
        scopes.leave_local_scope()
