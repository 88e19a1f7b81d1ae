"""Properties of the passes that make a program data-parallel, on random modules and nets.

`test_data_parallel_passes` checks the IR after each pass; here the numbers are compared,
and each property counts how often the pass fired.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr

from graphopt.debug.compare import run_module
from graphopt.ir.dialect.ops.comm import AllReduce
from graphopt.ir.dialect.signature import PER_REPLICA, STATE, main_function, signature_of
from graphopt.passes.fusions.fuse_bn_act import FuseBnAct
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.table.flags import ReduceStrategy
from graphopt.testing import parse, programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.runtime.replicas import agree, inputs_of, parallel, run

COUNT = examples(6)
FEW = settings(max_examples=COUNT)
# linear layers and batch norms: random programs without them rarely have parameters
WITH_PARAMETERS = programs(plant=[*FuseGemmEpilogue.RULES, *FuseBnAct.RULES])


def weights_of(module: ModuleOp) -> list[str]:
    """List the parameters that the module updates."""
    return [name for name in signature_of(module).writes if name.startswith("w.")]


@pytest.mark.exhaustive
def test_scale_of_the_loss_gradient() -> None:
    """One gives the replicas' sum; Customized with a feed of 1 / count gives the mean."""
    trained = 0

    @FEW
    @given(WITH_PARAMETERS, st.sampled_from([2, 4]))
    def check(generated: Generated, count: int) -> None:
        nonlocal trained
        module, weights = generated.module, weights_of(generated.module)
        inputs = inputs_of(module, count)
        mean = run("lockstep", parallel(module, count), inputs)
        one = parallel(module, count, gradient_scale_strategy="One")
        total = run("lockstep", one, inputs)
        for name in weights:
            start, key = inputs[0][name], f"pd.state {name}"
            moved = [start + (new - start) / np.float32(count) for new in total[key]]
            agree({key: mean[key]}, {key: moved}, "One", 1e-4)
        if weights:
            trained += 1
            customized = parallel(
                module,
                count,
                gradient_scale_strategy="Customized",
                loss_grad="loss@GRAD",
            )
            seed = {"loss@GRAD": np.array(1 / count, np.float32)}
            found = run("lockstep", customized, [{**own, **seed} for own in inputs])
            agree(found, mean, "Customized", 1e-4)

    check()
    assert trained >= COUNT // 2


def test_sums_of_gradients() -> None:
    """Each parameter's gradient is summed once; without the sums the replicas differ."""
    drifted = 0

    @FEW
    @given(WITH_PARAMETERS)
    def check(generated: Generated) -> None:
        nonlocal drifted
        module, weights = generated.module, set(weights_of(generated.module))
        sums = [op for op in parallel(module, 2).walk() if isinstance(op, AllReduce)]
        assert sum(len(op.operands) for op in sums) == len(weights)
        apart = parallel(module, 2, reduce_strategy=ReduceStrategy._NoReduce)
        found = run("lockstep", apart, inputs_of(module, 2))
        drifted += any(
            not np.array_equal(*found[f"pd.state {name}"])
            for name in signature_of(apart).per_replica & weights
        )

    check()
    assert drifted >= COUNT // 2


@pytest.mark.exhaustive
def test_state_without_the_mark_is_the_same_everywhere() -> None:
    """State that the pass leaves unmarked has one value, even if stored per replica."""
    seen = {"marked": 0, "unmarked": 0}

    @settings(max_examples=12)
    @given(programs(plant=FuseBnAct.RULES), st.booleans())
    def check(generated: Generated, sync: bool) -> None:
        module = parallel(generated.module, 3, sync_batch_norm=sync)
        marked = signature_of(module).per_replica
        found = run("lockstep", all_marked(module), inputs_of(generated.module, 3))
        for name in signature_of(module).writes:
            first, *others = found[f"pd.state {name}"]
            same = all(np.allclose(first, other, 1e-6, 1e-6) for other in others)
            assert same or name in marked, name
            seen["marked" if name in marked else "unmarked"] += 1

    check()
    assert min(seen.values()) >= 3, seen


def all_marked(module: ModuleOp) -> ModuleOp:
    """Mark every state of a copy as per replica."""
    changed = module.clone()
    function = main_function(changed)

    def marked(attrs: ArrayAttr[DictionaryAttr] | None) -> ArrayAttr[DictionaryAttr]:
        return ArrayAttr(
            DictionaryAttr({**entry.data, PER_REPLICA: UnitAttr()})
            if STATE in entry.data
            else entry
            for entry in (attrs or ())
        )

    function.arg_attrs = marked(function.arg_attrs)
    function.res_attrs = marked(function.res_attrs)
    return changed


NORM = """
func.func @main(
  %x: tensor<{shape}xf32> {{pd.feed = "x"}},
  %scale: tensor<{channels}xf32> {{pd.state = "scale"}},
  %bias: tensor<{channels}xf32> {{pd.state = "bias"}},
  %mean: tensor<{channels}xf32> {{pd.state = "mean"}},
  %variance: tensor<{channels}xf32> {{pd.state = "variance"}}
) -> (
  tensor<{shape}xf32> {{pd.fetch = "out"}}, tensor<{shape}xf32> {{pd.fetch = "grad"}},
  tensor<{channels}xf32> {{pd.state = "mean"}}, tensor<{channels}xf32> {{pd.state = "variance"}}
) {{
  %n, %m1, %v1, %sm, %sv = pd.batch_norm(%x, %mean, %variance, scale = %scale, bias = %bias)
    {{data_format = "{layout}", momentum = {momentum}}}
    : (tensor<{shape}xf32>, tensor<{channels}xf32>, tensor<{channels}xf32>,
       tensor<{channels}xf32>, tensor<{channels}xf32>)
    -> (tensor<{shape}xf32>, tensor<{channels}xf32>, tensor<{channels}xf32>,
        tensor<{channels}xf32>, tensor<{channels}xf32>)
  %y = pd.tanh(%n) : tensor<{shape}xf32>
  %one = pd.full_like(%y) {{value = 1.0}} : tensor<{shape}xf32>
  %g = pd.grad(of = [%y], wrt = [%x], cotangents = [%one])
    : (tensor<{shape}xf32>, tensor<{shape}xf32>, tensor<{shape}xf32>) -> tensor<{shape}xf32>
  func.return %y, %g, %m1, %v1
    : tensor<{shape}xf32>, tensor<{shape}xf32>, tensor<{channels}xf32>, tensor<{channels}xf32>
}}
"""


@pytest.mark.exhaustive
@FEW
@given(
    rows=st.lists(st.integers(1, 4), min_size=2, max_size=3),
    channels=st.integers(1, 3),
    last=st.booleans(),
    momentum=st.sampled_from([0.0, 0.5, 0.9]),
    seed=st.integers(0, 99),
)
def test_synchronised_norms_see_all_rows(
    rows: list[int], channels: int, last: bool, momentum: float, seed: int
) -> None:
    """However rows are split, outputs, gradients and statistics equal one device's."""
    sizes = (2, 3, channels) if last else (channels, 2, 3)
    module = parse(
        NORM.format(
            shape="x".join(map(str, ("?", *sizes))),
            channels=channels,
            layout="NHWC" if last else "NCHW",
            momentum=momentum,
        )
    )
    random = np.random.default_rng(seed)
    state = {
        name: (random.random(channels) + 0.5).astype(np.float32)
        for name in ("scale", "bias", "mean", "variance")
    }
    parts = [random.normal(size=(n, *sizes)).astype(np.float32) for n in rows]
    wanted = run_module(module, {"x": np.concatenate(parts), **state})
    synchronised = parallel(module, len(rows), sync_batch_norm=True)
    found = run("lockstep", synchronised, [{"x": part, **state} for part in parts])
    starts = np.cumsum(rows)[:-1]
    for name, whole in wanted.items():
        each = np.split(whole, starts) if "fetch" in name else [whole] * len(rows)
        agree({name: found[name]}, {name: each}, "sync", 1e-4)
