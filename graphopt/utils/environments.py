"""Variables of the environment that hold one kind of value (paddle.utils.environments)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

T = TypeVar("T")

_TRUTHS = {
    **dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True),
    **dict.fromkeys(("n", "no", "f", "false", "off", "0"), False),
}


def strtobool(val: str) -> bool:
    """True for y, yes, t, true, on and 1, False for their opposites; ValueError for other words."""
    try:
        return _TRUTHS[val.lower()]
    except KeyError:
        raise ValueError(f"Invalid truth value {val.lower()!r}") from None


class EnvironmentVariable(ABC, Generic[T]):
    """A variable of the environment, with the value that holds where it is not set.

    Raises AssertionError for a value of another kind, in `default` or in `set`.
    """

    kind: type

    def __init__(self, name: str, default: T) -> None:
        self.name, self.default = name, default
        self._check(default, "default")

    def get(self) -> T:
        """Read the current value from the environment, or return the default."""
        text = os.environ.get(self.name)
        return self.default if text is None else self.parse_from_string(text)

    def set(self, value: T) -> None:
        """Write a value into the environment."""
        os.environ[self.name] = self.convert_to_string(value)

    def delete(self) -> None:
        """Remove the variable; KeyError where the environment does not have it."""
        del os.environ[self.name]

    @abstractmethod
    def parse_from_string(self, text: str) -> T:
        """Parse a text to a value."""

    def convert_to_string(self, value: T) -> str:
        """Format a value as text."""
        self._check(value, "value")
        return str(value)

    def _check(self, value: object, name: str) -> None:
        is_kind = isinstance(value, self.kind) and isinstance(value, bool) == (self.kind is bool)
        assert is_kind, f"{name} must be of type {self.kind.__name__}, found {value!r}"

    def __repr__(self) -> str:
        return f"Env({self.name}={self.get()!r})"


class StringEnvironmentVariable(EnvironmentVariable[str]):
    """A variable that holds any text."""

    kind = str

    def parse_from_string(self, text: str) -> str:
        """Return the text."""
        return text


class BooleanEnvironmentVariable(EnvironmentVariable[bool]):
    """A variable that holds a truth value, in the words of `strtobool`."""

    kind = bool

    def parse_from_string(self, text: str) -> bool:
        """Parse a word to a truth value; ValueError for other words."""
        return strtobool(text)

    def convert_to_string(self, value: bool) -> str:
        """Format a truth value as `true` or `false`."""
        return super().convert_to_string(value).lower()

    def __bool__(self) -> bool:
        raise ValueError(
            "BooleanEnvironmentVariable does not support bool(), please use get() instead."
        )


class IntegerEnvironmentVariable(EnvironmentVariable[int]):
    """A variable that holds a whole number; any other text counts as the default."""

    kind = int

    def parse_from_string(self, text: str) -> int:
        """Parse an integer; return the default for other text."""
        try:
            return int(text)
        except ValueError:
            return self.default


class StringListEnvironmentVariable(EnvironmentVariable[list[str]]):
    """A variable that holds texts with commas between."""

    kind = list

    def parse_from_string(self, text: str) -> list[str]:
        """Split a text at its commas."""
        return text.split(",")

    def convert_to_string(self, value: list[str]) -> str:
        """Join the texts with commas."""
        self._check(value, "value")
        assert all(isinstance(text, str) for text in value), "value must be a list of strings"
        return ",".join(value)


class EnvironmentVariableGuard(Generic[T]):
    """Gives a variable a value, and after a `with` block the one that it had before."""

    def __init__(self, variable: EnvironmentVariable[T], value: T) -> None:
        self.variable, self.original_value = variable, variable.get()
        variable.set(value)

    def __enter__(self) -> EnvironmentVariableGuard[T]:
        return self

    def __exit__(self, *error: object) -> None:
        self.variable.set(self.original_value)
