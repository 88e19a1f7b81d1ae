"""Saved models of any format in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphopt.models.model import ImportedModel as ImportedModel
    from graphopt.models.model import import_model as import_model


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that a command's help does not load it."""
    if name not in ("ImportedModel", "import_model"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graphopt.models import model

    return getattr(model, name)
