"""The exceptions of graphopt: each says what is wrong, where (op and source line), and what to do.

Most also derive from the built-in class that Paddle 2.x raises in the same place, so scripts that
catch `ValueError` keep working.
"""

from __future__ import annotations


class GraphoptError(Exception):
    """Base class of every error that graphopt raises on purpose."""


class ProgramError(GraphoptError, ValueError):
    """An operator was appended with operands or attributes that it does not accept."""


class UnsupportedError(GraphoptError, NotImplementedError):
    """Something that Paddle has and graphopt has not; the message says what to use instead."""


class FormatError(GraphoptError, ValueError):
    """A file is not what it claims to be; carries the file and the byte offset."""


class LimitError(FormatError):
    """A file asks for more than the configured limits allow."""


class UnsafeError(FormatError):
    """A file asks for something that a reader must not do (run code, leave its folder)."""


class FeedError(GraphoptError, ValueError):
    """A feed is missing, or has a dtype, rank, shape or row count that its variable refuses."""


class FeedSizeError(FeedError, RuntimeError):
    """Fewer samples than devices; Paddle 2.x raises RuntimeError here."""


class FetchError(GraphoptError, KeyError, RuntimeError):
    """A fetch names a variable that the program does not compute."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ScopeError(GraphoptError, RuntimeError):
    """A parameter is used before it has a value (run the startup program first)."""


class CheckError(GraphoptError, ValueError):
    """The condition of an Assert was false when the program ran; the step stored nothing."""


class StrategyError(GraphoptError, RuntimeError):
    """A strategy object was changed after it was finalised."""


class PassError(GraphoptError, RuntimeError):
    """A pass left the IR invalid; a bug in the pass, which the message names."""


class StrictError(GraphoptError, RuntimeError):
    """A flag of the strategy did nothing to a program that was to be strict about it."""


class LockError(GraphoptError, RuntimeError):
    """Rewrites no longer happen as often as a lock file says."""


class WorldError(GraphoptError, ValueError):
    """What describes the trainers of a job (environment, strategy) does not fit together."""


class TrainerError(GraphoptError, RuntimeError):
    """A trainer of the job died, stalled, differs from the others or did not come."""
