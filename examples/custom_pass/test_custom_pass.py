"""The tests of the example: properties for free."""

from __future__ import annotations

from custom_pass import FuseSilu

from graphopt.testing import check_pass


def test_properties() -> None:
    """Check valid IR, same results, gradients and state, idempotence, and that it fires."""
    check_pass(FuseSilu)
