"""Functions on sequences of different lengths (paddle.fluid.layers.sequence_lod).

A variable of sequences has all their rows one after the other; `graphopt.frontend.sequence_notes`
records the variables with their lengths. Functions that read lengths pass these variables to the
operator that they append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.lod_tensor import lengths_between
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level, variable_of
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import Levels, levels_of
from graphopt.nn.functional.vision import unfold
from graphopt.tensor.creation import assign, clone
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, reshape, slice
from graphopt.tensor.math import add, scale, subtract

POOLS = ("sum", "average", "sqrt", "max", "last", "first")


def constant(x: Variable) -> Variable:
    """Stop the gradient of x, which holds lengths or positions, and return it."""
    x.stop_gradient = True
    return x


def note_lengths(made: Variable, lengths: Variable) -> Variable:
    """Record the lengths of a result, and return the result."""
    return note(made, [lengths.name])


def _emit_sequences(
    type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    name: str | None = None,
    out: str = "Out",
) -> Variable:
    """Emit an operator on sequences; their lengths are among its inputs."""
    return LayerHelper(type, name).emit(type, inputs, attrs, out=out)


def _inputs(x: Variable, function: str, argument: str = "input") -> dict[str, Variable]:
    arguments.variable(x, argument, function)
    return {"X": x, SLOT: of_one_level(x, function, argument)}


def sequence_pool(
    input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0
) -> Variable:
    """Pool each sequence to one row: [sequences, ...] (fluid.layers.sequence_pool).

    Sequences of sequences give one row for each inner sequence, and the rows are sequences then.
    `pool_type` is sum, average, sqrt (the sum over the root of the length), max, last or first; an
    empty sequence gives `pad_value`. `is_test` has no effect.
    """
    kind = str(pool_type).lower()
    arguments.choice(kind, "pool_type", "sequence_pool", POOLS)
    value = arguments.number(pad_value, "pad_value", "sequence_pool")
    attrs = {"pooltype": kind.upper(), "pad_value": value, "is_test": bool(is_test)}
    arguments.variable(input, "input", "sequence_pool")
    inputs = {"X": input, SLOT: variable_of(input, "sequence_pool", "input")}
    return note(_emit_sequences("sequence_pool", inputs, attrs), levels_of(input)[:-1])


def sequence_first_step(input: Variable) -> Variable:
    """Take the first row of each sequence (fluid.layers.sequence_first_step)."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """Take the last row of each sequence (fluid.layers.sequence_last_step)."""
    return sequence_pool(input, "last")


def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Compute the softmax over each sequence of numbers [n, 1] (layers.sequence_softmax)."""
    inputs = _inputs(input, "sequence_softmax")
    return note(_emit_sequences("sequence_softmax", inputs, None, name), levels_of(input))


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """Reverse each sequence (fluid.layers.sequence_reverse)."""
    inputs = _inputs(x, "sequence_reverse", "x")
    return note(_emit_sequences("sequence_reverse", inputs, None, name, "Y"), levels_of(x))


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Filter each row [d] with the rows around it in its sequence (fluid.layers.sequence_conv).

    The window of `filter_size` rows starts `padding_start` rows from the row, by default half the
    window before it; rows outside the sequence are 0. The weight is [filter_size * d, num_filters].
    `filter_stride` must be 1, and `padding` has no effect, as in Paddle.
    """
    function = "sequence_conv"
    inputs = _inputs(input, function)
    size = arguments.integer(filter_size, "filter_size", function)
    count = arguments.integer(num_filters, "num_filters", function)
    if arguments.integer(filter_stride, "filter_stride", function) != 1:
        raise UnsupportedError(f"{function}(): only filter_stride 1 is supported, as in Paddle")
    start = -(size // 2) if padding_start is None else padding_start
    helper = LayerHelper(function, name)
    weight = as_weight_attr(param_attr, function)
    inputs["Filter"] = helper.parameter(weight, [size * input.shape[1], count], input.dtype)
    attrs = {
        "contextStride": 1,
        "contextStart": arguments.integer(start, "padding_start", function),
        "contextLength": size,
    }
    made = note(helper.emit(function, inputs, attrs), levels_of(input))
    made = helper.append_bias(made, as_param_attr(bias_attr), count, 1)
    return helper.append_activation(made, act)


def sequence_concat(input: Sequence[Variable], name: str | None = None) -> Variable:
    """Concatenate sequence i of every input (fluid.layers.sequence_concat)."""
    given = arguments.variables(input, "input", "sequence_concat")
    if not given:
        raise ValueError("sequence_concat(): 'input' must have at least one Variable")
    lengths = [of_one_level(x, "sequence_concat", f"input[{i}]") for i, x in enumerate(given)]
    made = _emit_sequences("sequence_concat", {"X": given, SLOT: lengths}, None, name)
    total = lengths[0]
    for own in lengths[1:]:
        total = constant(add(total, own))
    return note_lengths(made, total)


def sequence_expand(
    x: Variable, y: Variable, ref_level: int = -1, name: str | None = None
) -> Variable:
    """Repeat row i of x, or sequence i, as often as sequence i of y has items (sequence_expand).

    `ref_level` is the level of y that counts; -1 is the last. x has one level at most.
    """
    function = "sequence_expand"
    arguments.variable(x, "x", function)
    arguments.variable(y, "y", function)
    level, count = arguments.integer(ref_level, "ref_level", function), len(levels_of(y))
    if not -1 <= level < max(count, 1):
        raise ValueError(
            f"{function}(): 'ref_level' {level} is not a level of '{y.name}' ({count})"
        )
    counts = variable_of(y, function, "y", level)
    helper = LayerHelper(function, name)
    attrs = {"ref_level": level}
    if levels_of(x):
        own = of_one_level(x, function, "x")
        inputs = {"X": x, "Y": y, "Counts": counts, "OwnLengths": own}
        made, lengths = helper.emit_all(function, inputs, attrs, ("Out", "OutLengths"))
        return note_lengths(made, constant(lengths))
    slot = SLOT if level in (-1, count - 1) else "Counts"
    return note(helper.emit(function, {"X": x, "Y": y, slot: counts}, attrs), ())


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Repeat row i of x for each row of sequence i of y (fluid.layers.sequence_expand_as)."""
    function = "sequence_expand_as"
    arguments.variable(x, "x", function)
    lengths = of_one_level(arguments.variable(y, "y", function), function, "y")
    return note(
        _emit_sequences(function, {"X": x, "Y": y, SLOT: lengths}, None, name), levels_of(y)
    )


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """Pad sequences to [sequences, length, ...]; also return their lengths (layers.sequence_pad).

    `pad_value` is one number or a row. Without `maxlen` the longest sequence decides the length.
    Raises ValueError in a run with a sequence longer than `maxlen`.
    """
    function = "sequence_pad"
    inputs = _inputs(x, function, "x")
    inputs["PadValue"] = constant(arguments.variable(pad_value, "pad_value", function))
    longest = -1 if maxlen is None else arguments.integer(maxlen, "maxlen", function)
    helper = LayerHelper(function, name)
    attrs = {"padded_length": longest}
    made, lengths = helper.emit_all(function, inputs, attrs, ("Out", "Length"))
    return made, constant(lengths)


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """Take the first length[i] rows of each x[i], as sequences (fluid.layers.sequence_unpad)."""
    inputs = {"X": arguments.variable(x, "x", "sequence_unpad")}
    inputs["Length"] = constant(arguments.variable(length, "length", "sequence_unpad"))
    made = note(_emit_sequences("sequence_unpad", inputs, None, name), ())
    return note_lengths(made, _flat(length))


@one_layer("sequence_reshape")
def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Reshape each sequence to rows of `new_dim` numbers (fluid.layers.sequence_reshape).

    Raises ValueError in a run with a sequence that does not fill whole rows.
    """
    function = "sequence_reshape"
    lengths = of_one_level(arguments.variable(input, "input", function), function, "input")
    size, width = arguments.integer(new_dim, "new_dim", function), input.shape[-1]
    if len(input.shape) != 2 or width < 1 or size < 1:
        raise ValueError(f"{function}(): {list(input.shape)} cannot become rows of {new_dim}")
    if width % size == 0:
        return note_lengths(reshape(input, [-1, size]), constant(scale(lengths, width // size)))
    inputs = {"X": input, SLOT: lengths}
    helper = LayerHelper(function)
    made, lengths = helper.emit_all(function, inputs, {"new_dim": size}, ("Out", "OutLengths"))
    return note_lengths(made, constant(lengths))


def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """Add the updates of sequence i to row i, at its indices (layers.sequence_scatter)."""
    function = "sequence_scatter"
    inputs = {"X": arguments.variable(input, "input", function)}
    inputs["Ids"] = arguments.variable(index, "index", function)
    inputs["Updates"] = arguments.variable(updates, "updates", function)
    inputs[SLOT] = of_one_level(index, function, "index")
    return _emit_sequences(function, inputs, None, name)


def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None
) -> Variable:
    """List each number with its successors: [n, win_size] (fluid.layers.sequence_enumerate).

    After the end of a sequence there is `pad_value`.
    """
    function = "sequence_enumerate"
    inputs = _inputs(input, function)
    attrs = {
        "win_size": arguments.integer(win_size, "win_size", function),
        "pad_value": arguments.integer(pad_value, "pad_value", function),
    }
    return constant(note(_emit_sequences(function, inputs, attrs, name), levels_of(input)))


def sequence_slice(
    input: Variable, offset: Variable, length: Variable, name: str | None = None
) -> Variable:
    """Slice length[i] rows of sequence i from offset[i] on (fluid.layers.sequence_slice).

    Raises ValueError in a run with a sequence that does not have these rows.
    """
    function = "sequence_slice"
    inputs = _inputs(input, function)
    inputs["Offset"] = constant(arguments.variable(offset, "offset", function))
    inputs["Length"] = constant(arguments.variable(length, "length", function))
    return note_lengths(_emit_sequences(function, inputs, None, name), _flat(length))


def _flat(lengths: Variable) -> Variable:
    """Convert numbers [n] or [n, 1] to lengths [n] of int64."""
    flat = reshape(lengths, [-1]) if len(lengths.shape) != 1 else assign(lengths)
    return constant(flat if flat.dtype == "int64" else cast(flat, "int64"))


@one_layer("lod_reset")
def lod_reset(
    x: Variable, y: Variable | None = None, target_lod: Sequence[int] | None = None
) -> Variable:
    """Copy x with the lengths of y, or with sequences that start at `target_lod`.

    `target_lod`, or a y without lengths, has the first row of each sequence and the end of the
    last. Paddle page: fluid.layers.lod_reset.
    """
    made = clone(arguments.variable(x, "x", "lod_reset"))
    if y is not None:
        return note(made, _levels_in(arguments.variable(y, "y", "lod_reset")))
    if target_lod is None:
        raise ValueError("lod_reset(): give one of 'y' and 'target_lod'")
    offsets = arguments.integers(target_lod, "target_lod", "lod_reset")
    return note(made, [tuple(lengths_between(offsets))])


def _levels_in(y: Variable) -> Levels:
    """Return the lengths of y, or the lengths between the offsets that it holds."""
    levels = levels_of(y)
    if levels:
        return levels
    flat = reshape(y, [-1])
    ends, starts = slice(flat, [0], [1], [2**31 - 1]), slice(flat, [0], [0], [-1])
    return (constant(cast(subtract(ends, starts), "int64")).name,)


@one_layer("lod_append")
def lod_append(x: Variable, level: Any) -> Variable:
    """Copy x with one more level of lengths, inside its own levels (fluid.layers.lod_append).

    `level` has the start of each sequence and the end of the last, as `lod_reset`; or it is a
    Variable, whose lengths are used.
    """
    function = "lod_append"
    arguments.variable(x, "x", function)
    if not isinstance(level, (Variable, list, tuple)):
        raise ValueError(f"{function}(): 'level' must be a list, a tuple or a Variable")
    if isinstance(level, Variable):
        added = _levels_in(level)
    else:
        offsets = arguments.integers(level, "level", function)
        added = (tuple(lengths_between(offsets)),)
    return note(clone(x), [*levels_of(x), *added])


@one_layer("im2sequence")
def im2sequence(
    input: Variable,
    filter_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    input_image_size: Variable | None = None,
    out_stride: Any = 1,
    name: str | None = None,
) -> Variable:
    """Extract the windows of images [n, c, h, w] as rows, a sequence for each image.

    The rows are [n * windows, c * k]. `padding` is one number, two (height, width) or four (top,
    left, bottom, right). Raises UnsupportedError for `input_image_size`. Paddle page:
    fluid.layers.im2sequence.
    """
    if input_image_size is not None:
        raise UnsupportedError("im2sequence(): images of different sizes are not supported")
    kernel = arguments.pair(filter_size, "filter_size", "im2sequence")
    steps = arguments.pair(stride, "stride", "im2sequence")
    pads = arguments.integers(padding, "padding", "im2sequence")
    pads = pads * 2 if len(pads) == 2 else pads
    columns = unfold(arguments.variable(input, "input", "im2sequence"), kernel, steps, pads)
    _, width, count = columns.shape
    if count < 1:
        raise ValueError(f"im2sequence(): the image {list(input.shape)} must have a known size")
    rows = reshape(transpose(columns, [0, 2, 1]), [-1, width], name)
    return note(rows, [count])
