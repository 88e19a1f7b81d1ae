"""`import paddle` as graphopt, in the readers that a script starts."""

import importlib
import sys

from graphopt.frontend.paddle_names import PaddleFinder

sys.meta_path.insert(0, PaddleFinder())
del sys.modules[__name__]
importlib.import_module(__name__)
