"""The directory of the files that processes share on machines of this kind."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import stat
import warnings
from pathlib import Path

from graphopt.ir.program.location import caller_level
from graphopt.lowering.kernels.processor import instructions, limits
from graphopt.runtime.settings.flags import cache_directory
from graphopt.runtime.state.aside import call_aside


def machine_directory() -> Path | None:
    """Find or make the directory; None when it is switched off or not writable.

    Return None, with a warning, when other users may write there.
    """
    given = cache_directory()
    if given == "":
        return None
    # Signal handlers cannot raise there; their errors could count as errors of the disk.
    directory = call_aside(lambda: _find_or_make(given))
    if directory is None or not os.access(directory, os.W_OK | os.X_OK):
        return None
    return directory if is_private(directory) else None


def _find_or_make(given: str | None) -> Path | None:
    try:
        base = Path(given) if given else _home() / "graphopt" / "xla"
        directory = base.expanduser() / _machine()
        _make(directory)
    except (OSError, RuntimeError):  # no home directory, or one that this user may not write
        return None
    return directory


def _make(directory: Path) -> None:
    """Make a directory and its missing parents, for this user alone."""
    if not directory.is_dir():
        _make(directory.parent)
        directory.mkdir(0o700, exist_ok=True)


@functools.cache
def is_private(folder: Path) -> bool:
    """Return whether only this user and root may write a folder; warn why if not.

    A user who may write it, or replace one of its parents, decides which code runs here.
    """
    if not hasattr(os, "geteuid"):  # Windows has no owners and modes of this kind
        return True
    real = folder.resolve()
    for each in dict.fromkeys((folder.absolute(), *folder.absolute().parents, real, *real.parents)):
        status = each.stat()
        by_others = status.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
        # in a sticky folder such as /tmp, users cannot replace each other's files
        is_shared = bool(status.st_mode & stat.S_ISVTX) and each not in (folder, real)
        of_others = status.st_uid not in (os.geteuid(), 0)
        if of_others or (by_others and not is_shared):
            who = f"its owner is user {status.st_uid}" if of_others else "others may write it"
            warnings.warn(
                f"compiled programs are not cached in {folder}: cache entries are executed as "
                f"code, and other users can change {each} ({who}, mode "
                f"{stat.S_IMODE(status.st_mode):o}); run chmod go-w {each}, or set "
                "FLAGS_graphopt_cache_dir to another folder",
                stacklevel=caller_level(),
            )
            return False
    return True


def _home() -> Path:
    """Return the user's cache directory, as the XDG specification defines it."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def _machine() -> str:
    """Name this kind of processor: machines that share a directory may differ in theirs.

    Limits of instructions count as another kind: a measurement or a crash under them may differ.
    """
    kind = f"{platform.machine()} {platform.processor()} {sorted(instructions())}"
    if kept_from := limits():
        kind += f" {sorted(kept_from.items())}"
    return hashlib.sha256(kind.encode()).hexdigest()[:12]
