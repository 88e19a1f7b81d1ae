"""`import paddle` as graphopt, in the readers that a script starts; this is on their path."""

import importlib
import sys

if __name__ == "paddle":
    from graphopt.frontend.paddle_names import PaddleFinder

    sys.meta_path.insert(0, PaddleFinder())
    del sys.modules[__name__]
    importlib.import_module(__name__)
