"""Names of paddle.fluid that graphopt lacks: the reason for each, and a replacement.

A name of the table exists, so that programs which import it still start; calling it raises
UnsupportedError, which is a NotImplementedError. The documentation lists this table.
"""

from __future__ import annotations

_READER = "it reads data inside the program, where graphopt has only feeds"

# name in fluid.layers -> the reason for the refusal, the replacement
LAYERS: dict[str, tuple[str, str]] = {
    "load": (_READER, "fluid.io.load_vars, or set the value in the scope"),
}

# name in fluid -> the reason for the refusal, the replacement
FLUID: dict[str, tuple[str, str]] = {
    "DataFeedDesc": (_READER, "fluid.DatasetFactory, with set_use_var"),
    "load_op_library": ("it loads operators compiled for Paddle", "functions of fluid.layers"),
    "cuda_pinned_places": ("XLA decides where the host keeps data", "fluid.cpu_places"),
}
