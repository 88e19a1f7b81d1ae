"""`paddle.summary` and `Program.summary`: layers with shapes, parameters and operations.

Rows are data; the form of the table is that of paddle.summary (Paddle page), with a column of
floating-point operations (`passes/engine/costs.py`). An unknown size, such as the batch, counts as
one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from graphopt.display.layers import LayerRow, LayerSummary
from graphopt.errors import GraphoptError
from graphopt.frontend.mode import static_mode
from graphopt.frontend.tracing import TracedProgram
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.signature import STATE, main_function, signature_of
from graphopt.ir.dialect.types import shape_of
from graphopt.ir.program import (
    Operator,
    Parameter,
    Program,
    Variable,
    default_main_program,
    program_guard,
)
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.engine.costs import cost_of_module, cost_of_op
from graphopt.runtime.explain import names_of_step

Shape = tuple[int, ...]


# -- a program -------------------------------------------------------------------------------------


def summary_of_program(program: Program) -> LayerSummary:
    """Summarize the forward ops of a program that depend on feeds, one row each.

    ProgramError for a program that cannot be compiled.
    """
    module = parse_program(program, *names_of_step(program), in_one=True)
    function = main_function(module)
    body, ports = function.body.block, signature_of(module).arguments
    fed = [arg for arg, port in zip(body.args, ports, strict=True) if port.kind != STATE]
    parameters = {p.name: p for p in program.all_parameters()}
    # the parameters from which a value is computed, if it depends on no feed
    held: dict[SSAValue, frozenset[str]] = {
        arg: frozenset([port.name]).intersection(parameters)
        for arg, port in zip(body.args, ports, strict=True)
        if port.kind == STATE
    }
    rows: list[LayerRow] = []
    numbers: Counter[str] = Counter()
    for op in body.ops:
        if isinstance(op, (Grad, Update)):
            break
        if not isinstance(op, PdOp):
            continue
        names = frozenset[str]().union(*(held.get(value, ()) for value in op.operands))
        inputs = tuple(_shape(value) for value in op.operands if value not in held)
        if not inputs:
            held.update(dict.fromkeys(op.results, names))
            continue
        kind = op.name.removeprefix("pd.")
        numbers[kind] += 1
        count = sum(prod(parameters[name].shape) for name in names)
        output = _shape(op.results[0]) if op.results else ()
        rows.append(
            LayerRow(f"{kind}-{numbers[kind]}", inputs, output, count, cost_of_op(op).flops)
        )
    used = frozenset[str]().union(*held.values())
    counts = {name: prod(parameters[name].shape) for name in used}
    trained = sum(count for name, count in counts.items() if parameters[name].trainable)
    elements = sum(prod(_shape(value)) for value in fed)
    return LayerSummary(tuple(rows), sum(counts.values()), trained, elements)


def _shape(value: SSAValue) -> Shape:
    return tuple(max(dim, 1) for dim in shape_of(value.type))


# -- a layer ---------------------------------------------------------------------------------------


@contextmanager
def _restore_attributes(net: Any) -> Iterator[None]:
    """Restore the attributes of layers, which a call may set to tensors of its program."""
    layers = [vars(layer) for layer in net.sublayers(include_self=True)]
    values = [value for attributes in layers for value in attributes.values()]
    holders = [*layers, *(value for value in values if isinstance(value, (list, dict)))]
    kept = [(holder, copy(holder)) for holder in holders]
    try:
        yield
    finally:
        for holder, before in kept:
            if isinstance(holder, list):
                holder[:] = before
            else:
                holder.clear()
                holder.update(before)


def summary_of_layer(net: Any, inputs: Sequence[tuple[Shape, Any]]) -> LayerSummary:
    """Summarize the layers of a network that contain no layers, for inputs of these types.

    The network is called once in a program of its own, in its inference form.
    """
    training = bool(net.training)
    made = [p.block.program for p in net.parameters()]
    program = TracedProgram([*made, default_main_program()])
    calls: list[_Call] = []
    hooks: list[Any] = []
    for layer in net.sublayers(include_self=True):
        if not layer.sublayers():
            call = _Recorder(program, calls)
            hooks += [
                layer.register_forward_pre_hook(call.before),
                layer.register_forward_post_hook(call.after),
            ]
    net.eval()
    try:
        with _restore_attributes(net), static_mode(), program_guard(program, Program()):
            block = program.global_block()
            fed = [
                block.create_var(
                    f"input_{number}", shape, dtype, is_data=True, need_check_feed=True
                )
                for number, (shape, dtype) in enumerate(inputs)
            ]
            net(*fed)
    finally:
        for hook in hooks:
            hook.remove()
        if training:
            net.train()
    parameters: list[Parameter] = net.parameters()
    counts = {p.name: prod(p.shape) for p in parameters}
    trained = sum(prod(p.shape) for p in parameters if p.trainable)
    elements = sum(prod(shape) for shape, _ in inputs)
    width = max((v.dtype.numpy.itemsize for v in fed), default=4)
    return LayerSummary(
        _rows(program, calls), sum(counts.values()), trained, elements, min(width, 4)
    )


@dataclass(frozen=True)
class _Call:
    """A call of a layer, and the operators that it appended."""

    layer: Any
    inputs: tuple[Variable, ...]
    output: Variable
    ops: tuple[Operator, ...]


class _Recorder:
    """The hooks before and after the calls of one layer."""

    def __init__(self, program: Program, calls: list[_Call]) -> None:
        self.program, self.calls, self.start = program, calls, 0

    def before(self, layer: Any, inputs: Any) -> None:
        """Note the first operator of the call."""
        self.start = len(self.program.global_block().ops)

    def after(self, layer: Any, inputs: Any, output: Any) -> None:
        """Note the call."""
        made = _variables(output)
        if made:
            ops = self.program.global_block().ops[self.start :]
            self.calls.append(_Call(layer, _variables(inputs), made[0], tuple(ops)))


def _variables(tree: Any) -> tuple[Variable, ...]:
    """Collect the variables in nested lists and tuples."""
    if isinstance(tree, Variable):
        return (tree,)
    items = tree if isinstance(tree, (list, tuple)) else ()
    return tuple(found for item in items for found in _variables(item))


def _rows(program: Program, calls: Sequence[_Call]) -> tuple[LayerRow, ...]:
    numbers: Counter[str] = Counter()
    rows: list[LayerRow] = []
    for call in calls:
        kind = type(call.layer).__name__
        numbers[kind] += 1
        rows.append(
            LayerRow(
                f"{kind}-{numbers[kind]}",
                tuple(_known_shape(v.shape) for v in call.inputs),
                _known_shape(call.output.shape),
                sum(prod(p.shape) for p in call.layer.parameters()),
                _flops_of(program, call),
            )
        )
    return tuple(rows)


def _known_shape(shape: Sequence[int]) -> Shape:
    return tuple(max(dim, 1) for dim in shape)


def _flops_of(program: Program, call: _Call) -> int:
    """Count the operations of the operators of one call, as a program of their own."""
    block = program.global_block()
    whole, written = block.ops, {n for op in call.ops for n in op.output_arg_names}
    read = {n: None for op in call.ops for n in op.input_arg_names if n not in written}
    feeds = [n for n in read if not block.var(n).persistable]
    block.ops = list(call.ops)
    try:
        module = parse_program(program, feeds, [call.output.name])
    except GraphoptError:  # the operators belong to other blocks
        return 0
    finally:
        block.ops = whole
    return cost_of_module(module).flops


# -- paddle.summary --------------------------------------------------------------------------------


class Totals(dict[str, int]):
    """The totals of a summary, as Paddle returns them; in a notebook its table."""

    def __init__(self, found: LayerSummary) -> None:
        super().__init__(total_params=found.total_params, trainable_params=found.trainable_params)
        self._summary = found

    def _repr_html_(self) -> str:
        return self._summary._repr_html_()


def summary(net: Any, input_size: Any = None, dtypes: Any = None, input: Any = None) -> Totals:
    """Print the layers of a network; returns `total_params` and `trainable_params`.

    These show the table in a notebook.

    `net` is a Layer, called with inputs of `input_size` (a shape, an InputSpec, or a list of
    these, with -1 or None for the batch) and `dtypes` (float32), or like `input`, an array or
    several; or it is a Program. Raises ValueError without a size, TypeError for another `net`.
    Paddle page: paddle.summary.
    """
    if isinstance(net, Program):
        found = summary_of_program(net)
    elif hasattr(net, "register_forward_post_hook"):
        found = summary_of_layer(net, _types(input_size, dtypes, input))
    else:
        raise TypeError(f"summary(): 'net' must be a Layer or a Program, found {type(net)}")
    print(found)
    return Totals(found)


def _types(input_size: Any, dtypes: Any, input: Any) -> list[tuple[Shape, Any]]:
    """Determine the shapes and dtypes of the inputs."""
    if input is not None:
        given = input if isinstance(input, (list, tuple)) else [input]
        return [(_dims(array.shape), array.dtype) for array in given]
    if input_size is None:
        raise ValueError("input_size and input cannot be None at the same time")
    if _is_shape(input_size) or hasattr(input_size, "shape"):
        input_size = [input_size]
    several = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes] * len(input_size)
    if len(several) != len(input_size):
        raise ValueError(f"summary(): there are {len(several)} dtypes for {len(input_size)} inputs")
    return [
        (_dims(getattr(size, "shape", size)), dtype or getattr(size, "dtype", "float32"))
        for size, dtype in zip(input_size, several, strict=True)
    ]


def _is_shape(size: Any) -> bool:
    return isinstance(size, (list, tuple)) and all(
        dim is None or isinstance(dim, int) for dim in size
    )


def _dims(shape: Any) -> Shape:
    """Replace each unknown size of a shape by one."""
    return tuple(1 if dim is None or dim < 0 else int(dim) for dim in shape)
