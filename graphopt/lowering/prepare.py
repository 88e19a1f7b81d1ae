"""`@prepare` as a function: in NumPy on a CPU where all its ops have a rule here, else by XLA.

It mostly transposes and scales weights, once: milliseconds of work, for which XLA would compile a
second or two, one kernel for each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Add, Multiply, Rsqrt, Scale, Subtract
from graphopt.ir.dialect.ops.shape import Transpose
from graphopt.ir.dialect.signature import function_signature, prepare_function
from graphopt.ir.dialect.traits import Movement, keeps_order
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.lowering.call import Array
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate_function
from graphopt.lowering.ops.base import constant

Arrays: TypeAlias = "tuple[Array, ...]"
HostArray: TypeAlias = "np.ndarray[Any, Any]"
HostRule: TypeAlias = "Callable[..., HostArray]"


def prepare(module: ModuleOp, device: Any) -> Callable[[Arrays], Arrays]:
    """The module's `@prepare`, from the arrays of its state to its results on one device."""
    function = prepare_function(module)
    assert function is not None
    if device.platform == "cpu" and all(map(on_host, function.body.block.ops)):
        return lambda state: jax.device_put(_evaluate(function, state), device)
    ports = function_signature(function).arguments

    def run(state: Arrays) -> Arrays:
        inputs = {(p.kind, p.name): (a,) for p, a in zip(ports, state, strict=True)}
        context = Context(ALONE, jnp.zeros(2, "uint32"))
        return tuple(lane for (lane,) in evaluate_function(function, inputs, context))

    return jax.jit(run, out_shardings=jax.sharding.SingleDeviceSharding(device))


def _evaluate(function: FuncOp, state: Sequence[Array]) -> tuple[HostArray, ...]:
    """The results of a function whose ops all have a rule of NumPy."""
    block = function.body.block
    arrays: dict[SSAValue, HostArray] = dict(zip(block.args, map(np.asarray, state), strict=True))
    with np.errstate(all="ignore"):
        for op in block.ops:
            if isinstance(op, ReturnOp):
                # copies: a step that owns a parameter may overwrite its buffer
                return tuple(np.array(arrays[value], order="C") for value in op.operands)
            assert isinstance(op, PdOp)
            rule, operands = rule_of(op), [arrays[value] for value in op.operands]
            assert rule is not None
            arrays[op.results[0]] = rule(op, *operands)
    raise AssertionError("a function ends with a return")


def on_host(op: Any) -> bool:
    """True for an op that NumPy computes with the rounding of XLA.

    It would round half types after each step of an op, where the lowering rounds them once.
    """
    if isinstance(op, ReturnOp):
        return True
    if not isinstance(op, PdOp) or rule_of(op) is None or UNKNOWN in shape_of(op.results[0].type):
        return False
    return op.get_trait(Movement) is not None or dtype_of(op.results[0].type) in _EXACT


def rule_of(op: PdOp) -> HostRule | None:
    """The rule of NumPy for an op, called with the op and its operands; None without one."""
    return _RULES.get(type(op), _same_order if keeps_order(op) else None)


def _same_order(op: PdOp, x: HostArray) -> HostArray:
    return x.reshape(shape_of(op.results[0].type))


def _transpose(op: PdOp, x: HostArray) -> HostArray:
    return x.transpose(op.attr("perm"))


def _scale(op: PdOp, x: HostArray) -> HostArray:
    factor, bias = constant(op.attr("scale"), x.dtype), constant(op.attr("bias"), x.dtype)
    if bias == 0:
        return x * factor
    return x * factor + bias if op.attr("bias_after_scale") else (x + bias) * factor


def _rsqrt(op: PdOp, x: HostArray) -> HostArray:
    return constant(1.0, x.dtype) / np.sqrt(x)


def _of_two(function: Callable[[HostArray, HostArray], HostArray]) -> HostRule:
    return lambda op, x, y: function(x, y)


_EXACT = ("float32", "float64")
_RULES: dict[type[PdOp], HostRule] = {
    Transpose: _transpose,
    Scale: _scale,
    Rsqrt: _rsqrt,
    Add: _of_two(operator.add),
    Subtract: _of_two(operator.sub),
    Multiply: _of_two(operator.mul),
}
