"""Evaluation of a module, or of some of its ops, by the reference rules.

Intermediate values are float64 (complex128) arrays; with the precision "declared" every result is
rounded to its dtype, and with "native" each op computes in its dtype. Where a `pd.grad` follows,
values are nodes of `tape.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

import graphopt.reference.ops  # noqa: F401  (registers the rules)
from graphopt.ir.dialect.definition import as_property
from graphopt.ir.dialect.op import PdOp, bind_groups, call_rule, class_of
from graphopt.ir.dialect.ops.control import (
    FusionGroup,
    If,
    Layers,
    RegionOp,
    RowKernel,
    Scan,
    While,
    Yield,
)
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties, group_operands
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import Dropout, RandomOp
from graphopt.ir.dialect.ops.sequence.recurrent import Rnn
from graphopt.ir.dialect.signature import Port, function_signature, main_function, prepare_function
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of, show
from graphopt.ir.dtypes import DType
from graphopt.reference.differences import by_differences
from graphopt.reference.ragged import Ragged
from graphopt.reference.registry import RULES, Unsupported
from graphopt.reference.tape import Array, NoDerivative, TapeNode, apply, pull_back, value_of

Precision = Literal["float64", "declared", "native"]
Environment = dict[SSAValue, Any]
WALKED = (FusionGroup, If, Layers, RowKernel, Scan, While)
"""The ops whose regions are computed."""


def supports(op: Operation) -> bool:
    """True when the interpreter computes this op, and the ops in its regions.

    At run time it may still refuse an op for one of its properties.
    """
    if isinstance(op, RegionOp):
        return isinstance(op, WALKED) and all(
            supports(inner) for region in op.regions for inner in region.block.ops
        )
    if isinstance(op, Dynamic):
        op_class = class_of(op.attr("op"))
        return op_class in RULES and not issubclass(op_class, RandomOp)
    return isinstance(op, (Grad, ReturnOp, Yield)) or type(op) in RULES


def is_random(op: Operation) -> bool:
    """True for an op that draws random numbers; the lowering draws different ones."""
    if not isinstance(op, RandomOp) or not op.draws():
        return False
    if isinstance(op, Rnn):
        drops = op.attr("num_layers") > 1 and not op.attr("is_test")
        return drops and op.attr("dropout_prob") not in (0, 1)
    return not isinstance(op, Dropout) or not (op.attr("is_test") or op.attr("p") in (0, 1))


def evaluate(
    module: ModuleOp,
    inputs: Mapping[str, Array],
    *,
    precision: Precision = "declared",
    seed: int = 7,
) -> dict[str, Array]:
    """Evaluate a module; return its results by kind and name (`pd.fetch x`).

    `inputs` are feeds and state by name. `precision` is "float64", which computes all
    floating-point numbers in float64, whatever dtype is declared, "declared", which rounds the
    result of each op to its dtype, or "native", which computes in that dtype (half types in
    float32). Random ops draw from NumPy's generator by their seed and `rng_id`, and by `seed`: not
    JAX's numbers, but the same ones for the same op in another version of the module.

    Raises Unsupported, naming the op, for an op without a rule; KeyError for a missing input.
    """
    run = Run(precision, seed)
    given = {name: run.enter(array) for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        prepare = prepare_function(module)
        if prepare is not None:
            given |= {port.name: value for port, _, value in _results(prepare, run, given)}
        return {
            f"{port.kind} {port.name}": run.left(result, value)
            for port, result, value in _results(main_function(module), run, given)
        }


def _results(
    function: FuncOp, run: Run, given: Mapping[str, Array]
) -> list[tuple[Port, SSAValue, Array]]:
    """Evaluate one function on arguments by name."""
    block, signature = function.body.block, function_signature(function)
    env: Environment = {
        argument: given[port.name]
        for argument, port in zip(block.args, signature.arguments, strict=True)
    }
    values = run.block(block, env)
    assert block.ops.last is not None
    return list(zip(signature.results, block.ops.last.operands, values, strict=True))


def evaluate_ops(
    ops: Sequence[Operation],
    bindings: Mapping[SSAValue, Array],
    *,
    precision: Precision = "declared",
    seed: int = 7,
) -> dict[SSAValue, Array]:
    """Evaluate these ops, in this order, on arrays of the values that they read.

    Raises Unsupported, naming the op, for an op without a rule; KeyError for an unbound value.
    """
    run = Run(precision, seed)
    env: Environment = {value: run.enter(array) for value, array in bindings.items()}
    with np.errstate(all="ignore"):
        run.ops(ops, env)
        return {result: run.left(result, env[result]) for op in ops for result in op.results}


class Run:
    """One evaluation. With the precision "native" half types are computed in float32."""

    def __init__(self, precision: Precision, seed: int) -> None:
        if precision not in get_args(Precision):
            expected = ", ".join(get_args(Precision))
            raise ValueError(f"precision should be one of {expected}, found '{precision}'")
        self.declared = precision != "float64"
        self.is_native = precision == "native"
        self.seed = seed
        self.rng_shift = 0  # the shift in the current layer

    def enter(self, array: Any) -> Array:
        """Convert an array from outside to the dtype of rules."""
        array = np.asarray(array)
        return array.astype(self.working(DType(array.dtype.name)), copy=False)

    def working(self, dtype: DType) -> np.dtype[Any]:
        """Return the dtype that rules compute in."""
        return _wide(dtype).numpy if self.is_native else _double(dtype)

    def left(self, value: SSAValue, array: Array) -> Array:
        """Convert a value to an array for callers."""
        array = value_of(array)
        return array.astype(dtype_of(value.type).numpy, copy=False) if self.declared else array

    def round_to(self, array: Array, dtype: DType) -> Array:
        """Round an array to this dtype; the result has the dtype that rules work in."""
        if not isinstance(array, (TapeNode, Ragged)):
            array = np.asarray(array)
        working = self.working(dtype)
        if array.dtype != working:
            array = array.astype(working)
        if not self.declared or not dtype.is_differentiable or dtype.numpy == working:
            return array
        return _round(array, dtype)

    def block(self, block: Block, env: Environment, *, traced: bool = False) -> list[Array]:
        """Evaluate a block; return the values that it returns or yields."""
        *ops, last = block.ops
        assert isinstance(last, (ReturnOp, Yield)), "the block has no end"
        self.ops(ops, env, traced=traced)
        return [env[value] for value in last.operands]

    def ops(self, ops: Sequence[Operation], env: Environment, *, traced: bool = False) -> None:
        """Compute ops in order. Where a `pd.grad` follows, or if `traced`, values are nodes."""
        grads = [number for number, op in enumerate(ops) if isinstance(op, Grad)]
        leaves = {value for number in grads for value in ops[number].wrt}  # pyright: ignore
        last = grads[-1] if grads else -1
        for value in leaves & env.keys():
            env[value] = _as_node(env[value])
        for number, op in enumerate(ops):
            followed = traced or number < last
            results = self.op(op, env, followed)
            for result, value in zip(op.results, results, strict=True):
                env[result] = _as_node(value) if result in leaves else value

    def op(self, op: Operation, env: Environment, followed: bool) -> list[Array]:
        """Compute one op; its results are nodes when a derivative is `followed` through it."""
        if isinstance(op, Grad):
            return self.gradients(op, env, followed)
        if isinstance(op, RegionOp):
            return self.regions(op, env, followed)
        if not isinstance(op, PdOp) or not supports(op):
            raise Unsupported(op.name)
        operands = [env[value] for value in op.operands]
        if not followed:
            operands = [value_of(value) for value in operands]
        types = [result.type for result in op.results]
        results: list[Array] = []
        is_dynamic = isinstance(op, Dynamic)
        found = self.dynamic(op, operands) if is_dynamic else self.call(op, operands)
        for value, type_ in zip(found, types, strict=True):
            value = self.round_to(value, dtype_of(type_))
            _check(op, type_, value)
            # each SSA value needs its own node, even if a rule returns its operand
            same = isinstance(value, TapeNode) and any(value is operand for operand in operands)
            results.append(apply(lambda v: v, (lambda g, o, x: g,), value) if same else value)
        return results

    def call(self, op: PdOp, operands: Sequence[Array]) -> tuple[Array, ...]:
        """Apply the op's rule; where NumPy code has no derivative, differentiate by differences."""

        def plain(*values: Array) -> tuple[Array, ...]:
            groups: list[Sequence[Array]] = []
            start = 0
            for group in op.operand_groups():
                groups.append(values[start : start + len(group)])
                start += len(group)
            bound = bind_groups(type(op), groups) | op.attr_values() | self.helpers(op)
            found = call_rule(RULES[type(op)], bound)
            return found if isinstance(found, tuple) else (found,)

        try:
            return plain(*operands)
        except NoDerivative as error:
            return by_differences(op, plain, operands, str(error))

    def dynamic(self, op: Dynamic, operands: Sequence[Array]) -> tuple[Array, ...]:
        """Apply the rule of the op whose properties the run decides."""
        op_class, count = class_of(op.attr("op")), len(op.inputs)
        bound = decode_properties(op_class, op.attr("attrs"))
        for name, value in zip(op.attr("dynamic"), operands[count:], strict=True):
            bound[name] = as_property(op_class, name, value_of(value).reshape(-1).tolist())
        bound |= bind_groups(op_class, group_operands(operands[:count], op.attr("groups")))
        found = call_rule(RULES[op_class], bound | self.helpers(op))
        return found if isinstance(found, tuple) else (found,)

    def helpers(self, op: PdOp) -> dict[str, Any]:
        """Collect the arguments of rules other than operands and properties."""
        dtypes = tuple(dtype_of(result.type) for result in op.results)
        return {
            "dtypes": dtypes,
            "draw": lambda which=0: self.generator(op, which),
            "to": self.rounder(dtypes[0]),
            "wide": self.rounder(_wide(dtypes[0])),
        }

    def rounder(self, dtype: DType) -> Any:
        return lambda array: self.round_to(array, dtype)

    def generator(self, op: PdOp, which: int) -> np.random.Generator:
        """Make an op's random generator: by its seed, or by `rng_id` and the seed of this run."""
        assert isinstance(op, RandomOp)
        seed, rng_id = op.draws()[which]
        return np.random.default_rng([seed] if seed else [self.seed, rng_id + self.rng_shift, 1])

    def gradients(self, op: Grad, env: Environment, followed: bool) -> list[Array]:
        seeds: list[tuple[TapeNode, Array]] = []
        for target, cotangent in zip(op.of, op.cotangents, strict=True):
            node, seed = env[target], env[cotangent]
            if isinstance(node, TapeNode):
                seed = seed if followed else value_of(seed)
                seeds.append((node, np.broadcast_to(seed, node.shape)))
        stop = [env[value] for value in op.no_grad if isinstance(env[value], TapeNode)]
        found = pull_back(seeds, stop=stop, nodes=followed)
        results: list[Array] = []
        for value, result in zip(op.wrt, op.results, strict=True):
            node = env[value]
            gradient = found.get(id(node))
            if gradient is None:
                gradient = np.zeros_like(value_of(node))
            results.append(self.round_to(gradient, dtype_of(result.type)))
        return results

    def regions(self, op: RegionOp, env: Environment, followed: bool) -> list[Array]:
        def run(region: int, arguments: Sequence[Array] = ()) -> list[Array]:
            block = op.regions[region].block
            inner = {**env, **dict(zip(block.args, arguments, strict=True))}
            found = self.block(block, inner, traced=followed)
            return found if followed else [value_of(value) for value in found]

        if isinstance(op, (FusionGroup, RowKernel)):
            return run(0)
        if isinstance(op, If):
            return run(0 if _holds(env[op.condition]) else 1)

        if isinstance(op, While):
            condition, values = env[op.condition], [env[value] for value in op.carried]
            while _holds(condition):
                condition, *values = run(0, values)
            return values
        if isinstance(op, Layers):
            values = [env[value] for value in op.carried]
            stacks = [env[value] for value in op.stacks]
            for layer in range(len(value_of(stacks[0]))):
                values = run(0, [*values, *(stack[layer] for stack in stacks)])
                self.rng_shift += op.attr("rng_stride")
            self.rng_shift -= len(value_of(stacks[0])) * op.attr("rng_stride")
            return values
        if isinstance(op, Scan):
            memories = [env[value] for value in op.memories]
            sequences = [env[value] for value in op.sequences]
            steps: list[list[Array]] = []
            order = range(len(value_of(sequences[0])))
            for step in reversed(order) if op.attr("reverse") else order:
                found = run(0, [*memories, *(s[step] for s in sequences)])
                memories = found[: len(memories)]
                steps.append(found[len(memories) :])
            if not steps:
                raise Unsupported(op.name, "over an empty sequence")
            in_order = steps[::-1] if op.attr("reverse") else steps
            return [np.stack(items) for items in zip(*in_order, strict=True)]
        raise Unsupported(op.name)


def _wide(dtype: DType) -> DType:
    """Return the dtype to compute in: float32 where a half type is declared."""
    return DType("float32") if dtype in ("float16", "bfloat16") else dtype


def _double(dtype: DType) -> np.dtype[Any]:
    """Return the dtype of rules that are exact but for the rounding of float64."""
    if dtype.is_floating:
        return np.dtype(np.float64)
    return np.dtype(np.complex128) if dtype.is_complex else dtype.numpy


def _round(array: Array, dtype: DType) -> Array:
    def forward(value: Array) -> Array:
        if dtype == "float16" and value.dtype == np.float32:
            return _round_to_half(value)
        return value.astype(dtype.numpy).astype(value.dtype)

    return apply(forward, (lambda g, o, x: _round(g, dtype),), array)


_FEW, _STRIP = 256, 32768
"""The elements from which rounding by arithmetic pays, and the most that fit in the cache."""
_EXPONENT, _SIGN = np.uint32(0x7F800000), np.uint32(0x80000000)
_LEAST, _MOST = np.uint32(0x38800000), np.uint32(0x47000000)
"""The bits of 2**-14, float16's least normal number, and of 2**15, its largest power of two."""
_SHIFT = np.uint32((13 << 23) + (1 << 22))
"""Added to the bits of a power of two, it multiplies the power by 1.5 * 2**13."""


def _round_to_half(value: Array) -> Array:
    """Round float32 to the numbers of float16, as float32.

    NumPy converts one element after the other, for 3 ns, and for 45 where that loses a denormal
    number. A sum with 1.5 * 2**13 times the own power of two drops the bits that float16 lacks, and
    rounds to even as a conversion does.
    """
    if value.size < _FEW:
        return value.astype(np.float16).astype(np.float32)
    out = np.empty_like(value)
    if not value.flags.c_contiguous:
        _round_strip(value, out)
        return out
    flat, rounded = value.reshape(-1), out.reshape(-1)
    for start in range(0, flat.size, _STRIP):
        strip = slice(start, start + _STRIP)
        _round_strip(flat[strip], rounded[strip])
    return out


def _round_strip(value: Array, out: Array) -> None:
    """Write the rounded numbers of a float32 array, small enough for the cache, into `out`."""
    bits = value.view(np.uint32)
    shift = bits & _EXPONENT
    if shift.max() >= _MOST:  # some values may be infinite, or round to infinity
        out[...] = value.astype(np.float16)
        return
    np.maximum(shift, _LEAST, out=shift)
    shift += _SHIFT
    np.add(value, shift.view(np.float32), out=out)
    out -= shift.view(np.float32)
    signed = out.view(np.uint32)
    signed |= np.bitwise_and(bits, _SIGN, out=shift)


def _as_node(value: Array) -> TapeNode:
    return value if isinstance(value, TapeNode) else TapeNode(value)


def _holds(condition: Array) -> bool:
    return bool(np.all(value_of(condition)))


def _check(op: Operation, type_: Any, value: Array) -> None:
    """Raise AssertionError when a rule gives another shape than the type declares."""
    declared = shape_of(type_)
    if len(declared) != len(value.shape) or any(
        UNKNOWN != want != have for want, have in zip(declared, value.shape, strict=True)
    ):
        raise AssertionError(
            f"the reference rule of {op.name} gives {list(value.shape)} for {show(type_)}"
        )
