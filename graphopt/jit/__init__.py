"""Programs traced from functions and layers (paddle.jit)."""

from graphopt.frontend.calls import publish
from graphopt.jit.saving import save as save
from graphopt.jit.settings import enable_to_static as enable_to_static
from graphopt.jit.settings import set_code_level as set_code_level
from graphopt.jit.settings import set_verbosity as set_verbosity
from graphopt.jit.static_function import ignore_module as ignore_module
from graphopt.jit.static_function import not_to_static as not_to_static
from graphopt.jit.static_function import to_static as to_static
from graphopt.jit.traced_layer import TracedLayer as TracedLayer
from graphopt.jit.translated_layer import TranslatedLayer as TranslatedLayer
from graphopt.jit.translated_layer import load as load

publish(globals(), __name__)
