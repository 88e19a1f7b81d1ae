"""Values that are not known while a function is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from graphopt.errors import UnsupportedError
from graphopt.frontend import nest
from graphopt.ir.program.location import caller_location
from graphopt.jit.conversion.jumps import RESULT


class Unknown:
    """The value of a name that has none on some path through the function; a use of it raises.

    `reason` is the cause, with advice on a replacement.
    """

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def refuse(self) -> NoReturn:
        """Raise UnsupportedError with the name, the line that uses it, and the reason."""
        what = "the returned value" if self._name == RESULT else f"'{self._name}'"
        raise UnsupportedError(f"{caller_location()}: {what} {self._reason}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        self.refuse()

    def _use(self, *args: Any) -> NoReturn:
        self.refuse()

    __bool__ = __call__ = __iter__ = __len__ = __getitem__ = __setitem__ = __contains__ = _use
    __float__ = __int__ = __index__ = __neg__ = __abs__ = __invert__ = __str__ = __format__ = _use
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _use
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = _use
    __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _use
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _use
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<no value: '{self._name}' {self._reason}>"


NOT_YET = "has no value yet"


def value(read: Callable[[], Any], name: str) -> Any:
    """Call `read`; return an Unknown for a name without a value."""
    try:
        return read()
    except (NameError, AttributeError):
        return Unknown(name, NOT_YET)


def require_known(found: Any) -> Any:
    """Return the value; raise UnsupportedError if it is Unknown."""
    if isinstance(found, Unknown):
        found.refuse()
    return found


def require_returned(found: Any) -> Any:
    """Return the result of a function; raise UnsupportedError if a part of it is Unknown."""
    for leaf in nest.leaves(found):
        require_known(leaf)
    return found
