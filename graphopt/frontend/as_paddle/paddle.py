"""`import paddle` as graphopt, in the readers that a script starts."""

import importlib
import sys

from graphopt.frontend.paddle_names import PaddleFinder

sys.meta_path.insert(0, PaddleFinder())
sys.modules["paddle"] = importlib.import_module("graphopt")
