"""Layers as functions that create their own parameters (paddle.static.nn)."""

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.static.nn.callback import py_func as py_func
from graphopt.static.nn.common import batch_norm as batch_norm
from graphopt.static.nn.common import embedding as embedding
from graphopt.static.nn.common import fc as fc
from graphopt.static.nn.common import layer_norm as layer_norm
from graphopt.static.nn.control_flow import case as case
from graphopt.static.nn.control_flow import cond as cond
from graphopt.static.nn.control_flow import switch_case as switch_case
from graphopt.static.nn.control_flow import while_loop as while_loop
from graphopt.static.nn.conv import conv2d as conv2d
from graphopt.static.nn.conv import conv2d_transpose as conv2d_transpose
from graphopt.static.nn.conv import conv3d as conv3d
from graphopt.static.nn.conv import conv3d_transpose as conv3d_transpose
from graphopt.static.nn.conv import deform_conv2d as deform_conv2d
from graphopt.static.nn.mapping import bilinear_tensor_product as bilinear_tensor_product
from graphopt.static.nn.mapping import nce as nce
from graphopt.static.nn.mapping import prelu as prelu
from graphopt.static.nn.mapping import row_conv as row_conv
from graphopt.static.nn.mapping import sparse_embedding as sparse_embedding
from graphopt.static.nn.norm import data_norm as data_norm
from graphopt.static.nn.norm import group_norm as group_norm
from graphopt.static.nn.norm import instance_norm as instance_norm
from graphopt.static.nn.norm import spectral_norm as spectral_norm
from graphopt.static.nn.pylayer import static_pylayer as static_pylayer

# the layers for sequences of different lengths, which 1.8 also has
_SEQUENCES = (
    *("sequence_concat", "sequence_conv", "sequence_enumerate", "sequence_expand"),
    *("sequence_expand_as", "sequence_first_step", "sequence_last_step", "sequence_pad"),
    *("sequence_pool", "sequence_reshape", "sequence_reverse", "sequence_scatter"),
    *("sequence_slice", "sequence_softmax", "sequence_unpad"),
)
lazy.attach(
    globals(),
    {
        **{name: ("graphopt.fluid.layers.sequence_lod", name) for name in _SEQUENCES},
        "continuous_value_model": ("graphopt.static.click_rates", "continuous_value_model"),
        "sequence_lod": ("graphopt.fluid.layers.sequence_lod", ""),
    },
)
publish(globals(), __name__)
