"""paddle.incubate.passes: rewrites in Paddle's form are accepted, not applied, with a warning."""

from __future__ import annotations

from typing import Any

import pytest

from graphopt.errors import UnsupportedError
from graphopt.incubate.passes import ir


def test_a_rewrite_is_kept() -> None:
    with pytest.warns(UserWarning, match="the rewrite 'twice' is not applied"):

        @ir.RegisterPass
        def twice() -> Any:
            return ir.PassDesc.OP.scale

    with pytest.raises(UnsupportedError, match=r"PassDesc\.OP\.scale: patterns of Paddle"):
        twice()


def test_specs_of_inputs_are_taken() -> None:
    def thrice() -> None: ...

    with pytest.warns(UserWarning, match="'thrice'"):
        assert ir.RegisterPass(input_specs={"x": None})(thrice) is thrice
    with pytest.raises(TypeError, match="expected a function"):
        ir.RegisterPass(3)  # pyright: ignore[reportArgumentType]
