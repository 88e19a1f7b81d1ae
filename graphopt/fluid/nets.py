"""Small networks of layers (paddle.fluid.nets)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid import layers
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.ir.program import Variable


def simple_img_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: Any,
    pool_size: Any,
    pool_stride: Any,
    pool_padding: Any = 0,
    pool_type: str = "max",
    global_pooling: bool = False,
    conv_stride: Any = 1,
    conv_padding: Any = 0,
    conv_dilation: Any = 1,
    conv_groups: int = 1,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    use_cudnn: bool = True,
) -> Variable:
    """Apply a convolution and a pool (fluid.nets.simple_img_conv_pool)."""
    made = layers.conv2d(
        input,
        num_filters,
        filter_size,
        conv_stride,
        conv_padding,
        conv_dilation,
        conv_groups,
        param_attr,
        bias_attr,
        use_cudnn,
        act,
    )
    return layers.pool2d(made, pool_size, pool_type, pool_stride, pool_padding, global_pooling)


def img_conv_group(
    input: Variable,
    conv_num_filter: Any,
    pool_size: Any,
    conv_padding: Any = 1,
    conv_filter_size: Any = 3,
    conv_act: str | None = None,
    param_attr: Any = None,
    conv_with_batchnorm: Any = False,
    conv_batchnorm_drop_rate: Any = 0.0,
    pool_stride: Any = 1,
    pool_type: str = "max",
    use_cudnn: bool = True,
) -> Variable:
    """Apply convolutions, each perhaps with batch normalization and dropout, and one pool.

    An argument that is not a list applies to every convolution. Paddle page:
    fluid.nets.img_conv_group.
    """
    filters = arguments.integers(conv_num_filter, "conv_num_filter", "img_conv_group")

    def each(value: Any) -> list[Any]:
        many = list(value) if isinstance(value, (list, tuple)) else [value] * len(filters)
        if len(many) != len(filters):
            raise ValueError(f"img_conv_group(): expected {len(filters)} values, found {many}")
        return many

    options = zip(
        filters,
        each(conv_filter_size),
        each(conv_padding),
        each(param_attr),
        each(conv_with_batchnorm),
        each(conv_batchnorm_drop_rate),
        strict=True,
    )
    made = input
    for count, size, padding, attr, normalised, rate in options:
        act = None if normalised else conv_act
        made = layers.conv2d(
            made, count, size, padding=padding, param_attr=attr, act=act, use_cudnn=use_cudnn
        )
        if normalised:
            made = layers.batch_norm(made, act=conv_act)
            made = layers.dropout(made, rate) if abs(rate) > 1e-5 else made
    return layers.pool2d(made, pool_size, pool_type, pool_stride)


def glu(input: Variable, dim: int = -1) -> Variable:
    """Multiply half of the input by the sigmoid of the other half (fluid.nets.glu)."""
    first, second = layers.split(input, 2, dim)
    return layers.elementwise_mul(first, layers.sigmoid(second))


def scaled_dot_product_attention(
    queries: Variable,
    keys: Variable,
    values: Variable,
    num_heads: int = 1,
    dropout_rate: float = 0.0,
) -> Variable:
    """Compute attention over [n, t, d] in several heads (scaled_dot_product_attention).

    More than one head first takes queries, keys and values through separate layers. Raises
    ValueError when the shapes do not fit.
    """
    function = "scaled_dot_product_attention"
    for what, value in (("queries", queries), ("keys", keys), ("values", values)):
        if len(arguments.variable(value, what, function).shape) != 3:
            raise ValueError(f"{function}(): '{what}' should be 3-D, found {list(value.shape)}")
    width, own = queries.shape[-1], values.shape[-1]
    if width != keys.shape[-1] or keys.shape[1] != values.shape[1]:
        raise ValueError(
            f"{function}(): queries {list(queries.shape)}, keys {list(keys.shape)} and values "
            f"{list(values.shape)} do not fit"
        )
    if width % num_heads or own % num_heads:
        raise ValueError(f"{function}(): {width} and {own} cannot be split in {num_heads} heads")
    parts = [queries, keys, values]
    if num_heads > 1:
        parts = [layers.fc(part, part.shape[-1], num_flatten_dims=2) for part in parts]
        parts = [
            layers.transpose(
                layers.reshape(p, [0, 0, num_heads, p.shape[-1] // num_heads]), [0, 2, 1, 3]
            )
            for p in parts
        ]
    factor = (width // num_heads) ** -0.5
    weights = layers.softmax(layers.matmul(layers.scale(parts[0], factor), parts[1], False, True))
    if dropout_rate:
        weights = layers.dropout(weights, dropout_rate, is_test=False)
    out = layers.matmul(weights, parts[2])
    if num_heads == 1:
        return out
    return layers.reshape(layers.transpose(out, [0, 2, 1, 3]), [0, 0, own])


def sequence_conv_pool(
    input: Variable,
    num_filters: int,
    filter_size: int,
    param_attr: Any = None,
    act: str | None = "sigmoid",
    pool_type: str = "max",
    bias_attr: Any = None,
) -> Variable:
    """Apply a convolution over sequences and a pool (fluid.nets.sequence_conv_pool)."""
    made = layers.sequence_conv(
        input, num_filters, filter_size, param_attr=param_attr, bias_attr=bias_attr, act=act
    )
    return layers.sequence_pool(made, pool_type)


publish(globals(), __name__)
