"""Tensors with sequence lengths (paddle.fluid.lod_tensor)."""

from graphopt.frontend.lod_tensor import LoDTensor as LoDTensor
from graphopt.frontend.lod_tensor import LoDTensorArray as LoDTensorArray
from graphopt.frontend.lod_tensor import create_lod_tensor as create_lod_tensor
from graphopt.frontend.lod_tensor import create_random_int_lodtensor as create_random_int_lodtensor
from graphopt.frontend.lod_tensor import lengths_between as lengths_between
from graphopt.frontend.missing import explain

explain(globals())
