"""Attributes of parameters (paddle.fluid.param_attr)."""

from graphopt.frontend.missing import explain
from graphopt.frontend.parameters import ParamAttr as ParamAttr
from graphopt.frontend.parameters import WeightNormParamAttr as WeightNormParamAttr

explain(globals())
