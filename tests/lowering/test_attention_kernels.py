"""Attention by cuDNN and Pallas: the choice of a kernel, and its lowering for its platform.

No such device is needed: programs are lowered for it and not run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import nn, static, utils
from graphopt.debug.compare import assert_same_results
from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.transformer import ALGORITHMS, FusedDotProductAttention
from graphopt.ir.dialect.signature import FEED
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate
from graphopt.lowering.kernels import attention_kernels
from graphopt.lowering.kernels.attention_kernels import kernel_of
from graphopt.passes.engine.fusion import Applied, Outcome, sweep
from graphopt.passes.fusions import attention_kernels as kernels
from graphopt.passes.fusions.attention_kernels import KERNELS, Kernel
from graphopt.passes.fusions.choose_attention import ChooseAttention
from graphopt.passes.fusions.fuse_dot_product_attention import (
    FuseCudnnAttention,
    FuseDotProductAttention,
    KernelAttention,
)
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt.testing import check_preserves_meaning, parse, programs
from graphopt.testing.programs import Generated
from graphopt_tests.op_calls import build, rule_of
from graphopt_tests.ops.base import bf16, f32, flags, sample
from graphopt_tests.passes.test_passes import quick

CALLS = {"cudnn": "__cudnn$fmha", "pallas": "tpu_custom_call"}
JAX_NAMES = {"cudnn": "cuda", "pallas": "tpu"}


@pytest.fixture
def cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make JAX trace calls of cuDNN, although there is none."""
    from jax._src.cudnn import fused_attention_stablehlo

    monkeypatch.setattr(fused_attention_stablehlo, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(attention_kernels, "has_cudnn", lambda: True)


def custom_calls(case: Any, platform: str) -> list[str]:
    """List the custom calls of the op and its derivative, lowered with 64-bit indices."""
    rule = rule_of(FusedDotProductAttention, case)
    operands = [x for x in case.operands if x is not None]

    def loss(*reals: Any) -> Any:
        return jnp.sum(rule(*reals, *operands[3:])[0].astype("float32") ** 2)

    with jax.enable_x64(True):
        traced = jax.jit(jax.value_and_grad(loss, (0, 1, 2))).trace(*operands[:3])
        text = traced.lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r"custom_call @([\w$]+)", text)


MASKS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "matrix": lambda: f32(256, 256),
    "half": lambda: bf16(2, 1, 256, 256),
    "columns": lambda: flags(2, 1, 1, 256),
    "boolean": lambda: flags(256, 256),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.usefixtures("cudnn")
def test_cudnn_is_called(mask: str) -> None:
    """Forward and backward are one call of cuDNN each, on NVIDIA GPUs only."""
    shape = (2, 4, 256, 16)
    case = sample(bf16(*shape), bf16(*shape), bf16(*shape), MASKS[mask](), algorithm="cudnn")
    found = custom_calls(case, "cuda")
    kind = "Softmax" if mask == "none" else "ScaleBiasSoftmax"
    assert found == [f"__cudnn$fmha{kind}", f"__cudnn$fmha{kind}Backward"]
    assert custom_calls(case, "cpu") == []


@pytest.mark.every(5)
@pytest.mark.parametrize("shape", [(256, 64), (3, 256, 64), (2, 3, 256, 64)])
@pytest.mark.parametrize("kernel", CALLS)
@pytest.mark.usefixtures("cudnn")
def test_any_rank(kernel: str, shape: tuple[int, ...]) -> None:
    """Operands have two to four dimensions; keys may have one head for all queries."""
    fewer = (*(1 for _ in shape[:-2]), *shape[-2:])
    case = sample(bf16(*shape), bf16(*fewer), bf16(*fewer), algorithm=kernel)
    assert all(name.startswith(CALLS[kernel]) for name in custom_calls(case, JAX_NAMES[kernel]))
    (out,) = rule_of(FusedDotProductAttention, case)(*case.operands)
    assert (out.shape, out.dtype) == (shape, jnp.bfloat16)


@pytest.mark.every(2)
@pytest.mark.parametrize("make", [f32, bf16])
def test_pallas_is_called(make: Any) -> None:
    """On TPUs only, forward is one call, the gradient of q one, those of k and v another."""
    case = sample(*(make(1, 2, length, 64) for length in (512, 768, 768)), algorithm="pallas")
    assert custom_calls(case, "tpu") == ["tpu_custom_call"] * 3
    assert custom_calls(case, "cpu") == []


@pytest.mark.parametrize("kernel", CALLS)
def test_tiles_elsewhere(kernel: str) -> None:
    """On a CPU, an op with a kernel gives the same bits as an op without."""
    case = sample(bf16(2, 128, 64), bf16(2, 128, 64), bf16(2, 128, 64), scaling_factor=0.5)
    plain = rule_of(FusedDotProductAttention, case)(*case.operands)
    chosen = sample(*case.operands, **case.attrs, algorithm=kernel)
    (found,) = rule_of(FusedDotProductAttention, chosen)(*case.operands)
    assert np.array_equal(np.asarray(found), np.asarray(plain[0]))


def test_unknown_algorithm() -> None:
    """The op accepts the kernels that the passes choose, and no others."""
    assert {"", *KERNELS} == {*ALGORITHMS} == {"", *attention_kernels.KERNELS}
    with pytest.raises(ProgramError, match="algorithm should be one of"):
        build(FusedDotProductAttention, sample(*[f32(2, 4)] * 3, algorithm="best"))


@pytest.mark.usefixtures("cudnn")
def test_which_devices_have_a_kernel() -> None:
    """NVIDIA GPUs from Ampere on have the kernel; all devices of a run need it."""
    old, new = SimpleNamespace(compute_capability="7.5"), SimpleNamespace(compute_capability="9.0")
    assert kernel_of("gpu", [new]) == "cudnn"
    assert kernel_of("gpu", [new, old]) == ""
    assert kernel_of("gpu", [SimpleNamespace()]) == ""
    assert kernel_of("tpu", [SimpleNamespace()]) == "pallas"
    assert kernel_of("gpu", []) == kernel_of("cpu", [SimpleNamespace()]) == ""


def test_no_cudnn_here() -> None:
    """GPUs have no kernel if JAX finds no cuDNN."""
    attention_kernels.has_cudnn.cache_clear()
    found = attention_kernels.has_cudnn()
    assert kernel_of("gpu", [SimpleNamespace(compute_capability="9.0")]) == "cudnn" * found


@pytest.mark.parametrize("flag", [{}, {"fuse_dot_product_attention": True}])
@pytest.mark.parametrize(
    ("kernel", "dtype", "length", "algorithm"),
    [
        ("cudnn", "bfloat16", 256, "cudnn"),
        ("cudnn", "bfloat16", 255, None),
        ("cudnn", "float32", 512, None),
        ("pallas", "float32", 512, "pallas"),
        ("", "bfloat16", 512, None),
    ],
)
def test_whole_pipeline(
    kernel: str, dtype: str, length: int, algorithm: str | None, flag: dict[str, bool]
) -> None:
    """With and without a strategy, a program gets the kernel if its devices have one."""
    with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
        x = static.data("x", [2, length, 64], dtype)
        x.stop_gradient = False
        weights = nn.functional.softmax(paddle.matmul(x, x, transpose_y=True))
        loss = paddle.matmul(weights, x).sum()
        fetches = [loss, *static.gradients(loss, [x])]
        program = static.default_main_program()
        module = parse_program(program, ["x"], [fetch.name for fetch in fetches])
    platform = "tpu" if kernel == "pallas" else "gpu"
    optimize(module, PassContext(flag, platform=platform, attention_kernel=kernel))
    found = [op for op in module.walk() if isinstance(op, FusedDotProductAttention)]
    assert len(found) == bool(algorithm or flag)
    assert [op.attr("algorithm") for op in found] == [algorithm or ""] * len(found)


TINY = Kernel("cudnn", ("float32", "float64", "bfloat16"), 64, 1, 1, 1, 1)


@pytest.mark.slow
def test_passes_preserve_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, the passes preserve outputs, gradients and state, for any sizes."""
    monkeypatch.setattr(kernels, "_of_shape", lambda kernel, asked: None)
    monkeypatch.setitem(KERNELS, "cudnn", TINY)  # pyright: ignore[reportArgumentType]
    fired: Counter[str] = Counter()

    def transform(module: ModuleOp) -> list[Outcome]:
        fused = sweep(module, [(FuseCudnnAttention.name, KernelAttention(TINY))])
        return [*fused, *ChooseAttention().rewrite(module)]

    @settings(quick, max_examples=20)
    @given(programs(plant=FuseDotProductAttention.RULES))
    def check(generated: Generated) -> None:
        outcomes = check_preserves_meaning(generated.module, transform)
        fired.update(outcome.rule for outcome in outcomes if isinstance(outcome, Applied))

    check()
    assert fired[ChooseAttention.name] == fired[FuseCudnnAttention.name] >= 2


TRAINED = """
func.func @main(feed %x: tensor<2x4x256x16xbf16>, feed %k: tensor<2x4x256x16xbf16>)
    -> (fetch "y": tensor<f32>, fetch "a": tensor<2x4x256x16xbf16>,
        fetch "b": tensor<2x4x256x16xbf16>) {{
  %q = pd.tanh(%x) {0}
  %o = pd.fused_dot_product_attention(%q, %k, %q) {{algorithm = "{1}", scaling_factor = 0.25}} {0}
  %w = pd.cast(%o) {{dtype = f32}}
  %s = pd.multiply(%w, %w)
  %y = pd.mean(%s)
  %one = pd.full() {{shape = [], value = 1.0}}
  %a, %b = pd.grad(of = [%y], wrt = [%x, %k], cotangents = [%one])
  func.return %y, %a, %b : tensor<f32>, tensor<2x4x256x16xbf16>, tensor<2x4x256x16xbf16>
}}
"""


def trained(algorithm: str, segment: str = "") -> Callable[..., Any]:
    """Build attention with its gradients, as a function of two arrays."""
    module = parse(TRAINED.format(segment, algorithm))

    def computed(x: Any, k: Any) -> Any:
        inputs = {(FEED, "x"): (x,), (FEED, "k"): (k,)}
        return evaluate(module, inputs, Context(ALONE, jnp.zeros(2, "uint32")))

    return computed


@pytest.mark.parametrize("segment", ["", "attributes {pd.recompute = 0 : i64}"])
@pytest.mark.usefixtures("cudnn")
def test_a_kernel_runs_once_in_training(segment: str) -> None:
    """The backward call uses the saved results of the forward one, which only recompute repeats."""
    given = [jax.ShapeDtypeStruct((2, 4, 256, 16), jnp.bfloat16)] * 2
    traced = jax.jit(trained("cudnn", segment)).trace(*given)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    forward, backward = "__cudnn$fmhaSoftmax", "__cudnn$fmhaSoftmaxBackward"
    times = 2 if segment else 1
    found = Counter(re.findall(r"custom_call @(__cudnn[\w$]+)", text))
    assert found == {forward: times, backward: 1}


@pytest.mark.exhaustive
def test_kept_pullbacks_give_the_same_gradients() -> None:
    """On a CPU, without a kernel, gradients are equal bit by bit."""
    given = bf16(2, 4, 256, 16), bf16(2, 4, 256, 16)
    for segment in ("", "attributes {pd.recompute = 0 : i64}"):
        kept, plain = (jax.jit(trained(name, segment))(*given) for name in ("cudnn", ""))
        for (one,), (other,) in zip(kept, plain, strict=True):
            assert np.array_equal(np.asarray(one), np.asarray(other))


MASKS_OF_LATER = {
    "added": ("triu", "pd.full() {shape = [256, 256], value = -1.0e4}", True),
    "less": ("triu", "pd.full() {shape = [256, 256], value = -10.0}", False),
    "other": ("tril", "pd.full() {shape = [256, 256], value = -1.0e4}", False),
    "bool": ("tril", "pd.full() {shape = [256, 256], value = 1.0, dtype = i1}", True),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", MASKS_OF_LATER)
@pytest.mark.usefixtures("cudnn")
def test_causal_masks_need_not_be_read(kind: str) -> None:
    """cuDNN applies a causal mask itself and skips the hidden keys; it reads other masks."""
    which, filled, causal = MASKS_OF_LATER[kind]
    diagonal = "diagonal = 1, lower = false" if which == "triu" else "diagonal = 0"
    module = parse(f"""
func.func @main(feed %q: tensor<2x3x256x16xbf16>) -> (fetch "o": tensor<2x3x256x16xbf16>) {{
  %f = {filled}
  %t = pd.tril_triu(%f) {{{diagonal}}}
  %m = pd.reshape(%t) {{shape = [1, 1, 256, 256]}}
  %o = pd.fused_dot_product_attention(%q, %q, %q, mask = %m) {{fill = -1.0e9, scaling_factor = 0.5}}
  func.return %o : tensor<2x3x256x16xbf16>
}}
""")
    before = module.clone()
    ChooseAttention().rewrite(module)
    (op,) = (op for op in module.walk() if isinstance(op, FusedDotProductAttention))
    assert op.attr("algorithm") == ("cudnn-causal" if causal else "cudnn")
    assert_same_results(before, module)

    def computed(q: Any) -> Any:
        return evaluate(module, {(FEED, "q"): (q,)}, Context(ALONE, jnp.zeros(2, "uint32")))

    given = jax.ShapeDtypeStruct((2, 3, 256, 16), jnp.bfloat16)
    text = jax.jit(computed).trace(given).lower(lowering_platforms=("cuda",)).as_text()
    kind_of_mask = "NO_MASK" if not causal else "CAUSAL"
    assert re.findall(r"mask_type.{1,8}?([A-Z_]+)", text) == [kind_of_mask]
    assert ("fmhaScaleBiasSoftmax" in text) == (not causal)


@pytest.mark.exhaustive
def test_a_causal_mask_of_a_script() -> None:
    """The boolean constant of `is_causal=True` is recognized as a causal mask."""
    values = ", ".join(str(float(x)) for x in np.tri(256).ravel())
    module = parse(f"""
func.func @main(feed %q: tensor<1x1x256x16xbf16>) -> (fetch "o": tensor<1x1x256x16xbf16>) {{
  %m = pd.assign_value() {{dtype = i1, shape = [256, 256], values = [{values}]}}
  %o = pd.fused_dot_product_attention(%q, %q, %q, mask = %m)
  func.return %o : tensor<1x1x256x16xbf16>
}}
""")
    ChooseAttention().rewrite(module)
    (op,) = (op for op in module.walk() if isinstance(op, FusedDotProductAttention))
    assert op.attr("algorithm") == "cudnn-causal"
