"""Nested structures (paddle.fluid.layers.utils)."""

from graphopt.frontend.missing import explain
from graphopt.utils.layers_utils import _contain_var as _contain_var
from graphopt.utils.layers_utils import _is_symmetric_padding as _is_symmetric_padding
from graphopt.utils.layers_utils import assert_same_structure as assert_same_structure
from graphopt.utils.layers_utils import convert_to_list as convert_to_list
from graphopt.utils.layers_utils import copy_mutable_vars as copy_mutable_vars
from graphopt.utils.layers_utils import flatten as flatten
from graphopt.utils.layers_utils import hold_mutable_vars as hold_mutable_vars
from graphopt.utils.layers_utils import is_sequence as is_sequence
from graphopt.utils.layers_utils import map_structure as map_structure
from graphopt.utils.layers_utils import pack_sequence_as as pack_sequence_as

explain(globals())
