"""The operator types that compute in half precision, in float32, or as their producers do.

The default lists are copied from Paddle 1.8.5 and 2.6.2. A white operator computes in half
precision, a black one in float32, a gray one as its producers do; any other computes in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSet
from typing import Any

_WHITE = "conv2d einsum fused_gemm_epilogue matmul matmul_v2 max_pool2d_with_index mul"
_ALSO_WHITE = (
    "fake_quantize_dequantize_abs_max fake_quantize_dequantize_moving_average_abs_max "
    "fused_attention fused_feedforward"
)
_BLACK = (
    "acos asin atanh c_softmax_with_cross_entropy cosh cross_entropy cross_entropy2 cumprod cumsum "
    "dist erfinv exp expm1 frobenius_norm group_norm hsigmoid_loss huber_loss layer_norm log log10 "
    "log2 log_loss log_softmax margin_cross_entropy mean nll_loss pnorm pow reciprocal reduce_mean "
    "reduce_prod reduce_sum renorm rsqrt sigmoid_cross_entropy_with_logits sinh softmax "
    "softmax_with_cross_entropy softmin softplus square tan tanh_shrink triplet_margin_loss"
)
_ALSO_BLACK = (
    "bicubic_interp_v2 bilinear_interp_v2 linear_interp_v2 lookup_table lookup_table_v2 "
    "nearest_interp_v2 scatter trilinear_interp_v2"
)
_GRAY_SINCE_1_8 = (
    "batch_norm cast dropout elementwise_add elementwise_div elementwise_floordiv elementwise_max "
    "elementwise_min elementwise_mod elementwise_mul elementwise_pow elementwise_sub fill_constant "
    "flatten2 gather get_tensor_from_selected_rows leaky_relu pool2d pool3d rank relu relu6 "
    "reshape2 scale sigmoid sign slice soft_relu stack tanh top_k transpose2 "
    "uniform_random_batch_size_like unstack gaussian_random"
)
_GRAY = (
    f"{_GRAY_SINCE_1_8} c_allreduce_sum c_concat c_identity concat fused_attention split "
    "fused_bn_add_activation fused_feedforward fused_multi_transformer layer_norm uniform_random"
)
WHITE, BLACK, GRAY = (frozenset(names.split()) for names in (_WHITE, _BLACK, _GRAY))
ALSO_WHITE = frozenset(_ALSO_WHITE.split())
WHITE_IN_FLOAT16 = frozenset(("fused_bn_add_activation", "resnet_unit"))
ALSO_BLACK = frozenset(_ALSO_BLACK.split())
WHITE_1_8 = frozenset(("conv2d", "matmul", "mul"))
_BLACK_1_8 = (
    "cos_sim cross_entropy cross_entropy2 exp log mean sigmoid_cross_entropy_with_logits softmax "
    "softmax_with_cross_entropy square sum"
)
BLACK_1_8 = frozenset(_BLACK_1_8.split())
GRAY_1_8 = frozenset(f"{_GRAY_SINCE_1_8} gaussian_random_batch_size_like lookup_table".split())


class AutoMixedPrecisionLists:
    """The lists of `static.amp.decorate`, with the caller's additions.

    An operator type in `custom_white_list` or `custom_black_list` is removed from its default list.
    Operators that read or write a variable of `custom_black_varnames` compute in float32. `dtype`
    is 'float16' or 'bfloat16'. Raises ValueError for another dtype, and for a type in both lists.
    Paddle page: paddle.static.amp.CustomOpLists.
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
        dtype: str = "float16",
    ) -> None:
        from graphopt.ir.translate.operators.registry import TRANSLATIONS
        from graphopt.ir.translate.operators.table import BY_TYPE

        self.amp_dtype = half_dtype(dtype)
        self.white_list: set[str] = set(WHITE | ALSO_WHITE)
        if self.amp_dtype == "float16":
            self.white_list |= WHITE_IN_FLOAT16
        self.black_list: set[str] = set(BLACK | ALSO_BLACK)
        self.gray_list: set[str] = set(GRAY)
        # the operators without a half-precision form; here only the caller's own
        self.unsupported_list = set(custom_black_list or ())
        self.all_list = {*BY_TYPE, *TRANSLATIONS}
        self.black_varnames = _names(custom_black_varnames)
        _move(self, custom_white_list, custom_black_list)


class AutoMixedPrecisionListsFluid:
    """The lists of `fluid.contrib.mixed_precision.decorate`, with the caller's additions.

    Raises ValueError for a type in both lists.
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
    ) -> None:
        self.white_list: set[str] = set(WHITE_1_8)
        self.black_list: set[str] = set(BLACK_1_8)
        self.gray_list: set[str] = set(GRAY_1_8)
        self.black_varnames = _names(custom_black_varnames)
        _move(self, custom_white_list, custom_black_list)


class AutoMixedPrecisionListsBF16:
    """The lists of `static.amp.bf16.decorate_bf16`, with the caller's additions.

    `bf16_list` is the white list and `fp32_list` the black one. Raises ValueError for a type in
    both. Paddle page: paddle.static.amp.bf16.AutoMixedPrecisionListsBF16.
    """

    def __init__(
        self,
        custom_bf16_list: Iterable[str] | None = None,
        custom_fp32_list: Iterable[str] | None = None,
        custom_fp32_varnames: Iterable[str] | None = None,
    ) -> None:
        self.white_list: set[str] = set(WHITE)
        self.gray_list: set[str] = set(GRAY)
        self.black_list: set[str] = set((BLACK | ALSO_WHITE) - GRAY)
        self.black_varnames = _names(custom_fp32_varnames)
        self.unsupported_list = set(custom_fp32_list or ())
        _move(self, custom_bf16_list, custom_fp32_list)

    @property
    def bf16_list(self) -> set[str]:
        """The operator types that compute in bfloat16."""
        return self.white_list

    @property
    def fp32_list(self) -> set[str]:
        """The operator types that compute in float32."""
        return self.black_list

    @property
    def fp32_varnames(self) -> set[str] | None:
        """The variables whose operators compute in float32."""
        return self.black_varnames


Lists = AutoMixedPrecisionLists | AutoMixedPrecisionListsFluid | AutoMixedPrecisionListsBF16


def half_dtype(dtype: Any) -> str:
    """Normalize 'float16' or 'bfloat16' to lower case; raise ValueError for another dtype."""
    found = dtype.lower() if isinstance(dtype, str) else dtype
    if found not in ("float16", "bfloat16"):
        raise ValueError("If enable AMP, dtype should be 'float16' or 'bfloat16'.")
    return str(found)


def _names(given: Iterable[str] | None) -> set[str] | None:
    return None if given is None else set(given)


def _move(lists: Lists, white: Iterable[str] | None, black: Iterable[str] | None) -> None:
    """Move operator types to the white and to the black list."""
    whites, blacks = set(white or ()), set(black or ())
    for name in sorted(whites & blacks):
        raise ValueError(f"The given custom_white_list overlaps custom_black_list with < {name} >!")
    for chosen, names in ((lists.white_list, whites), (lists.black_list, blacks)):
        others: tuple[MutableSet[str], ...] = (
            lists.white_list,
            lists.black_list,
            lists.gray_list,
        )
        for other in others:
            other -= names
        chosen |= names
