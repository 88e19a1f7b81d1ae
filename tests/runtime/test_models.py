"""Saved inference models against Paddle's recorded outputs, plain and with every fusion.

All models of a corpus are tested, too, if one is given (see model_files.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, UnsupportedError
from graphopt.fluid.lod_tensor import create_lod_tensor
from graphopt.ir.formats import LoadedModel, load_model
from graphopt.ir.program import Program
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests import model_files
from graphopt_tests.runtime.nets import strategy

FUSIONS = [name for name in BuildStrategy.all_settings() if name.startswith(("fuse_", "fused_"))]


class Saved(NamedTuple):
    """One network, saved by one release of Paddle."""

    case: Path
    model: str
    params: str | None
    outputs: list[str]


def inference_cases() -> dict[str, Saved]:
    """Collect models with dense inputs and outputs; `CASE` is the one that Paddle 2.6 saved."""
    found: dict[str, Saved] = {}
    for case in sorted(model_files.cases(), key=lambda case: case.name):
        about = model_files.meta(case)
        if about.get("kind") != "inference" or not is_dense(case):
            continue
        for artifact in about.get("artifacts", [{"model": "model", "params": None}]):
            saved = Saved(
                case, artifact["model"], artifact["params"], artifact.get("outputs", ALL_OUTPUTS)
            )
            # of some cases we keep only the files of one release
            if (case / saved.model).exists():
                plain = saved.model in ("model", "model.pdmodel")
                found[case.name if plain else f"{case.name}/{saved.model}"] = saved
    return found


def is_dense(case: Path) -> bool:
    """Return whether no output has sequences with an array of lengths."""
    with np.load(case / "outputs.npz") as outputs:
        return not any(name.endswith("@lens") for name in outputs.files)


ALL_OUTPUTS = ["outputs.npz", "outputs_1.npz"]
CASES = inference_cases()


def load(saved: Saved) -> LoadedModel:
    params = None if saved.params is None else saved.case / saved.params
    return load_model(saved.case / saved.model, params)


def put_parameters(model: LoadedModel) -> None:
    for name, array in model.parameters.items():
        static.global_scope().var(name).get_tensor().set(array)


def recorded(saved: Saved) -> list[tuple[dict[str, Any], list[Any]]]:
    """Read feeds and outputs of each recorded run."""
    runs: list[tuple[dict[str, Any], list[Any]]] = []
    for name in saved.outputs:
        if (saved.case / name).exists():
            # results of Paddle 3 that differ in their last digits have a file of their own
            fed = name.replace("outputs", "inputs").replace("_pir", "")
            with np.load(saved.case / fed) as inputs:
                feeds = {name: inputs[name] for name in inputs.files}
            with np.load(saved.case / name) as outputs:
                runs.append((feeds, [outputs[f"out{i}"] for i in range(len(outputs.files))]))
    return runs


def check(saved: Saved, model: LoadedModel, program: Program | CompiledProgram) -> None:
    """Raise AssertionError unless every recorded run gives its outputs."""
    executor = static.Executor(paddle.CPUPlace())
    for feeds, outputs in recorded(saved):
        given = {name: feeds[name] for name in model.feed_names}
        found = executor.run(program, given, model.fetch_names)
        for name, new, old in zip(model.fetch_names, found, outputs, strict=True):
            # of an assigned array of float64 Paddle 2.6, which recorded these, makes a float32
            declared = model.program.global_block().var(name).dtype.numpy
            assert new.shape == old.shape and new.dtype in (old.dtype, declared)
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)


def is_slow(saved: Saved) -> bool:
    """True for a network saved by Paddle 3 whose Paddle 2.6 model is tested, too."""
    is_ours = (model_files.MODELS / saved.case.name / saved.model).exists()
    return saved.model not in ("model", "model.pdmodel") and not is_ours


LARGE = ("infer_bert", "infer_llama", "infer_mobilenet", "infer_resnet", "infer_vit")


def marks(name: str, saved: Saved) -> Any:
    """Return the marks of a test that compiles the model.

    Decoders grow in each step: XLA compiles each op for each length. They and the larger networks,
    of more than a second, run by NumPy in `host/test_models.py`.
    """
    if is_slow(saved):
        return pytest.mark.slow
    return pytest.mark.exhaustive if name.startswith(("infer_decode", *LARGE)) else ()


@pytest.mark.every(5)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks(name, saved)) for name, saved in CASES.items()]
)
def test_recorded_outputs(name: str) -> None:
    """Outputs are right, plain and with all fusions; the loaded program does not change."""
    saved = CASES[name]
    model = load(saved)
    put_parameters(model)
    before = repr(model.program)
    check(saved, model, model.program)
    check(saved, model, CompiledProgram(model.program, strategy(**dict.fromkeys(FUSIONS, True))))
    assert repr(model.program) == before


@pytest.mark.every(2)
@pytest.mark.parametrize("name", ["infer_resnet18", "infer_mobilenet_v2"])
def test_inference_on_two_devices(name: str) -> None:
    """Rows split over devices give one device's rows; no variable of the scope is written."""
    case = CASES[name]
    model = load(case)
    put_parameters(model)
    held = {n: static.global_scope().var(n).value is not None for n in model.parameters}
    assert all(held.values())
    executor = static.Executor(paddle.CPUPlace())
    feeds, outputs = recorded(case)[0]
    ((feed, array),) = feeds.items()
    program = CompiledProgram(model.program).with_data_parallel(places=static.cpu_places(2))
    (found,) = executor.run(program, {feed: np.concatenate([array, array])}, model.fetch_names)
    np.testing.assert_allclose(
        found, np.concatenate([outputs[0], outputs[0]]), rtol=1e-4, atol=1e-5
    )
    (compiled,) = program._compiled_programs()
    assert not compiled.plan.written and not compiled.plan.updated


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("name", "passes"),
    [
        # on CPUs its batch norms become parts of the convolutions, and leave 17 units none
        ("infer_resnet18", {"fold-batch-norm": 20, "fuse-resunit": 0}),
        # two layers each, and linear layers behind them
        (
            "infer_transformer_encoder",
            {"fused-attention": 2, "fused-feedforward": 2, "fuse-gemm-epilogue": 1},
        ),
        (
            "infer_bert_mini",
            {"fused-attention": 2, "fused-feedforward": 2, "fuse-gemm-epilogue": 4},
        ),
        # a class token; rotary positions, grouped queries and a cache
        ("infer_vit", {"fused-attention": 1, "fused-feedforward": 1}),
        ("infer_llama_cache", {"fused-attention": 1, "fuse-dot-product-attention": 0}),
    ],
)
def test_fusions_fire(name: str, passes: dict[str, int]) -> None:
    """Each fusion fires as often as the models have such layers."""
    model = load(CASES[name])
    put_parameters(model)
    program = CompiledProgram(model.program, strategy(**dict.fromkeys(FUSIONS, True)))
    feeds, _ = recorded(CASES[name])[0]
    given = {n: feeds[n] for n in model.feed_names}
    static.Executor(paddle.CPUPlace()).run(program, given, model.fetch_names)
    (compiled,) = program._compiled_programs()
    fired = {pass_name: len(compiled.report.applied(pass_name)) for pass_name in passes}
    assert fired == passes, program.explain()


def sequence_case() -> tuple[LoadedModel, dict[str, Any], list[Any]]:
    """Load a model of Paddle 1.8 on sentences of different lengths, with feeds and outputs."""
    case = model_files.MODELS / "fluid18_text_lod_conv"
    model = load_model(case / "model")
    put_parameters(model)
    with np.load(case / "inputs.npz") as inputs, np.load(case / "outputs.npz") as outputs:
        return model, dict(inputs), [outputs[f"out{i}"] for i in range(2)]


def test_a_model_on_sequences() -> None:
    """Lengths are fed separately, or in a LoDTensor."""
    model, feeds, outputs = sequence_case()
    words, lengths = feeds["words"], feeds["words@lens"]
    executor = static.Executor(paddle.CPUPlace())
    for feed in (feeds, {"words": create_lod_tensor(words, [lengths.tolist()])}):
        found = executor.run(model.program, feed, model.fetch_names)
        for new, old in zip(found, outputs, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-6)
    # each sentence alone gives the same, also one that follows others of the same total length
    alone = {"words": words[4:6], "words@lens": lengths[1:2]}
    (first, _) = executor.run(model.program, alone, model.fetch_names)
    np.testing.assert_allclose(first, outputs[0][1:2], rtol=1e-4, atol=1e-6)


@pytest.mark.every(3)
@pytest.mark.parametrize("lengths", [None, [4, 2], [4, 2, 4]])
def test_sequences_need_lengths(lengths: Any) -> None:
    """In every run the lengths must add up to the rows."""
    model, feeds, _ = sequence_case()
    executor = static.Executor(paddle.CPUPlace())
    executor.run(model.program, feeds, model.fetch_names)
    wrong = {} if lengths is None else {"words@lens": np.array(lengths)}
    with pytest.raises(FeedError, match="'words' has sequences of different lengths"):
        executor.run(model.program, {"words": feeds["words"], **wrong}, model.fetch_names)


def test_lengths_that_nobody_feeds() -> None:
    """An operator on sequences names the variable without lengths."""
    program = static.Program()
    block = program.global_block()
    x = block.create_var("x", [-1, 2], "float32")
    with pytest.raises(UnsupportedError, match=r"lengths of the sequences in 'x'.*none"):
        block.append_op("sequence_pool", {"X": [x]}, {"Out": [block.create_var("y")]}, {})
