"""The folders of saved models: the repository's, and the folder in GRAPHOPT_CORPUS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphopt_tests import fuzz_readers, model_files


@pytest.mark.parametrize("folders", [model_files.model_folders, fuzz_readers.folders])
def test_a_corpus_is_read_when_it_is_named(
    folders: Callable[[], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other than the repository's, only the named folder is read; a missing one is an error."""
    monkeypatch.delenv("GRAPHOPT_CORPUS", raising=False)
    assert folders() == [model_files.MODELS]
    monkeypatch.setenv("GRAPHOPT_CORPUS", str(tmp_path))
    assert folders() == [model_files.MODELS, tmp_path]
    monkeypatch.setenv("GRAPHOPT_CORPUS", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match="missing"):
        folders()
