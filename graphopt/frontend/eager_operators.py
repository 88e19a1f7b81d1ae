"""The operators of dynamic mode, which packages import where they also support it (paddle._C_ops).

They can be imported and mentioned; a call is refused, as programs are static.
"""

from __future__ import annotations

from graphopt.frontend.absent import AbsentModule

_WORDS = (
    "graphopt runs static programs only and has no paddle.{name}, the operators of dynamic mode. "
    "Instead: the functions of paddle, or LayerHelper.append_op where paddle.in_dynamic_mode() is "
    "false"
)
_C_ops, _legacy_C_ops = (
    AbsentModule(f"paddle.{name}", _WORDS.format(name=name)) for name in ("_C_ops", "_legacy_C_ops")
)
