"""The layout of a bundle: a header, a JSON manifest, and the pieces it lists with their hashes.

A header is `MAGIC`, the length of the manifest (8 bytes, little-endian) and its SHA-256. Pieces
follow the manifest; their offsets count from its end.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import finalize

from graphopt.errors import FormatError, GraphoptError, LimitError
from graphopt.ir.formats.limits import Limits

MAGIC = b"graphopt bundle 2\n"
# larger manifests are refused
MOST_MANIFEST = 1 << 26
_SIZE, _HASH = 8, 32
_HEAD = len(MAGIC) + _SIZE + _HASH
# the exceptions that an unexpected manifest raises
_TROUBLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


def is_bundle(path: Path) -> bool:
    """True for a file with the magic number or the suffix of a bundle."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC or path.suffix == ".graphopt"


@contextmanager
def as_format_error(path: Path) -> Generator[None]:
    """Raise errors of malformed contents as FormatError with the name of the file."""
    try:
        yield
    except GraphoptError:
        raise
    except Exception as error:
        if not isinstance(error, _TROUBLE + _of_xdsl()):
            raise
        text = str(error).strip().partition("\n")[0]
        reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
        raise FormatError(
            f"{path}: the bundle is damaged ({reason}); compile it again with `graphopt compile`"
        ) from error


def _of_xdsl() -> tuple[type[Exception], ...]:
    """Return the exception classes of xDSL; none if nothing has imported it."""
    found = sys.modules.get("xdsl.utils.exceptions")
    return () if found is None else (found.DiagnosticException, found.ParseError)


@dataclass
class Pieces:
    """The pieces of a bundle under construction; equal contents are stored once."""

    contents: list[bytes] = field(default_factory=list[bytes])
    size: int = 0
    _known: dict[str, dict[str, Any]] = field(default_factory=dict[str, Any])

    def add(self, content: bytes) -> dict[str, Any]:
        """Add a piece and return its manifest entry."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._known:
            self._known[digest] = {"at": self.size, "size": len(content), "sha256": digest}
            self.contents.append(content)
            self.size += len(content)
        return self._known[digest]

    def file(self, manifest: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the bytes of the file: header, manifest, pieces."""
        text = json.dumps(manifest).encode()
        yield MAGIC + len(text).to_bytes(_SIZE, "little") + hashlib.sha256(text).digest()
        yield text
        yield from self.contents


class Bundle:
    """A bundle open for reading; it stays the same file if another one replaces it on disk.

    Raises FormatError, with the name of the file, unless the file is a complete bundle, LimitError
    if parts are larger than `limits`, and the usual OSError.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self.path = path
        self.limits = limits or Limits()
        self._file = path.open("rb")
        # open as long as the bundle, so that a later save to its path cannot mix with it
        finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._end = os.fstat(self._file.fileno()).st_size
        head = self._read(0, _HEAD, "the head")
        if not head.startswith(MAGIC):
            raise FormatError(f"{path}: expected a bundle that begins with {MAGIC!r}")
        size = int.from_bytes(head[len(MAGIC) : -_HASH], "little")
        if size > MOST_MANIFEST:
            raise LimitError(f"{path}: expected a manifest of {MOST_MANIFEST} bytes at most")
        text = self._read(_HEAD, size, "the manifest")
        self._check(text, head[-_HASH:].hex(), "the manifest")
        self._start = _HEAD + size
        with as_format_error(path):
            self.manifest: dict[str, Any] = json.loads(text)

    def piece(self, entry: Mapping[str, Any], what: str, limit: int | None = None) -> bytes:
        """Read the bytes of a piece and check them against the hash in the manifest."""
        with as_format_error(self.path):
            at, size, digest = int(entry["at"]), int(entry["size"]), str(entry["sha256"])
        if at < 0 or size < 0:
            raise FormatError(f"{self.path}: {what} has a negative offset or size ({at}, {size})")
        if limit is not None and size > limit:
            raise LimitError(f"{self.path}: {what} has {size} bytes, expected {limit} at most")
        content = self._read(self._start + at, size, what)
        self._check(content, digest, what)
        return content

    def _read(self, at: int, size: int, what: str) -> bytes:
        if at + size > self._end:
            raise FormatError(
                f"{self.path}: expected {what} up to byte {at + size}, the file ends at byte "
                f"{self._end}; copy it again"
            )
        with self._lock:
            self._file.seek(at)
            return self._file.read(size)

    def _check(self, content: bytes, digest: str, what: str) -> None:
        if hashlib.sha256(content).hexdigest() != digest:
            raise FormatError(
                f"{self.path}: {what} is damaged (its SHA-256 is not {digest}); copy it again"
            )
