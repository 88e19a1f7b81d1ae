"""`paddle.flops`: the operations of a network, counted layer by layer as Paddle counts them.

A multiplication with the addition of its product is one operation, and only some kinds of layers
count. `paddle.summary` and `Program.summary` count all ops, each operation as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from graphopt import nn
from graphopt.frontend.mode import static_mode
from graphopt.frontend.tracing import TracedProgram
from graphopt.ir.program import Program, default_main_program, program_guard
from graphopt.static.input import data
from graphopt.utils import unique_name

Shape = tuple[int, ...]
Count = Callable[[Any, Shape, Shape], int]
Custom = Mapping[type, Callable[[Any, Any, Any], None]]


def _conv(layer: Any, x: Shape, y: Shape) -> int:
    kernel = prod(layer.weight.shape[2:])
    return prod(y) * (x[1] * kernel // layer._groups + (layer.bias is not None))


def _adaptive(layer: Any, x: Shape, y: Shape) -> int:
    window = prod(size // out for size, out in zip(x[2:], y[2:], strict=True))
    return prod(y) * (window + 1)


def _of_results(layer: Any, x: Shape, y: Shape) -> int:
    return prod(y)


def _nothing(layer: Any, x: Shape, y: Shape) -> int:
    return 0


COUNTS: Mapping[type, Count] = {
    **dict.fromkeys(
        (
            *(nn.Conv1D, nn.Conv2D, nn.Conv3D),
            *(nn.Conv1DTranspose, nn.Conv2DTranspose, nn.Conv3DTranspose),
        ),
        _conv,
    ),
    **dict.fromkeys((nn.BatchNorm2D, nn.BatchNorm), lambda layer, x, y: 2 * prod(x)),
    **dict.fromkeys((nn.ReLU, nn.ReLU6, nn.Dropout), _nothing),
    nn.LeakyReLU: lambda layer, x, y: prod(x),
    nn.Linear: lambda layer, x, y: layer.weight.shape[0] * prod(y),
    **dict.fromkeys((nn.AvgPool1D, nn.AvgPool2D, nn.AvgPool3D), _of_results),
    **dict.fromkeys((nn.AdaptiveAvgPool1D, nn.AdaptiveAvgPool2D, nn.AdaptiveAvgPool3D), _adaptive),
}


@dataclass
class LayerFlops:
    """The sums over the calls of one layer."""

    layer: Any
    input_shape: Shape = ()
    output_shape: Shape = ()
    parameters: int = 0
    operations: int = 0


def flops(
    net: Any, input_size: Any, custom_ops: Custom | None = None, print_detail: bool = False
) -> int:
    """Count, print and return the operations of a Layer for one input, or of a Program.

    `input_size` is the shape of the input, float32. `custom_ops` maps a class to a function of the
    layer, its inputs and its output that adds to `layer.total_ops`. All ops of a Program count, as
    in `Program.summary`. TypeError for another `net`. Paddle page: paddle.flops.
    """
    if isinstance(net, Program):
        from graphopt.debug.summary import summary_of_program

        found = summary_of_program(net)
        if print_detail:
            print(found)
        total = int(found.flops)
        print(f"Total Flops: {total}")
        return total
    if not isinstance(net, nn.Layer):
        raise TypeError(f"flops(): 'net' must be a Layer or a Program, found {type(net)}")
    rows = _called_layers(net, input_size, custom_ops or {})
    if print_detail:
        print(_table(rows))
    total, parameters = (sum(row.operations for row in rows), sum(row.parameters for row in rows))
    print(f"Total Flops: {total}     Total Params: {parameters}")
    return total


def _called_layers(net: Any, input_size: Any, custom: Custom) -> list[LayerFlops]:
    """Call the network in evaluation mode, and collect its innermost layers with their counts."""
    layers = [each for each in net.sublayers(include_self=True) if not each.sublayers()]
    rows = {id(layer): LayerFlops(layer) for layer in layers}
    for kind in dict.fromkeys(map(type, layers)):
        print(_what_counts(kind, custom))

    def count(layer: Any, inputs: Any, output: Any) -> None:
        row = rows[id(layer)]
        first = output[0] if isinstance(output, (list, tuple)) else output
        row.input_shape, row.output_shape = tuple(inputs[0].shape), tuple(first.shape)
        row.parameters = sum(prod(each.shape) for each in layer.parameters())
        if type(layer) in custom:
            layer.total_ops = 0
            custom[type(layer)](layer, inputs, output)
            row.operations += int(layer.total_ops)
            del layer.total_ops
        elif type(layer) in COUNTS:
            row.operations += COUNTS[type(layer)](layer, row.input_shape, row.output_shape)

    handles = [layer.register_forward_post_hook(count) for layer in layers]
    training = net.training
    net.eval()
    try:
        made = [parameter.block.program for parameter in net.parameters()]
        program = TracedProgram([*made, default_main_program()])
        with static_mode(), program_guard(program, Program()), unique_name.guard():
            net(data("x", list(input_size), "float32"))
    finally:
        for handle in handles:
            handle.remove()
        if training:
            net.train()
    return [row for row in rows.values() if row.output_shape]


def _what_counts(kind: type, custom: Custom) -> str:
    if kind in custom:
        return f"Customize Function has been applied to {kind}"
    if kind in COUNTS:
        return f"{kind}'s flops has been counted"
    return f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs."


def _table(rows: Sequence[LayerFlops]) -> str:
    """Format the rows between rules, in columns as wide as their longest cell."""
    cells = [("Layer Name", "Input Shape", "Output Shape", "Params", "Flops")]
    cells += [
        (
            row.layer.full_name(),
            *map(str, (list(row.input_shape), list(row.output_shape), row.parameters)),
            str(row.operations),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) + 2 for column in zip(*cells, strict=True)]
    rule = "+" + "+".join("-" * width for width in widths) + "+"
    lines = [
        "|" + "|".join(t.center(w) for t, w in zip(line, widths, strict=True)) + "|"
        for line in cells
    ]
    return "\n".join((rule, lines[0], rule, *lines[1:], rule))
