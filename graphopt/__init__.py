"""graphopt: Paddle's static-graph API as an optimising compiler; `import graphopt as paddle`."""

from graphopt import device as device
from graphopt import metric as metric
from graphopt import nn as nn
from graphopt import optimizer as optimizer
from graphopt import regularizer as regularizer
from graphopt import static as static
from graphopt import utils as utils
from graphopt.device import get_cudnn_version as get_cudnn_version
from graphopt.device import get_device as get_device
from graphopt.device import is_compiled_with_cuda as is_compiled_with_cuda
from graphopt.device import is_compiled_with_rocm as is_compiled_with_rocm
from graphopt.device import is_compiled_with_xpu as is_compiled_with_xpu
from graphopt.device import set_device as set_device
from graphopt.framework import disable_static as disable_static
from graphopt.framework import enable_static as enable_static
from graphopt.framework import get_default_dtype as get_default_dtype
from graphopt.framework import in_dynamic_mode as in_dynamic_mode
from graphopt.framework import seed as seed
from graphopt.framework import set_default_dtype as set_default_dtype
from graphopt.ir.dtypes import DType, bool_
from graphopt.ir.dtypes import bfloat16 as bfloat16
from graphopt.ir.dtypes import complex64 as complex64
from graphopt.ir.dtypes import complex128 as complex128
from graphopt.ir.dtypes import float16 as float16
from graphopt.ir.dtypes import float32 as float32
from graphopt.ir.dtypes import float64 as float64
from graphopt.ir.dtypes import int8 as int8
from graphopt.ir.dtypes import int16 as int16
from graphopt.ir.dtypes import int32 as int32
from graphopt.ir.dtypes import int64 as int64
from graphopt.ir.dtypes import uint8 as uint8
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import sigmoid as sigmoid
from graphopt.param_attr import ParamAttr as ParamAttr
from graphopt.runtime import CPUPlace as CPUPlace
from graphopt.runtime import CUDAPinnedPlace as CUDAPinnedPlace
from graphopt.runtime import CUDAPlace as CUDAPlace
from graphopt.runtime import TPUPlace as TPUPlace
from graphopt.runtime import XPUPlace as XPUPlace
from graphopt.tensor.attribute import is_complex as is_complex
from graphopt.tensor.attribute import is_floating_point as is_floating_point
from graphopt.tensor.attribute import is_integer as is_integer
from graphopt.tensor.attribute import is_tensor as is_tensor
from graphopt.tensor.attribute import rank as rank
from graphopt.tensor.attribute import shape as shape
from graphopt.tensor.creation import assign as assign
from graphopt.tensor.creation import clone as clone
from graphopt.tensor.creation import create_parameter as create_parameter
from graphopt.tensor.creation import full as full
from graphopt.tensor.creation import full_like as full_like
from graphopt.tensor.creation import ones as ones
from graphopt.tensor.creation import ones_like as ones_like
from graphopt.tensor.creation import to_tensor as to_tensor
from graphopt.tensor.creation import zeros as zeros
from graphopt.tensor.creation import zeros_like as zeros_like
from graphopt.tensor.linalg import bmm as bmm
from graphopt.tensor.linalg import matmul as matmul
from graphopt.tensor.linalg import mm as mm
from graphopt.tensor.linalg import t as t
from graphopt.tensor.linalg import transpose as transpose
from graphopt.tensor.logic import equal as equal
from graphopt.tensor.logic import greater_equal as greater_equal
from graphopt.tensor.logic import greater_than as greater_than
from graphopt.tensor.logic import less_equal as less_equal
from graphopt.tensor.logic import less_than as less_than
from graphopt.tensor.logic import logical_and as logical_and
from graphopt.tensor.logic import logical_not as logical_not
from graphopt.tensor.logic import logical_or as logical_or
from graphopt.tensor.logic import not_equal as not_equal
from graphopt.tensor.manipulation import broadcast_to as broadcast_to
from graphopt.tensor.manipulation import cast as cast
from graphopt.tensor.manipulation import chunk as chunk
from graphopt.tensor.manipulation import concat as concat
from graphopt.tensor.manipulation import expand as expand
from graphopt.tensor.manipulation import flatten as flatten
from graphopt.tensor.manipulation import gather as gather
from graphopt.tensor.manipulation import reshape as reshape
from graphopt.tensor.manipulation import reshape_ as reshape_
from graphopt.tensor.manipulation import slice as slice
from graphopt.tensor.manipulation import split as split
from graphopt.tensor.manipulation import squeeze as squeeze
from graphopt.tensor.manipulation import squeeze_ as squeeze_
from graphopt.tensor.manipulation import stack as stack
from graphopt.tensor.manipulation import unsqueeze as unsqueeze
from graphopt.tensor.manipulation import unsqueeze_ as unsqueeze_
from graphopt.tensor.math import abs as abs
from graphopt.tensor.math import add as add
from graphopt.tensor.math import add_n as add_n
from graphopt.tensor.math import clip as clip
from graphopt.tensor.math import cumsum as cumsum
from graphopt.tensor.math import divide as divide
from graphopt.tensor.math import erf as erf
from graphopt.tensor.math import exp as exp
from graphopt.tensor.math import increment as increment
from graphopt.tensor.math import log as log
from graphopt.tensor.math import max as max
from graphopt.tensor.math import maximum as maximum
from graphopt.tensor.math import min as min
from graphopt.tensor.math import minimum as minimum
from graphopt.tensor.math import multiply as multiply
from graphopt.tensor.math import neg as neg
from graphopt.tensor.math import pow as pow
from graphopt.tensor.math import prod as prod
from graphopt.tensor.math import rsqrt as rsqrt
from graphopt.tensor.math import scale as scale
from graphopt.tensor.math import sqrt as sqrt
from graphopt.tensor.math import square as square
from graphopt.tensor.math import subtract as subtract
from graphopt.tensor.math import sum as sum
from graphopt.tensor.math import tanh as tanh
from graphopt.tensor.methods import attach as _attach
from graphopt.tensor.random import normal as normal
from graphopt.tensor.random import rand as rand
from graphopt.tensor.random import randn as randn
from graphopt.tensor.random import standard_normal as standard_normal
from graphopt.tensor.random import uniform as uniform
from graphopt.tensor.search import argmax as argmax
from graphopt.tensor.search import topk as topk
from graphopt.tensor.search import where as where
from graphopt.tensor.stat import mean as mean
from graphopt.tensor.stat import std as std
from graphopt.tensor.stat import var as var

__version__ = "0.1.0"

dtype = DType
bool = bool_
# a script's tensors are the variables of its programs
Tensor = Variable
# in a static program the in-place form makes a new variable, as in Paddle
tanh_ = tanh

_attach()
