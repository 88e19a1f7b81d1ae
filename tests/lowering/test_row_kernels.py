"""Kernels of rows: interpreted against their ops, and lowered for GPUs and TPUs.

No such device is needed: kernels are interpreted on the CPU, or lowered and not run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from jax import numpy as jnp
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError

from graphopt.debug.compare import assert_same_results, random_inputs, run_module
from graphopt.ir.dialect.ops.activation import Gelu, LogSoftmax, Softmax
from graphopt.ir.dialect.ops.control import LANGUAGES, RowKernel
from graphopt.ir.dialect.rows import FUNCTIONS
from graphopt.ir.dialect.signature import function_signature, main_function
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.lowering import rules  # noqa: F401
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Context, evaluate
from graphopt.lowering.kernels import rows as kernels
from graphopt.passes.engine.fusion import Declined
from graphopt.passes.fusions.fuse_dot_product_attention import FuseDotProductAttention
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import optimize
from graphopt.passes.target.choose_group_kernel import LIMITS, ChooseGroupKernel
from graphopt.passes.target.fusion_groups import GroupReductions
from graphopt.testing import load_page, parse, programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples

PAGE = load_page(Path(__file__).parents[1] / "passes" / "choose-group-kernel.md")
CHOSEN = [case for case in PAGE if case.expected_kind == "mlir"]
CALLS = {"gpu": "__gpu$xla.gpu.triton", "tpu": "tpu_custom_call"}
JAX_NAMES = {"gpu": "cuda", "tpu": "tpu"}
PLATFORMS = pytest.mark.parametrize("platform", LIMITS)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable the kernels on CPUs, by Pallas's interpreter."""
    monkeypatch.setattr(kernels, "LANGUAGES", kernels.INTERPRETED)


def custom_calls(module: ModuleOp, platform: str, unknown: int = 3) -> list[str]:
    """List the custom calls of a program, lowered for a platform with 64-bit indices."""
    main = main_function(module)
    ports = function_signature(main).arguments
    types = [
        jax.ShapeDtypeStruct(
            [unknown if size == UNKNOWN else size for size in shape_of(argument.type)],
            dtype_of(argument.type).numpy,
        )
        for argument in main.body.block.args
    ]

    def computed(*arrays: Any) -> list[Any]:
        inputs = {(p.kind, p.name): (x,) for p, x in zip(ports, arrays, strict=True)}
        context = Context(ALONE, jnp.zeros(2, "uint32"))
        return [value for (value,) in evaluate(module, inputs, context)]

    with jax.enable_x64(True):
        text = jax.jit(computed).trace(*types).lower(lowering_platforms=(platform,)).as_text()
    return re.findall(r"custom_call @([\w$.]+)", text)


def kernels_of(module: ModuleOp) -> list[RowKernel]:
    return [op for op in module.walk() if isinstance(op, RowKernel)]


@pytest.mark.every(3)
@PLATFORMS
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.title)
@pytest.mark.usefixtures("interpreted")
def test_interpreted(case: Any, platform: str) -> None:
    """The kernels of the page give the same results as the ops."""
    module = parse(case.before)
    changed = module.clone()
    ChooseGroupKernel(platform).rewrite(changed)
    assert kernels_of(changed)
    assert_same_results(module, changed)


@pytest.mark.every(3)
@PLATFORMS
@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.title)
def test_lowered(case: Any, platform: str) -> None:
    """Each kernel is one call on its platform, and no call on a CPU."""
    module = parse(case.before)
    ChooseGroupKernel(platform).rewrite(module)
    found = [name for name in custom_calls(module, JAX_NAMES[platform]) if name in CALLS.values()]
    assert found == [CALLS[platform]] * len(kernels_of(module))
    assert custom_calls(module, "cpu") == []


FUNCTION_LINES = """
%s = pd.softmax(%x)
%c = pd.equal(%s, %g) | %d = pd.not_equal(%s, %g) | %e = pd.less_than(%s, %g)
%f = pd.less_equal(%s, %g) | %h = pd.greater_than(%s, %g) | %i = pd.greater_equal(%s, %g)
%j = pd.logical_and(%c, %d) | %k = pd.logical_or(%e, %f) | %l = pd.logical_not(%h)
%m = pd.logical_and(%j, %k) | %n = pd.logical_or(%l, %i) | %o = pd.logical_and(%m, %n)
%w = pd.where(%o, %s, %g)
%a0 = pd.add(%w, %s) | %a1 = pd.subtract(%a0, %g) | %a2 = pd.multiply(%a1, %s)
%a3 = pd.divide(%a2, %g) | %a4 = pd.maximum(%a3, %s) | %a5 = pd.minimum(%a4, %g)
%a6 = pd.pow(%a5) {factor = 2.0} | %a7 = pd.scale(%a6) {scale = 0.5}
%a8 = pd.clip(%a7) {max = 2.0, min = 0.1}
%a9 = pd.square(%a8) | %b0 = pd.abs(%a9) | %b1 = pd.exp(%b0) | %b2 = pd.log(%b1)
%b3 = pd.sqrt(%b1) | %b4 = pd.rsqrt(%b3) | %b5 = pd.reciprocal(%b4) | %b6 = pd.log1p(%b5)
%b7 = pd.relu(%b6) | %b8 = pd.relu6(%b7) | %b9 = pd.sigmoid(%b8) | %c0 = pd.silu(%b9)
%c1 = pd.tanh(%c0) | %c2 = pd.hardsigmoid(%c1) | %c3 = pd.hardswish(%c2)
%c4 = pd.leaky_relu(%c3) | %c5 = pd.softplus(%c4) | %c6 = pd.swish(%c5) | %c7 = pd.mish(%c6)
%c8 = pd.cast(%c7) {dtype = bf16} | %c9 = pd.cast(%c8) {dtype = f32}
%d0 = pd.gelu(%c9) {approximate = true}
%d1 = pd.log_softmax(%d0) | %d2 = pd.sum(%d1) {axis = [1], keepdim = true}
%d3 = pd.min(%d1) {axis = [1]} | %d4 = pd.reshape(%d3) {shape = [20, 1]} | %d5 = pd.add(%d2, %d4)
%d6 = pd.expand(%d5) {shape = [20, 50]} | %z = pd.add(%d1, %d6)
"""
EVERYTHING = """
func.func @main(feed %x: tensor<20x50xf32>, feed %g: tensor<50xf32>) -> (
  fetch "y": tensor<20x50xf32>
) {
  %y = pd.row_kernel() {language = "LANGUAGE", rows = ROWS} -> tensor<20x50xf32> {
    LINES
    pd.yield(values = [%z])
  }
  func.return %y : tensor<20x50xf32>
}
""".replace("LINES", FUNCTION_LINES.replace(" | ", "\n"))


@pytest.mark.every(2)
@pytest.mark.parametrize(("language", "rows"), [("triton", 8), ("mosaic", 32)])
def test_every_function(language: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pallas lowers the functions of kernels for both platforms, with the results of the ops."""
    module = parse(EVERYTHING.replace("LANGUAGE", language).replace("ROWS", str(rows)))
    (kernel,) = kernels_of(module)
    used = {type(op) for op in kernel.body.block.ops}
    assert used >= {*FUNCTIONS, Gelu, Softmax, LogSoftmax}
    platform, _ = kernels.LANGUAGES[language]
    assert len(custom_calls(module, platform)) == 1
    inputs = random_inputs(module, 0)
    wanted = run_module(module, inputs)
    monkeypatch.setattr(kernels, "LANGUAGES", kernels.INTERPRETED)
    found = run_module(module, inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=2e-5, atol=1e-5)


@pytest.mark.every(2)
@PLATFORMS
@pytest.mark.usefixtures("interpreted")
def test_planted_groups(platform: str) -> None:
    """Kernels preserve outputs, gradients and state, and a second run finds no more of them."""
    fired = 0

    @settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore
    @given(programs(plant=FuseDotProductAttention.RULES))
    def check(generated: Generated) -> None:
        nonlocal fired
        changed = generated.module.clone()
        GroupReductions(least=0).rewrite(changed)
        ChooseGroupKernel(platform).rewrite(changed)
        found = len(kernels_of(changed))
        changed.verify()
        if found:
            fired += 1
            assert_same_results(generated.module, changed)
        ChooseGroupKernel(platform).rewrite(changed)
        assert len(kernels_of(changed)) == found

    check()
    assert fired >= 2


TRAINING = """
func.func @main(feed %x: tensor<?x5x24xf32>, feed %l: tensor<?x5xi64>, state %w: tensor<24x24xf32>,
  state %g: tensor<24xf32>, state %b: tensor<24xf32>
) -> (
  fetch "loss": tensor<f32>, fetch "w": tensor<24x24xf32>, fetch "g": tensor<24xf32>,
  fetch "b": tensor<24xf32>
) {
  %h = pd.matmul(%x, %w)
  %r = pd.add(%h, %x)
  %n, %m, %v = pd.layer_norm(%r, scale = %g, bias = %b) {begin_norm_axis = 2}
  %q = pd.tanh(%n)
  %z = pd.matmul(%q, %w)
  %s, %losses = pd.cross_entropy_with_softmax(%z, %l)
  %loss = pd.mean(%losses)
  %one = pd.full_like(%loss) {value = 1.0}
  %gw, %gg, %gb = pd.grad(of = [%loss], wrt = [%w, %g, %b], cotangents = [%one])
  func.return %loss, %gw, %gg, %gb :
    tensor<f32>, tensor<24x24xf32>, tensor<24xf32>, tensor<24xf32>
}
"""


@pytest.mark.every(2)
@PLATFORMS
@pytest.mark.usefixtures("interpreted")
def test_training(platform: str) -> None:
    """The pipeline forms kernels of a norm and a loss, and gradients pass through both."""
    module = parse(TRAINING)
    changed = module.clone()
    GroupReductions(least=0).rewrite(changed)
    plain = changed.clone()
    optimize(changed, PassContext({"build_cinn_pass": True}, platform=platform))
    assert len(kernels_of(changed)) == 2
    assert_same_results(module, changed)
    optimize(plain, PassContext({"build_cinn_pass": True}, platform="cpu"))
    assert not kernels_of(plain)


@pytest.mark.every(2)
@PLATFORMS
def test_training_is_lowered(platform: str) -> None:
    """The derivative is lowered with 64-bit indices around the kernels."""
    module = parse(TRAINING)
    GroupReductions(least=0).rewrite(module)
    ChooseGroupKernel(platform).rewrite(module)
    found = [name for name in custom_calls(module, JAX_NAMES[platform]) if name in CALLS.values()]
    assert len(found) >= 2


LABELS = """
func.func @main(feed %x: tensor<12x20xf32>, feed %l: tensor<12xi64>) -> (
  fetch "p": tensor<12x20xf32>, fetch "y": tensor<12x1xf32>
) {{
  %p, %y = pd.row_kernel() {{language = "{language}", rows = 8}} -> (
    tensor<12x20xf32>, tensor<12x1xf32>
  ) {{
    %p_1, %y_1 = pd.cross_entropy_with_softmax(%x, %l) {{ignore_index = 3}}
    pd.yield(values = [%p_1, %y_1])
  }}
  func.return %p, %y : tensor<12x20xf32>, tensor<12x1xf32>
}}
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_out_of_range(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalid label gives nan, an ignored one 0; labels are not cut to 32 bits."""
    module = parse(LABELS.format(language=language))
    inputs = {
        "x": random_inputs(module, 0)["x"],
        "l": np.array([0, 19, 20, -1, 3, 5, 7, 2, 4, 11, 3, 2**32 + 1]),
    }
    wanted = run_module(module, inputs)
    monkeypatch.setattr(kernels, "LANGUAGES", kernels.INTERPRETED)
    found = run_module(module, inputs)
    assert np.flatnonzero(np.isnan(found["pd.fetch y"])).tolist() == [2, 3, 11]
    assert np.flatnonzero(found["pd.fetch y"] == 0).tolist() == [4, 10]
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6)


OPEN = """
func.func @main(feed %x: tensor<?x16xf32>, feed %y: tensor<?x16xf32>) -> (
  fetch "z": tensor<?x16xf32>
) {
  %z = pd.row_kernel() {rows = 4} -> tensor<?x16xf32> {
    %a = pd.add(%x, %y)
    %z_1 = pd.softmax(%a)
    pd.yield(values = [%z_1])
  }
  func.return %z : tensor<?x16xf32>
}
"""


@pytest.mark.parametrize("rows", [(5, 5), (5, 1), (0, 0)])
def test_sizes_that_do_not_fit(rows: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The ops compute broadcast rows and empty arrays."""
    calls: list[Any] = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return kernels.by_triton(*arguments, **options, interpret=True)

    monkeypatch.setattr(kernels, "LANGUAGES", {"triton": ("cpu", counted)})
    module = parse(OPEN)
    x, y = (np.arange(16.0 * n, dtype="float32").reshape(n, 16) for n in rows)
    found = run_module(module, {"x": x, "y": y})["pd.fetch z"]
    exponential = np.exp(x + y - np.max(x + y, -1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(found, exponential / exponential.sum(-1, keepdims=True), rtol=1e-5)
    assert len(calls) == (rows == (5, 5))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows = 4", "rows = 0", "a power of two from 1 on, found 0"),
        ("rows = 4", "rows = 6", "a power of two from 1 on, found 6"),
        ("rows = 4", 'language = "mosaic", rows = 4', "from 8 on"),
        ("rows = 4", 'language = "cuda"', "language should be one of triton and mosaic"),
        ("pd.softmax(%a)", "pd.softmax(%a) {axis = 0}", "do not compute the rows"),
        ("pd.add(%x, %y)", "pd.atan2(%x, %y)", "do not compute the rows"),
        ("pd.softmax(%a)", "pd.tanh(%a)", "do not compute the rows"),
    ],
)
def test_verification(old: str, new: str, message: str) -> None:
    """A kernel has ops on rows only, of one frame."""
    with pytest.raises(ParseError, match=message):
        parse(OPEN.replace(old, new))


@PLATFORMS
def test_replicas_side_by_side(platform: str) -> None:
    """Several replicas on one device have the kernel, too."""
    module = parse(OPEN.replace("rows = 4", f'language = "{LIMITS[platform].language}", rows = 8'))
    context = Context(ALONE, jnp.zeros(2, "uint32"))

    def computed(x: Any) -> Any:
        return evaluate(module, {("pd.feed", "x"): (x,), ("pd.feed", "y"): (x,)}, context)[0][0]

    with jax.enable_x64(True):
        traced = jax.jit(jax.vmap(computed)).trace(jax.ShapeDtypeStruct((2, 8, 16), "float32"))
        text = traced.lower(lowering_platforms=(JAX_NAMES[platform],)).as_text()
    assert CALLS[platform] in text


INTEGERS = """
func.func @main(feed %x: tensor<4x16xi32>) -> (fetch "y": tensor<4xi32>) {
  %y = pd.fusion_group() -> tensor<4xi32> {
    %a = pd.abs(%x)
    %y_1 = pd.max(%a) {axis = [1]}
    pd.yield(values = [%y_1])
  }
  func.return %y : tensor<4xi32>
}
"""


def test_integers() -> None:
    """The largest integer has no neutral element among floats."""
    (outcome,) = ChooseGroupKernel().rewrite(parse(INTEGERS))
    assert isinstance(outcome, Declined)
    assert outcome.reason.name == "row-dtype"


def test_limits() -> None:
    """Each platform has its own kernel language."""
    assert [limits.language for limits in LIMITS.values()] == [*LANGUAGES]
    assert {*kernels.LANGUAGES} == {*LANGUAGES}
