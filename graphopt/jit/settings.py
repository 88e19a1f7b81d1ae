"""Settings of tracing: whether functions are traced, and which details are printed."""

from __future__ import annotations

import sys
from typing import Any

from graphopt.frontend import arguments

_enabled = True
_verbosity = 0
_code_level = -1


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Trace functions of `to_static`, or refuse to call them (paddle.jit.enable_to_static).

    Where Paddle would run them in dynamic mode, a call raises UnsupportedError; inside a static
    program they append their operators as plain functions do. Raises TypeError for other values
    than bools.
    """
    global _enabled
    _enabled = arguments.flag(enable_to_static_bool, "enable_to_static_bool", "enable_to_static")


def is_enabled() -> bool:
    """True unless `enable_to_static(False)` was called."""
    return _enabled


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Name each converted function, from level 1 on (paddle.jit.set_verbosity).

    The lines go to stderr, and with `also_to_stdout` to stdout too.
    """
    global _verbosity, _also_to_stdout
    _verbosity = arguments.integer(level, "level", "set_verbosity")
    _also_to_stdout = bool(also_to_stdout)


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Print the code of each converted function (paddle.jit.set_code_level).

    Every level above 0 prints the final code: there are no intermediate steps.
    """
    global _code_level, _also_to_stdout
    _code_level = arguments.integer(level, "level", "set_code_level")
    _also_to_stdout = bool(also_to_stdout)


_also_to_stdout = False


def report(function: Any, code: str) -> None:
    """Print the details of a converted function that the levels select."""
    name = function.__qualname__
    where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
    lines = [f"to_static converts {name} ({where})"] if _verbosity > 0 else []
    lines += [f"{name} is traced as:", code] if _code_level > 0 else []
    for stream in (sys.stderr, sys.stdout) if _also_to_stdout else (sys.stderr,):
        for line in lines:
            print(line, file=stream)


class ProgramTranslator:
    """The switch of tracing as a singleton (fluid.dygraph)."""

    _only: ProgramTranslator | None = None

    def __new__(cls) -> ProgramTranslator:
        """Return the singleton."""
        cls._only = cls._only or super().__new__(cls)
        return cls._only

    @classmethod
    def get_instance(cls) -> ProgramTranslator:
        """Return the singleton."""
        return cls()

    @property
    def enable_to_static(self) -> bool:
        """True while functions are traced."""
        return is_enabled()

    def enable(self, enable_to_static: bool) -> None:
        """Enable or disable tracing, as `paddle.jit.enable_to_static`."""
        globals()["enable_to_static"](enable_to_static)
