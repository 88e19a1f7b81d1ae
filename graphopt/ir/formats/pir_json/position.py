"""The reader's position in a JSON file, and the value expected there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from graphopt.errors import FormatError, LimitError
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.quote import kind_of, quote

_INT64 = 1 << 63


class JsonPosition:
    """A path in a file; `place / "ops" / 3` is inside it. Its text is built only for errors."""

    __slots__ = ("key", "limits", "parent", "source")

    def __init__(
        self, source: str, limits: Limits, parent: JsonPosition | None = None, key: str | int = ""
    ) -> None:
        self.source = source
        self.limits = limits
        self.parent = parent
        self.key = key

    def __truediv__(self, key: str | int) -> JsonPosition:
        return JsonPosition(self.source, self.limits, self, key)

    @property
    def path(self) -> str:
        """The keys and positions of this path, such as `program.regions[0]`."""
        keys: list[str | int] = []
        place: JsonPosition = self
        while place.parent is not None:
            keys.append(place.key)
            place = place.parent
        text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in reversed(keys))
        return text.removeprefix(".") or "top"

    def error(self, expected: str, found: object) -> FormatError:
        """Return the error for a file with another value at this position."""
        shown = found if isinstance(found, str) and " " in found else quote(found)
        return FormatError(f"{self.source}: {self.path}: expected {expected}, found {shown}")

    def over_limit(self, problem: str) -> LimitError:
        """Return the error for a file that exceeds a limit at this position."""
        return LimitError(f"{self.source}: {self.path}: {problem}")

    # Checks of a value; each returns it -------------------------------------------------------

    def fields(
        self, value: object, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Check and return an object with these keys and no others."""
        if not isinstance(value, dict):
            raise self.error("an object", kind_of(value))
        found = cast("dict[str, Any]", value)
        for key in required:
            if key not in found:
                raise self.error(f"the key {key!r}", list(found))
        for key in found:
            if key not in required and key not in optional:
                raise self.error(f"the keys {', '.join((*required, *optional))}", quote(key))
        return found

    def list_of(self, value: object) -> list[Any]:
        """Check and return a list."""
        if not isinstance(value, list):
            raise self.error("a list", kind_of(value))
        return cast("list[Any]", value)

    def items(self, value: object) -> Iterator[tuple[JsonPosition, Any]]:
        """Iterate over the elements of a list, each with its position."""
        for position, item in enumerate(self.list_of(value)):
            yield self / position, item

    def text(self, value: object) -> str:
        """Check and return a string; half a surrogate pair could not be written again."""
        if not isinstance(value, str):
            raise self.error("a string", kind_of(value))
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise self.error("a string of Unicode characters", value.encode("unicode_escape"))
        return value

    def boolean(self, value: object) -> bool:
        """Check and return true or false, not a number."""
        if not isinstance(value, bool):
            raise self.error("true or false", value)
        return value

    def integer(self, value: object, low: int = -_INT64, high: int = _INT64 - 1) -> int:
        """Check and return an integer in `low`..`high`, not a boolean."""
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error("an integer", value)
        if not low <= value <= high:
            raise self.error(f"an integer in {low}..{high}", value)
        return value

    def number(self, value: object) -> float:
        """Check a finite number, and return it as a float."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error("a number", value)
        if isinstance(value, float) and value - value != 0:
            raise self.error("a finite number", value)
        return float(value)
