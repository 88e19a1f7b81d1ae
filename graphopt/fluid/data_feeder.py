"""Feeds from rows, and checks of arguments (paddle.fluid.data_feeder)."""

from graphopt.frontend.data_feeder import DataFeeder as DataFeeder
from graphopt.frontend.data_feeder import check_dtype as check_dtype
from graphopt.frontend.data_feeder import check_type as check_type
from graphopt.frontend.data_feeder import check_variable_and_dtype as check_variable_and_dtype
from graphopt.frontend.data_feeder import convert_dtype as convert_dtype
from graphopt.frontend.missing import explain

explain(globals())
