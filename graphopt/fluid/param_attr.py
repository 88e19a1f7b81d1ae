"""Attributes of parameters (paddle.fluid.param_attr)."""

from graphopt.param_attr import ParamAttr as ParamAttr
from graphopt.param_attr import WeightNormParamAttr as WeightNormParamAttr
