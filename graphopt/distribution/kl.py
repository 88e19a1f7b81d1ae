"""The Kullback-Leibler divergence between distributions of any two classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from graphopt.distribution.base import Distribution
from graphopt.frontend.missing import explain

Rule = TypeVar("Rule", bound=Callable[[Any, Any], Any])
_RULES: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(cls_p: type[Distribution], cls_q: type[Distribution]) -> Callable[[Rule], Rule]:
    """Decorate the divergence rule for two classes and the classes derived from them.

    TypeError for classes that are not Distributions. Paddle page: paddle.distribution.register_kl.
    """
    for kind in (cls_p, cls_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"register_kl(): {kind!r} is not derived from Distribution")

    def register(rule: Rule) -> Rule:
        _RULES[cls_p, cls_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Compute KL(p || q) by the closest registered rule, or else by p's own method.

    NotImplementedError where neither exists. Paddle page: paddle.distribution.kl_divergence.
    """
    for kind in type(p).__mro__:
        for other in type(q).__mro__:
            if (kind, other) in _RULES:
                return _RULES[kind, other](p, q)
    if not isinstance(q, type(p)):
        raise NotImplementedError(
            f"kl_divergence(): there is no rule for {type(p).__name__} and {type(q).__name__}; "
            "register_kl() adds one"
        )
    return p.kl_divergence(q)


explain(globals())
