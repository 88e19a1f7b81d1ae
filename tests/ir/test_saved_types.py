"""Operator types that only saved programs have: composite, fused and quantized ones.

Each case is an operator as a file holds it, with its results in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import GraphoptError

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """An operator: slots with arrays (or lists of arrays), and its expected outputs."""

    type: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    attrs: Mapping[str, Any]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def norm(x: Array, scale: Any = 1.0, bias: Any = 0.0, epsilon: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * scale + bias


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attend(x: Array, weight: Array, bias: Array, mask: Array, factor: float) -> Array:
    """Compute self-attention with a weight [hidden, 3, heads, size]."""
    mixed = np.einsum("bsh,htnd->tbnsd", x, weight) + bias[:, None, :, None]
    q, k, v = mixed
    shares = softmax(factor * np.einsum("bnsd,bntd->bnst", q, k) + mask)
    return np.einsum("bnst,bntd->bsnd", shares, v).reshape(*x.shape[:2], -1)


X, Y, W, B = numbers(3, 4), numbers(3, 4, seed=1), numbers(4, 5), numbers(5)
IMAGE = numbers(2, 4, 3, 3)
HIDDEN, QKV, QKV_BIAS = numbers(2, 3, 8), numbers(8, 3, 2, 4), numbers(3, 2, 4)
MASK = numbers(2, 2, 3, 3)
FOUND = np.array([True])
ONE, TWO = np.array([1], "int32"), np.array([2], "int32")


def case(type: str, inputs: Any, outputs: Any, **attrs: Any) -> Any:
    return pytest.param(Case(type, inputs, outputs, attrs), id=type)


CASES = [
    case(
        "fc",
        {"Input": X, "W": W, "Bias": B},
        {"Out": relu(X @ W + B)},
        in_num_col_dims=1,
        activation_type="relu",
    ),
    case(
        "fused_gemm_epilogue",
        {"X": X, "Y": W.T, "Bias": B},
        {"Out": relu(X @ W + B)},
        trans_y=True,
        activation="relu",
    ),
    case(
        "skip_layernorm",
        {"X": X, "Y": Y, "Scale": Y[0], "Bias": X[0]},
        {"Out": norm(X + Y, Y[0], X[0])},
        begin_norm_axis=1,
        epsilon=1e-5,
    ),
    case(
        "fused_fc_elementwise_layernorm",
        {"X": X, "W": W, "Bias0": B, "Y": numbers(3, 5), "Scale": B, "Bias1": B},
        {"Out": norm(X @ W + B + numbers(3, 5), B, B)},
        x_num_col_dims=1,
        begin_norm_axis=1,
    ),
    case(
        "fused_embedding_eltwise_layernorm",
        {
            "Ids": [np.array([[1, 2]]), np.array([[0, 1]])],
            "Embs": [X, Y],
            "Scale": X[0],
            "Bias": Y[0],
        },
        {"Out": norm(X[None, [1, 2]] + Y[None, [0, 1]], X[0], Y[0])},
    ),
    case(
        "fused_bias_dropout_residual_layer_norm",
        {"X": X, "Residual": Y, "Bias": X[1]},
        {"Y": norm(0.7 * (X + X[1]) + Y)},
        dropout_rate=0.3,
        is_test=True,
    ),
    case(
        "multihead_matmul",
        {"Input": HIDDEN, "W": QKV, "Bias": QKV_BIAS, "BiasQK": MASK},
        {"Out": attend(HIDDEN, QKV, QKV_BIAS, MASK, 0.5)},
        alpha=0.5,
        head_number=2,
    ),
    case(
        "fused_attention",
        {
            "X": HIDDEN,
            "QKVW": QKV.transpose(1, 2, 3, 0),
            "QKVBias": QKV_BIAS,
            "SrcMask": MASK,
            "OutLinearW": numbers(8, 8),
        },
        {"Y": norm(HIDDEN + attend(HIDDEN, QKV, QKV_BIAS, MASK, 0.5) @ numbers(8, 8))},
        dropout_rate=0.0,
        attn_dropout_rate=0.0,
        is_test=True,
    ),
    case(
        "fused_feedforward",
        {"X": X, "Linear1Weight": W, "Linear1Bias": B, "Linear2Weight": W.T},
        {"Out": X + relu(norm(X) @ W + B) @ W.T},
        pre_layer_norm=True,
        act_method="relu",
        dropout1_rate=0.0,
        dropout2_rate=0.0,
    ),
    case(
        "fused_softmax_mask_upper_triangle",
        {"X": MASK},
        {"Out": softmax(np.where(np.tri(3), MASK, -np.inf))},
    ),
    case(
        "flash_attn",
        {slot: numbers(1, 3, 2, 4, seed=at) for at, slot in enumerate("qkv")},
        {
            "out": np.einsum(
                "bnst,btnd->bsnd",
                softmax(
                    np.where(
                        np.tri(3),
                        np.einsum(
                            "bsnd,btnd->bnst", numbers(1, 3, 2, 4), numbers(1, 3, 2, 4, seed=1)
                        )
                        / 2,
                        -np.inf,
                    )
                ),
                numbers(1, 3, 2, 4, seed=2),
            )
        },
        causal=True,
    ),
    case(
        "fused_conv2d_add_act",
        {
            "Input": IMAGE,
            "Filter": numbers(2, 4, 1, 1),
            "Bias": B[:2],
            "ResidualData": numbers(2, 2, 3, 3, seed=4),
        },
        {
            "Output": relu(
                np.einsum("nchw,oc->nohw", IMAGE, numbers(2, 4, 1, 1)[:, :, 0, 0])
                + B[:2, None, None]
                + numbers(2, 2, 3, 3, seed=4)
            )
        },
        activation="relu",
    ),
    case("fused_elementwise_sub", {"X": X, "Y": Y}, {"Out": relu(X - Y)}, fuse_activation="relu"),
    case(
        "rms_norm",
        {"x": X, "norm_weight": Y[0]},
        {"out": X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * Y[0]},
        begin_norm_axis=1,
        epsilon=1e-5,
        quant_scale=-1.0,
    ),
    case("dot", {"X": X, "Y": Y}, {"Out": (X * Y).sum(-1)}),
    case("minus", {"X": X, "Y": Y}, {"Out": X - Y}),
    case("addmm", {"Input": B, "X": X, "Y": W}, {"Out": 2 * B + 0.5 * X @ W}, Alpha=0.5, Beta=2.0),
    case(
        "affine_channel",
        {"X": IMAGE, "Scale": X[0], "Bias": Y[0]},
        {"Out": IMAGE * X[0, :, None, None] + Y[0, :, None, None]},
    ),
    case(
        "lrn",
        {"X": IMAGE},
        {
            "MidOut": 2
            + 0.1
            * sum(
                np.pad(IMAGE**2, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i : i + 4] for i in range(3)
            )
        },
        n=3,
        alpha=0.1,
    ),
    case("norm", {"X": X}, {"Out": X / np.linalg.norm(X, axis=0)}, axis=0),
    case(
        "smooth_l1_loss",
        {"X": X, "Y": Y},
        {
            "Out": np.where(abs(X - Y) < 0.25, 2 * (X - Y) ** 2, abs(X - Y) - 0.125).sum(
                1, keepdims=True
            )
        },
        sigma=2.0,
    ),
    case("label_smooth", {"X": X}, {"Out": 0.9 * X + 0.025}, epsilon=0.1),
    case(
        "update_loss_scaling",
        {
            "X": [X],
            "FoundInfinite": FOUND,
            "PrevLossScaling": np.array([8], "float32"),
            "InGoodSteps": TWO,
            "InBadSteps": ONE,
        },
        {
            "Out": [0 * X],
            "LossScaling": np.array([4], "float32"),
            "OutGoodSteps": 0 * ONE,
            "OutBadSteps": 0 * ONE,
        },
        incr_every_n_steps=1000,
        decr_every_n_nan_or_inf=2,
        incr_ratio=2.0,
        decr_ratio=0.5,
    ),
    case("transpose", {"X": X}, {"Out": X.T}, axis=[1, 0]),
    case("reverse", {"X": X}, {"Out": X[::-1]}, axis=[0]),
    case("crop_tensor", {"X": X}, {"Out": X[1:3, 1:]}, shape=[2, -1], offsets=[1, 1]),
    case("broadcast_tensors", {"X": [X[:1], Y[:, :1]]}, {"Out": [X[[0] * 3], Y[:, [0] * 4]]}),
    case("scale", {"X": X, "ScaleTensor": X[0, :1]}, {"Out": X * X[0, 0] + 1}, bias=1.0),
    case("clip", {"X": X, "Min": -abs(B[:1])}, {"Out": X.clip(-abs(B[0]), 1)}, min=0.0, max=1.0),
    case(
        "coalesce_tensor",
        {"Input": [X, B]},
        {"Output": [X, B], "FusedOutput": np.concatenate([X.ravel(), B])},
        copy_data=True,
        use_align=False,
    ),
    case(
        "quantize_linear",
        {"X": np.float32([-3, -0.25, 0.5, 1.5, 9]), "Scale": np.float32([127])},
        {"Y": np.float32([-3, 0, 0, 2, 9])},
        round_type=0,
    ),
    case(
        "dequantize_linear",
        {"X": np.int8([[127, -127], [1, 0]]), "Scale": np.float32([2, 1])},
        {"Y": np.float32([[2, -2], [1 / 127, 0]])},
        quant_axis=0,
    ),
    case(
        "fake_quantize_dequantize_moving_average_abs_max",
        {"X": np.float32([0.5, 3, -1]), "InScale": np.float32([1])},
        {"Out": np.float32([64 / 127, 1, -1])},
        is_test=True,
    ),
    case(
        "fake_channel_wise_quantize_abs_max",
        {"X": np.float32([[1, -2], [0, 4]])},
        {"Out": np.float32([[64, -127], [0, 127]]), "OutScale": np.float32([2, 4])},
        quant_axis=0,
    ),
]


def listed(given: Any) -> list[Array]:
    return list(given) if isinstance(given, list) else [np.asarray(given)]


def append(case: Case, shape: Callable[[Array], Any]) -> tuple[static.Program, dict[str, Array]]:
    """Build the program of a single operator, and its feeds."""
    program, feeds = static.Program(), dict[str, Array]()
    block = program.global_block()
    inputs: dict[str, list[Any]] = {}
    for slot, arrays in case.inputs.items():
        for at, array in enumerate(listed(arrays)):
            feeds[f"{slot}_{at}"] = array
            variable = block.create_var(f"{slot}_{at}", shape(array), str(array.dtype))
            inputs.setdefault(slot, []).append(variable)
    outputs = {
        slot: [block.create_var(f"out_{slot}_{at}") for at in range(len(listed(arrays)))]
        for slot, arrays in case.outputs.items()
    }
    with static.program_guard(program, static.Program()):
        block.append_op(case.type, inputs, outputs, case.attrs)
    return program, feeds


def first_open(array: Array) -> tuple[int, ...]:
    """Return the shape with an open first size, if the tensor has several axes."""
    return (-1, *array.shape[1:]) if array.ndim > 1 else array.shape


@pytest.mark.every(5)
@pytest.mark.parametrize("case", CASES)
def test_saved_operator(case: Case) -> None:
    """The numbers are right with known sizes and with an open first size."""
    wanted = {
        f"out_{slot}_{at}": array
        for slot, arrays in case.outputs.items()
        for at, array in enumerate(listed(arrays))
    }
    for shape in (np.shape, first_open):
        program, feeds = append(case, shape)
        found = static.Executor(paddle.CPUPlace()).run(program, feeds, list(wanted))
        for array, want in zip(found, wanted.values(), strict=True):
            assert array.shape == want.shape
            np.testing.assert_allclose(array, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_another_slot_is_refused(case: Case) -> None:
    """A filled slot that graphopt does not know is refused: it might change the numbers."""
    strange = case._replace(inputs={**case.inputs, "Strange": X})
    if case.type in ("broadcast_tensors",):
        return
    with pytest.raises(GraphoptError, match="Strange"):
        append(strange, lambda a: a.shape)


def test_random_numbers_for_each_row() -> None:
    """uniform_random_batch_size_like copies a size that is known only in the run."""
    wanted = {"Out": X}
    attrs = {"shape": [-1, 7], "min": 2.0, "max": 3.0, "dtype": 5}
    given = Case("uniform_random_batch_size_like", {"Input": X}, wanted, attrs)
    program, feeds = append(given, lambda a: (-1, 4))
    (found,) = static.Executor(paddle.CPUPlace()).run(program, feeds, ["out_Out_0"])
    assert found.shape == (3, 7) and 2 <= found.min() < found.max() < 3
    assert math.isfinite(found.sum())
