"""The tests of the example: properties for free."""

from __future__ import annotations

from custom_pass import FuseSilu

from graphopt.testing import check_pass


def test_properties() -> None:
    """Valid IR, same results, gradients and state, nothing to do a second time, and it fires."""
    check_pass(FuseSilu)
