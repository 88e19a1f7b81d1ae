"""Boxes that follow from sizes alone: the constants that the lowering computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.op import PdOp, call_rule
from graphopt.ir.dialect.ops.detection import boxes as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.lowering import rules as rules  # every rule is registered
from graphopt.lowering.registry import RULES
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


def _of_sizes(op_class: type[PdOp]) -> None:
    @exports(op_class)
    def rule(emit: Nodes, **values: Any) -> tuple[Value, ...]:
        given = dict(values)
        for name, value in values.items():
            if isinstance(value, Value):
                if UNKNOWN in sizes_of(value)[2:]:
                    raise NotInOnnx("its boxes depend on open sizes")
                shape = [max(size, 1) for size in sizes_of(value)]
                given[name] = np.zeros(shape, dtype_of(value).numpy)
        return tuple(emit.constant(np.array(each)) for each in call_rule(RULES[op_class], given))


_of_sizes(ops.PriorBox)
_of_sizes(ops.DensityPriorBox)
_of_sizes(ops.AnchorGenerator)
