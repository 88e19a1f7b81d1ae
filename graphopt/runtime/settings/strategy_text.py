"""BuildStrategies parsed from text for commands: `fuse_bn_act_ops=1,reduce_strategy=Reduce`."""

from __future__ import annotations

from typing import Any

from graphopt.runtime.settings.strategies import BuildStrategy


def strategy_of(text: str) -> BuildStrategy:
    """Parse a BuildStrategy.

    `text` is `flag=value,…`; values are 0, 1, true, false, none, numbers, or names of enumeration
    members. Raise AttributeError for an unknown flag, TypeError or ValueError for a wrong value.
    """
    strategy = BuildStrategy()
    for entry in filter(None, text.split(",")):
        name, _, value = entry.partition("=")
        setattr(strategy, name.strip(), _flag_value(strategy, name.strip(), value.strip() or "1"))
    return strategy


def _flag_value(strategy: Any, name: str, text: str) -> Any:
    for enum in (strategy.ReduceStrategy, strategy.GradientScaleStrategy):
        if text in enum.__members__ and isinstance(getattr(strategy, name, None), enum):
            return enum[text]
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    current = getattr(strategy, name, None)
    if isinstance(current, bool) or current is None:
        return {"0": False, "1": True}.get(text, text)
    return int(text) if text.lstrip("-").isdigit() and not isinstance(current, str) else text
