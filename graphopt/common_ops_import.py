"""Names that modules of layers import (paddle.common_ops_import)."""

from __future__ import annotations

from graphopt.fluid.data_feeder import check_dtype as check_dtype
from graphopt.fluid.data_feeder import check_type as check_type
from graphopt.fluid.data_feeder import check_variable_and_dtype as check_variable_and_dtype
from graphopt.fluid.data_feeder import convert_dtype as convert_dtype
from graphopt.fluid.framework import in_dygraph_mode as in_dygraph_mode
from graphopt.fluid.layer_helper import LayerHelper as LayerHelper
from graphopt.frontend.parameters import ParamAttr as ParamAttr
from graphopt.ir.program import Variable as Variable
from graphopt.ir.program import default_main_program as default_main_program
from graphopt.ir.program import default_startup_program as default_startup_program
