"""Names of paddle that compiled static programs cannot have: the reason, and a replacement.

A name of the table exists, so that scripts which mention it still start; calling it raises
UnsupportedError, which is a NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphopt.frontend.absent import Absent, absent

_DYNAMIC = "it belongs to dynamic mode, which graphopt does not have"
_CUDA = "random numbers do not come from CUDA's generators here"
_STATELESS = "random numbers follow from a seed and the number of the run"
_VALUES = "a variable has no values before the program runs"

# name in paddle -> the reason for the refusal, the replacement
NAMES: Mapping[str, tuple[str, str]] = {
    "DataParallel": (_DYNAMIC, "static.CompiledProgram(program).with_data_parallel(loss_name)"),
    "grad": (_DYNAMIC, "static.gradients(targets, inputs)"),
    "get_cuda_rng_state": (_CUDA, "paddle.seed(n)"),
    "set_cuda_rng_state": (_CUDA, "paddle.seed(n)"),
    "get_rng_state": (_STATELESS, "paddle.seed(n)"),
    "set_rng_state": (_STATELESS, "paddle.seed(n)"),
    "tolist": (_VALUES, "exe.run(fetch_list=[x]), and tolist() of the array"),
}


def refuse(space: str, name: str, table: Mapping[str, tuple[str, str]]) -> Absent:
    """Create the placeholder class for a refused name; it raises UnsupportedError when called."""
    reason, instead = table[name]
    return absent(name, f"{space}.{name} is not supported: {reason}. Instead: {instead}")
