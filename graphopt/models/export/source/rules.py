"""The ops whose calls depend on more than a row of the table can express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.conv import is_channels_last
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import DType
from graphopt.models.export.source.calls import (
    Emit,
    NotReadable,
    arguments,
    literal,
    number_of,
    plain,
    spells,
)

Ints = tuple[int, ...]


def _one(values: Sequence[int]) -> int | list[int]:
    """Reduce equal numbers to one number."""
    return values[0] if len(set(values)) == 1 else list(values)


def _padding(paddings: Sequence[int], algorithm: str) -> Any:
    if algorithm != "EXPLICIT":
        return algorithm
    if len(paddings) % 2 == 0 and len(paddings) > 3 and paddings[::2] == paddings[1::2]:
        paddings = paddings[::2]
    return _one(paddings)


@spells("conv2d", "depthwise_conv2d", "conv3d")
def convolution(
    emit: Emit,
    input: SSAValue,
    filter: SSAValue,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    data_format: str,
    filter_format: str,
    fuse_relu_before_depthwise_conv: bool = False,
    bias: SSAValue | None = None,
) -> str:
    rank = len(strides)
    if filter_format != "OIHW":
        raise NotReadable("the filter is not stored as OIHW")
    if fuse_relu_before_depthwise_conv:
        raise NotReadable("a relu is fused into the input")
    if padding_algorithm == "SAME":
        dilations = (1,)  # as in Paddle
    _channels_first(data_format)
    emit.call.hint = "conv"
    given = arguments(
        emit.value(input),
        *emit.arguments_of_layer(weight=filter, bias=bias),
        stride=(_one(strides), 1),
        padding=(_padding(paddings, padding_algorithm), 0),
        dilation=(_one(dilations), 1),
        groups=(groups, 1),
    )
    return f"{'convolution' if emit.is_jax else f'F.conv{rank}d'}({given})"


@spells("conv2d_transpose", "conv3d_transpose")
def transposed_convolution(
    emit: Emit,
    input: SSAValue,
    filter: SSAValue,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    dilations: Ints,
    groups: int,
    output_padding: Ints,
    output_size: Ints,
    data_format: str,
    bias: SSAValue | None = None,
) -> str:
    _channels_first(data_format)
    if output_size or (emit.is_jax and padding_algorithm != "EXPLICIT"):
        raise NotReadable("output_size is set, or the padding is not explicit")
    emit.call.hint = "conv"
    given = arguments(
        emit.value(input),
        *emit.arguments_of_layer(weight=filter, bias=bias),
        stride=(_one(strides), 1),
        padding=(_padding(paddings, padding_algorithm), 0),
        output_padding=(_one(output_padding) if output_padding else 0, 0),
        dilation=(_one(dilations), 1),
        groups=(groups, 1),
    )
    name = "transposed_convolution" if emit.is_jax else f"F.conv{len(strides)}d_transpose"
    return f"{name}({given})"


def _channels_first(data_format: str) -> None:
    if is_channels_last(data_format):
        raise NotReadable("the channels are the last axis")


@spells("pool2d", "pool3d")
def spell_pool(
    emit: Emit,
    x: SSAValue,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> str:
    _channels_first(data_format)
    rank = len(kernel_size)
    own = f"{rank}d" if not emit.is_jax else ""
    emit.call.hint = "pooled"
    if global_pooling or adaptive:
        size = 1 if global_pooling else _one(kernel_size)
        if emit.is_jax and size != 1:
            known = shape_of(x.type)[2:]
            if any(s == UNKNOWN or s % k for s, k in zip(known, kernel_size, strict=True)):
                raise NotReadable("the windows have different sizes")
        name = f"adaptive_{pooling_type}_pool{own}"
        return f"{emit.functions}{name}({emit.value(x)}, {literal(size)})"
    if emit.is_jax and ceil_mode:
        raise NotReadable("the last windows may be incomplete (ceil_mode)")
    if emit.is_jax and padding_algorithm == "SAME" and not (exclusive or pooling_type == "max"):
        raise NotReadable("the average counts padding")
    given = arguments(
        emit.value(x),
        literal(_one(kernel_size)),
        stride=(_one(strides), _one(kernel_size)),
        padding=(_padding(paddings, padding_algorithm), 0),
        ceil_mode=(ceil_mode, False),
        exclusive=(exclusive or pooling_type == "max", True),
    )
    return f"{emit.functions}{pooling_type}_pool{own}({given})"


@spells("batch_norm")
def batch_norm(
    emit: Emit,
    x: SSAValue,
    mean: SSAValue,
    variance: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
    is_test: bool,
    use_global_stats: bool,
    data_format: str,
) -> str:
    if not (is_test or use_global_stats):
        raise NotReadable("the operator uses batch statistics, as in training")
    _channels_first(data_format)
    emit.call.hint = "normed"
    weights = emit.arguments_of_layer(
        running_mean=mean, running_var=variance, weight=scale, bias=bias
    )
    given = arguments(emit.value(x), *weights, epsilon=(_round_as_literal(epsilon), 1e-5))
    return f"{emit.functions}batch_norm({given})"


def _round_as_literal(number: float) -> float:
    """Round a number to its literal."""
    return float(literal(number))


@spells("layer_norm")
def layer_norm(
    emit: Emit,
    x: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
    begin_norm_axis: int,
) -> str:
    sizes = list(shape_of(x.type)[begin_norm_axis:])
    if UNKNOWN in sizes:
        raise NotReadable("the sizes of the normalized axes are open")
    emit.call.hint = "normed"
    weights = emit.arguments_of_layer(weight=scale, bias=bias)
    given = arguments(
        emit.value(x),
        literal(_one(sizes) if len(sizes) == 1 else sizes),
        *weights,
        epsilon=(_round_as_literal(epsilon), 1e-5),
    )
    return f"{emit.functions}layer_norm({given})"


@spells("group_norm")
def group_norm(
    emit: Emit,
    x: SSAValue,
    scale: SSAValue | None,
    bias: SSAValue | None,
    epsilon: float,
    groups: int,
    data_layout: str,
) -> str:
    _channels_first(data_layout)
    weights = emit.arguments_of_layer(weight=scale, bias=bias)
    given = arguments(
        emit.value(x), str(groups), *weights, epsilon=(_round_as_literal(epsilon), 1e-5)
    )
    return f"{emit.functions}group_norm({given})"


@spells("instance_norm")
def instance_norm(
    emit: Emit, x: SSAValue, scale: SSAValue | None, bias: SSAValue | None, epsilon: float
) -> str:
    weights = emit.arguments_of_layer(weight=scale, bias=bias)
    name = "epsilon" if emit.is_jax else "eps"
    given = arguments(emit.value(x), *weights, **{name: (_round_as_literal(epsilon), 1e-5)})
    return f"{emit.functions}instance_norm({given})"


@spells("embedding")
def embedding(emit: Emit, x: SSAValue, weight: SSAValue, padding_idx: int) -> str:
    given = arguments(
        emit.value(x), *emit.arguments_of_layer(weight=weight), padding_idx=(padding_idx, -1)
    )
    return f"{emit.functions}embedding({given})"


@spells("matmul")
def matmul(
    emit: Emit,
    x: SSAValue,
    y: SSAValue,
    transpose_x: bool,
    transpose_y: bool,
    bias: SSAValue | None = None,
) -> str:
    if not (transpose_x or transpose_y) and emit.layer_of(weight=y, bias=bias) is not None:
        given = arguments(emit.value(x), *emit.arguments_of_layer(weight=y, bias=bias))
        return f"{emit.functions}linear({given})"
    if bias is not None:
        return f"{matmul(emit, x, y, transpose_x, transpose_y)} + {emit.value(bias)}"
    if transpose_x or transpose_y:
        if emit.is_jax:
            left, right = emit.value(x), emit.value(y)
            left += ".swapaxes(-1, -2)" if transpose_x and rank_of(x.type) > 1 else ""
            right += ".swapaxes(-1, -2)" if transpose_y and rank_of(y.type) > 1 else ""
            return f"{left} @ {right}"
        given = arguments(
            emit.value(x),
            emit.value(y),
            transpose_x=(transpose_x, False),
            transpose_y=(transpose_y, False),
        )
        return f"paddle.matmul({given})"
    return f"{emit.value(x)} @ {emit.value(y)}"


@spells("scale")
def spell_scale(emit: Emit, x: SSAValue, scale: float, bias: float, bias_after_scale: bool) -> str:
    if not bias_after_scale and scale != 1 and bias:
        bias *= scale
    dtype = dtype_of(x.type)
    times, plus = (literal(number_of(dtype, number)) for number in (scale, bias))
    if bias == 0:
        return f"-{emit.value(x)}" if scale == -1 else f"{emit.value(x)} * {times}"
    if scale == 1:
        sign, plus = ("-", literal(number_of(dtype, -bias))) if bias < 0 else ("+", plus)
        return f"{emit.value(x)} {sign} {plus}"
    if not emit.is_jax:
        return f"paddle.scale({emit.value(x)}, {times}, {plus})"
    return f"{emit.value(x)} * {times} + {plus}"


@spells("pow")
def power(emit: Emit, x: SSAValue, factor: float) -> str:
    return f"{emit.value(x)} ** {literal(number_of(dtype_of(x.type), factor))}"


@spells("reshape")
def reshape(emit: Emit, x: SSAValue, shape: Ints) -> str:
    known = shape_of(x.type)
    if 0 in known:
        shape = shape_of(emit.op.results[0].type)
    if not emit.is_jax:
        return f"paddle.reshape({emit.value(x)}, {literal(shape)})"
    source = emit.value(x)
    sizes = [
        str(size)
        if size or 0 in known
        else str(known[at])
        if known[at] != UNKNOWN
        else f"{source}.shape[{at}]"
        for at, size in enumerate(shape)
    ]
    return f"{source}.reshape({', '.join(sizes) or '()'})"


@spells("expand")
def expand(emit: Emit, x: SSAValue, shape: Ints) -> str:
    if not emit.is_jax:
        return f"paddle.expand({emit.value(x)}, {literal(shape)})"
    own = (1,) * (len(shape) - rank_of(x.type)) + shape_of(x.type)
    source = emit.value(x)
    sizes = [
        str(n) if n != -1 else str(o) if o != UNKNOWN else f"{source}.shape[{at - len(shape)}]"
        for at, (n, o) in enumerate(zip(shape, own, strict=True))
    ]
    return f"jnp.broadcast_to({source}, ({', '.join(sizes)}{',' if len(sizes) == 1 else ''}))"


@spells("squeeze")
def squeeze(emit: Emit, x: SSAValue, axis: Ints) -> str:
    axes = tuple(a for a in axis if shape_of(x.type)[a] in (1, UNKNOWN))
    if not axis:
        axes = tuple(at for at, size in enumerate(shape_of(x.type)) if size == 1)
    if emit.is_jax:
        return f"jnp.squeeze({emit.value(x)}, {literal(axes[0]) if len(axes) == 1 else axes})"
    given = literal(axes[0] if len(axes) == 1 else axes)
    return f"paddle.squeeze({emit.value(x)}, {given})"


@spells("unsqueeze")
def unsqueeze(emit: Emit, x: SSAValue, axis: Ints) -> str:
    if emit.is_jax:
        given = literal(axis[0]) if len(axis) == 1 else f"({', '.join(map(str, axis))})"
        return f"jnp.expand_dims({emit.value(x)}, {given})"
    return f"paddle.unsqueeze({emit.value(x)}, {literal(axis[0] if len(axis) == 1 else axis)})"


@spells("slice", "strided_slice")
def spell_slice(
    emit: Emit,
    input: SSAValue,
    axes: Ints,
    starts: Ints,
    ends: Ints,
    decrease_axis: Ints,
    strides: Ints = (),
) -> str:
    emit.call.hint = "part"
    part = _subscript(input, axes, starts, ends, strides, decrease_axis)
    return f"{emit.value(input)}[{part}]"


_FAR = 2**31 - 1


def _subscript(
    x: SSAValue, axes: Ints, starts: Ints, ends: Ints, strides: Ints, decreased: Ints
) -> str:
    sizes = shape_of(x.type)
    places = [axis % len(sizes) for axis in axes]
    parts = [":"] * (max(places) + 1)
    steps = strides or (1,) * len(axes)
    dropped = {axis % len(sizes) for axis in decreased}
    for axis, start, end, step in zip(places, starts, ends, steps, strict=True):
        if axis in dropped:
            parts[axis] = str(start)
            continue
        size = sizes[axis]
        if step > 0:
            first = "" if start == 0 else str(start)
            last = "" if end >= _FAR or (size != UNKNOWN and end >= size) else str(end)
        else:
            first = "" if start >= _FAR or (size != UNKNOWN and start == size - 1) else str(start)
            last = "" if end < -_FAR or (size != UNKNOWN and end < -size) else str(end)
        parts[axis] = f"{first}:{last}" + (f":{step}" if step != 1 else "")
    return ", ".join(parts)


@spells("set_value")
def set_value(
    emit: Emit,
    input: SSAValue,
    value: SSAValue,
    axes: Ints,
    starts: Ints,
    ends: Ints,
    steps: Ints,
    decrease_axes: Ints,
) -> str:
    if not emit.is_jax:
        raise NotReadable("Paddle writes into a tensor only in a statement")
    part = _subscript(input, axes, starts, ends, steps, decrease_axes)
    more = rank_of(value.type) - rank_of(input.type) + len(decrease_axes)
    first = f"[{', '.join('0' * more)}]" if more > 0 else ""
    return f"{emit.value(input)}.at[{part}].set({emit.value(value)}{first})"


@spells("array_to_tensor")
def array_to_tensor(emit: Emit, array: SSAValue, axis: int, use_stack: bool) -> str:
    """Move the array's first axis, its elements, to `axis`; join the axes unless stacking."""
    rank = rank_of(array.type)
    at = axis % (rank if use_stack else rank - 1)
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    text = emit.value(array)
    if at:
        text = f"{emit.module}.transpose({text}, {literal(order)})"
    if not use_stack:
        text = f"{'' if emit.is_jax else 'paddle.'}flatten({text}, {at}, {at + 1})"
    if text == emit.value(array) and not emit.is_jax:
        return f"paddle.assign({text})"
    return text


@spells("reshape_like")
def reshape_like(emit: Emit, x: SSAValue, like: SSAValue, shape: Ints) -> str:
    """Reshape; 0 is the size of `like` at the same position."""
    old, other = emit.value(x), emit.value(like)
    size = f"{other}.shape" if emit.is_jax else f"paddle.shape({other})"
    sizes = [f"{size}[{at}]" if each == 0 else str(each) for at, each in enumerate(shape)]
    return f"{emit.module}.reshape({old}, [{', '.join(sizes)}])"


@spells("array_write")
def array_write(emit: Emit, array: SSAValue, position: SSAValue, x: SSAValue) -> str:
    """Concatenate the elements before the position, the new one, and the elements after it."""
    old, at, new = map(emit.value, (array, position, x))
    if emit.is_jax:
        return f"array_write({old}, {at}, {new})"
    at = at if rank_of(position.type) else f"paddle.reshape({at}, [1])"
    before = f"paddle.slice({old}, [0], [0], {at})"
    after = f"paddle.slice({old}, [0], {at} + 1, [{2**31 - 1}])"
    return f"paddle.concat([{before}, paddle.unsqueeze({new}, 0), {after}])"


@spells("split")
def split(emit: Emit, x: SSAValue, axis: int, num: int, sections: Ints) -> str:
    if not emit.is_jax:
        given = arguments(emit.value(x), literal(list(sections) or num), axis=(axis, 0))
        return f"paddle.split({given})"
    places = [sum(sections[: at + 1]) for at in range(len(sections) - 1)]
    if -1 in sections:
        raise NotReadable("the size of a part is open")
    given = arguments(emit.value(x), literal(places if sections else num), axis=(axis, 0))
    return f"jnp.split({given})"


@spells("unbind")
def unbind(emit: Emit, x: SSAValue, axis: int) -> str:
    if emit.is_jax:
        return f"jnp.unstack({arguments(emit.value(x), axis=(axis, 0))})"
    return f"paddle.unbind({arguments(emit.value(x), axis=(axis, 0))})"


@spells("topk")
def topk(emit: Emit, x: SSAValue, k: int, axis: int, largest: bool, sorted: bool) -> str:
    last = axis in (-1, rank_of(x.type) - 1)
    if not emit.is_jax:
        given = arguments(
            emit.value(x), str(k), axis=(axis if not last else -1, -1), largest=(largest, True)
        )
        return f"paddle.topk({given})"
    if not last or not largest:
        raise NotReadable("only the largest elements along the last axis have a call")
    return f"top_k({emit.value(x)}, {k})"


@spells("argsort")
def argsort(emit: Emit, x: SSAValue, axis: int, descending: bool) -> str:
    if len(emit.used) > 1:
        raise NotReadable("both results are read")
    name = "sort" if 0 in emit.used else "argsort"
    given = arguments(emit.value(x), axis=(axis, -1), descending=(descending, False))
    return f"{emit.module}.{name}({given})"


@spells("argmax", "argmin")
def argument(emit: Emit, x: SSAValue, axis: int, keepdim: bool, flatten: bool, dtype: DType) -> str:
    name = emit.op.name.removeprefix("pd.")
    if emit.is_jax:
        given = arguments(
            emit.value(x), axis=(None if flatten else axis, None), keepdims=(keepdim, False)
        )
        made = f"jnp.{name}({given})"
        return made if dtype == "int64" else f'{made}.astype("{dtype}")'
    given = arguments(
        emit.value(x),
        axis=(None if flatten else axis, None),
        keepdim=(keepdim, False),
        dtype=(f"{dtype}", "int64"),
    )
    return f"paddle.{name}({given})"


# by kind, the dtype in which JAX sums integers
_WHOLE_SUMS = {"b": "int64", "i": "int64", "u": "uint64"}


@spells("sum", "prod")
def spell_reduction(
    emit: Emit, x: SSAValue, axis: Ints, keepdim: bool, dtype: DType | None = None
) -> str:
    own, wanted = dtype_of(x.type), dtype_of(emit.op.results[0].type)
    usual = _WHOLE_SUMS.get(own.numpy.kind, own) if emit.is_jax else None if dtype is None else own
    given = arguments(
        emit.value(x),
        axis=(plain("axis", axis), None),
        dtype=(f"{wanted}", f"{usual or wanted}"),
        **{"keepdims" if emit.is_jax else "keepdim": (keepdim, False)},
    )
    return f"{emit.module}.{emit.op.name.removeprefix('pd.')}({given})"


@spells("softmax", "log_softmax")
def softmax(emit: Emit, x: SSAValue, axis: int) -> str:
    if emit.is_jax and not rank_of(x.type):
        raise NotReadable("JAX does not support a scalar operand")
    given = arguments(emit.value(x), axis=(axis, -1))
    return f"{'jax.nn' if emit.is_jax else 'F'}.{emit.op.name.removeprefix('pd.')}({given})"


@spells("copysign", "heaviside")
def of_signs(emit: Emit, x: SSAValue, y: SSAValue) -> str:
    name, dtype = emit.op.name.removeprefix("pd."), dtype_of(x.type)
    text = f"{emit.module}.{name}({emit.value(x)}, {emit.value(y)})"
    whole = emit.is_jax and dtype.numpy.kind in "iu"
    return f'{text}.astype("{dtype}")' if whole else text


@spells("round")
def spell_round(emit: Emit, x: SSAValue) -> str:
    if not emit.is_jax:
        return f"paddle.round({emit.value(x)})"
    return f"{'jnp' if dtype_of(x.type).numpy.kind in 'iu' else 'lax'}.round({emit.value(x)})"


@spells("cast")
def cast(emit: Emit, x: SSAValue, dtype: DType) -> str:
    source = emit.value(x)
    if emit.is_jax and dtype_of(x.type).numpy.kind == "c" and dtype.numpy.kind != "c":
        source = f"jnp.real({source})"
    return f'{source}.astype("{dtype}")'


@spells("p_norm")
def norm_of(emit: Emit, x: SSAValue, porder: float, axis: Ints, keepdim: bool) -> str:
    if emit.is_jax:
        options = {"axis": (plain("axis", axis), None), "keepdims": (keepdim, False)}
        given = arguments(**options)
        if np.isinf(porder):
            return f"jnp.abs({emit.value(x)}).{'max' if porder > 0 else 'min'}({given})"
        if porder == 0:
            return f'({emit.value(x)} != 0).astype("{dtype_of(x.type)}").sum({given})'
        return f"p_norm({arguments(emit.value(x), literal(porder), **options)})"
    given = arguments(
        emit.value(x), p=(porder, 2.0), axis=(plain("axis", axis), None), keepdim=(keepdim, False)
    )
    return f"paddle.norm({given})"


@spells("cumsum")
def cumsum(
    emit: Emit, x: SSAValue, axis: int, flatten: bool, exclusive: bool, reverse: bool
) -> str:
    if exclusive or reverse:
        raise NotReadable("the sum is exclusive or reversed")
    own = f"{dtype_of(x.type)}"
    usual = own if emit.is_jax or own != "int32" else "int64"  # Paddle 3's default
    given = arguments(emit.value(x), axis=(None if flatten else axis, None), dtype=(own, usual))
    return f"{emit.module}.cumsum({given})"


@spells("clip")
def clip(emit: Emit, x: SSAValue, min: float, max: float) -> str:
    whole = dtype_of(x.type).numpy.kind in "iu"
    if whole:  # the default bounds are limits of floats
        limits = np.iinfo(dtype_of(x.type).numpy)
        low, high = (int(np.clip(n, limits.min, limits.max)) for n in (min, max))
    else:
        low, high = min, max
    given = arguments(emit.value(x), literal(low), literal(high))
    return f"{emit.module}.clip({given})"


@spells("full")
def full(emit: Emit, shape: Ints, value: float, dtype: DType) -> str:
    number = literal(number_of(dtype, value))
    given = f'{literal(shape)}, {number}, dtype="{dtype}"'
    emit.call.hint = "filled"
    return f"{emit.module}.full({given})"


@spells("full_like")
def full_like(emit: Emit, x: SSAValue, value: float, dtype: DType | None) -> str:
    own = dtype or dtype_of(x.type)
    given = arguments(
        emit.value(x),
        literal(number_of(own, value)),
        dtype=(f"{own}", f"{dtype_of(x.type)}"),
    )
    return f"{emit.module}.full_like({given})"


@spells("assign_value")
def constant(emit: Emit, shape: Ints, values: tuple[float, ...], dtype: DType) -> str:
    if len(values) > 64:
        raise NotReadable(f"the constant has {len(values)} elements, more than 64")
    nested: Any = [number_of(dtype, value) for value in values]
    for size in reversed(shape[1:]):
        nested = [nested[at : at + size] for at in range(0, len(nested), size)]
    text = literal(nested if shape else nested[0])
    if emit.is_jax:
        return f'jnp.array({text}, dtype="{dtype}")'
    return f'paddle.assign(np.array({text}, dtype="{dtype}"))'


@spells("arange")
def arange(emit: Emit, start: float, end: float, step: float, dtype: DType) -> str:
    numbers = [literal(number_of(dtype, n)) for n in (start, end, step)]
    return f'{emit.module}.arange({", ".join(numbers)}, dtype="{dtype}")'


@spells("linspace")
def linspace(emit: Emit, start: float, stop: float, num: int, dtype: DType) -> str:
    given = f'{literal(start)}, {literal(stop)}, {num}, dtype="{dtype}"'
    return f"{emit.module}.linspace({given})"


@spells("one_hot")
def one_hot(emit: Emit, x: SSAValue, depth: int, dtype: DType) -> str:
    if emit.is_jax:
        wide = "" if dtype_of(x.type).numpy.itemsize > 2 else '.astype("int32")'
        return f'jax.nn.one_hot({emit.value(x)}{wide}, {depth}, dtype="{dtype}")'
    if dtype != "float32":
        raise NotReadable(f"Paddle returns float32, not {dtype}")
    return f"F.one_hot({emit.value(x)}, {depth})"


@spells("gather")
def gather(emit: Emit, x: SSAValue, index: SSAValue, axis: int) -> str:
    if emit.is_jax:
        return f"jnp.take({emit.value(x)}, {_rows(emit, index)}, axis={axis})"
    given = arguments(emit.value(x), emit.value(index), axis=(axis, 0))
    return f"paddle.gather({given})"


def _rows(emit: Emit, index: SSAValue) -> str:
    """Format row indices, which Paddle also takes as a column, as a vector."""
    return emit.value(index) + (".reshape(-1)" if rank_of(index.type) == 2 else "")


@spells("pad")
def pad(emit: Emit, x: SSAValue, paddings: Ints, mode: str, value: float) -> str:
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    if emit.is_jax and min(paddings) < 0:
        raise NotReadable("the padding is negative")
    if emit.is_jax:
        names = {
            "constant": "constant",
            "reflect": "reflect",
            "replicate": "edge",
            "circular": "wrap",
        }
        given = arguments(
            emit.value(x),
            f"[{', '.join(map(str, pairs))}]",
            mode=(names.get(mode, mode), "constant"),
            constant_values=(_round_as_literal(value), 0.0),
        )
        return f"jnp.pad({given})"
    if mode != "constant":
        raise NotReadable(f"the mode {mode} has a call only for images")
    given = arguments(emit.value(x), literal(paddings), value=(_round_as_literal(value), 0.0))
    return f"F.pad({given})"


@spells("leaky_relu")
def leaky_relu(emit: Emit, x: SSAValue, negative_slope: float) -> str:
    given = arguments(emit.value(x), negative_slope=(_round_as_literal(negative_slope), 0.01))
    return f"{'jax.nn' if emit.is_jax else 'F'}.leaky_relu({given})"


@spells("swish")
def swish(emit: Emit, x: SSAValue, beta: float) -> str:
    if beta != 1:
        raise NotReadable("beta is not 1")
    return f"{'jax.nn.silu' if emit.is_jax else 'F.swish'}({emit.value(x)})"


@spells("dropout")
def dropout(emit: Emit, x: SSAValue, p: float, is_test: bool, mode: str) -> str:
    if not is_test:
        raise NotReadable("the operator draws random numbers, as in training")
    if mode == "upscale_in_train":
        return f"{emit.value(x)}"
    return f"{emit.value(x)} * {literal(1 - p)}"


@spells("einsum")
def einsum(emit: Emit, inputs: tuple[SSAValue, ...], equation: str) -> str:
    given = ", ".join([literal(equation), *(emit.value(value) for value in inputs)])
    return f"{emit.module}.einsum({given})"


@spells("interpolate")
def interpolate(
    emit: Emit,
    x: SSAValue,
    like: SSAValue | None,
    size: Ints,
    scale: tuple[float, ...],
    single_scale: bool,
    spaced_by_size: bool,
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_layout: str,
) -> str:
    _channels_first(data_layout)
    if mode == "nearest" and align_corners:
        raise NotReadable("the mode nearest with align_corners has no call")
    if spaced_by_size and any(factor % 1 for factor in scale):
        raise NotReadable("the pixels are spaced by the sizes, not by the scale")
    if emit.is_jax and single_scale and any(factor * 16 % 1 for factor in scale):
        raise NotReadable("the result sizes are computed in float32")
    if emit.is_jax and mode != "nearest" and dtype_of(x.type).numpy.kind != "f":
        raise NotReadable("the images are integers")
    if emit.is_jax and mode not in ("nearest", "bilinear", "linear", "trilinear"):
        raise NotReadable(f"the mode {mode} has no call")
    axes = rank_of(x.type) - 3
    if not emit.is_jax and mode == "nearest" and not axes:
        raise NotReadable("Paddle supports the mode nearest only in two and three dimensions")
    kinds = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}
    if mode in kinds:
        mode = kinds[mode][axes]
    options: dict[str, tuple[Any, Any]] = {
        "mode": (mode, "nearest"),
        "align_corners": (align_corners, False),
        "align_mode": (0 if mode == "nearest" else align_mode, 0),
    }
    if not emit.is_jax:
        options["data_format"] = (("NCW", "NCHW", "NCDHW")[axes], "NCHW")
    source = emit.value(x)
    if like is not None:
        like_ = emit.value(like)
        size_ = f"{like_}.shape[2:]" if emit.is_jax else f"paddle.shape({like_})[2:{axes + 3}]"
        given = arguments(source, f"size={size_}", **options)
    elif size:
        given = arguments(source, f"size={literal(size)}", **options)
    else:
        factors = [int(each) if each % 1 == 0 else each for each in scale]
        factor = factors[0] if len(set(factors)) == 1 else factors
        given = arguments(source, f"scale_factor={literal(factor)}", **options)
    return f"{emit.functions}interpolate({given})"


@spells("scatter")
def scatter(emit: Emit, x: SSAValue, index: SSAValue, updates: SSAValue, overwrite: bool) -> str:
    x_, new = emit.value(x), emit.value(updates)
    if not emit.is_jax:
        given = arguments(x_, emit.value(index), new, overwrite=(overwrite, True))
        return f"paddle.scatter({given})"
    at = _rows(emit, index)
    return f"{x_}.at[{at}].set({new})" if overwrite else f"{x_}.at[{at}].set(0).at[{at}].add({new})"


@spells("unfold")
def unfold(
    emit: Emit,
    x: SSAValue,
    kernel_sizes: Ints,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
) -> str:
    sides = paddings[:2] if paddings[:2] == paddings[2:] else paddings
    given = arguments(
        emit.value(x),
        literal(_one(kernel_sizes)),
        strides=(_one(strides), 1),
        paddings=(_one(sides), 0),
        dilations=(_one(dilations), 1),
    )
    if emit.is_jax and len(set(sides)) > 1:
        raise NotReadable("the sides are padded differently")
    return f"{emit.functions}unfold({given})"


@spells("grid_sample")
def grid_sample(
    emit: Emit, x: SSAValue, grid: SSAValue, mode: str, padding_mode: str, align_corners: bool
) -> str:
    if emit.is_jax and (mode, padding_mode) != ("bilinear", "zeros"):
        raise NotReadable(f"the modes {mode} and {padding_mode} have no call")
    if emit.is_jax and rank_of(x.type) != 4:
        raise NotReadable("the images do not have two dimensions")
    given = arguments(
        emit.value(x),
        emit.value(grid),
        mode=(mode, "bilinear"),
        padding_mode=(padding_mode, "zeros"),
        align_corners=(align_corners, True),
    )
    return f"{emit.functions}grid_sample({given})"


@spells("rnn")
def recurrent(
    emit: Emit,
    x: SSAValue,
    pre_state: tuple[SSAValue, ...],
    weight_list: tuple[SSAValue, ...],
    sequence_length: SSAValue | None,
    dropout_prob: float,
    is_bidirec: bool,
    mode: str,
    is_test: bool,
    zero_padding: bool,
    is_reverse: bool,
    proj_size: int,
) -> str:
    if not emit.is_jax:
        raise NotReadable("Paddle supports this operator only as a layer with its own weights")
    if mode not in ("LSTM", "GRU") or proj_size or is_reverse or not zero_padding:
        raise NotReadable(
            "only an LSTM or GRU with zero_padding, not reversed and without proj_size has a call"
        )
    if dropout_prob and not is_test:
        raise NotReadable("the operator draws random numbers, as in training")
    layers = list(dict.fromkeys(emit.weights.get(value, ("", ""))[0] for value in weight_list))
    if len(layers) * 4 != len(weight_list) or "" in layers:
        raise NotReadable("the weights do not belong to separate cells")
    cells = ", ".join(emit.layer(layer) for layer in layers)
    given = [emit.value(x), emit.values(pre_state), f"[{cells}]"]
    given += ["bidirectional=True"] if is_bidirec else []
    given += [f"lengths={emit.value(sequence_length)}"] if sequence_length is not None else []
    return f"{mode.lower()}({', '.join(given)})"
