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
        """The value that the environment has now."""
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
        """The value that a text stands for."""

    def convert_to_string(self, value: T) -> str:
        """The text of a value."""
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
        """The text itself."""
        return text


class BooleanEnvironmentVariable(EnvironmentVariable[bool]):
    """A variable that holds a truth value, in the words of `strtobool`."""

    kind = bool

    def parse_from_string(self, text: str) -> bool:
        """The truth value of a word; ValueError for other words."""
        return strtobool(text)

    def convert_to_string(self, value: bool) -> str:
        """`true` or `false`."""
        return super().convert_to_string(value).lower()

    def __bool__(self) -> bool:
        raise ValueError(
            "BooleanEnvironmentVariable does not support bool(), please use get() instead."
        )


class IntegerEnvironmentVariable(EnvironmentVariable[int]):
    """A variable that holds a whole number; any other text counts as the default."""

    kind = int

    def parse_from_string(self, text: str) -> int:
        """The number of a text, or the default."""
        try:
            return int(text)
        except ValueError:
            return self.default


class StringListEnvironmentVariable(EnvironmentVariable[list[str]]):
    """A variable that holds texts with commas between."""

    kind = list

    def parse_from_string(self, text: str) -> list[str]:
        """The texts between the commas."""
        return text.split(",")

    def convert_to_string(self, value: list[str]) -> str:
        """The texts with commas between."""
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
