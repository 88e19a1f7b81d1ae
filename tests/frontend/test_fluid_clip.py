"""fluid.clip.set_gradient_clip and other calls around minimize, with 1.8.5's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.ir.program import OpRole
from graphopt.nn import clip as nn_clip
from graphopt_tests.frontend.test_fluid import fresh, run

clip = fluid.clip
PLAIN = [-0.94, -0.94, -1.54, -1.54, -2.14, -2.14, 0.47, 0.47]
BY_NORM = [0.219791, 0.219791, 0.103038, 0.103038, -0.013716, -0.013716, 1.292893, 1.292893]
BY_VALUE = [-0.2] * 6 + [1.3, 1.3]


def constant(name: str, value: float) -> Any:
    return fluid.ParamAttr(name, fluid.initializer.Constant(value))


def step(before: Callable[[], Any]) -> list[float]:
    """Return the parameters after a step of SGD; `before` may return a clip for the optimizer."""
    with fresh():
        x = fluid.data("x", [2, 3])
        hidden = fluid.layers.fc(x, 2, param_attr=constant("a", 0.5), bias_attr=False)
        out = fluid.layers.fc(hidden, 1, param_attr=constant("b", 2.0), bias_attr=False)
        loss = fluid.layers.mean(fluid.layers.square(out))
        fluid.optimizer.SGD(1.0, grad_clip=before()).minimize(loss)
        run(loss, x=np.arange(6, dtype="float32").reshape(2, 3) / 10)
        slots = [fluid.global_scope().find_var(name) for name in "ab"]
        return [float(v) for slot in slots for v in np.array(slot.get_tensor()).ravel()]


def _two() -> None:
    clip.set_gradient_clip(clip.GradientClipByValue(0.7), param_list=["a"])
    parameter = fluid.framework._get_var("b")
    clip.set_gradient_clip(clip.GradientClipByNorm(1.0), param_list=[parameter])


def _beside_the_optimizers() -> Any:
    clip.set_gradient_clip(clip.GradientClipByValue(0.7))
    return clip.GradientClipByNorm(1.0)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        (lambda: None, PLAIN),
        (
            lambda: clip.set_gradient_clip(clip.GradientClipByGlobalNorm(1.0)),
            [0.241749, 0.241749, 0.134144, 0.134144, 0.026539, 0.026539, 1.725608, 1.725608],
        ),
        (lambda: clip.set_gradient_clip(clip.GradientClipByNorm(1.0)), BY_NORM),
        (lambda: clip.set_gradient_clip(clip.GradientClipByValue(0.7, -0.1)), BY_VALUE),
        (
            lambda: clip.set_gradient_clip(
                clip.GradientClipByValue(0.7, -0.1, need_clip=lambda p: p.name == "a")
            ),
            BY_VALUE,
        ),
        # one parameter without a clip, and none is clipped
        (lambda: clip.set_gradient_clip(clip.GradientClipByValue(0.7), ["a"]), PLAIN),
        (lambda: clip.set_gradient_clip(clip.GradientClipByValue(0.7), ["b"]), PLAIN),
        (_two, BY_NORM),
        (_beside_the_optimizers, BY_NORM),
    ],
)
def test_noted_clips(before: Callable[[], Any], wanted: list[float]) -> None:
    np.testing.assert_allclose(step(before), wanted, atol=2e-6)


def test_noted_clips_of_pairs() -> None:
    """append_gradient_clip_ops applies the clip that is set, or returns the pairs unchanged."""
    with fresh():
        hidden = fluid.layers.fc(fluid.data("x", [2, 3]), 1, param_attr=constant("a", 0.5))
        pairs = fluid.backward.append_backward(fluid.layers.mean(hidden))
        assert clip.append_gradient_clip_ops(pairs) is pairs
        clip.set_gradient_clip(clip.GradientClipByValue(0.25))
        clipped = clip.append_gradient_clip_ops(pairs)
        found = run(*(grad for _, grad in clipped), x=np.arange(6, dtype="float32").reshape(2, 3))
    assert [p.name for p, _ in clipped] == [p.name for p, _ in pairs]
    assert [value.ravel().tolist() for value in found] == [[0.25] * 3, [0.25]]


def test_mistakes() -> None:
    with fresh():
        with pytest.raises(TypeError, match="'clip' should be"):
            clip.set_gradient_clip(3)
        with pytest.raises(TypeError, match="'param_list' should be"):
            clip.set_gradient_clip(clip.GradientClipByNorm(1.0), param_list=[3])
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [2, 3]), 1))
        fluid.optimizer.SGD(1.0).minimize(loss)
        with pytest.warns(UserWarning, match="no effect on the 'minimize' before it"):
            clip.set_gradient_clip(clip.GradientClipByNorm(1.0))


def test_calc_gradient() -> None:
    """The gradient of one input is not a list."""
    with fresh():
        x = fluid.data("x", [2])
        x.stop_gradient = False
        grad = fluid.backward.calc_gradient(fluid.layers.square(x), [x])
        assert run(grad, x=np.array([1.0, 3.0], "float32"))[0].tolist() == [2.0, 6.0]
        assert len(fluid.backward.calc_gradient(fluid.layers.square(x), [x, x])) == 2


def test_guards_of_roles() -> None:
    with fresh() as main:
        x = fluid.data("x", [2])
        with main._lr_schedule_guard():
            fluid.layers.scale(x)
        with main._optimized_guard([x]):
            fluid.layers.scale(x)
        with main._lr_schedule_guard(is_with_opt=True):
            fluid.layers.scale(x)
        fluid.layers.scale(x)
        roles = [op.role for op in main.global_block().ops]
    schedule, update = OpRole.LR_SCHEDULE, OpRole.OPTIMIZE
    assert roles == [schedule, update, schedule | update, OpRole.FORWARD]


@pytest.mark.parametrize("name", ["memory_optimize", "release_memory"])
def test_memory_is_left_to_xla(name: str) -> None:
    for space in (fluid, fluid.transpiler):
        with pytest.warns(UserWarning, match=f"fluid.{name}.. has no effect") as caught:
            getattr(space, name)(fluid.default_main_program())
        assert caught[0].filename == __file__


def test_a_norm_may_stay_in_a_half_type() -> None:
    """The norm stays in half precision if all gradients have it and its switch is on."""
    dtypes = []
    for allowed in (False, True):
        before = nn_clip._allow_pure_fp16_global_norm_clip(allowed)
        try:
            with fresh():
                grad = fluid.data("g", [3], "float16")
                weight = fluid.layers.create_parameter([3], "float16")
                nn_clip.ClipGradByGlobalNorm(1.0)([(weight, grad)])
                ops = fluid.default_main_program().global_block().ops
                sums = [op for op in ops if op.type == "sqrt"]
                dtypes.append(ops[0].block.var(sums[0].input("X")[0]).dtype)
        finally:
            nn_clip._allow_pure_fp16_global_norm_clip(before)
    assert dtypes == ["float32", "float16"]
    assert not nn_clip._allow_pure_bf16_global_norm_clip()
    with pytest.raises(TypeError, match="takes one bool"):
        nn_clip._allow_pure_bf16_global_norm_clip(1)  # type: ignore[arg-type]
