"""The operators that minimize appends, their order, and numbers of clips and weight decay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import UnsupportedError
from graphopt.ir.program import OpRole
from graphopt_tests.frontend.programs import fresh, run, start, types, weight

L1Decay, L2Decay = paddle.regularizer.L1Decay, paddle.regularizer.L2Decay
sgd = paddle.optimizer.SGD
# the gradients of `linear_loss` for any parameters
GRADIENTS = {"a": np.array([3.0, 0.0]), "b": np.array([4.0])}


def linear_loss(**attributes: Any) -> Any:
    """Build 3 a[0] + 4 b, whose gradients do not depend on the parameters."""
    b = weight("b", [2.0], **attributes.get("b", {}))
    a = weight("a", [1.0, -1.0], **attributes.get("a", {}))
    return paddle.sum(a * paddle.to_tensor([3.0, 0.0])) + paddle.sum(b * 4.0)


def steps(optimizer: Any, count: int = 1, **attributes: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return how much each parameter falls in some steps."""
    with fresh() as (main, _):
        optimizer.minimize(linear_loss(**attributes))
        start()
        before = {p.name: p.get_value().numpy() for p in main.all_parameters()}
        for _ in range(count):
            run()
        return {
            name: value - main.global_block().var(name).get_value().numpy()
            for name, value in before.items()
        }


def test_order_of_operators() -> None:
    """Clip, weight decay, and updates by parameter name follow in order, with role Optimize."""
    with fresh() as (main, _):
        clip = paddle.nn.ClipGradByValue(1.0)
        optimizer = paddle.optimizer.SGD(0.1, weight_decay=0.5, grad_clip=clip)
        updates, pairs = optimizer.minimize(linear_loss())
        ops = main.global_block().ops
        after = ops[[op.type for op in ops].index("pd_grad") + 1 :]
    assert [op.type for op in after] == ["clip", "clip", *["scale", "sum"] * 2, "sgd", "sgd"]
    assert [op.input("Param") for op in updates] == [["a"], ["b"]]
    assert updates == after[-2:]
    assert {op.role for op in after} == {OpRole.OPTIMIZE}
    assert [(p.name, g.name) for p, g in pairs] == [("b", "b@GRAD"), ("a", "a@GRAD")]
    decayed = after[3]
    assert decayed.output("Out") == decayed.input("X")[:1]  # in place
    assert updates[0].attr("op_role_var")[0] == "a"


def test_names_of_the_state() -> None:
    """The startup program sets `<parameter>_<kind>_0` and `learning_rate_0`."""
    with fresh() as (main, startup):
        paddle.optimizer.Adam(0.25).minimize(paddle.sum(weight("w", [1.0])))
        state = {v.name: list(v.shape) for v in main.list_vars() if v.persistable}
        written = {n for op in startup.global_block().ops for n in op.output_arg_names}
        start()
        rate = main.global_block().var("learning_rate_0").get_value().numpy()
    assert state == {
        "w": [1],
        "learning_rate_0": [],
        "w_moment1_0": [1],
        "w_moment2_0": [1],
        "w_beta1_pow_acc_0": [1],
        "w_beta2_pow_acc_0": [1],
    }
    assert written == set(state)
    assert rate.tolist() == 0.25


def test_state_by_kind_and_parameter() -> None:
    """State is also found by the names of kinds that derived optimizers use."""
    with fresh():
        w = weight("w", [1.0, 2.0])
        adam = paddle.optimizer.Adam(0.1)
        assert adam._accumulators == {}
        adam.minimize(paddle.sum(w * w))
        found = adam._accumulators
        assert list(found) == ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"]
        assert found[adam._moment1_acc_str]["w"] is adam._get_accumulator("moment1", w)
        momentum = paddle.optimizer.Momentum(0.1)
        momentum.minimize(paddle.sum(w * w))
        assert list(momentum._accumulators[momentum._velocity_acc_str]) == ["w"]
        kinds: list[tuple[Any, str]] = [
            (paddle.optimizer.Adagrad(0.1), "moment"),
            (paddle.optimizer.Adadelta(0.1), "avg_squared_update"),
            (paddle.optimizer.RMSProp(0.1), "mean_square"),
            (paddle.optimizer.Adamax(0.1), "inf_norm"),
            (paddle.optimizer.Lamb(0.1), "moment2"),
            (fluid.optimizer.DecayedAdagrad(0.1), "moment"),
            (fluid.optimizer.Ftrl(0.1), "squared"),
        ]
        for optimizer, kind in kinds:
            optimizer.minimize(paddle.sum(w * w))
            assert "w" in optimizer._accumulators[getattr(optimizer, f"_{kind}_acc_str")]


def test_updates_belong_to_the_program_of_the_parameters() -> None:
    """State, clips, averages and merged gradients ignore the default programs."""
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    amp = static.amp.decorate(paddle.optimizer.Adam(0.1, grad_clip=clip), init_loss_scaling=8.0)
    for optimizer in (
        paddle.optimizer.Adam(0.1, grad_clip=clip, weight_decay=0.1),
        amp,
        paddle.incubate.optimizer.GradientMergeOptimizer(paddle.optimizer.Momentum(0.1), 2),
    ):
        with fresh() as (main, _):
            w = weight("w", [1.0, 2.0])
            average = static.ExponentialMovingAverage(0.9)
            pairs = optimizer.backward(paddle.sum(w * w))
            other = static.Program()
            with static.program_guard(other):
                optimizer.apply_gradients(pairs)
                average.update()
                paddle.incubate.ModelAverage(0.15, parameters=[w])
            assert not other.global_block().ops and not list(other.list_vars())
            start()
            before = w.get_value().numpy()
            for _ in range(2):
                run()
            assert np.all(w.get_value().numpy() < before)
            inner = getattr(optimizer, "inner_opt", optimizer)
            kind = "velocity" if isinstance(inner, paddle.optimizer.Momentum) else "moment1"
            for program in (main, main.clone()):
                with static.program_guard(other):
                    found = inner._get_accumulator(kind, program.all_parameters()[0])
                assert found.name == f"w_{kind}_0"


def test_clipping_comes_before_weight_decay() -> None:
    """Clipping precedes weight decay; otherwise it would scale the decay, too."""
    optimizer = paddle.optimizer.SGD(
        1.0, weight_decay=0.5, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)
    )
    moved = steps(optimizer)
    np.testing.assert_allclose(moved["a"], GRADIENTS["a"] / 5 + [0.5, -0.5], rtol=1e-6)
    np.testing.assert_allclose(moved["b"], GRADIENTS["b"] / 5 + [1.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("clip", "a", "b"),
    [
        (paddle.nn.ClipGradByGlobalNorm(1.0), [0.6, 0], [0.8]),
        (paddle.nn.ClipGradByGlobalNorm(10.0), [3, 0], [4]),
        (paddle.nn.ClipGradByNorm(1.0), [1, 0], [1]),
        (paddle.nn.ClipGradByNorm(3.5), [3, 0], [3.5]),
        (paddle.nn.ClipGradByValue(3.5), [3, 0], [3.5]),
        (paddle.nn.ClipGradByValue(3.25, 0.5), [3, 0.5], [3.25]),
    ],
)
def test_clips(clip: Any, a: list[float], b: list[float]) -> None:
    """Each clip is right for gradients of norms 3 and 4, together 5."""
    moved = steps(paddle.optimizer.SGD(1.0, grad_clip=clip))
    np.testing.assert_allclose(moved["a"], a, rtol=1e-6)
    np.testing.assert_allclose(moved["b"], b, rtol=1e-6)


def old_momentum() -> Any:
    return fluid.optimizer.Momentum(1.0, 0.9, regularization=L2Decay(0.5))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("make", "a", "b"),
    [
        # Paddle 2.6.2
        (lambda: sgd(1.0, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)), [0.6, 0], [0.8]),
        (lambda: sgd(1.0, grad_clip=paddle.nn.ClipGradByNorm(1.0)), [3, 0], [4]),
        (lambda: sgd(1.0, weight_decay=0.5), [3.5, -0.5], [5]),
        (lambda: paddle.optimizer.Momentum(1.0, weight_decay=0.5), [3, 0], [4]),
        (lambda: paddle.optimizer.Momentum(1.0, weight_decay=L1Decay(0.5)), [3.5, -0.5], [4.5]),
        # Paddle 1.8.5
        (
            lambda: fluid.optimizer.SGD(1.0, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)),
            [3, 0],
            [4],
        ),
        (old_momentum, [3.5, -0.5], [5]),
        (
            lambda: fluid.optimizer.LarsMomentum(1.0, 0.9, regularization=L2Decay(0.5)),
            [3.5, -0.5],
            [5],
        ),
    ],
)
def test_what_the_names_of_gradients_hold(make: Any, a: list[float], b: list[float]) -> None:
    """`a@GRAD` has in-place additions and scalings after the step, as recorded from Paddle."""
    with fresh():
        make().minimize(linear_loss())
        start()
        found = run(["a@GRAD", "b@GRAD"])
    np.testing.assert_allclose(np.concatenate(found), a + b, rtol=1e-6)


def test_the_decay_of_momentum_is_part_of_its_update() -> None:
    """A parameter's own L2Decay replaces the optimizer's, as in Paddle 2.x."""
    optimizer = paddle.optimizer.Momentum(1.0, 0.5, weight_decay=0.5)
    moved = steps(optimizer, 2, b={"regularizer": L2Decay(0.25)})
    first = GRADIENTS["a"] + [0.5, -0.5]
    second = 0.5 * first + GRADIENTS["a"] + 0.5 * ([1.0, -1.0] - first)
    np.testing.assert_allclose(moved["a"], first + second, rtol=1e-6)
    with fresh() as (main, _):
        optimizer.minimize(linear_loss(b={"regularizer": L2Decay(0.25)}))
        updates = [op for op in main.global_block().ops if op.type == "momentum"]
    decays = [(op.attr("regularization_method"), op.attr("regularization_coeff")) for op in updates]
    assert decays == [("l2_decay", 0.5), ("l2_decay", 0.25)]


def test_minimize_in_a_branch_without_a_parameter() -> None:
    """minimize warns, as outside of a branch, and appends nothing."""
    with fresh() as (main, _):
        x, pred = static.data("x", [3], "float32"), static.data("pred", [1], "bool")
        with pytest.warns(UserWarning, match="nothing to update"):
            static.nn.cond(pred, lambda: sgd(0.1).minimize(paddle.mean(x)) and None, None)
        assert [op.type for op in main.block(1).ops if op.type == "sgd"] == []
        run(x=np.zeros(3, "float32"), pred=np.array([True]))


def test_parameters_that_need_no_clip() -> None:
    """Parameters without `need_clip` keep their gradient, and do not count in the global norm."""
    optimizer = paddle.optimizer.SGD(1.0, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
    moved = steps(optimizer, b={"need_clip": False})
    np.testing.assert_allclose(moved["a"], [1, 0], rtol=1e-6)
    np.testing.assert_allclose(moved["b"], [4], rtol=1e-6)


@pytest.mark.parametrize(
    ("clip", "keeps"),
    [
        (paddle.nn.ClipGradByValue(1.0), False),
        (paddle.nn.ClipGradByNorm(1.0), False),
        (paddle.nn.ClipGradByGlobalNorm(1.0), True),
        (fluid.clip.GradientClipByNorm(1.0), False),
        (fluid.clip.GradientClipByGlobalNorm(1.0), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_clip_drops_pairs_without_a_gradient(clip: Any, keeps: bool) -> None:
    """Pairs without a gradient go, as in Paddle; with none at all, a global norm keeps them."""
    with fresh():
        grad = static.data("g", [3], "float32")
        one, two = (paddle.create_parameter([3], "float32") for _ in range(2))
        assert [p for p, _ in clip([(one, None), (two, grad)])] == [two]
        pairs = [(one, None), (two, None)]
        assert clip(pairs) == (pairs if keeps else [])


def test_parameter_attributes_steer_the_update() -> None:
    """A parameter's regularizer replaces the optimizer's; its learning rate multiplies it."""
    optimizer = paddle.optimizer.SGD(0.5, weight_decay=L2Decay(1.0))
    moved = steps(optimizer, a={"regularizer": L1Decay(0.25)}, b={"learning_rate": 0.5})
    np.testing.assert_allclose(moved["a"], [0.5 * (3 + 0.25), 0.5 * -0.25], rtol=1e-6)
    np.testing.assert_allclose(moved["b"], [0.5 * 0.5 * (4 + 2)], rtol=1e-6)


def test_frozen_parameters_stay() -> None:
    """`trainable=False`, or a list of parameters, excludes the others from the update."""
    moved = steps(paddle.optimizer.SGD(1.0), a={"trainable": False})
    assert moved["a"].tolist() == [0, 0]
    with fresh() as (main, _):
        loss = linear_loss()
        (only,) = (p for p in main.all_parameters() if p.name == "b")
        updates, _ = paddle.optimizer.SGD(1.0, parameters=[only]).minimize(loss)
    assert [op.input("Param") for op in updates] == [["b"]]


def test_a_schedule_is_read_at_each_run() -> None:
    """The executor writes the current rate; only `step()` changes it."""
    schedule = paddle.optimizer.lr.PiecewiseDecay([1, 2], [1.0, 0.5, 0.25])
    with fresh() as (main, _):
        w = weight("w", [10.0])
        paddle.optimizer.SGD(schedule).minimize(paddle.sum(w))
        assert main.lr_schedulers == {"learning_rate_0": schedule}
        start()
        values = []
        for _ in range(3):
            run()
            run()
            schedule.step()
            values.append(w.get_value().numpy().item())
    assert values == [8.0, 7.0, 6.5]


def test_set_lr_reaches_programs_that_exist() -> None:
    """A constant rate can be set between runs; with a schedule it is an error."""
    optimizer = paddle.optimizer.SGD(1.0)
    with fresh():
        w = weight("w", [10.0])
        optimizer.minimize(paddle.sum(w))
        start()
        run()
        optimizer.set_lr(0.5)
        run()
        assert (w.get_value().numpy().item(), optimizer.get_lr()) == (8.5, 0.5)
    scheduled = paddle.optimizer.SGD(paddle.optimizer.lr.ExponentialDecay(1.0, 0.5))
    with pytest.raises(RuntimeError, match="LRScheduler"):
        scheduled.set_lr(0.1)


def test_adamw_decays_the_parameters_it_is_told_to() -> None:
    """`apply_decay_param_fun` chooses by name."""
    rate, decay = 0.5, 0.1
    optimizer = paddle.optimizer.AdamW(
        rate, weight_decay=decay, apply_decay_param_fun=lambda name: name == "a"
    )
    with_decay = steps(optimizer)
    plain = steps(paddle.optimizer.Adam(rate))
    np.testing.assert_allclose(with_decay["b"], plain["b"], rtol=1e-5)
    np.testing.assert_allclose(
        with_decay["a"] - plain["a"], rate * decay * np.array([1.0, -1.0]), rtol=1e-5
    )


def test_a_loss_without_parameters_updates_nothing() -> None:
    """No operator is appended, as in Paddle, and a warning says so."""
    with fresh():
        x = static.data("x", [2], "float32")
        with pytest.warns(UserWarning, match="no trainable parameter"):
            made = paddle.optimizer.SGD(0.1).minimize(paddle.mean(x))
        assert made == ([], [])


def test_wrong_arguments() -> None:
    """Each error names the argument."""
    with pytest.raises(TypeError, match="learning rate should be float or LRScheduler"):
        sgd("0.1")
    with pytest.raises(TypeError, match="grad_clip"):
        sgd(0.1, grad_clip=1.0)
    with pytest.raises(TypeError, match="weight_decay"):
        sgd(0.1, weight_decay="l2")
    with pytest.raises(ValueError, match="beta1"):
        paddle.optimizer.Adam(beta1=1.0)
    with pytest.raises(UnsupportedError, match=r"use minimize\(loss\)"):
        sgd(0.1).step()


def test_weight_norm_starts_at_the_given_weight() -> None:
    """g starts as the norm of v, so the weight starts as v."""
    value = np.arange(1, 7, dtype="float32").reshape(3, 2)
    for dim, shape in ((None, [1, 1]), (1, [1, 2])):
        with fresh() as (main, _):
            x = static.data("x", [None, 3], "float32")
            attr = static.WeightNormParamAttr(dim, "w", paddle.nn.initializer.Assign(value))
            out = static.nn.fc(x, 2, weight_attr=attr, bias_attr=False)
            named = {p.name: list(p.shape) for p in main.all_parameters()}
            start()
            (got,) = run([out], x=np.eye(3, dtype="float32"))
        assert named == {"w_v": [3, 2], "w_g": shape}
        np.testing.assert_allclose(got, value, rtol=1e-6)
        assert "sgd" not in types(main)


def test_strengths_are_numbers_of_any_kind() -> None:
    """Paddle also takes `False`, which some networks pass from a setting, and NumPy numbers."""
    assert paddle.regularizer.L2Decay(False)._coeff == 0.0
    assert paddle.regularizer.L1Decay(np.float32(0.5))._coeff == 0.5
    assert paddle.nn.ClipGradByNorm(np.float32(2)).clip_norm == 2.0
    assert paddle.nn.ClipGradByValue(np.int64(3)).min == -3.0
    with pytest.raises(TypeError, match=r"L2Decay\(\): the argument 'coeff' must be a number"):
        paddle.regularizer.L2Decay("1e-4")
