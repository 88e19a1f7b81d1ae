"""Messages of saved programs (paddle.fluid.proto)."""

from graphopt.fluid.proto import framework_pb2 as framework_pb2
