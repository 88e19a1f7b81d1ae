"""The part of fluid.dygraph for static programs: programs traced from functions.

Dynamic mode itself is refused: its other names exist, and raise UnsupportedError when called.
"""

from typing import Any

from graphopt.fluid.dygraph import jit as jit
from graphopt.fluid.dygraph.jit import TracedLayer as TracedLayer
from graphopt.fluid.dygraph.jit import TranslatedLayer as TranslatedLayer
from graphopt.fluid.dygraph.jit import declarative as declarative
from graphopt.fluid.dygraph.jit import dygraph_to_static_func as dygraph_to_static_func
from graphopt.fluid.dygraph.jit import set_code_level as set_code_level
from graphopt.fluid.dygraph.jit import set_verbosity as set_verbosity
from graphopt.frontend.absent import absent
from graphopt.frontend.calls import publish
from graphopt.jit.settings import ProgramTranslator as ProgramTranslator
from graphopt.nn.layer.layers import Layer as Layer

publish(globals(), __name__)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"graphopt.fluid.dygraph has no '{name}'", name=name)
    return absent(
        name,
        f"graphopt has no fluid.dygraph.{name}: it runs static programs only. Instead: "
        "fluid.layers and fluid.Executor, or a function of paddle.jit.to_static",
    )
