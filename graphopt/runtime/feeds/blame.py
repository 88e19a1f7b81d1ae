"""Errors of a run in terms of the script: a wrong feed or fetch, or blocks nested too deep."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

import numpy as np

from graphopt.errors import FeedError, FetchError, GraphoptError, ProgramError, UnsupportedError
from graphopt.ir.program import Program, Variable
from graphopt.runtime.settings.flags import full_traceback
from graphopt.runtime.state.arrays import Feed, FetchList

# A lower bound of the Python frames that tracing one level of a branch or loop needs.
_FRAMES_OF_A_LEVEL = 12
_COMPUTING = "while computing "
"""The prefix of a note on the failed operation, with a line of its type rule's message."""


def in_words(
    error: Exception, program: Program, feed: Feed, fetch_list: FetchList = None
) -> Exception:
    """Replace an error by a clearer one, if there is one."""
    if isinstance(error, FetchError):
        made = _of_another_program(error, program, fetch_list)
    else:
        made = _clearer(error, program, feed)
    if made is None:
        return error
    made.__cause__ = error if full_traceback() else None
    made.__suppress_context__ = True
    return made


def _clearer(error: Exception, program: Program, feed: Feed) -> GraphoptError | None:
    if isinstance(error, RecursionError):
        depth = _depth(program)
        # a program of less depth exceeds the limit for another reason
        return (
            _too_deep(depth) if depth * _FRAMES_OF_A_LEVEL * 3 > sys.getrecursionlimit() else None
        )
    wrong = unknown_names(program, feed)
    if isinstance(error, FeedError):
        return type(error)(f"{error}; {wrong}") if wrong else None
    operator, _ = _computing(error)
    if isinstance(error, ProgramError) and operator and operator not in str(error):
        return type(error)(f"{error} (while computing {operator})")
    if isinstance(error, (TypeError, ValueError)) and not isinstance(error, GraphoptError):
        return _misfit(error, feed)
    return None


def _of_another_program(
    error: FetchError, program: Program, fetch_list: FetchList
) -> FetchError | None:
    """Describe a fetched Variable that another program made, in place of a similar name."""
    for one in _variables_in(fetch_list):
        if f"({one.name})" in str(error) and one.block.program is not program:
            made = one.op and one.op.location
            at = f", made at {made}" if made else ""
            return FetchError(
                f"Cannot find fetched variable({one.name}): it is a variable of another program"
                f"{at}; run that program, or, if this one is a clone of it, clone it after that "
                "line"
            )
    return None


def _variables_in(fetch_list: object) -> Iterator[Variable]:
    if isinstance(fetch_list, Variable):
        yield fetch_list
    for one in fetch_list if isinstance(fetch_list, (list, tuple)) else ():
        yield from _variables_in(one)


def check_depth(program: Program) -> None:
    """Raise UnsupportedError for a program that would certainly exceed the recursion limit.

    A RecursionError comes late: each frame on the way adds to it.
    """
    depth = _depth(program)
    if depth * _FRAMES_OF_A_LEVEL > sys.getrecursionlimit():
        raise _too_deep(depth)


def unknown_names(program: Program, feed: Feed) -> str:
    """Describe fed names that are not variables, with the nearest variables."""
    block = program.global_block()
    names = dict.fromkeys(name for one in _dicts(feed) for name in one)
    return "; ".join(
        f"'{name}' was fed, which is not a variable of the program; {nearest(program, name)}"
        for name in names
        if isinstance(name, str) and block.find_var(name) is None
    )


def nearest(program: Program, name: str) -> str:
    """Suggest the data variable closest to a wrong name, or list all of them."""
    block = program.global_block()
    known = {k.lower(): k for k, variable in block.vars.items() if variable.is_data}
    close = get_close_matches(name.lower(), known, 1)
    if close:
        return f"did you mean '{known[close[0]]}'?"
    return f"the program takes {', '.join(known.values()) or 'no feeds'}"


def _dicts(feed: Feed) -> Iterator[Mapping[str, object]]:
    for one in feed if isinstance(feed, (list, tuple)) else [feed]:
        if isinstance(one, Mapping):
            yield one


def _misfit(error: Exception, feed: Feed) -> FeedError | None:
    """Describe feeds that an operator cannot compute with, although its type rule passed."""
    operator, said = _computing(error)
    if not operator or not (said or _is_of_jax(error)):
        return None
    shapes = {
        name: list(np.asarray(value).shape) for one in _dicts(feed) for name, value in one.items()
    }
    shown = ", ".join(f"'{name}' {shape}" for name, shape in shapes.items())
    rows = {shape[0] for shape in shapes.values() if shape}
    what = "have different numbers of rows" if len(rows) > 1 else "do not fit together"
    reason = said or (str(error).splitlines() or [""])[0]
    return FeedError(f"the feeds {what}: {shown}; {operator} cannot compute with them: {reason}")


def _computing(error: Exception) -> tuple[str, str]:
    """Read from the notes which operation raised, with its result and line; "" if none did.

    The second text is the type rule's objection to the actual sizes; "" if none.
    """
    notes = (note for note in getattr(error, "__notes__", ()) if note.startswith(_COMPUTING))
    first, _, objection = next(notes, "").partition("\n")
    return first.removeprefix(_COMPUTING), objection


def _is_of_jax(error: Exception) -> bool:
    """Return whether JAX raised an error; it may have removed its own frames."""
    if any("JAX has removed its internal frames" in n for n in getattr(error, "__notes__", ())):
        return True
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry is not None and entry.tb_frame.f_globals.get("__name__", "").startswith("jax")


def _depth(program: Program) -> int:
    deepest = 0
    for block in program.blocks:
        depth, parent = 0, block.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        deepest = max(deepest, depth)
    return deepest


def _too_deep(depth: int) -> UnsupportedError:
    return UnsupportedError(
        f"the program nests branches and loops {depth} deep, which exceeds Python's recursion "
        "limit; select values with paddle.where, or loop over the cases with while_loop"
    )
