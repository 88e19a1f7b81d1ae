"""The switches of Paddle's decomposition into primitive operators (paddle.fluid.core).

Paddle can replace operators by primitive ones before it runs a program. XLA has only primitive
ones, so the switches are kept for scripts that use them, and have no effect.
"""

from __future__ import annotations

_on = {"forward": False, "backward": False, "eager": False}


def _set_prim_forward_enabled(value: bool) -> None:
    """Switch the decomposition of operators."""
    _on["forward"] = bool(value)


def _set_prim_backward_enabled(value: bool) -> None:
    """Switch the decomposition of gradient operators."""
    _on["backward"] = bool(value)


def set_prim_eager_enabled(value: bool) -> None:
    """Switch the decomposition in dynamic mode."""
    _on["eager"] = bool(value)


def _set_prim_all_enabled(value: bool) -> None:
    """Switch the decomposition of operators and of their gradients."""
    _set_prim_forward_enabled(value)
    _set_prim_backward_enabled(value)


def _is_fwd_prim_enabled() -> bool:
    """Return whether the decomposition of operators is on."""
    return _on["forward"]


def _is_bwd_prim_enabled() -> bool:
    """Return whether the decomposition of gradient operators is on."""
    return _on["backward"]


def _is_eager_prim_enabled() -> bool:
    """Return whether the decomposition in dynamic mode is on."""
    return _on["eager"]


def _is_all_prim_enabled() -> bool:
    """Return whether the decomposition of operators and of their gradients is on."""
    return _on["forward"] and _on["backward"]
