"""Building and running programs (paddle.static)."""

from collections.abc import Mapping

from graphopt.frontend import lazy as _lazy
from graphopt.frontend.backward import append_backward as append_backward
from graphopt.frontend.backward import gradients as gradients
from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain_members as _explain_members
from graphopt.frontend.mode import device_guard as device_guard
from graphopt.frontend.mode import name_scope as name_scope
from graphopt.frontend.parameters import WeightNormParamAttr as WeightNormParamAttr
from graphopt.ir.program import Program as Program
from graphopt.ir.program import Variable as Variable
from graphopt.ir.program import default_main_program as default_main_program
from graphopt.ir.program import default_startup_program as default_startup_program
from graphopt.ir.program import program_guard as program_guard
from graphopt.metric import accuracy as accuracy
from graphopt.metric import auc as auc
from graphopt.runtime.compiled_program import CompiledProgram as CompiledProgram
from graphopt.runtime.devices.places import cpu_places as cpu_places
from graphopt.runtime.devices.places import cuda_places as cuda_places
from graphopt.runtime.executor import Executor as Executor
from graphopt.runtime.parallel_executor import ParallelExecutor as ParallelExecutor
from graphopt.runtime.settings.strategies import BuildStrategy as BuildStrategy
from graphopt.runtime.settings.strategies import ExecutionStrategy as ExecutionStrategy
from graphopt.runtime.state.scope import Scope as Scope
from graphopt.runtime.state.scope import global_scope as global_scope
from graphopt.runtime.state.scope import scope_guard as scope_guard
from graphopt.static import nn as nn
from graphopt.static.debug import Print as Print
from graphopt.static.input import InputSpec as InputSpec
from graphopt.static.input import data as data
from graphopt.static.io import deserialize_persistables as deserialize_persistables
from graphopt.static.io import deserialize_program as deserialize_program
from graphopt.static.io import load_from_file as load_from_file
from graphopt.static.io import load_inference_model as load_inference_model
from graphopt.static.io import normalize_program as normalize_program
from graphopt.static.io import save_inference_model as save_inference_model
from graphopt.static.io import save_to_file as save_to_file
from graphopt.static.io import serialize_persistables as serialize_persistables
from graphopt.static.io import serialize_program as serialize_program
from graphopt.static.moving_average import ExponentialMovingAverage as ExponentialMovingAverage
from graphopt.static.nn.callback import py_func as py_func
from graphopt.static.state import load as load
from graphopt.static.state import load_program_state as load_program_state
from graphopt.static.state import save as save
from graphopt.static.state import set_program_state as set_program_state
from graphopt.tensor.creation import create_global_var as create_global_var
from graphopt.tensor.creation import create_parameter as create_parameter
from graphopt.tensor.indexing import set_item

setitem = set_item

_explain_members(Executor, "paddle.static.Executor")
_FLUID_IO = ("load_vars", "save_vars")
_REFUSED: Mapping[str, _lazy.Refusal] = {
    **dict.fromkeys(
        ("IpuCompiledProgram", "IpuStrategy", "ipu_shard_guard", "set_ipu_shard"),
        ("JAX has no backend for an IPU", "static.CompiledProgram"),
    ),
    "xpu_places": ("JAX has no backend for an XPU", "static.cpu_places or static.cuda_places"),
}
_NAMES = {name: ("graphopt.fluid.io", name) for name in _FLUID_IO}
# imported late, since its optimizers import this package
_NAMES["ctr_metric_bundle"] = ("graphopt.static.click_rates", "ctr_metric_bundle")
_NAMES["amp"] = ("graphopt.static.amp", "")
_lazy.attach(globals(), _NAMES, refused=_REFUSED)
publish(globals(), __name__)
