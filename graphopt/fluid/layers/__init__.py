"""Layers under the names and with the semantics of 1.8 (paddle.fluid.layers).

`__init__.pyi` has the modules that define them. Names that graphopt refuses are functions that
raise with the reason, see `graphopt.fluid.refused`.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from graphopt.fluid import refused
from graphopt.frontend import lazy as _lazy
from graphopt.frontend.missing import public_names as _public_names

_NAMES = _lazy.names_in(Path(__file__).with_suffix(".pyi"), __name__)
_lazy.attach(globals(), _NAMES, refused=refused.LAYERS)
_lazy.keep_functions(__name__, _NAMES)
# modules and names that are not among 1.8's layers are no layers
_LAYERS = {name for name, (_, own) in _NAMES.items() if own} - {"Variable", "core"}
__all__ = sorted({*_LAYERS, *refused.LAYERS})  # pyright: ignore[reportUnsupportedDunderAll]


def _find(module: str, name: str) -> Any:
    """Find a layer for any module of 1.8; raise KeyError for another name."""
    if name == "__all__":
        return sorted(_public_names()[module] & set(__all__))
    if name not in __all__:
        raise KeyError(name)
    return getattr(sys.modules[__name__], name)


# Scripts import layers from the modules of 1.8; here, each of these modules has all layers.
for _name in (
    *("control_flow", "detection", "io", "loss", "metric_op", "nn", "ops", "rnn"),
    *("sequence_lod", "tensor"),
):
    _space = vars(import_module(f"{__name__}.{_name}"))  # the layer `rnn` hides a module
    _lazy.attach(_space, find=partial(_find, f"paddle.fluid.layers.{_name}"))
