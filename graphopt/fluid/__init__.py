"""The API of Paddle 1.8 (paddle.fluid) for static programs, over the later front end.

These files hold the differences from `paddle.static`; there is no dynamic mode.
"""

from __future__ import annotations

from graphopt.device import is_compiled_with_cuda as is_compiled_with_cuda
from graphopt.fluid import average as average
from graphopt.fluid import backward as backward
from graphopt.fluid import clip as clip
from graphopt.fluid import compiler as compiler
from graphopt.fluid import contrib as contrib
from graphopt.fluid import core as core
from graphopt.fluid import dataset as dataset
from graphopt.fluid import evaluator as evaluator
from graphopt.fluid import executor as executor
from graphopt.fluid import framework as framework
from graphopt.fluid import incubate as incubate
from graphopt.fluid import initializer as initializer
from graphopt.fluid import install_check as install_check
from graphopt.fluid import io as io
from graphopt.fluid import layer_helper as layer_helper
from graphopt.fluid import layers as layers
from graphopt.fluid import lod_tensor as lod_tensor
from graphopt.fluid import metrics as metrics
from graphopt.fluid import nets as nets
from graphopt.fluid import optimizer as optimizer
from graphopt.fluid import parallel_executor as parallel_executor
from graphopt.fluid import param_attr as param_attr
from graphopt.fluid import profiler as profiler
from graphopt.fluid import proto as proto
from graphopt.fluid import regularizer as regularizer
from graphopt.fluid import transpiler as transpiler
from graphopt.fluid import unique_name as unique_name
from graphopt.fluid import wrapped_decorator as wrapped_decorator
from graphopt.fluid.backward import append_backward as append_backward
from graphopt.fluid.backward import gradients as gradients
from graphopt.fluid.compiler import BuildStrategy as BuildStrategy
from graphopt.fluid.compiler import CompiledProgram as CompiledProgram
from graphopt.fluid.compiler import ExecutionStrategy as ExecutionStrategy
from graphopt.fluid.core import CPUPlace as CPUPlace
from graphopt.fluid.core import CUDAPinnedPlace as CUDAPinnedPlace
from graphopt.fluid.core import CUDAPlace as CUDAPlace
from graphopt.fluid.core import DenseTensor as DenseTensor
from graphopt.fluid.core import DenseTensorArray as DenseTensorArray
from graphopt.fluid.core import LoDTensor as LoDTensor
from graphopt.fluid.core import LoDTensorArray as LoDTensorArray
from graphopt.fluid.core import ParallelExecutor as ParallelExecutor
from graphopt.fluid.core import Scope as Scope
from graphopt.fluid.core import XPUPlace as XPUPlace
from graphopt.fluid.data import data as data
from graphopt.fluid.data_feeder import DataFeeder as DataFeeder
from graphopt.fluid.dataset import DatasetFactory as DatasetFactory
from graphopt.fluid.dataset import InMemoryDataset as InMemoryDataset
from graphopt.fluid.dataset import QueueDataset as QueueDataset
from graphopt.fluid.executor import Executor as Executor
from graphopt.fluid.executor import global_scope as global_scope
from graphopt.fluid.executor import scope_guard as scope_guard
from graphopt.fluid.framework import Program as Program
from graphopt.fluid.framework import Variable as Variable
from graphopt.fluid.framework import cpu_places as cpu_places
from graphopt.fluid.framework import cuda_places as cuda_places
from graphopt.fluid.framework import default_main_program as default_main_program
from graphopt.fluid.framework import default_startup_program as default_startup_program
from graphopt.fluid.framework import device_guard as device_guard
from graphopt.fluid.framework import get_flags as get_flags
from graphopt.fluid.framework import in_dygraph_mode as in_dygraph_mode
from graphopt.fluid.framework import in_dynamic_or_pir_mode as in_dynamic_or_pir_mode
from graphopt.fluid.framework import in_pir_mode as in_pir_mode
from graphopt.fluid.framework import name_scope as name_scope
from graphopt.fluid.framework import program_guard as program_guard
from graphopt.fluid.framework import require_version as require_version
from graphopt.fluid.framework import set_flags as set_flags
from graphopt.fluid.input import embedding as embedding
from graphopt.fluid.input import one_hot as one_hot
from graphopt.fluid.lod_tensor import create_lod_tensor as create_lod_tensor
from graphopt.fluid.lod_tensor import create_random_int_lodtensor as create_random_int_lodtensor
from graphopt.fluid.param_attr import ParamAttr as ParamAttr
from graphopt.fluid.param_attr import WeightNormParamAttr as WeightNormParamAttr
from graphopt.fluid.refused import FLUID as _REFUSED
from graphopt.fluid.transpiler import DistributeTranspiler as DistributeTranspiler
from graphopt.fluid.transpiler import DistributeTranspilerConfig as DistributeTranspilerConfig
from graphopt.fluid.transpiler import memory_optimize as memory_optimize
from graphopt.fluid.transpiler import release_memory as release_memory
from graphopt.frontend import lazy as _lazy
from graphopt.frontend.calls import publish
from graphopt.frontend.mode import disable_static, enable_static
from graphopt.nn.layer.layers import Layer as Layer

Tensor = LoDTensor

_SAME = ("save", "load", "load_program_state", "set_program_state")
_NAMES = {name: ("graphopt.static", name) for name in _SAME}
_NAMES["set_global_initializer"] = ("graphopt.fluid.initializer", "set_global_initializer")
# imported last, since it imports this package's other modules
_NAMES["default_scope_funcs"] = ("graphopt.fluid.default_scope_funcs", "")
_NAMES["dygraph"] = ("graphopt.fluid.dygraph", "")
# the library that 1.8 imports on processors with AVX
_NAMES["core_avx"] = ("graphopt.fluid.core", "")
_lazy.attach(globals(), _NAMES, refused=_REFUSED)
_lazy.keep_functions(__name__)
# the mode's other names
enable_dygraph = enable_imperative = disable_static
disable_dygraph = disable_imperative = enable_static

publish(globals(), __name__)
