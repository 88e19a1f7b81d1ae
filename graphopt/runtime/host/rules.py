"""Quick NumPy rules of the ops that take most of the time of networks.

Every other op is computed by its reference rule. Rules are called like those: operands by field
name and properties by name, floating-point operands in the dtype that is declared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import activation, conv
from graphopt.ir.dialect.ops import math as arithmetic
from graphopt.reference.registry import RULES, Rule
from graphopt.runtime.host.convolution import conv2d, conv2d_transpose, depthwise_conv2d
from graphopt.runtime.host.error_function import erf as quick_erf

Array: TypeAlias = "np.ndarray[Any, Any]"


def relu(x: Array) -> Array:
    found = np.fmax(x, 0)  # 0 for NaN, as Paddle has it
    found += np.zeros((), x.dtype)  # and for -0
    return found


def hardswish(x: Array) -> Array:
    gate = np.clip(x + 3, 0, 6)
    gate *= x
    gate /= 6
    return gate


def erf(x: Array) -> Array:
    return quick_erf(x) if x.dtype == np.float32 else RULES[arithmetic.Erf](x=x)


def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        cubic = x * x * x
        cubic *= 0.044715
        cubic += x
        gate = np.tanh(cubic * math.sqrt(2 / math.pi))
    else:
        gate = erf(x * math.sqrt(0.5))
    gate += 1
    gate *= 0.5  # before x, of which the double may overflow
    gate *= x
    return gate


QUICK: Mapping[type[PdOp], Rule] = {
    activation.Gelu: gelu,
    activation.Hardswish: hardswish,
    activation.Relu: relu,
    arithmetic.Erf: erf,
    conv.Conv2d: conv2d,
    conv.Conv2dTranspose: conv2d_transpose,
    conv.DepthwiseConv2d: depthwise_conv2d,
}
