"""The parameters of an optimizer: all, a list, or groups with options of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.frontend.regularizers import L2Decay, WeightDecayRegularizer
from graphopt.ir.program import Parameter, Variable
from graphopt.nn.clip import ClipGradBase
from graphopt.optimizer.lr.base import LRScheduler

Pair = tuple[Parameter, Variable | None]


class Groups:
    """The `parameters` of an optimizer, in groups.

    A group's learning_rate (a factor) and weight_decay become its parameters' own, as in Paddle.
    """

    def __init__(self, given: Any, kind: str, *, decoupled: bool) -> None:
        self.parameters: list[Parameter] | None = None
        self._groups: list[dict[str, Any]] = []
        self._group_of: dict[str, dict[str, Any]] = {}
        if given is None:
            return
        if isinstance(given, (Variable, str, dict)):
            raise TypeError(
                f"{kind}(): `parameters` argument given to the optimizer should be an iterable of "
                f"paddle Tensors, but got argument type is `{type(given)}`"
            )
        items = list(given)
        if not items or not isinstance(items[0], Mapping):
            self.parameters = items
            return
        for group in items:
            self._add(dict(group), kind, decoupled)
        self.parameters = [p for group in self._groups for p in group["params"]]

    def _add(self, group: dict[str, Any], kind: str, decoupled: bool) -> None:
        if "params" not in group:
            raise ValueError(
                f"{kind}(): params should be set in parameters if parameter groups are optimized "
                "in different options"
            )
        members = group["params"]
        if isinstance(members, set):
            raise TypeError(
                f"{kind}(): optimizer parameters should be in ordered collections, but received "
                "set, please use list instead"
            )
        group["params"] = [members] if isinstance(members, Parameter) else list(members)
        for parameter in group["params"]:
            if parameter.name in self._group_of:
                raise ValueError(
                    f"{kind}(): some parameters appear in more than one parameter group: "
                    f"{parameter.name}"
                )
            self._group_of[parameter.name] = group
            if "weight_decay" in group and not decoupled:
                parameter.regularizer = as_regularizer(group["weight_decay"], kind)
            parameter.optimize_attr["learning_rate"] = group.get("learning_rate", 1.0)
        self._groups.append(group)

    def option(self, parameter: Parameter, name: str, default: Any) -> Any:
        """Get an option of the parameter's group, or the default."""
        return self._group_of.get(parameter.name, {}).get(name, default)

    def clip(self, pairs: Sequence[Pair], common: ClipGradBase | None) -> list[Pair]:
        """Clip the gradients of the pairs, each group separately."""
        clipped: dict[str, Variable | None] = {p.name: g for p, g in pairs}
        for members in self._apart(pairs):
            clip = self.option(members[0][0], "grad_clip", common)
            if clip is not None:
                clipped.update((p.name, g) for p, g in clip(members))
        return [(p, clipped[p.name]) for p, _ in pairs]

    def _apart(self, pairs: Sequence[Pair]) -> list[list[Pair]]:
        apart: dict[int, list[Pair]] = {}
        for pair in pairs:
            apart.setdefault(id(self._group_of.get(pair[0].name)), []).append(pair)
        return list(apart.values())


def as_regularizer(weight_decay: Any, kind: str) -> WeightDecayRegularizer | None:
    """Convert `weight_decay` to a regularizer; TypeError unless a number, a regularizer or None."""
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, (int, float)) and not isinstance(weight_decay, bool):
        return L2Decay(weight_decay)
    raise TypeError(
        f"{kind}(): weight_decay should be a float or a regularizer, got "
        f"{type(weight_decay).__name__}"
    )


def check_kind(learning_rate: Any, grad_clip: Any, kind: str) -> None:
    """Raise TypeError unless the arguments that every optimizer takes have the right type."""
    if isinstance(learning_rate, bool) or not isinstance(
        learning_rate, (int, float, LRScheduler, Variable)
    ):
        raise TypeError(
            f"{kind}(): learning rate should be float or LRScheduler, got "
            f"{type(learning_rate).__name__}; give a number, such as 0.1, or a scheduler of "
            "paddle.optimizer.lr"
        )
    if grad_clip is not None and not isinstance(grad_clip, ClipGradBase):
        raise TypeError(
            f"{kind}(): 'grad_clip' should be an instance of GradientClipBase's derived class, "
            f"got {type(grad_clip).__name__}"
        )
