"""Records the operators of an installed Paddle: their slots, and the kinds of their attributes.

Run by Paddle's Python; prints the table that `graphopt/fluid/op_protos.txt` holds, for the types
that are read from standard input, one a line:

    python -c "from graphopt.fluid.op import Operator; print(*Operator.types(), sep='\\n')" |
        PADDLE_PYTHON tests/frontend/record_op_protos.py > graphopt/fluid/op_protos.txt
"""

import sys

from paddle.base import core  # pyright: ignore[reportMissingImports]
from paddle.base.proto import framework_pb2  # pyright: ignore[reportMissingImports]

LEFT_OUT = (
    "op_role",
    "op_role_var",
    "op_namescope",
    "op_callstack",
    "op_device",
    "with_quant_attr",
)


def main() -> None:
    wanted = set(sys.stdin.read().split())
    protos = [framework_pb2.OpProto.FromString(bytes(p)) for p in core.get_all_op_protos()]
    for proto in sorted((p for p in protos if p.type in wanted), key=lambda p: p.type):
        inputs, outputs = (
            [s.name + "*" * s.duplicable + "?" * (s.dispensable or s.intermediate) for s in slots]
            for slots in (proto.inputs, proto.outputs)
        )
        attrs = [f"{a.name}={a.type}" for a in proto.attrs if a.name not in LEFT_OUT]
        print(proto.type, *inputs, "->", *outputs, ":", *attrs)


if __name__ == "__main__":
    main()
