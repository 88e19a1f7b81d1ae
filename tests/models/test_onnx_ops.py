"""Samples of every op that is written as ONNX: valid files, the same numbers in ONNX Runtime.

`make test` takes one sample of each op that has a NumPy formula, and runs a family in one session;
the exhaustive tests compare all samples with the lowering.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.families import BY_NAME, FAMILIES, family_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.signature import FEED, FETCH, signature_of
from graphopt.ir.dialect.types import UNKNOWN, tensor
from graphopt_tests.ir.test_ops import SAMPLES, with_floats
from graphopt_tests.op_calls import flat, groups_of, rule_of, type_of
from graphopt_tests.ops.base import Array, Sample, f32, f64, i32, sample

onnx = pytest.importorskip("onnx")
ir = pytest.importorskip("onnx_ir")
runtime = pytest.importorskip("onnxruntime")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from graphopt.models.export.onnx.graph import graph_of  # noqa: E402  (needs the packages)
from graphopt.models.export.onnx.registry import (  # noqa: E402
    COMPLEX,
    ENTRIES,
)

# What of Paddle ONNX Runtime does otherwise (docs/how-to/take-a-model-out.md).
OTHERWISE = {
    ("pd.relu", 1): "of nan Paddle makes 0",
    ("pd.log_softmax", 2): "no logarithm of Paddle is below -64",
    ("pd.cross_entropy_with_softmax", 8): "no logarithm of Paddle is below -64",
    ("pd.cross_entropy_with_softmax", 9): "a number out of range is an error",
    ("pd.argmax", 5): "Paddle passes over nan",
    ("pd.argmin", 2): "Paddle passes over nan",
    ("pd.embedding", 3): "a number out of range is an error",
    ("pd.gather", 5): "a number out of range is an error",
}
# What onnx's reference evaluator does wrong, or does not do.
FAULTS = {
    ("pd.affine_grid", 1): "its grid of volumes has the axes in another order",
    ("pd.conv2d_transpose", 2): "its groups",
    ("pd.grid_sample", 6): "an infinite place",
    ("pd.grid_sample", 9): "images of no dimensions",
    ("pd.interpolate", 0): "integers between pixels",
    ("pd.pad", 1): "padding below zero",
}
BACKWARDS = "Scan is not implemented for other output input_direction than 0"
TOLERANCE = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 1e-5, "float64": 1e-5}
Case = tuple[type[PdOp], Sample]
NAMES = sorted(op_class.name for op_class in {*ENTRIES, *COMPLEX})


@pytest.fixture(autouse=True)
def sixty_four_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def module_of(cases: Sequence[Case], *, is_open: bool = False) -> ModuleOp:
    """Build a module that computes samples of ops side by side, from x0, x1, ... to y0, y1, ...

    With `is_open` no size of an operand is known.
    """
    arrays = [array for _, case in cases for array in flat(case)]
    types = [type_of(array) for array in arrays]
    if is_open:
        types = [tensor((UNKNOWN,) * array.ndim, array.dtype) for array in arrays]
    block = Block(arg_types=types)
    arguments = iter(block.args)
    results: list[SSAValue] = []
    for op_class, case in cases:
        operands = [
            operand if operand is None else [next(arguments) for _ in group]
            for operand, group in zip(case.operands, groups_of(case), strict=True)
        ]
        op = op_class.make(*operands, **case.attrs)
        block.add_op(op)
        results += op.results
    block.add_op(ReturnOp(*results))
    function = FuncOp("main", (block.arg_types, [value.type for value in results]))
    function.body.detach_block(0)
    function.body.add_block(block)
    for role, kind, letter, count in (
        ("arg_attrs", FEED, "x", len(arrays)),
        ("res_attrs", FETCH, "y", len(results)),
    ):
        entries = [DictionaryAttr({kind: StringAttr(f"{letter}{at}")}) for at in range(count)]
        setattr(function, role, ArrayAttr(entries))
    return ModuleOp([function])


def valid(cases: Sequence[Case], opset: int = 20, *, is_open: bool = False) -> Any:
    """Build the samples' model and check it with ONNX's checker.

    Raise UnsupportedError where an op cannot be written.
    """
    module = module_of(cases, is_open=is_open)
    made = ir.to_proto(graph_of(module, {}, signature_of(module).arguments, opset))
    onnx.checker.check_model(made, full_check=True)
    return made


def ran(model: Any, cases: Sequence[Case]) -> list[Array] | None:
    """Run the model in ONNX Runtime; return None where it has no kernel for a dtype."""
    arrays = [array for _, case in cases for array in flat(case)]
    outputs = [output.type.tensor_type.elem_type for output in model.graph.output]
    halves = [array.dtype for array in arrays if array.dtype == ml_dtypes.bfloat16]
    if halves or onnx.TensorProto.BFLOAT16 in outputs:  # its Python has no arrays of them
        return None
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    feed = {f"x{at}": parts(np.asarray(array)) for at, array in enumerate(arrays)}
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        given = {port.name: feed[port.name] for port in session.get_inputs()}
        return session.run(None, given)
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "does not support double" in str(error):
            return None
        raise


def evaluated(model: Any, cases: Sequence[Case]) -> list[Array] | None:
    """Run the model in onnx's reference evaluator; return None where it lacks an operator."""
    arrays = [parts(np.asarray(array)) for _, case in cases for array in flat(case)]
    feed = {f"x{at}": array for at, array in enumerate(arrays)}
    given = {port.name: feed[port.name] for port in model.graph.input}
    if any(array.dtype == ml_dtypes.bfloat16 for array in arrays):
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, given)]
        except RuntimeError as error:
            assert BACKWARDS in str(error)
            return None


def parts(array: Array) -> Array:
    """Stack the parts of complex numbers along a last axis, as models hold them."""
    return np.stack([array.real, array.imag], -1) if np.iscomplexobj(array) else array


def check(found: Sequence[Array], wanted: Sequence[Any], dtypes: Sequence[Any]) -> None:
    for place, (new, old, dtype) in enumerate(zip(found, wanted, dtypes, strict=True)):
        assert (new.dtype, new.shape) == (dtype, np.shape(old)), place
        near = TOLERANCE.get(str(dtype), 0)
        with np.errstate(all="ignore"):
            both = [np.asarray(array).astype(np.float64) for array in (new, old)]
        finite = np.abs(both[1][np.isfinite(both[1])])
        most = max(1.0, float(finite.max(initial=0)))
        np.testing.assert_allclose(*both, rtol=near, atol=near * most)


def with_a_formula(op_class: type[PdOp]) -> Sample | None:
    """Find the first sample that can be written and has a formula for its numbers."""
    known = {"float32", "int64", "bool"}
    numbered = [
        (number, case, {str(array.dtype) for array in flat(case)})
        for number, case in enumerate(SAMPLES[op_class])
        if case.expected is not None and (op_class.name, number) not in OTHERWISE
        if not is_random(op_class, case)
    ]
    # those on floats first: ONNX Runtime has fewer kernels for integers
    for _, case, dtypes in sorted(numbered, key=lambda each: "float32" not in each[2]):
        if not dtypes <= known:
            continue
        try:
            valid([(op_class, case)])
        except UnsupportedError:
            continue
        return case
    return None


@pytest.mark.parametrize("family", sorted({family_of(op_class) for op_class in ENTRIES}), ids=str)
def test_a_sample_of_each_op(family: str) -> None:
    """One session runs a sample of each op of a family, with the formulas' numbers."""
    own = [op_class for op_class in ENTRIES if family_of(op_class) == family]
    chosen = [(op, case) for op in own if (case := with_a_formula(op)) is not None]
    if not chosen:
        return
    model = valid(chosen)
    found = ran(model, chosen)
    assert found is not None
    wanted: list[Any] = []
    for _, case in chosen:
        assert case.expected is not None
        given = with_floats(case, f64)
        with np.errstate(all="ignore"):
            results = case.expected(*given.operands)
        wanted += results if isinstance(results, tuple) else (results,)
    check(found, wanted, [array.dtype for array in found])


def wanted_of(op_class: type[PdOp], case: Sample) -> list[Array]:
    """Compute the results with the lowering."""
    with np.errstate(all="ignore"):
        return [parts(np.asarray(value)) for value in rule_of(op_class, case)(*flat(case))]


def is_random(op_class: type[PdOp], case: Sample) -> bool:
    """Return whether a sample draws random numbers, of which only the distribution is known."""
    settled = case.attrs.get("is_test") or 0 in (case.attrs.get(p, 1) for p in ("p", "std"))
    return issubclass(op_class, RandomOp) and not settled


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_every_sample(name: str) -> None:
    """ONNX Runtime and onnx's reference evaluator give the lowering's numbers.

    If ONNX Runtime has no kernel for a dtype, it runs the sample in float32, too.
    """
    op_class, written = BY_NAME[name], 0
    cases = list(enumerate(SAMPLES[op_class]))
    for number, case in cases:
        if (name, number) in OTHERWISE:
            continue
        try:
            model = valid([(op_class, case)])
        except UnsupportedError as error:
            assert name in str(error)
            continue
        written += 1
        wanted, found = wanted_of(op_class, case), ran(model, [(op_class, case)])
        dtypes = [value.dtype for value in wanted]
        if is_random(op_class, case):
            assert found is None or [(v.dtype, v.shape) for v in found] == [
                (v.dtype, v.shape) for v in wanted
            ]
            continue
        if number >= 0 and (name, number) not in FAULTS:
            other = evaluated(model, [(op_class, case)])
            check(wanted if other is None else other, wanted, dtypes)
        if found is not None:
            check(found, wanted, dtypes)
        elif number >= 0:
            cases.append((-1, with_floats(case, f32)))
    assert written, "no sample of it can be written"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_open_sizes(name: str) -> None:
    """With all sizes unknown an op is refused, fails in the run, or gives the same numbers."""
    op_class = BY_NAME[name]
    for number, case in enumerate(SAMPLES[op_class]):
        arrays = flat(case)
        if (name, number) in OTHERWISE or not all(array.size for array in arrays):
            continue
        try:
            found = ran(valid([(op_class, case)], is_open=True), [(op_class, case)])
        except (ProgramError, UnsupportedError):
            continue
        except Exception as error:
            assert "[ONNXRuntimeError] : 1 : FAIL" in str(error)
            continue
        if found is not None:
            wanted = wanted_of(op_class, case)
            if not is_random(op_class, case):
                check(found, wanted, [value.dtype for value in wanted])


RNG = np.random.default_rng(0)


def boxes(*shape: int) -> Array:
    low = RNG.uniform(0, 20, (*shape, 2))
    return np.concatenate([low, low + RNG.uniform(1, 8, (*shape, 2))], -1).astype("float32")


def numbers(*shape: int) -> Array:
    return RNG.uniform(0, 1, shape).astype("float32")


def choices() -> Iterator[tuple[str, Sample]]:
    """Yield random calls of the ops that choose boxes, with their limits on and off."""
    n, m, c, k = (int(RNG.integers(*ends)) for ends in ((1, 4), (3, 30), (1, 5), (1, 8)))
    counts, anchors = i32([m // 2, m - m // 2]), (2, 3, 4)
    some: dict[str, Any] = {
        "score_threshold": float(RNG.choice([0.0, 0.3])),
        "nms_top_k": int(RNG.choice([-1, 5, 100])),
        "keep_top_k": int(RNG.choice([-1, 4, 50])),
        "background_label": int(RNG.choice([-1, 0])),
        "normalized": bool(RNG.integers(2)),
    }
    iou, scores = float(RNG.choice([0.2, 0.5])), numbers(n, c, m)
    yield "multiclass_nms3", sample(boxes(n, m), scores, None, nms_threshold=iou, **some)
    listed = boxes(m, c), numbers(m, c), counts
    yield "multiclass_nms3", sample(*listed, nms_threshold=iou, **some)
    gaussian = bool(RNG.integers(2))
    yield "matrix_nms", sample(boxes(n, m), scores, use_gaussian=gaussian, **some)
    yield (
        "generate_proposals",
        sample(
            *(numbers(n, 4, 2, 3), numbers(n, 16, 2, 3) - 0.5),
            np.tile(np.array([[20, 25]], "float32"), (n, 1)),
            *(boxes(*anchors), np.full((*anchors, 4), 0.5, "float32")),
            pre_nms_top_n=int(RNG.choice([0, 7, 100])),
            post_nms_top_n=int(RNG.choice([3, 100])),
            nms_thresh=0.4,
            min_size=float(RNG.choice([0.1, 6])),
            pixel_offset=bool(RNG.integers(2)),
        ),
    )
    levels = {"min_level": 2, "max_level": 5, "refer_level": 4, "refer_scale": 56}
    yield "distribute_fpn_proposals", sample(10 * boxes(m), counts, **levels)
    rois = [boxes(m), boxes(k)], [numbers(m, 1), numbers(k, 1)], [counts, i32([k - 1, 1])]
    yield "collect_fpn_proposals", sample(*rois, post_nms_top_n=int(RNG.choice([3, 100])))


@pytest.mark.exhaustive
@pytest.mark.parametrize("trial", range(12))
def test_chosen_boxes(trial: int) -> None:
    """The chosen boxes and their order are the lowering's, for random boxes."""
    for name, case in choices():
        op_class = BY_NAME[f"pd.{name}"]
        wanted = wanted_of(op_class, case)
        found = ran(valid([(op_class, case)]), [(op_class, case)])
        assert found is not None
        check(found, wanted, [value.dtype for value in wanted])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "case", "mean", "deviation"),
    [
        ("uniform", sample(shape=(4000,), min=-1.0, max=3.0), 1, 4 / 12**0.5),
        ("gaussian", sample(shape=(4000,), mean=2.0, std=0.5), 2, 0.5),
        ("truncated_gaussian", sample(shape=(4000,), mean=1.0, std=2.0), 1, 2 * 0.8796),
        ("randint", sample(shape=(4000,), low=0, high=3), 1, (2 / 3) ** 0.5),
        ("randperm", sample(n=4000), 1999.5, 4000 / 12**0.5),
        ("bernoulli", sample(np.full(4000, 0.25, "float32")), 0.25, 0.1875**0.5),
        (
            "multinomial",
            sample(f32([0.2, 0.3, 0.5]), num_samples=4000, replacement=True),
            1.3,
            0.781,
        ),
        ("multinomial", sample(f32([1.0] * 4000), num_samples=4000), 1999.5, 4000 / 12**0.5),
    ],
)
def test_distributions(name: str, case: Sample, mean: float, deviation: float) -> None:
    """Random numbers have the expected mean and standard deviation."""
    cases = [(BY_NAME[f"pd.{name}"], case)]
    found = ran(valid(cases), cases)
    assert found is not None
    assert abs(found[0].mean() - mean) < 0.08 * deviation
    assert abs(found[0].std() - deviation) < 0.08 * deviation


@pytest.mark.exhaustive
@pytest.mark.parametrize("opset", [21, 22, 23])
def test_later_opsets(opset: int) -> None:
    """The same rules hold for later opsets."""
    chosen = [(op, case) for op in ENTRIES if (case := with_a_formula(op)) is not None]
    assert len(chosen) > 100 and ran(valid(chosen, opset), chosen) is not None


def test_rules_are_in_files_named_like_those_of_the_dialect() -> None:
    families = {family.__name__.rpartition("dialect.ops.")[2] for family in FAMILIES}
    for op_class, entry in (*ENTRIES.items(), *COMPLEX.items()):
        file = entry.rule.__module__.rpartition("onnx.ops.")[2]
        # a table of one-node rules makes them in the registry
        assert file in families or file.endswith("registry"), op_class.name
