"""`@prepare` as steps of NumPy, where all its ops have a rule there.

`@prepare` mostly transposes and scales weights, once. That is milliseconds of work, for which XLA
would compile for a second or two, one kernel for each weight. Nothing here imports JAX.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Add, Multiply, Rsqrt, Scale, Subtract
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.signature import prepare_function
from graphopt.ir.dialect.traits import Movement, keeps_order
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.lowering.host_steps import HostSteps, Step


def host_steps(module: ModuleOp) -> HostSteps | None:
    """Convert the module's `@prepare` to NumPy steps; None where XLA must compute it."""
    function = prepare_function(module)
    assert function is not None
    return _steps(function) if all(map(on_host, function.body.block.ops)) else None


def _steps(function: FuncOp) -> HostSteps:
    """Convert a function whose ops all have a NumPy rule."""
    block, steps, results = function.body.block, list[Step](), ()
    numbers: dict[SSAValue, int] = {value: at for at, value in enumerate(block.args)}
    for op in block.ops:
        operands = tuple(numbers[value] for value in op.operands)
        if isinstance(op, ReturnOp):
            results = operands
            continue
        assert isinstance(op, PdOp)
        rule = rule_of(op)
        assert rule is not None
        name, parameters = rule
        numbers[op.results[0]] = len(block.args) + len(steps)
        steps.append((name, operands, parameters))
    return HostSteps(len(block.args), tuple(steps), results)


def on_host(op: Any) -> bool:
    """True for an op that NumPy computes with the rounding of XLA.

    NumPy would round half types after each step of an op, where the lowering rounds them once.
    """
    if isinstance(op, ReturnOp):
        return True
    if not isinstance(op, PdOp) or rule_of(op) is None or UNKNOWN in shape_of(op.results[0].type):
        return False
    return op.get_trait(Movement) is not None or dtype_of(op.results[0].type) in _EXACT


def rule_of(op: PdOp) -> tuple[str, tuple[Any, ...]] | None:
    """Find the rule of `host_steps` for an op, with its other arguments; None without one."""
    if type(op) is Transpose:
        return "transpose", (tuple(op.attr("perm")),)
    if (
        type(op) is Pad
        and op.attr("mode") == "constant"
        and min(op.attr("paddings"), default=0) >= 0
    ):
        return "pad", (tuple(op.attr("paddings")), op.attr("value"))
    if type(op) is Scale:
        return "scale", (op.attr("scale"), op.attr("bias"), bool(op.attr("bias_after_scale")))
    if keeps_order(op):
        return "reshape", (tuple(shape_of(op.results[0].type)),)
    name = _NAMES.get(type(op))
    return None if name is None else (name, ())


_EXACT = ("float32", "float64")
_NAMES: dict[type[PdOp], str] = {
    Rsqrt: "rsqrt",
    Add: "add",
    Subtract: "subtract",
    Multiply: "multiply",
}
