"""Pipelines as text: the passes that `-p`, replay files and `passes=` name.

The form is xDSL's, `fuse-bn-act,roll-layers{fewest=3}`; the passes may stand in
`builtin.module(...)`, as mlir-opt has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from graphopt.passes.table.registry import all_passes

_NESTED = re.compile(r"\s*builtin\.module\((.*)\)\s*", re.DOTALL)


def passes_of(text: str) -> tuple[ModulePass, ...]:
    """Parse a pipeline text into its passes, in order.

    Raise ValueError for a text of another form, an unknown pass (with the nearest name), or an
    option that a pass does not have.
    """
    nested = _NESTED.fullmatch(text)
    if nested is not None:
        text = nested[1]
    if not text.strip():
        return ()
    known = all_passes()
    try:
        specs = tuple(parse_pipeline(text))
        check_names((spec.name for spec in specs), known)
        return tuple(known[spec.name]().from_pass_spec(spec) for spec in specs)
    except ArgSpecParseError as error:  # not an Exception in xDSL
        raise ValueError(f"the pipeline '{text}' is not of the form a,b{{x=1}}: {error}") from None


def check_names(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for the first unknown name, with the nearest known one."""
    known = list(known)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"no pass is named {name!r}{hint}")
