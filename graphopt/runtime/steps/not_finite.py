"""FLAGS_check_nan_inf: the first value of a step that is not finite, reported by Paddle's names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import SSAValue

from graphopt.display.units import several
from graphopt.errors import NotFiniteError
from graphopt.ir.program import Program
from graphopt.ir.translate.blocks.block import value_name
from graphopt.lowering.finite import NotFinite, WatchedValue, order_of
from graphopt.runtime.settings.flags import nan_inf_level

Made = tuple[str, str]
"""An operator's type and the variable that it writes."""


def refuse_not_finite(wrong: Sequence[NotFinite], program: Program, module: ModuleOp) -> None:
    """Raise NotFiniteError for the first of these values; at a higher level warn of each.

    Later ones are mostly consequences of the first.
    """
    if not wrong:
        return
    if nan_inf_level() > 0:
        for value in wrong:
            warnings.warn(_text(value, program, module), RuntimeWarning, stacklevel=2)
        return
    more = f"; nor are {len(wrong) - 1} more after it" if wrong[1:] else ""
    raise NotFiniteError(
        # the message begins with Paddle's words, which scripts search for
        f"There are NAN or INF: {_text(wrong[0], program, module)}{more}. FLAGS_check_nan_inf is "
        "set, so the step stored nothing: the state is unchanged"
    )


def _text(wrong: NotFinite, program: Program, module: ModuleOp) -> str:
    value, where = wrong.value, _line(wrong.value.location)
    holds = f"{wrong.nans} NaN and {wrong.infinities} Inf among {several(wrong.size, 'element')}"
    if not value.operator:
        return f"the feed '{value.name}' holds {holds}"
    made = _find_makers(value, program, module)
    types = " or ".join(dict.fromkeys(type for type, _ in made)) or value.operator
    names = " or ".join(f"'{name}'" for _, name in made) or f"'{value.name}'"
    line = f", made at {where}" if where else ""
    return f"operator {types} writes {names}, which holds {holds}{line}"


def _line(location: Any) -> str:
    if not isinstance(location, FileLineColLoc):
        return ""
    return f"{location.filename.data}:{location.line.data}"


def _find_makers(value: WatchedValue, program: Program, module: ModuleOp) -> list[Made]:
    """Find the operators that may have written a value: several if only numbers differ.

    The IR does not keep the number at the end of a name. The operators of a line have the order of
    their ops, unless passes have removed some.
    """
    place = value.name, _line(value.location)
    made: list[Made] = []
    for block in program.blocks:
        for op in block.ops:
            where = str(op.location or "")
            found = [n for n in op.output_arg_names if (_hint(n), where) == place]
            made += [(op.type, name) for name in found]
    alike = [
        (number, position)
        for op, number in order_of(module).items()
        for position, result in enumerate(op.results)
        if (result.name_hint, _line(getattr(op, "location", None))) == place
    ]
    if len(alike) == len(made) and value.order in alike:
        return [made[alike.index(value.order)]]
    return made


def _hint(name: str) -> str | None:
    return SSAValue.extract_valid_name(value_name(name))
