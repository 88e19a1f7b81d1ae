"""The rules of the host form, in the declared precision, against the reference rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block

from graphopt.ir.dialect.definition import default_attrs
from graphopt.ir.dialect.op import call_rule, class_of
from graphopt.ir.dialect.ops.conv import Conv2d, Conv2dTranspose, DepthwiseConv2d
from graphopt.ir.dialect.ops.pool import Pool2d
from graphopt.ir.dialect.signature import function_signature, main_function
from graphopt.passes.fusions.fuse_bn_act import FuseBnAct
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.reference import Unsupported, evaluate_ops
from graphopt.reference.registry import RULES
from graphopt.runtime.devices.places import CPUPlace
from graphopt.runtime.host import rules
from graphopt.runtime.host.body import NATIVE, Body, Running, Slots
from graphopt.runtime.host.convolution import conv2d
from graphopt.runtime.host.rules import QUICK, erf
from graphopt.testing import programs, random_inputs, run_module
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.op_calls import build, flat
from graphopt_tests.reference.test_reference import CASES, FAMILIES, of_family

# relative to the largest element: half types are rounded once, from float32
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}


def assert_close(have: Any, want: Any, name: str) -> None:
    assert (have.dtype, have.shape) == (want.dtype, want.shape), name
    kind = complex if have.dtype.kind == "c" else float
    default = 1e-12 if have.dtype.kind in "fcV" else 0.0
    tolerance = TOLERANCE.get(have.dtype.name, default)
    have, want = have.astype(kind), want.astype(kind)
    largest = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    np.testing.assert_allclose(have, want, rtol=0, atol=tolerance * largest, err_msg=name)


def computed(block: Block, given: Sequence[Any]) -> list[Any]:
    """Compute the results of a block from its arguments, without a time limit."""
    slots: Slots = {}
    body = Body(block, slots)
    running = Running([None] * len(slots), math.inf, np.zeros(2, np.uint32), CPUPlace())
    with np.errstate(all="ignore"):
        return body.run(running, list(map(NATIVE.enter, given)))


@pytest.mark.parametrize("family", FAMILIES)
def test_samples(family: str) -> None:
    """Every sample of every op gives float64's numbers, rounded."""
    for name, op_class, sample in of_family(family):
        block, op = build(op_class, sample)
        given_ = dict(zip(block.args, flat(sample), strict=True))
        try:
            wanted = evaluate_ops([op], given_)
        except Unsupported:
            continue  # for a property of this sample
        block.add_op(ReturnOp(*op.results))
        for result, value in zip(op.results, computed(block, flat(sample)), strict=True):
            assert_close(NATIVE.left(result, value), wanted[result], name)


@settings(max_examples=examples(10))
@given(programs(plant=[*FuseGemmEpilogue.RULES, *FuseBnAct.RULES], training=False))
def test_generated_programs(generated: Generated) -> None:
    """The outputs equal XLA's up to rounding."""
    inputs = random_inputs(generated.module)
    main = main_function(generated.module)
    signature = function_signature(main)
    found = computed(main.body.block, [inputs[port.name] for port in signature.arguments])
    wanted = run_module(generated.module, inputs)
    for port, value in zip(signature.results, found, strict=True):
        want = wanted[f"{port.kind} {port.name}"]
        largest = np.max(np.abs(want), initial=1.0)
        np.testing.assert_allclose(value, want, rtol=0, atol=2e-4 * largest, err_msg=port.name)


def test_quick_rules_have_samples() -> None:
    assert QUICK.keys() <= {case.values[0] for case in CASES}  # pyright: ignore


SIZES = st.integers(1, 3)


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the properties of a convolution."""
    algorithm = draw(st.sampled_from(["EXPLICIT", "SAME", "VALID"]))
    return {
        "strides": draw(st.tuples(SIZES, SIZES)),
        "paddings": draw(st.one_of(st.tuples(*[st.integers(0, 2)] * 2), st.tuples(*[SIZES] * 4))),
        "padding_algorithm": algorithm,
        "dilations": draw(st.tuples(SIZES, SIZES)),
        "data_format": draw(st.sampled_from(["NCHW", "NHWC"])),
    }


def numbers(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def images(window: dict[str, Any], batch: int, channels: int, sizes: tuple[int, int]) -> Any:
    x = numbers(batch, channels, *sizes)
    return x if window["data_format"] == "NCHW" else np.moveaxis(x, 1, -1)


CHANNELS = st.sampled_from([1, 2, 3, 12])


@given(windows(), st.integers(0, 2), SIZES, CHANNELS, SIZES, st.tuples(SIZES, SIZES), st.booleans())
def test_convolutions(
    window: dict[str, Any],
    batch: int,
    groups: int,
    own: int,
    outs: int,
    kernel: tuple[int, int],
    is_flipped: bool,
) -> None:
    """Any window, layout and group count is right, also with uncopied channels."""
    filter = numbers(groups * outs, own, *kernel)
    attrs = {**window, "groups": groups, "filter_format": "OIHW"}
    if is_flipped:
        filter, attrs["filter_format"] = np.transpose(filter, (2, 3, 1, 0)), "HWIO"
    attrs |= {"input": images(window, batch, groups * own, (9, 11)), "filter": filter}
    compare(Conv2d, attrs)
    if own == 1:
        compare(DepthwiseConv2d, attrs | {"fuse_relu_before_depthwise_conv": is_flipped})


@given(windows(), st.integers(1, 70), SIZES, st.data())
def test_filters_of_one_channel(
    window: dict[str, Any], columns: int, times: int, data: st.DataObject
) -> None:
    """Infinities and NaN appear exactly where the filter reads them."""
    filter = numbers(3 * times, 1, 3, 2)
    x = images(window, 2, 3, (20, columns + 6))
    for array in (x, filter):
        places = st.lists(st.integers(0, array.size - 1), max_size=2)
        array.flat[data.draw(places)] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    attrs = {**window, "groups": 3, "filter_format": "OIHW", "input": x, "filter": filter}
    with np.errstate(invalid="ignore"):
        compare(Conv2d, attrs)


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("groups", [1, 24])
def test_channels_are_first_in_memory(kernel: int, groups: int) -> None:
    """Results with channels last are also stored channels first, as the next op reads them."""
    x, filter = numbers(2, 9, 8, 24), numbers(24, 24 // groups, kernel, kernel)
    window = (1, 1), (kernel // 2,) * 2, "EXPLICIT", (1, 1), groups
    found = conv2d(x, filter, *window, "NHWC", "OIHW")
    assert np.moveaxis(found, -1, 1).flags.c_contiguous
    first = np.ascontiguousarray(np.moveaxis(x, -1, 1))
    wanted = conv2d(first, filter, *window, "NCHW", "OIHW")
    assert_close(found, np.moveaxis(wanted, 1, -1), "conv2d")


@given(windows(), SIZES, SIZES, SIZES, st.tuples(SIZES, SIZES), st.integers(0, 1))
def test_transposed_convolutions(
    window: dict[str, Any],
    groups: int,
    own: int,
    outs: int,
    kernel: tuple[int, int],
    extra: int,
) -> None:
    attrs = {
        **window,
        "groups": groups,
        "input": images(window, 2, groups * own, (5, 4)),
        "filter": numbers(groups * own, outs, *kernel),
        "output_padding": (extra, extra) if min(window["strides"]) > extra else (),
        "output_size": (),
    }
    compare(Conv2dTranspose, attrs)


@given(
    windows(),
    st.tuples(SIZES, SIZES),
    st.sampled_from(["max", "avg"]),
    st.sampled_from(["plain", "global", "adaptive"]),
    *[st.booleans()] * 3,
)
def test_pools(
    window: dict[str, Any],
    kernel: tuple[int, int],
    kind: str,
    extent: str,
    ceil_mode: bool,
    exclusive: bool,
    has_nan: bool,
) -> None:
    """Any window is right, also beyond an image."""
    x = images(window, 2, 3, (9, 11))
    if has_nan:
        x.reshape(-1)[[5, 300]] = np.nan, -np.inf
    del window["dilations"]
    attrs = {
        **(window | {"x": x, "kernel_size": kernel, "pooling_type": kind}),
        "global_pooling": extent == "global",
        "adaptive": extent == "adaptive",
        "ceil_mode": ceil_mode,
        "exclusive": exclusive,
    }
    with np.errstate(all="ignore"):
        compare(Pool2d, attrs)


def compare(op_class: Any, attrs: dict[str, Any]) -> None:
    """Compare the quick rule with the reference rule in float64; both may refuse."""
    doubled = {k: v.astype("float64") if isinstance(v, np.ndarray) else v for k, v in attrs.items()}
    wanted = call_rule(RULES[op_class], doubled)
    if min(wanted.shape[1:]) < 1:
        return  # what the type rule refuses
    found = call_rule(QUICK[op_class], attrs)
    assert_close(found, wanted.astype("float32"), op_class.name)


def test_error_function() -> None:
    """The error is three units in the last place of float32, also at 0 and in the tails."""
    x = np.concatenate([np.linspace(-6, 6, 20001), [1e-30, -1e-30, np.inf, -np.inf]])
    found = erf(x.astype("float32"))
    wanted = [math.erf(v) for v in x.astype("float32").tolist()]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=3.6e-7)
    assert np.isnan(erf(np.array([np.nan], "float32")))


@pytest.mark.parametrize("name", ["adagrad", "adam", "adamw", "momentum", "sgd"])
def test_updates_in_strips(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates in strips have the bits of updates as a whole, for each shape."""
    monkeypatch.setattr(rules, "STRIP", 8)
    op_class, random = class_of(f"pd.{name}"), np.random.default_rng(0)
    for shape in ((3, 7), (24,), (9, 1)):
        given: dict[str, Any] = {
            each: random.uniform(0.1, 1, shape).astype("float32")
            for each in ("param", "grad", "velocity", "moment", "moment1", "moment2")
        }
        given |= dict.fromkeys(
            ("learning_rate", "beta1_pow", "beta2_pow"), np.full([1], 0.5, "float32")
        )
        values = {"mu": 0.9, **default_attrs(op_class), "moment2_max": None, **given}
        found, wanted = (call_rule(each[op_class], values) for each in (QUICK, RULES))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("shape", [(), (1,), (3, 1), (3, 4)])
@pytest.mark.parametrize("kind", ["all", "none", "some"])
def test_a_choice_of_nothing_but_one_operand(shape: tuple[int, ...], kind: str) -> None:
    """A constant condition gives the operand itself, in the broadcast shape."""
    x, y = np.zeros((3, 4), "float32"), np.ones((2, 3, 4), "float32")
    condition = np.full(shape, kind == "all")
    if kind == "some" and condition.size > 1:
        condition.reshape(-1)[0] = True
    found = rules.where(condition, x, y)
    np.testing.assert_array_equal(found, np.where(condition, x, y))
    if kind != "some" or condition.size == 1:
        assert np.shares_memory(found, x if kind == "all" else y)
