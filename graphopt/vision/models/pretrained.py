"""Weights of models from local files: nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

from graphopt.errors import UnsupportedError
from graphopt.frontend.framework_io import load
from graphopt.ir.program import default_startup_program
from graphopt.nn.layer.layers import Layer

# Paddle's folder of downloads
WEIGHTS_HOME = os.path.expanduser("~/.cache/paddle/hapi/weights")

Model = TypeVar("Model", bound=Layer)


def with_weights(model: Model, arch: str, file: str, pretrained: bool | str) -> Model:
    """Load the weights of a model from its own file (`pretrained` True) or from a path.

    `pretrained` False returns the model unchanged. The weights go into the global scope, and the
    startup program does not overwrite them. Raises FileNotFoundError that names the file to put
    there, UnsupportedError for a model that Paddle has no weights for, ValueError for a file that
    lacks some weights.
    """
    if not pretrained:
        return model
    if pretrained is True and not file:
        raise UnsupportedError(
            f"{arch}(): Paddle has no weights for this model. Instead: pretrained=False, or the "
            "path of a .pdparams file"
        )
    path = Path(WEIGHTS_HOME, file) if pretrained is True else Path(pretrained)
    if not path.is_file():
        raise FileNotFoundError(
            f"{arch}(): put {path.name}, as Paddle has it, at {path}; graphopt downloads nothing"
        )
    state: Any = load(str(path))
    missing, _ = model.set_state_dict(state)
    if missing:
        raise ValueError(f"{arch}(): {path} has no weights for {', '.join(missing[:3])}")
    _keep(model)
    return model


def _keep(model: Layer) -> None:
    """Remove the operators that set the model's variables from the startup program."""
    names = {variable.name for variable in model.state_dict().values()}
    block = default_startup_program().global_block()
    for index in reversed(range(len(block.ops))):
        if names & set(block.ops[index].output_arg_names):
            block._remove_op(index)
