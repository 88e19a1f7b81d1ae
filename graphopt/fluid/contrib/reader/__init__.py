"""Readers that Paddle 1.8 kept apart (paddle.fluid.contrib.reader)."""

from graphopt.fluid.contrib.reader import distributed_reader as distributed_reader
from graphopt.fluid.contrib.reader.distributed_reader import (
    distributed_batch_reader as distributed_batch_reader,
)
from graphopt.frontend.missing import explain as _explain

_explain(globals())
