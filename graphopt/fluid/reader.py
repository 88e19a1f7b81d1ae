"""Loaders of the batches of a generator (paddle.fluid.reader)."""

from graphopt.frontend import lazy
from graphopt.reader.loaders import DataLoaderBase as DataLoaderBase
from graphopt.reader.loaders import DatasetLoader as DatasetLoader
from graphopt.reader.loaders import GeneratorLoader as GeneratorLoader
from graphopt.reader.loaders import PyReader as PyReader
from graphopt.reader.loaders import keep_data_loader_order as keep_data_loader_order

_LATER = {"DataLoader": "graphopt.io.loader", "default_collate_fn": "graphopt.io.collate"}
lazy.attach(globals(), {name: (module, name) for name, module in _LATER.items()})
