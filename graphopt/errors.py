"""The exceptions of graphopt. Each names the error, its place (op and source line), and a remedy.

Most also derive from the built-in class that Paddle 2.x raises in the same place, so scripts that
catch `ValueError` keep working.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class GraphoptError(Exception):
    """Base class of every error that graphopt raises on purpose."""


class OperatorError(GraphoptError):
    """An operator cannot be built or run; scripts catch it as `fluid.core.EnforceNotMet`."""


class ProgramError(OperatorError, ValueError):
    """An operator was appended with operands or attributes that it does not accept."""

    conditions: tuple[Any, ...] = ()
    """The conditions of the enclosing branches, whose other side may have to run instead."""


class OperandError(ProgramError, TypeError):
    """An argument of a type, or a Variable of a dtype, that the function does not accept."""


class AssertedError(GraphoptError, ValueError, AssertionError):
    """An argument that Paddle refuses by an `assert` statement, and so by an AssertionError."""


class UnsupportedError(GraphoptError, NotImplementedError):
    """A feature of Paddle that graphopt does not have; the message names a replacement."""


class OpenSizeError(UnsupportedError):
    """Open sizes or numbers of a program that must be known to translate it.

    `values` are the values whose elements they are, none for the sizes of feeds. `feeds` names the
    feeds of a few numbers that determine them.
    """

    values: tuple[Any, ...] = ()
    feeds: tuple[str, ...] = ()


class DynamicModeError(UnsupportedError, AssertionError):
    """Something that makes variables or operators, called in dynamic mode."""


class DeviceError(UnsupportedError, ValueError):
    """A device that this machine or the installed JAX does not have."""


class FormatError(GraphoptError, ValueError):
    """A file does not have the format that it claims; carries the file and the byte offset."""


class MismatchError(FormatError, RuntimeError):
    """A file has another variable than the program declares: its name, dtype or shape."""


class MissingModelError(GraphoptError, FileNotFoundError, ValueError):
    """There is no model file at the path."""


class LimitError(FormatError):
    """A file needs more resources than the configured limits allow."""


class UnsafeError(FormatError):
    """A file requests an action that a reader must not do (run code, leave its folder)."""


class FeedError(OperatorError, ValueError):
    """A feed is missing, or has a dtype, rank, shape or row count that its variable refuses."""


class EOFException(GraphoptError):
    """A loader inside a program is at the end of its epoch (Paddle: fluid.core.EOFException)."""


class ReaderError(OperatorError, RuntimeError, SystemError):
    """The generator of a loader raised; its exception is this one's cause."""


class LengthsError(OperatorError, ValueError):
    """The lengths of the sequences in a tensor do not fit each other, or its rows."""


class FeedSizeError(FeedError, RuntimeError):
    """Fewer samples than devices; Paddle 2.x raises RuntimeError here."""


class FetchError(OperatorError, KeyError, RuntimeError):
    """A fetch names a variable that the program does not compute."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ArrayFetchError(FetchError):
    """A fetch names a tensor array: of `count` elements, or None where data decide."""

    def __init__(self, array: str, count: int | None) -> None:
        super().__init__(f"'{array}' is a tensor array, which only Executor.run can fetch")
        self.array = array
        self.count = count


class ScopeError(OperatorError, RuntimeError):
    """A parameter is used before it has a value (run the startup program first)."""


class CheckError(OperatorError, ValueError):
    """The condition of an Assert was false when the program ran, or an integer was divided by 0.

    The step stored nothing.
    """


class CallbackError(GraphoptError, RuntimeError):
    """A Python function that a program calls raised; its exception is the cause of this one.

    The step stored nothing.
    """


class NotFiniteError(GraphoptError, RuntimeError):
    """With FLAGS_check_nan_inf, an operator made NaN or an infinity; the step stored nothing."""


class FlagError(GraphoptError, RuntimeError, ValueError):
    """A FLAGS_… name was given a value of another type, by `set_flags` or in the environment."""


class IndexRangeError(FeedError, IndexError):
    """A fed number names no row, class or element; the step did not run."""


class StrategyError(GraphoptError, RuntimeError):
    """A strategy object was changed after it was finalized."""


class PassError(GraphoptError, RuntimeError):
    """A pass left the IR invalid; a bug in the pass, which the message names."""


class StrictError(GraphoptError, RuntimeError):
    """With `strict`, a flag of the strategy had no effect on a program."""


class LockError(GraphoptError, RuntimeError):
    """Rewrites no longer happen as often as a lock file states."""


class WorldError(GraphoptError, ValueError):
    """The descriptions of a job's trainers (environment, strategy) contradict each other."""


class TrainerError(GraphoptError, RuntimeError):
    """A trainer of the job died, stalled, did not join, or differs from the others."""


def comes_again(call: Callable[[], Any], error: Exception) -> bool:
    """True if the call raises an error of this type again: then it is the call's own error.

    A signal handler, or another thread, may raise any exception between two instructions of Python.
    Such an exception must reach the caller, and a repeated call does not raise it.
    """
    try:
        call()
    except Exception as again:
        return type(again.__cause__ or again) is type(error.__cause__ or error)
    return False


def message_of(error: Exception) -> str:
    """Compose the message of an error; for a system error the file and the cause, without errno."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
