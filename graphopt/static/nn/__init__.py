"""Layers as functions that make their own parameters (paddle.static.nn)."""

from graphopt.static.nn.callback import py_func as py_func
from graphopt.static.nn.common import batch_norm as batch_norm
from graphopt.static.nn.common import conv2d as conv2d
from graphopt.static.nn.common import embedding as embedding
from graphopt.static.nn.common import fc as fc
from graphopt.static.nn.common import layer_norm as layer_norm
