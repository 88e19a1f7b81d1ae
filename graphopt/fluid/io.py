"""Saving and loading, loaders and readers (paddle.fluid.io)."""

from graphopt.fluid.data_feeder import DataFeeder as DataFeeder
from graphopt.fluid.reader import PyReader as PyReader
from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.io.loader import DataLoader as DataLoader
from graphopt.reader.decorator import ComposeNotAligned as ComposeNotAligned
from graphopt.reader.decorator import batch as batch
from graphopt.reader.decorator import buffered as buffered
from graphopt.reader.decorator import cache as cache
from graphopt.reader.decorator import chain as chain
from graphopt.reader.decorator import compose as compose
from graphopt.reader.decorator import firstn as firstn
from graphopt.reader.decorator import map_readers as map_readers
from graphopt.reader.decorator import multiprocess_reader as multiprocess_reader
from graphopt.reader.decorator import shuffle as shuffle
from graphopt.reader.decorator import xmap_readers as xmap_readers
from graphopt.static.variable_files import _clone_var_in_block_ as _clone_var_in_block_
from graphopt.static.variable_files import get_parameter_value as get_parameter_value
from graphopt.static.variable_files import (
    get_parameter_value_by_name as get_parameter_value_by_name,
)
from graphopt.static.variable_files import get_program_parameter as get_program_parameter
from graphopt.static.variable_files import (
    get_program_persistable_vars as get_program_persistable_vars,
)
from graphopt.static.variable_files import is_parameter as is_parameter
from graphopt.static.variable_files import is_persistable as is_persistable
from graphopt.static.variable_files import load_inference_model as load_inference_model
from graphopt.static.variable_files import load_params as load_params
from graphopt.static.variable_files import load_persistables as load_persistables
from graphopt.static.variable_files import load_vars as load_vars
from graphopt.static.variable_files import save_inference_model as save_inference_model
from graphopt.static.variable_files import save_params as save_params
from graphopt.static.variable_files import save_persistables as save_persistables
from graphopt.static.variable_files import save_vars as save_vars

_SAME = ("load", "load_program_state", "save", "set_program_state")

lazy.attach(
    globals(),
    {
        **{name: ("graphopt.static", name) for name in _SAME},
        "default_collate_fn": ("graphopt.io.collate", "default_collate_fn"),
    },
)
publish(globals(), __name__)
