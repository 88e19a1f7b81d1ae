"""Saved models that tests run over: a few kept here, and those of the folder GRAPHOPT_CORPUS.

Tests look nowhere else: a test run reads the repository alone unless that variable is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

MODELS = Path(__file__).parent / "data" / "models"


def model_folders() -> list[Path]:
    """List the folders that hold cases: the repository's, then the corpus.

    Raise FileNotFoundError when the corpus is missing.
    """
    corpus = os.environ.get("GRAPHOPT_CORPUS")
    return [MODELS, Path(corpus).resolve(strict=True)] if corpus else [MODELS]


def cases() -> list[Path]:
    """List every case once; the corpus replaces the repository's cases of the same name."""
    found = {case.name: case for folder in model_folders() for case in sorted(folder.iterdir())}
    return [case for case in found.values() if (case / "meta.json").exists()]


def meta(case: Path) -> dict[str, Any]:
    """Read the metadata of a case."""
    return json.loads((case / "meta.json").read_text())


def program_files() -> list[Path]:
    """List every sound serialized ProgramDesc."""
    patterns = ("**/*.pdmodel", "**/__model__", "**/*.program")
    return [file for case in cases() for pattern in patterns for file in case.glob(pattern)]


class SavedModel(NamedTuple):
    """A program file and its parameters, a file or a folder; `feeds` if the order is known."""

    program: Path
    params: Path
    feeds: list[str] | None


def saved_models() -> list[SavedModel]:
    """List every program whose parameters are in Paddle's tensor streams."""
    return list(_saved_models())


def _saved_models() -> Iterator[SavedModel]:
    for case in cases():
        about = meta(case)
        for artifact in about.get("artifacts", ()):
            names = artifact.get("model"), artifact.get("params")
            # Of some cases we keep only the files of one release.
            if artifact["format"] == "pdmodel" and all(n and (case / n).exists() for n in names):
                yield SavedModel(case / names[0], case / names[1], artifact["feed_order"])
        if about.get("format") == "__model__":
            combined = case / "model" / "__params__"
            params = combined if combined.exists() else case / "model"
            yield SavedModel(case / "model" / "__model__", params, about["feed_order"])
        if (case / "main.program").exists():
            yield SavedModel(case / "main.program", case / "state0", None)


def name_of(value: object) -> str:
    """Name a file in a parametrized test by its case and its path in the case."""
    file = value.program if isinstance(value, SavedModel) else value
    assert isinstance(file, Path)
    case = next(p for p in file.parents if (p / "meta.json").exists() or p.name == "hostile")
    return str(file.relative_to(case.parent))
