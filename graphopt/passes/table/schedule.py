"""The schedule: the rows that apply, and the steps in which their passes run.

The pass manager runs these steps, `graphopt bisect` searches among them. The fusions of a program
share one sweep, with a clean-up before and after it.
"""

from __future__ import annotations

from xdsl.passes import ModulePass
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from graphopt.passes.engine.crash import PassStep
from graphopt.passes.engine.fusion import FusionPass
from graphopt.passes.table.added import FLAG
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.order import ROWS, Phase, Row
from graphopt.passes.table.pipeline import check_names

# the stages that BuildStrategy.debug_graphviz_path keeps, by Paddle's names
ORIGINAL, FUSED, LAST = "_original_graph", "_fused_graph", "_multi_devices_graph"


def select(context: PassContext) -> list[tuple[Row, ModulePass]]:
    """Select the rows that apply, each with its pass, in order.

    Raise ValueError when `context.without` names no pass of the table.
    """
    check_names(context.without, (row.pass_name for row in ROWS))
    return [
        (row, row.load()(**row.options(context)))
        for row in ROWS
        if row.pass_name not in context.without and row.when.holds(context)
    ]


def steps(context: PassContext) -> list[PassStep]:
    """Build the steps for a program with this context, in order.

    Raise ValueError when `context.without` names no pass of the table.
    """
    chosen = select(context)
    found: list[PassStep] = []
    for phase in Phase:
        rows = [(made, row.flag) for row, made in chosen if row.phase is phase]
        if phase is Phase.FUSE:
            # unread ops would look like other readers of a pattern's values
            found.append(_clean_up())
            if rows:
                passes, flags = zip(*rows, strict=True)
                found.append(PassStep(passes, together=True, flags=flags))
            found.append(_clean_up(FUSED))
            found += [
                PassStep((made,), together=isinstance(made, FusionPass), flags=(FLAG,))
                for made in context.added
            ]
        else:
            found += [PassStep((made,), flags=(flag,)) for made, flag in rows]
    return found


def _clean_up(dump: str = "") -> PassStep:
    """Build the step that removes ops without readers."""
    return PassStep((DeadCodeElimination(),), dump=dump)
