"""State of programs in files (paddle.distributed.io), each process its own."""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend.calls import publish
from graphopt.static.variable_files import is_persistable as is_persistable
from graphopt.static.variable_files import load_inference_model as _load
from graphopt.static.variable_files import load_persistables as load_persistables
from graphopt.static.variable_files import save_persistables as save_persistables


def load_inference_model_distributed(
    dirname: str | None,
    executor: Any,
    model_filename: Any = None,
    params_filename: Any = None,
    pserver_endpoints: Any = None,
) -> list[Any]:
    """Read the files of an inference model: the program, feed names and target variables.

    Same as fluid.io.load_inference_model. UnsupportedError for `pserver_endpoints`: there are no
    parameter servers.
    """
    if pserver_endpoints is not None:
        raise UnsupportedError(
            "load_inference_model_distributed(): 'pserver_endpoints' is not supported: there are "
            "no parameter servers; leave it out"
        )
    return _load(dirname, executor, model_filename, params_filename)


publish(globals(), __name__)
