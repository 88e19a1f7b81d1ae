"""FLAGS_… names: Paddle's global switches, set in a script or in the environment.

`flag_table` has the effect of each.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real
from operator import index
from typing import Any, SupportsIndex

from graphopt.errors import FlagError
from graphopt.runtime.settings.flag_table import FLAGS

_PREFIX = "FLAGS_"
_set: dict[str, Any] = {}


@dataclass
class Revision:
    """The number of calls of `set_flags`, by which a step notices that flags may have changed."""

    number: int = 0


revision = Revision()

# the flags that passes/table/conditions.py reads
COALESCING = ("FLAGS_fuse_parameter_memory_size", "FLAGS_fuse_parameter_groups_size")
WITHOUT = "FLAGS_graphopt_without"
CACHE = "FLAGS_graphopt_cache_dir"
TF32 = "FLAGS_graphopt_tf32"
CHECK = "FLAGS_check_nan_inf"
LEVEL = "FLAGS_check_nan_inf_level"
MAPPER = "FLAGS_graphopt_mapper"
MAPPERS = ("auto", "pmap", "shard_map", "vmap")
BUCKETS = "FLAGS_graphopt_buckets"
PROGRESS = "FLAGS_graphopt_progress"
FULL_TRACEBACK = "FLAGS_graphopt_full_traceback"
IDS = "FLAGS_graphopt_check_ids"
SCRATCH = "FLAGS_graphopt_keep_scratch"
TIER = "FLAGS_graphopt_tier"
HOST, FAST, FULL, AUTO = TIERS = ("host", "fast", "full", "auto")
KERNELS = "FLAGS_graphopt_kernels"
THREADS = "FLAGS_paddle_num_threads"
# Paddle's flags that request the same bits in every run
REPEATS = ("FLAGS_cpu_deterministic", "FLAGS_cudnn_deterministic")
CUDA_PLACE = "FLAGS_graphopt_cuda_place"
CUDA_PLACES = ("strict", "best")
PADDLE_VERSION = "FLAGS_graphopt_paddle_version"
_TRUE, _FALSE = ("1", "t", "true", "y", "yes"), ("0", "f", "false", "n", "no")


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set FLAGS_… names (paddle.set_flags).

    docs/reference/flags.md lists all known flags and their effects here. A supported flag applies
    from the next run or compilation on; the others are kept for `get_flags`. For a name that is no
    flag of Paddle, warn with the nearest one, and keep it as well.

    Raise TypeError unless `flags` is a dict, ValueError for names that do not start with FLAGS_,
    FlagError (RuntimeError, ValueError) for a value that is not of the flag's type; then none of
    the flags is set.
    """
    if not isinstance(flags, Mapping):
        raise TypeError(f"set_flags(): 'flags' must be a dict, found {type(flags).__name__}")
    converted = {name: _convert(_flag_name(name, "set_flags"), v) for name, v in flags.items()}
    for name in converted:
        if _find_flag(name) is None:
            warnings.warn(f"set_flags(): {_unknown(name)}", stacklevel=2)
    _set.update(converted)
    _checks.clear()
    revision.number += 1


def get_flags(flags: str | Iterable[str]) -> dict[str, Any]:
    """Get the values of FLAGS_… names (paddle.get_flags).

    A value is the one set here, else in the environment, else Paddle's default. Raise TypeError for
    other arguments than a name or several, ValueError for a name that is no flag and was not set,
    FlagError when the value in the environment is not of the flag's type.
    """
    if not isinstance(flags, (str, list, tuple)):
        raise TypeError(
            "get_flags(): Flags in get_flags should be a list, tuple or string, "
            f"found {type(flags).__name__}"
        )
    names = [flags] if isinstance(flags, str) else list(flags)
    return {name: _value(_flag_name(name, "get_flags")) for name in names}


def coalescing() -> dict[str, float]:
    """Get the flags that group gradients; FlagError if the environment has no numbers."""
    return get_flags(COALESCING)


def left_out() -> frozenset[str]:
    """List the names of the disabled passes."""
    names = str(_value(WITHOUT)).split(",")
    return frozenset(name.strip() for name in names if name.strip())


def allows_tf32() -> bool:
    """Return whether float32 products may be in TF32 on GPUs, Paddle's default.

    NVIDIA_TF32_OVERRIDE=0 forbids it, too.
    """
    return bool(_value(TF32)) and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"


def mapper_flag() -> str:
    """Get the mapper of data-parallel programs; ValueError for an unknown one."""
    name = str(_value(MAPPER))
    if name not in MAPPERS:
        raise ValueError(
            f"{MAPPER} should be one of {', '.join(map(repr, MAPPERS))}, found {name!r}"
        )
    return name


def tier_flag() -> str:
    """Get the form in which programs run; ValueError for an unknown one."""
    name = _only_form.get() or str(_value(TIER))
    if name not in TIERS:
        expected = ", ".join(TIERS[:-1])
        raise ValueError(f"{TIER} should be {expected} or {AUTO}, found {name!r}")
    return name


def threads_flag() -> int:
    """Get the number of threads in FLAGS_paddle_num_threads, 0 where it is not set."""
    return int(_value(THREADS)) if THREADS in _set or THREADS in os.environ else 0


def no_kernels() -> str:
    """Return why only XLA's kernels may be used on any device; "" if others may."""
    if str(_value(KERNELS)) == "off":
        return f"{KERNELS}=off"
    return "a flag requests the same bits in every run" if must_repeat() else ""


def uses_kernels() -> bool:
    """Return whether oneDNN computes ops on CPUs from the first step on."""
    return _kernels() == "on"


def measures_kernels() -> bool:
    """Return whether kernels compute ops only where they were measured to be quicker."""
    return _kernels() == AUTO


def _kernels() -> str:
    """Get the setting for kernels, "off" for files; ValueError for an unknown one."""
    setting = str(_value(KERNELS))
    if setting not in (AUTO, "on", "off"):
        raise ValueError(f"{KERNELS} should be {AUTO}, on or off, found {setting!r}")
    return "off" if _for_files.get() else setting


@contextmanager
def for_other_machines() -> Generator[None]:
    """Compile the block's programs for files, with XLA's kernels only."""
    token = _for_files.set(True)
    try:
        yield
    finally:
        _for_files.reset(token)


_for_files: ContextVar[bool] = ContextVar("_for_files", default=False)


@contextmanager
def full_form() -> Generator[None]:
    """Compile the block's programs to run in their full form from the first step on."""
    token = _only_form.set(FULL)
    try:
        yield
    finally:
        _only_form.reset(token)


_only_form: ContextVar[str] = ContextVar("_only_form", default="")


def must_repeat() -> bool:
    """Return whether every run must give the same bits."""
    return any(_value(name) for name in REPEATS)


def replaces_gpus() -> bool:
    """Return whether CUDAPlace means the best device; ValueError for an unknown setting."""
    word = str(_value(CUDA_PLACE))
    if word not in CUDA_PLACES:
        raise ValueError(f"{CUDA_PLACE} should be {' or '.join(CUDA_PLACES)}, found {word!r}")
    return word == "best"


def paddle_version() -> str:
    """Get the release for `paddle.__version__`, as "2.4.2"; "" for the default."""
    text = str(_value(PADDLE_VERSION))
    if text and not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise FlagError(f"{PADDLE_VERSION} should look like '2.4.2', found {text!r}")
    return text


def checks_ids() -> bool:
    """Return whether fed ids are checked before each step, the default."""
    return _value(IDS) != "off"


def checks_all_ids() -> bool:
    """Return whether ids that steps compute are checked as well as fed ones."""
    return _value(IDS) == "all"


def pads_sizes() -> bool:
    """Return whether sequences and predictor inputs are padded; ValueError if unknown."""
    setting = str(_value(BUCKETS))
    if setting not in ("auto", "off"):
        raise ValueError(f"{BUCKETS} should be auto or off, found {setting!r}")
    return setting == "auto"


def keeps_scratch() -> bool:
    """Return whether the memory of intermediate values stays with the process."""
    return _value(SCRATCH)


def shows_progress() -> bool:
    """Return whether long compilations are reported on standard error."""
    return _value(PROGRESS)


def asks_for_progress() -> bool:
    """Return whether the flag is set to true explicitly: files get all lines then, too."""
    return (PROGRESS in _set or PROGRESS in os.environ) and _value(PROGRESS)


def full_traceback() -> bool:
    """Return whether errors show the frames of graphopt too."""
    return _value(FULL_TRACEBACK)


def cache_directory() -> str | None:
    """Get the directory of compiled programs; empty disables it, None if it was not set."""
    said = CACHE in _set or CACHE in os.environ
    return str(_value(CACHE)) if said else None


_checks: list[bool] = []


def checks_nan_inf() -> bool:
    """Return whether steps check for NaN and Inf; cached, as every step reads it."""
    if not _checks:
        _checks.append(_value(CHECK))
    return _checks[0]


def nan_inf_level() -> int:
    """Get the level of NaN checks: 0 raises errors, higher levels warn."""
    return _value(LEVEL)


def flags_set() -> dict[str, Any]:
    """Return the flags that a script has set, with their values."""
    return dict(_set)


def changed_flags() -> list[tuple[str, str]]:
    """List the flags that affect compiled programs and differ from their defaults."""
    found = {f"{_PREFIX}{name}": flag.default for name, flag in FLAGS.items()}
    names = [name for name in found if name not in _NOT_COMPILED]
    return [(n, repr(v)) for n in names if (v := _value(n)) != found[n]]


# flags that do not change compiled code: caches, reports, and the choice of a form
_NOT_COMPILED = (CACHE, PROGRESS, FULL_TRACEBACK, TIER, CUDA_PLACE, LEVEL, SCRATCH, PADDLE_VERSION)


def _find_flag(name: str) -> Any:
    return FLAGS.get(name.removeprefix(_PREFIX))


def _unknown(name: str) -> str:
    near = get_close_matches(name.removeprefix(_PREFIX), FLAGS, 1)
    hint = f"; did you mean '{_PREFIX}{near[0]}'?" if near else ""
    return f"'{name}' is not a flag of Paddle that graphopt knows{hint}"


def _value(name: str) -> Any:
    flag = _find_flag(name)
    if name in _set:
        return _set[name]
    if name in os.environ:
        return os.environ[name] if flag is None else _parse_flag(name, os.environ[name])
    if flag is None:
        raise ValueError(f"get_flags(): {_unknown(name)}")
    return flag.default


def _convert(name: str, value: Any) -> Any:
    """Convert a value to the type of its flag as Paddle does: numbers and None to a bool."""
    flag = _find_flag(name)
    if flag is None:
        return value
    match flag.default:
        case bool() if value is None or isinstance(value, Real) or hasattr(value, "__bool__"):
            return bool(value)
        case str() if isinstance(value, str):
            return value
        case float() if isinstance(value, Real):
            return float(value)
        case int() if isinstance(value, SupportsIndex) and not isinstance(flag.default, bool):
            return index(value)
        case _:
            raise _wrong(name, value)


def _parse_flag(name: str, text: str) -> Any:
    """Parse a value of the environment into the type of its flag."""
    kind = type(_find_flag(name).default)
    if kind is bool:
        if text.lower() not in _TRUE + _FALSE:
            raise _wrong(name, text)
        return text.lower() in _TRUE
    try:
        return kind(text)
    except ValueError:
        raise _wrong(name, text) from None


def _wrong(name: str, value: Any) -> FlagError:
    kind = type(_find_flag(name).default).__name__
    wanted = "a number" if kind == "float" else f"of type {kind}"
    return FlagError(f"{name} should be {wanted}, found {value!r}")


def _flag_name(name: Any, function: str) -> str:
    if isinstance(name, str) and name.startswith(_PREFIX):
        return name
    raise ValueError(f"{function}(): a flag should be named FLAGS_…, found {name!r}")
