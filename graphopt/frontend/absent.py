"""Names that graphopt lacks: a script may import and mention them, and is refused at a call."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from graphopt.errors import UnsupportedError


class Absent(type):
    """The metaclass of placeholders: classes, since scripts call and subclass missing names."""

    _words: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(cls._words)

    def __getattr__(cls, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(name, cls._words)

    def __repr__(cls) -> str:
        return f"<{cls.__name__}: {cls._words}>"


def absent(name: str, words: str) -> Absent:
    """Create the placeholder class of a name; calling it raises UnsupportedError with `words`."""
    return Absent(name, (), {"_words": words, "__doc__": words})


class AbsentModule(ModuleType):
    """A module that graphopt lacks: every name in it is `absent`.

    With a `package`, the functions and classes of that package can be read from it, too: Paddle
    defines them in this file, graphopt in another one.
    """

    def __init__(self, name: str, words: str, package: ModuleType | None = None) -> None:
        super().__init__(name, words)
        self.words = words
        self.package = package
        self.__path__ = list[str]()  # marks it as a package, so that its modules can be imported

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not name.startswith("_") and callable(found := getattr(self.package, name, None)):
            return found
        return absent(name, self.words)
