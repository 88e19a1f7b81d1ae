"""Objects that state their facts: in one line at a prompt, as a table in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from graphopt.display.table import Column, Page, Table


class WithFacts(ABC):
    """Base of objects whose `_facts`, words by name, are their representation."""

    @abstractmethod
    def _facts(self) -> Mapping[str, str]:
        """Return the facts, in their order."""

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={words}" for name, words in self._facts().items())
        return f"{type(self).__name__}({inner})"

    def _page(self) -> Page:
        """Build the tables of a notebook."""
        columns = (Column(), Column(wraps=True))
        return Page([Table(columns, list(self._facts().items()), type(self).__name__)])

    def _repr_html_(self) -> str:
        return self._page().html()
