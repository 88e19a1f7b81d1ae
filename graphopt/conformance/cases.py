"""Reading a folder of recorded cases, and converting recorded arguments to Python values."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import graphopt

Array = np.ndarray[Any, Any]
Case = Mapping[str, Any]


class Corpus:
    """The cases of a folder, and their arrays.

    `[dtype, start, shape]` in a case stands for part of the vector `dtype` in `SECTION.npz`. Raises
    FileNotFoundError for a folder without cases, ValueError for a line that is not a case.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases: list[Case] = list(_read(folder / "cases.jsonl"))
        self._vectors: dict[str, dict[str, Array]] = {}
        self._programs: Any = None

    def array(self, section: str, reference: Any) -> Array:
        """Read the array that a reference stands for."""
        if section not in self._vectors:
            with np.load(self.folder / f"{section}.npz", allow_pickle=False) as stored:
                self._vectors[section] = {name: stored[name] for name in stored.files}
        dtype, start, shape = reference
        count = int(np.prod(shape, dtype=np.int64))
        return self._vectors[section][dtype][start : start + count].reshape(shape)

    def program(self, name: str) -> Any:
        """Load a function of the folder's `programs.py`: (paddle, feeds, **params) -> results."""
        if self._programs is None:
            path = self.folder / "programs.py"
            spec = importlib.util.spec_from_file_location("recorded_programs", path)
            if spec is None or spec.loader is None:
                raise FileNotFoundError(path)
            self._programs = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self._programs)
        return getattr(self._programs, name)


def _read(path: Path) -> Iterator[Case]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            case = json.loads(line)
            yield {**case, "name": name_of(case)}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a case ({error})") from error


def name_of(case: Case) -> str:
    """Return the Paddle name that a case tests."""
    for part in (case.get("layer"), case.get("optimizer"), case.get("scheduler")):
        if part:
            return part["call"]
    return case.get("op") or case["id"].rpartition("/")[0]


def find_by_path(path: str) -> Any:
    """Find the object of graphopt that is named `paddle.a.b`."""
    found: Any = graphopt
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


class Decoder:
    """A decoder of one case's recorded arguments to Python values."""

    def __init__(self, corpus: Corpus, case: Case) -> None:
        self.corpus, self.case = corpus, case

    def array(self, reference: Any) -> Array:
        """Read an array of the case's section."""
        return self.corpus.array(self.case["section"], reference)

    def decode(self, value: Any, variables: Mapping[str, Any] | None = None) -> Any:
        """Decode a value: JSON, or a dict with one key for values that JSON lacks."""
        if isinstance(value, list):
            return [self.decode(item, variables) for item in value]
        if not isinstance(value, dict):
            return value
        if "call" in value:
            args = self.decode(value.get("args", []), variables)
            kwargs = {k: self.decode(v, variables) for k, v in value.get("kwargs", {}).items()}
            return find_by_path(value["call"])(*args, **kwargs)
        ((kind, content),) = value.items()
        return getattr(self, f"_{kind}")(content, variables or {})

    def _in(self, name: str, variables: Mapping[str, Any]) -> Any:
        return variables[name]

    def _np(self, reference: Any, _: Any) -> Array:
        return self.array(reference)

    def _name(self, path: str, _: Any) -> Any:
        return find_by_path(path)

    def _float(self, text: str, _: Any) -> float:
        return float(text)

    def _complex(self, parts: Any, _: Any) -> complex:
        return complex(*parts)

    def _tuple(self, items: Any, variables: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(self.decode(items, variables))

    def _slice(self, items: Any, variables: Mapping[str, Any]) -> slice:
        return slice(*self.decode(items, variables))

    def _ellipsis(self, _: Any, __: Any) -> Any:
        return ...

    def _dict(self, items: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.decode(item, variables) for name, item in items.items()}

    def _pil(self, reference: Any, _: Any) -> Any:
        from PIL import Image

        return Image.fromarray(self.array(reference))
