"""Saves of several files that happen at one moment, even when they are interrupted.

A save writes every file under another name in its folder. Then a journal with these names appears
by one rename, which is the moment of the save. The files are renamed, and the journal is removed. A
reader or the next save that finds a journal completes the renames of a saver that died.

A saver holds a lock on a temporary file of its own as long as it lives, so that the next save can
distinguish left-overs from work in progress. Renames happen under a lock on the folder. Where a
file system has no locks, only one saver at a time is safe.
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
# The name of a file, 10 hexadecimal digits for its save, and 6 for the file itself.
_TEMPORARY = re.compile(r"\.[^/]*\.([0-9a-f]{10})([0-9a-f]{6})\.tmp", re.DOTALL)
_LONGEST_NAME = 255
_JOURNAL_BYTES = 1 << 26
# In seconds. Without locks, a saver may still be alive; older files count as left over.
_OLD = 24 * 3600


def is_ours(name: str) -> bool:
    """True for a temporary file or the journal of a save, which no reader treats as content."""
    return name == JOURNAL or _TEMPORARY.fullmatch(name) is not None


def write_files(
    contents: Mapping[Path, Iterable[Piece]], folder: Path | None = None, *, lasting: bool = True
) -> None:
    """Write files atomically: readers in graphopt see all old files or all new ones.

    They are the files of `folder`, or without it the files of one prefix, such as `m.pdparams` and
    `m.pdopt`. Each is written under another name there, and flushed to the device, before any is
    renamed into place; files that are not `lasting` are not flushed. A replaced file keeps its mode
    and, where permitted, its owner. The files of a save that died are completed or removed. Raises
    the usual OSError with the name of the file, and then changes nothing.
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
    """Let an OSError name the caller's file, not a temporary file or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


class _Save:
    """One save: its temporary files, by folder, and the files that they replace.

    Temporary files are in the home folder. If a link puts a target elsewhere, its temporary file is
    beside the target, because a rename cannot leave a file system; such a target is replaced last.
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
        """Remove left-over files; first complete a save that was interrupted in its renames."""
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
        """Return the folder for the temporary of a target, prepared and locked for this save."""
        inside = target.parent == self.home or (
            target.is_relative_to(self.home)
            and target.parent.stat().st_dev == self.home.stat().st_dev
        )
        room = self.home if inside else target.parent
        if room not in self.rooms:
            with _lock_folder(room):
                _finish(room)
                _remove_left_overs(room)
                # locked before another process may look for left-overs
                self.rooms[room] = (room / self._lock_name()).open("xb")
                _lock(self.rooms[room].fileno(), wait=False)
        return room

    def write(self, target: Path, pieces: Iterable[Piece]) -> None:
        """Write the temporary file of a target."""
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
        """Rename all temporary files to their targets."""
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
        """Write the mark of this save where its files have room for it."""
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
    """Create a file with the mode and, where permitted, the owner of the file it replaces."""
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
    """Complete the renames of a journal; return the files it could not rename, by target.

    A reader may do so while the saver is alive: a temporary file is renamed once, and its name is
    never used again. Renames fail in a folder that the reader may not write to; the temporary files
    returned then have the contents.
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
    """Map targets to temporary files of a save whose renames are not complete."""
    return {target: t for target, t in _journal(folder).items() if t.exists()}


def _finish(folder: Path) -> None:
    """Complete the renames of a journal and remove it; the caller holds the folder's lock."""
    for target, temporary in _journal(folder).items():
        with suppress(FileNotFoundError):
            temporary.replace(target)
    (folder / JOURNAL).unlink(missing_ok=True)


def _journal(folder: Path) -> dict[Path, Path]:
    """Read the journal: map each target to its temporary file; empty without a journal.

    A journal owned by another user is ignored: only this user, the folder's owner or root may
    decide what replaces a file. Raises FormatError for a journal that names a file outside its
    folder.
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
    """Remove the temporary files of saves that died; the caller holds the folder's lock."""
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
    """Return whether the saver that created a lock file still runs."""
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
    """Hold the lock of a folder, at most until the process ends.

    Yields False if another process has the lock and `wait` is False.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders, and an unreadable folder cannot be locked
        yield True
        return
    try:
        yield _lock(handle, wait=wait) is not False
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool | None:
    """Lock an open file: True when locked now, False when another has it, None without locks.

    The lock belongs to the open file, not to the process, so threads exclude each other too.
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
    """Unlock and close a file; a process forked meanwhile still has it open, but not its lock."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    file.close()


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder durable; systems that cannot open folders need no such step."""
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
