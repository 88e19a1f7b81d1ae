"""The registry of translations: operator type -> a function from an Emitter to values by name.

It has the operators that a row of the table cannot fully describe. The package imports the modules
that register them, one for each family.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from graphopt.ir.translate.operators.emitter import Emitter, Written

Translation = Callable[[Emitter], Written]
TRANSLATIONS: dict[str, Translation] = {}

# The package that translates the operators of another vocabulary, by the first part of their type;
# imported when a program has such an operator.
_OTHERS = {"onnx": "graphopt.ir.translate.onnx.ops"}


def translates(*types: str) -> Callable[[Translation], Translation]:
    """Register the decorated function as the translation of operators of these types."""

    def register(translation: Translation) -> Translation:
        for type in types:
            assert type not in TRANSLATIONS, f"{type} has two translations"
            TRANSLATIONS[type] = translation
        return translation

    return register


def translation_of(type: str) -> Translation | None:
    """Look up the registered translation of an operator type; None if there is none."""
    if type not in TRANSLATIONS and (module := _OTHERS.get(type.partition(".")[0])):
        import_module(module)
    return TRANSLATIONS.get(type)
