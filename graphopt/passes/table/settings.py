"""Typed settings: the descriptors of which strategy classes are tables.

Each setting converts and checks as Paddle's binding does, and can be frozen by
`_finalize_strategy_and_create_passes`. A flag of BuildStrategy is a setting that passes obey, or
that gives the reason why none does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from difflib import get_close_matches
from enum import Enum
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeGuard

from graphopt.display.facts import WithFacts
from graphopt.display.table import Cell, Column, Page, Table
from graphopt.errors import StrategyError
from graphopt.passes.table.context import PassContext

FROZEN_TEXT = "BuildStrategy has been finalized, cannot be configured again."


def as_flag(value: Any) -> bool:
    """Convert to a bool by the truth of a number (NumPy's too); None counts as False."""
    if hasattr(value, "__bool__"):
        return bool(value)
    raise TypeError("expected a bool")


def as_tristate(value: Any) -> bool | None:
    """Check for None, True or False."""
    if value is None or value is True or value is False:
        return value
    raise ValueError("must be set to None, False or True")


def as_size(value: Any) -> int:
    """Convert to a non-negative integer."""
    if not isinstance(value, SupportsIndex) or index(value) < 0:
        raise TypeError("expected a non-negative integer")
    return index(value)


def as_count(value: Any) -> int:
    """Convert to a positive integer."""
    if as_size(value) < 1:
        raise ValueError("must be 1 or more")
    return index(value)


def as_text(value: Any) -> str:
    """Check for a string."""
    if not isinstance(value, str):
        raise TypeError("expected a str")
    return value


def as_choice(*names: str) -> Callable[[Any], str]:
    """Build a check for one of these strings."""

    def convert(value: Any) -> str:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(map(repr, names))}")
        return value

    return convert


def as_names(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Build a conversion to a list or set of strings."""

    def convert(value: Any) -> Any:
        if isinstance(value, str) or not all(isinstance(item, str) for item in value):
            raise TypeError("expected several str")
        return kind(value)

    return convert


def as_member(enum: type[Enum]) -> Callable[[Any], Any]:
    """Build a check for a member of this enumeration."""

    def convert(value: Any) -> Any:
        if not isinstance(value, enum):
            raise TypeError(f"expected a {enum.__name__}")
        return value

    return convert


def _are_names(value: Any) -> TypeGuard[list[str] | set[str]]:
    return isinstance(value, (list, set))


@dataclass(eq=False)
class Setting:
    """One attribute of a strategy: its default, its check, and its effect, for the reference."""

    default: Any
    convert: Callable[[Any], Any] = as_flag
    _: KW_ONLY
    freezes: bool = True
    """True if finalizing the strategy freezes the setting."""
    effect: str = ""
    name: str = field(default="", init=False)

    def __set_name__(self, owner: type[Settings], name: str) -> None:
        self.name = name

    def __get__(self, instance: Settings | None, owner: type[Settings]) -> Any:
        if instance is None:
            return self
        value = instance.values.get(self.name, self.default)
        return copy(value) if _are_names(value) else value

    def __set__(self, instance: Settings, value: Any) -> None:
        if self.freezes and instance.is_finalized:
            raise StrategyError(FROZEN_TEXT)
        try:
            instance.values[self.name] = self.convert(value)
        except TypeError as error:
            raise TypeError(
                f"{type(instance).__name__}.{self.name}: incompatible function arguments: "
                f"{error}, found {value!r}"
            ) from None
        except ValueError as error:
            raise ValueError(f"{self.name} {error}, found {value!r}") from None


@dataclass(frozen=True)
class Conflict:
    """A case in which a flag is refused, and the sentence about it.

    Paddle switches such flags off in silence; here `explain` says so, and `strict` refuses.
    """

    when: Callable[[PassContext], bool]
    why: str


@dataclass(eq=False, kw_only=True)
class BuildFlag(Setting):
    """A flag of BuildStrategy.

    Passes obey it, or one of `no_effect`, `obeyed` and `unsupported` gives the reason that none
    does. `pattern`, `effect` and `observe` are texts of the reference: the ops that the flag looks
    for, its effect on the backends of XLA, and the place to see it.
    """

    paddle: str = "1.8, 2.6, 3.3"
    """The versions of Paddle that have the flag, of 1.8, 2.6 and 3.3."""
    pattern: str = ""
    observe: str = "`explain`"
    no_effect: str = ""
    """The reason why nothing in graphopt depends on the flag."""
    obeyed: str = ""
    """The runtime's own use of the flag."""
    unsupported: str = ""
    """The reason why no program can run with the flag, and what to do instead."""
    ruled_out: Conflict | None = None
    idle: str = ""
    """The reason why no pass runs although the flag is on, except the number of devices."""

    def refusal(self, context: PassContext) -> str:
        """Return the reason why the flag is set and not obeyed; "" when it is."""
        if not context.flags.get(self.name):
            return ""
        if self.unsupported:
            return f"{self.unsupported} (compiling raises)"
        if self.ruled_out is not None and self.ruled_out.when(context):
            return self.ruled_out.why
        return ""


class Settings(WithFacts):
    """Base of the strategy classes: only declared settings can be set."""

    def __init__(self) -> None:
        object.__setattr__(self, "values", {})
        object.__setattr__(self, "is_finalized", False)

    values: dict[str, Any]
    is_finalized: bool

    if not TYPE_CHECKING:  # type checkers would otherwise accept any name as a setting

        def __setattr__(self, name: str, value: Any) -> None:
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), Setting):
            known = get_close_matches(name, self.all_settings())
            hint = f"; did you mean {', '.join(known)}?" if known else ""
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")
        object.__setattr__(self, name, value)

    @classmethod
    def declared_settings(cls) -> dict[str, Setting]:
        """Map the names of the settings to them, in the order of their declaration."""
        items = [item for kind in reversed(cls.__mro__) for item in vars(kind).items()]
        return {name: item for name, item in items if isinstance(item, Setting)}

    @classmethod
    def all_settings(cls) -> tuple[str, ...]:
        """List the names of the settings in the order of their declaration."""
        return tuple(cls.declared_settings())

    def key(self) -> tuple[Any, ...]:
        """Build a hashable copy of all values."""
        return tuple(
            tuple(sorted(value)) if _are_names(value) else value
            for value in (getattr(self, name) for name in self.all_settings())
        )

    def _facts(self) -> Mapping[str, str]:
        """Map the settings that were set to their values, as text."""
        return {name: repr(value) for name, value in sorted(self.values.items())}

    def _page(self) -> Page:
        """Build a page of all settings; settings that were set are marked."""
        rows = [
            [Cell(name, "good" if name in self.values else ""), _words(getattr(self, name)), effect]
            for name, item in self.declared_settings().items()
            if (effect := item.effect or getattr(item, "no_effect", "") or " ")
        ]
        columns = (Column("setting"), Column("value"), Column("effect", wraps=True))
        return Page([Table(columns, rows, type(self).__name__)])


def _words(value: Any) -> str:
    return value.name if isinstance(value, Enum) else repr(value)
