"""Saves of several files that happen at one moment, even when they are interrupted.

A save writes every file under another name in its folder. A journal with these names then takes its
place by one rename, which is the moment of the save. The files are renamed, and the journal is
removed. A reader or the next save that finds a journal completes the renames of a saver that died.

A saver holds a lock on a temporary of its own as long as it lives, so that the next save can
distinguish left-overs from work in progress. Renames happen under a lock on the folder. Where a
file system has no locks, one saver at a time is safe.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from graphopt.errors import FormatError
from graphopt.ir.formats.seal import SEAL, Piece, names_hash

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

JOURNAL = ".graphopt.journal"
# The name of a file, 10 digits of its save, 6 of its own.
_TEMPORARY = re.compile(r"\.[^/]*\.([0-9a-f]{10})([0-9a-f]{6})\.tmp", re.DOTALL)
_LONGEST_NAME = 255
_JOURNAL_BYTES = 1 << 26
# Without locks it is unknown whether a saver lives; this old, its files are left-overs.
_OLD = 24 * 3600


def is_ours(name: str) -> bool:
    """True if a file is a temporary or the journal of a save, which no reader takes for content."""
    return name == JOURNAL or _TEMPORARY.fullmatch(name) is not None


def write_files(
    contents: Mapping[Path, Iterable[Piece]], folder: Path | None = None, *, lasting: bool = True
) -> None:
    """Write files as one: readers here see all of the old ones, or all of the new ones.

    They are the files of `folder`, or without it those of one prefix, such as `m.pdparams` and
    `m.pdopt`. Each is written under another name there, and flushed to the device, before any takes
    its place; those that are not `lasting` are not flushed. A file that is replaced keeps its mode
    and, where that is allowed, its owner. The files of a save that died are completed or removed.
    Raises the usual OSError with the name of the file, and then changes nothing.
    """
    targets = {Path(os.path.realpath(path)): pieces for path, pieces in contents.items()}
    if not targets:
        return
    home = next(iter(targets)).parent if folder is None else Path(os.path.realpath(folder))
    has_prefix = folder is None and len(targets) > 1
    with _Save(home, has_prefix=has_prefix, lasting=lasting) as save:
        for target, pieces in targets.items():
            with _naming(target):
                save.write(target, pieces)
        with _naming(next(iter(targets))):
            save.commit()


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Let an OSError name the file that the caller knows, not a temporary or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


class _Save:
    """One save: its temporaries, by folder, and the files that they become.

    They wait in the home folder. A target that a link puts elsewhere has them beside it, because a
    rename stays within a file system; such a target is replaced after the others.
    """

    def __init__(self, home: Path, *, has_prefix: bool, lasting: bool = True) -> None:
        self.home, self.has_prefix, self.lasting = home, has_prefix, lasting
        self.id = secrets.token_hex(5)
        self.count = 0
        self.rooms: dict[Path, BinaryIO] = {}
        self.moves: dict[Path, Path] = {}
        self.seals: list[tuple[Path, int]] = []
        self.digest = hashlib.blake2b(digest_size=8)

    def __enter__(self) -> _Save:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove left-over files; a save that was interrupted in its renames is completed first."""
        try:
            if kind is not None:
                with suppress(OSError), _lock_folder(self.home):
                    _finish(self.home)
            if self.moves and self.moves.keys().isdisjoint(_journal(self.home).values()):
                for temporary in self.moves:
                    temporary.unlink(missing_ok=True)
        finally:
            for folder, lock in self.rooms.items():
                (folder / self._lock_name()).unlink(missing_ok=True)
                _unlock(lock)

    def _lock_name(self) -> str:
        return f".save.{self.id}000000.tmp"

    def _room(self, target: Path) -> Path:
        """The folder where the temporary of a file waits, which is made ready for this save."""
        inside = target.parent == self.home or (
            target.is_relative_to(self.home)
            and target.parent.stat().st_dev == self.home.stat().st_dev
        )
        room = self.home if inside else target.parent
        if room not in self.rooms:
            with _lock_folder(room):
                _finish(room)
                _remove_left_overs(room)
                # locked before anyone else may look for left-overs
                self.rooms[room] = (room / self._lock_name()).open("xb")
                _lock(self.rooms[room].fileno(), wait=False)
        return room

    def write(self, target: Path, pieces: Iterable[Piece]) -> None:
        """Write a file's temporary."""
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(target))
        room = self._room(target)
        self.count += 1
        tail = f".{self.id}{self.count:06x}.tmp"
        head = os.fsencode(target.name)[: _LONGEST_NAME - 1 - len(tail)]
        temporary = room / f".{head.decode('utf-8', 'ignore')}{tail}"
        self.moves[temporary] = target
        is_sealed = False
        with _create(temporary, target) as file:
            for piece in pieces:
                if piece is SEAL:
                    self.seals.append((temporary, file.tell()))
                    is_sealed = True
                else:
                    self.digest.update(piece)
                file.write(piece)
            file.flush()
            if self.lasting and not is_sealed:
                os.fsync(file.fileno())

    def commit(self) -> None:
        """Let all temporaries take their places."""
        self._write_seals()
        elsewhere = {t: target for t, target in self.moves.items() if t.parent != self.home}
        here = {t: target for t, target in self.moves.items() if t.parent == self.home}
        with _lock_folder(self.home):
            _finish(self.home)
            if len(here) > 1:
                self._write_journal(here)
                _finish(self.home)
            else:
                for temporary, target in here.items():
                    temporary.replace(target)
        for temporary, target in elsewhere.items():
            temporary.replace(target)
        if self.lasting:
            for folder in {target.parent for target in self.moves.values()} | {self.home}:
                _sync_folder(folder)
        self.moves.clear()

    def _write_seals(self) -> None:
        """Put the mark of this save into the places that its files have for it."""
        names = [os.path.relpath(target, self.home) for target in self.moves.values()]
        if self.has_prefix:
            names = [name.rpartition(".")[2] for name in names]
        mark = (names_hash(names) + self.digest.hexdigest()).encode()
        for temporary, at in self.seals:
            with temporary.open("r+b") as file:
                file.seek(at)
                file.write(mark)
                file.flush()
                os.fsync(file.fileno())

    def _write_journal(self, moves: Mapping[Path, Path]) -> None:
        files = {os.path.relpath(target, self.home): t.name for t, target in moves.items()}
        lock = self.rooms[self.home]
        lock.write(json.dumps({"save": self.id, "files": files}).encode())
        lock.flush()
        os.fsync(lock.fileno())
        _sync_folder(self.home)
        os.replace(self.home / self._lock_name(), self.home / JOURNAL)
        _sync_folder(self.home)


@contextmanager
def _create(path: Path, target: Path) -> Generator[BinaryIO]:
    """A new file that may be read and written by those who may do so with the file it replaces."""
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    with open(path, "xb", opener=lambda p, f: os.open(p, f, 0o600 if old else 0o666)) as file:
        if old is not None:
            new = os.fstat(file.fileno())
            if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
                with suppress(PermissionError):
                    os.chown(path, old.st_uid, old.st_gid)
            path.chmod(stat.S_IMODE(old.st_mode))
        yield file


def settle(folder: Path) -> dict[Path, Path]:
    """Complete the renames of a save that is at its journal; those that cannot be, by target.

    A reader may do so beside a saver that lives: a temporary is renamed once, and its name is never
    used again. The values are where the contents of such files are; a folder that the reader may
    not write to has them.
    """
    left: dict[Path, Path] = {}
    for target, temporary in _journal(folder).items():
        try:
            temporary.replace(target)
        except FileNotFoundError:
            continue
        except OSError:
            if temporary.exists():
                left[target] = temporary
    if not left and (folder / JOURNAL).exists():
        with suppress(OSError), _lock_folder(folder, wait=False) as is_locked:
            if is_locked:
                _finish(folder)
    return left


def pending(folder: Path) -> dict[Path, Path]:
    """The targets, and their temporaries, of a save whose renames are not complete."""
    return {target: t for target, t in _journal(folder).items() if t.exists()}


def _finish(folder: Path) -> None:
    """Complete the renames of a journal, and remove it; the caller holds its lock."""
    for target, temporary in _journal(folder).items():
        with suppress(FileNotFoundError):
            temporary.replace(target)
    (folder / JOURNAL).unlink(missing_ok=True)


def _journal(folder: Path) -> dict[Path, Path]:
    """The temporaries that a journal names, by target; empty without a journal.

    A journal of a stranger is none: only this user, the folder's owner or root may say what
    replaces a file. Raises FormatError for one that names anything outside its folder.
    """
    path = folder / JOURNAL
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid not in _trusted_owners(folder):
            return {}
        with path.open("rb") as file:
            data = file.read(_JOURNAL_BYTES)
    except OSError:
        return {}
    try:
        content = cast(dict[str, Any], json.loads(data))
        save, files = content["save"], cast(dict[str, str], content["files"])
        moves = dict(files)
        sound = all(
            _is_inside(folder, target) and (m := _TEMPORARY.fullmatch(t)) and m[1] == save
            for target, t in moves.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound, moves = False, {}
    if not sound:
        raise FormatError(f"{path}: expected the journal of a save in this folder; remove the file")
    return {folder / target: folder / temporary for target, temporary in moves.items()}


def _trusted_owners(folder: Path) -> tuple[int, ...]:
    return (os.geteuid() if hasattr(os, "geteuid") else 0, folder.stat().st_uid, 0)


def _is_inside(folder: Path, name: str) -> bool:
    real = os.path.realpath(folder / name)
    return Path(real) == folder / name and Path(real).is_relative_to(folder)


def _remove_left_overs(folder: Path) -> None:
    """Remove the temporaries of saves that died; the caller holds its lock."""
    saves: dict[str, list[Path]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found:
                saves.setdefault(found[1], []).append(Path(entry.path))
    for save, files in saves.items():
        if not _is_alive(folder / f".save.{save}000000.tmp"):
            for file in files:
                with suppress(OSError):
                    file.unlink()


def _is_alive(lock: Path) -> bool:
    """True if the saver that made a lock file still runs."""
    try:
        with lock.open("rb") as file:
            free = _lock(file.fileno(), wait=False)
            return time.time() - lock.stat().st_mtime < _OLD if free is None else not free
    except FileNotFoundError:
        return False
    except OSError:
        return True


@contextmanager
def _lock_folder(folder: Path, *, wait: bool = True) -> Generator[bool]:
    """Hold the lock of a folder, which ends with the process at the latest.

    Gives False when it was not to be waited for and another has it.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders; nor can one that may not be read be locked
        yield True
        return
    try:
        yield _lock(handle, wait=wait) is not False
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool | None:
    """Lock an open file: True when it is locked now, False when another has it, None without locks.

    The lock belongs to the open file, not to the process, so that threads exclude each other too.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _unlock(file: BinaryIO) -> None:
    """Close a locked file; a process forked meanwhile has it open still, and must not keep it."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    file.close()


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder last; some systems cannot open folders, and need no such step."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
