"""FLAGS_… names: Paddle's global switches, set in a script or in the environment.

What each does here is in `flag_table`.
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
    """The number of calls of `set_flags`, by which a step notices that a flag may be another."""

    number: int = 0


revision = Revision()

# the flags that passes/table/conditions.py knows
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
# Paddle's requests for the same bits in every run
REPEATS = ("FLAGS_cpu_deterministic", "FLAGS_cudnn_deterministic")
CUDA_PLACE = "FLAGS_graphopt_cuda_place"
CUDA_PLACES = ("strict", "best")
PADDLE_VERSION = "FLAGS_graphopt_paddle_version"
_TRUE, _FALSE = ("1", "t", "true", "y", "yes"), ("0", "f", "false", "n", "no")


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set FLAGS_… names (Paddle page: paddle.set_flags).

    docs/reference/flags.md lists all known flags and what they do here. One that is obeyed counts
    from the next run or compilation on; the others are kept for `get_flags`. A name that is no flag
    of Paddle warns, with the nearest one, and is kept as well.

    Raises TypeError unless `flags` is a dict, ValueError for names that do not start with FLAGS_,
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
    """The values of FLAGS_… names (Paddle page: paddle.get_flags).

    That is what was set here, else in the environment, else Paddle's default. Raises TypeError for
    other arguments than a name or several, ValueError for a name that is no flag and was not set,
    FlagError when the environment has no value of the flag's type.
    """
    if not isinstance(flags, (str, list, tuple)):
        raise TypeError(
            "get_flags(): Flags in get_flags should be a list, tuple or string, "
            f"found {type(flags).__name__}"
        )
    names = [flags] if isinstance(flags, str) else list(flags)
    return {name: _value(_flag_name(name, "get_flags")) for name in names}


def coalescing() -> dict[str, float]:
    """The grouping of gradients; FlagError when the environment does not give numbers."""
    return get_flags(COALESCING)


def left_out() -> frozenset[str]:
    """The names of the passes to leave out."""
    names = str(_value(WITHOUT)).split(",")
    return frozenset(name.strip() for name in names if name.strip())


def allows_tf32() -> bool:
    """True when float32 products may be in TF32 on GPUs, as they are in Paddle by default.

    NVIDIA's own variable counts, too.
    """
    return bool(_value(TF32)) and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"


def mapper_flag() -> str:
    """The mapper of data-parallel programs; ValueError for an unknown one."""
    name = str(_value(MAPPER))
    if name not in MAPPERS:
        raise ValueError(
            f"{MAPPER} should be one of {', '.join(map(repr, MAPPERS))}, found {name!r}"
        )
    return name


def tier_flag() -> str:
    """The form in which programs are compiled; ValueError for an unknown one."""
    name = _only_form.get() or str(_value(TIER))
    if name not in TIERS:
        expected = ", ".join(TIERS[:-1])
        raise ValueError(f"{TIER} should be {expected} or {AUTO}, found {name!r}")
    return name


def threads_flag() -> int:
    """The number of threads that FLAGS_paddle_num_threads requests, 0 where it is not set."""
    return int(_value(THREADS)) if THREADS in _set or THREADS in os.environ else 0


def no_kernels() -> str:
    """The reason to have no kernels but XLA's on any device, "" without one."""
    if str(_value(KERNELS)) == "off":
        return f"{KERNELS}=off"
    return "a flag requests the same bits in every run" if must_repeat() else ""


def uses_kernels() -> bool:
    """True when oneDNN shall compute ops on CPUs from the first step on."""
    return _kernels() == "on"


def measures_kernels() -> bool:
    """True when kernels shall compute ops where that was measured to be quicker."""
    return _kernels() == AUTO


def _kernels() -> str:
    """The setting for kernels, "off" for files; ValueError for an unknown one."""
    setting = str(_value(KERNELS))
    if setting not in (AUTO, "on", "off"):
        raise ValueError(f"{KERNELS} should be {AUTO}, on or off, found {setting!r}")
    return "off" if _for_files.get() else setting


@contextmanager
def for_other_machines() -> Generator[None]:
    """Programs that are compiled here are written to files, and have no kernels but XLA's."""
    token = _for_files.set(True)
    try:
        yield
    finally:
        _for_files.reset(token)


_for_files: ContextVar[bool] = ContextVar("_for_files", default=False)


@contextmanager
def full_form() -> Generator[None]:
    """Programs that are compiled here run in their full form from the first step on."""
    token = _only_form.set(FULL)
    try:
        yield
    finally:
        _only_form.reset(token)


_only_form: ContextVar[str] = ContextVar("_only_form", default="")


def must_repeat() -> bool:
    """True when a run shall give the bits of every other run."""
    return any(_value(name) for name in REPEATS)


def replaces_gpus() -> bool:
    """True when CUDAPlace shall mean the best device there is; ValueError for an unknown word."""
    word = str(_value(CUDA_PLACE))
    if word not in CUDA_PLACES:
        raise ValueError(f"{CUDA_PLACE} should be {' or '.join(CUDA_PLACES)}, found {word!r}")
    return word == "best"


def paddle_version() -> str:
    """The release of Paddle for `paddle.__version__`, as "2.4.2"; "" for the usual one."""
    text = str(_value(PADDLE_VERSION))
    if text and not re.fullmatch(r"\d+\.\d+\.\d+", text):
        raise FlagError(f"{PADDLE_VERSION} should look like '2.4.2', found {text!r}")
    return text


def checks_ids() -> bool:
    """True, by default, when fed ids are looked at before each step."""
    return _value(IDS) != "off"


def checks_all_ids() -> bool:
    """True when ids that steps compute are checked as well as those that are fed."""
    return _value(IDS) == "all"


def pads_sizes() -> bool:
    """True when sequences and inputs of predictors are padded; ValueError for another setting."""
    setting = str(_value(BUCKETS))
    if setting not in ("auto", "off"):
        raise ValueError(f"{BUCKETS} should be auto or off, found {setting!r}")
    return setting == "auto"


def keeps_scratch() -> bool:
    """True when the memory of intermediate values shall stay with the process."""
    return _value(SCRATCH)


def shows_progress() -> bool:
    """True when long compilations are reported on standard error."""
    return _value(PROGRESS)


def asks_for_progress() -> bool:
    """True when a script or the environment sets the flag: files get all lines, too."""
    return (PROGRESS in _set or PROGRESS in os.environ) and _value(PROGRESS)


def full_traceback() -> bool:
    """True when errors shall show the frames of graphopt too."""
    return _value(FULL_TRACEBACK)


def cache_directory() -> str | None:
    """The directory of compiled programs: empty for nowhere, None when it was not set."""
    said = CACHE in _set or CACHE in os.environ
    return str(_value(CACHE)) if said else None


_checks: list[bool] = []


def checks_nan_inf() -> bool:
    """True when steps look for NaN and Inf; asked in every step, so it is kept."""
    if not _checks:
        _checks.append(_value(CHECK))
    return _checks[0]


def nan_inf_level() -> int:
    """0 when NaN and Inf are errors; above they are warnings."""
    return _value(LEVEL)


def flags_set() -> dict[str, Any]:
    """The flags that a script has set, and their values."""
    return dict(_set)


def changed_flags() -> list[tuple[str, str]]:
    """The flags that compiled programs depend on and that are not as they are by default."""
    found = {f"{_PREFIX}{name}": flag.default for name, flag in FLAGS.items()}
    names = [name for name in found if name not in _NOT_COMPILED]
    return [(n, repr(v)) for n in names if (v := _value(n)) != found[n]]


# flags about where programs are kept, how they are reported, and which of their forms runs
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
    """A value in the type of its flag, as Paddle converts it: numbers and None to a bool."""
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
    """A value of the environment in the type of its flag."""
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
