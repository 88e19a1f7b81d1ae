"""Values of parameters in half precision, in a scope."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from graphopt.ir.dtypes import DType
from graphopt.ir.program import Program, Variable
from graphopt.runtime.state.scope import Scope, global_scope


def cast_values(
    program: Program,
    names: Collection[str],
    dtype: DType,
    scope: Scope | None = None,
    masters: Mapping[str, Variable] | None = None,
) -> None:
    """Round the values of parameters to `dtype`; `masters` get the rounded values too.

    Raises ValueError for a parameter without a value: the startup program must run first.
    """
    place = scope or global_scope()
    for parameter in program.all_parameters():
        if parameter.name not in names:
            continue
        slot = place.find_var(parameter.name)
        if slot is None or not slot.is_initialized():
            raise ValueError(
                f"the parameter '{parameter.name}' has no value to cast: run the startup program "
                "before amp_init"
            )
        rounded = np.asarray(slot.numpy(), dtype.numpy)
        slot.put(rounded)
        master = (masters or {}).get(parameter.name)
        if master is not None:
            place.var(master.name).put(rounded.astype(np.float32))
