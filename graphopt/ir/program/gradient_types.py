"""Operator types that are gradients of other operators, by Paddle's naming."""

from __future__ import annotations

import re

# The operator that the front end appends for a derivative (see ir/dialect/ops/grad.py).
GRAD_TYPE = "pd_grad"
# Its attribute that lists the checkpoints from which activations are recomputed.
RECOMPUTE = "checkpoints"
# Its attribute that lists the inputs read at their values before a loop.
BEFORE_LOOP = "before_loop"
# The attributes that name variables; a rename applies to them, too.
NAMING = (RECOMPUTE, BEFORE_LOOP, "op_role_var")
_GRADIENT_TYPE = re.compile(r"^(.+)_(?:grad|double_grad)(2?)$")


def forward_type(type: str) -> str | None:
    """Return the operator type that a gradient type differentiates; None for other types."""
    found = _GRADIENT_TYPE.match(type)
    if found is None or type == GRAD_TYPE:
        return None
    if found[0].endswith("_double_grad"):
        return f"{found[1]}_grad"
    return found[1] + found[2]
