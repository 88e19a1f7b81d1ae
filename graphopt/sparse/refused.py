"""Names of paddle.sparse, all of which are refused: the reason, and a replacement.

XLA computes with dense tensors only. Paddle's own static graphs have sparse tensors of the form COO
with elementwise functions, but no derivatives, matrix products or convolutions of them (3.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping

_DENSE = "XLA computes with dense tensors only"
_MASK = "where `mask` is 1 at the places that the sparse tensor has"
Table = Mapping[str, tuple[str, str]]

# functions that map 0 to 0, or keep the stored values: the dense ones give the same
_ELEMENTS = (
    "abs add addmm asin asinh atan atanh cast deg2rad divide expm1 isnan log1p matmul multiply mv "
    "neg pow rad2deg reshape sin sinh slice sqrt square subtract sum tan tanh transpose"
)

FUNCTIONS: Table = {
    **{
        name: (_DENSE, f"paddle.{name} of the dense tensor, which has 0 elsewhere")
        for name in _ELEMENTS.split()
    },
    "sparse_coo_tensor": (
        _DENSE,
        "paddle.scatter_nd(paddle.transpose(indices, [1, 0]), values, shape), a dense tensor",
    ),
    "sparse_csr_tensor": (
        _DENSE,
        "paddle.scatter_nd(paddle.stack([rows, cols], 1), values, shape), a dense tensor, where "
        "rows is paddle.repeat_interleave(paddle.arange(n), crows[1:] - crows[:-1])",
    ),
    "masked_matmul": (_DENSE, f"paddle.matmul(x, y) * mask, {_MASK}"),
    "mask_as": (_DENSE, f"x * mask, {_MASK}"),
    "coalesce": (_DENSE, "nothing: paddle.scatter_nd adds up the values of one place"),
    "is_same_shape": (_DENSE, "x.shape == y.shape"),
    "pca_lowrank": (_DENSE, "paddle.linalg.svd of the dense tensor"),
}
"""Functions of paddle.sparse."""

_CHANNELS_LAST = {2: "NHWC", 3: "NDHWC"}
LAYERS: Table = {
    **{
        name: (_DENSE, f"paddle.nn.{name} on the dense tensor")
        for name in ("LeakyReLU", "ReLU", "ReLU6")
    },
    **{
        f"Conv{n}D": (_DENSE, f"paddle.nn.Conv{n}D(..., data_format='{form}') on the dense tensor")
        for n, form in _CHANNELS_LAST.items()
    },
    **{
        f"SubmConv{n}D": (
            _DENSE,
            f"paddle.nn.Conv{n}D(..., data_format='{form}') on the dense tensor, times mask, "
            f"{_MASK}",
        )
        for n, form in _CHANNELS_LAST.items()
    },
    "BatchNorm": (_DENSE, "paddle.nn.BatchNorm1D on the values [n, channels] before they scatter"),
    "SyncBatchNorm": (
        _DENSE,
        "paddle.nn.SyncBatchNorm on the values [n, channels] before they scatter",
    ),
    "MaxPool3D": (_DENSE, "paddle.nn.MaxPool3D(..., data_format='NDHWC') on the dense tensor"),
    "Softmax": (
        _DENSE,
        "paddle.nn.functional.softmax(x + (mask - 1) * 1e9) * mask on the dense tensor, " + _MASK,
    ),
}
"""Layers of paddle.sparse.nn."""

LAYER_FUNCTIONS: Table = {
    **{
        name: (_DENSE, f"paddle.nn.functional.{name} of the dense tensor")
        for name in ("leaky_relu", "relu", "relu6")
    },
    "softmax": LAYERS["Softmax"],
    "attention": (
        _DENSE,
        "paddle.nn.functional.scaled_dot_product_attention with attn_mask, 0 at the places that "
        "the sparse mask has and -1e9 elsewhere",
    ),
    "max_pool3d": (
        _DENSE,
        "paddle.nn.functional.max_pool3d(..., data_format='NDHWC') of the dense tensor",
    ),
    **{
        f"{prefix}conv{n}d{suffix}": (
            _DENSE,
            f"paddle.nn.functional.conv{n}d(..., data_format='{form}') of the dense tensor"
            + (f", times mask, {_MASK}" if prefix else ""),
        )
        for n, form in _CHANNELS_LAST.items()
        for prefix, suffix in (("", ""), ("subm_", ""), ("subm_", "_igemm"))
    },
}
"""Functions of paddle.sparse.nn.functional."""
