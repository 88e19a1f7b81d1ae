"""Every optimizer: its operator and state, master weights, groups, saved state."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.programs import fresh, run, start, types, weight

EVERY: dict[str, tuple[dict[str, Any], list[str]]] = {
    "SGD": ({}, []),
    "Momentum": ({}, ["velocity"]),
    "Adam": ({}, ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"]),
    "AdamW": ({}, ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"]),
    "Adagrad": ({}, ["moment"]),
    "Adadelta": ({}, ["_avg_squared_grad", "_avg_squared_update"]),
    "Adamax": ({}, ["moment", "inf_norm", "beta1_pow_acc"]),
    "RMSProp": ({}, ["momentum", "mean_square", "mean_grad"]),
    "Lamb": ({}, ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"]),
    "NAdam": ({}, ["momentum_decay_pow", "beta2_pow", "mu_product", "moment1", "moment2"]),
    "RAdam": ({}, ["beta1_pow", "beta2_pow", "rho", "moment1", "moment2"]),
    "ASGD": ({"batch_num": 2}, ["d", "y", "m"]),
    "Rprop": ({}, ["prevs", "learning_rates"]),
    "Ftrl": ({"l1": 0.01}, ["squared", "linear"]),
    "DecayedAdagrad": ({}, ["moment"]),
    "LarsMomentum": ({"momentum": 0.9}, ["velocity"]),
    "Dpsgd": ({"sigma": 0.0}, []),
}
HALVES = [name for name in EVERY if name not in ("Ftrl", "DecayedAdagrad", "Dpsgd")]


def make(name: str, **more: Any) -> Any:
    """Return an optimizer of this kind."""
    return getattr(paddle.optimizer, name)(learning_rate=0.1, **{**EVERY[name][0], **more})


@pytest.mark.every(3)
@pytest.mark.parametrize("name", EVERY)
def test_state_and_descent(name: str) -> None:
    """State is named after the parameter, initialized by the startup program, and saved."""
    with fresh() as (main, _):
        optimizer = make(name)
        loss = paddle.sum(paddle.square(weight("w", [1.0, -2.0])))
        operators, _ = optimizer.minimize(loss)
        kinds = {f"w_{kind}_0" for kind in EVERY[name][1]}
        assert set(optimizer.get_opti_var_name_list()) == kinds
        assert operators[-1] is main.global_block().ops[-1]
        start()
        losses = [float(run([loss])[0]) for _ in range(3)]
        assert losses[2] < losses[1] < losses[0]
        saved = optimizer.state_dict()
        assert set(saved) == kinds
        run()
        optimizer.set_state_dict(saved)
        again = optimizer.state_dict()
    assert all(np.array_equal(saved[key], again[key]) for key in saved)


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("name", "dtype"), list(zip(HALVES, itertools.cycle(["float16", "bfloat16"]), strict=False))
)
def test_master_weights(name: str, dtype: str) -> None:
    """A half-precision parameter follows a float32 weight, which takes float32's steps."""
    extra = {"etas": (0.5, 1.2)} if name == "Rprop" else {}
    values = [0.75, -1.5, 0.25]  # exact in every dtype

    def after_two_steps(element: str) -> dict[str, Any]:
        with fresh():
            attr = paddle.ParamAttr("w", paddle.nn.initializer.Assign(values))
            w = static.create_parameter([3], element, attr=attr)
            # a gradient that does not depend on w: 1, 2, -1
            coefficients = paddle.cast(paddle.to_tensor([1.0, 2.0, -1.0]), element)
            masters = {} if element == "float32" else {"multi_precision": True}
            make(name, **masters, **extra).minimize(paddle.sum(w * coefficients))
            start()
            run()
            run()
            found = static.global_scope().find_var("w_fp32_master_0")
            state = static.global_scope().find_var("w").get_tensor()
            return {"w": np.array(state), "master": found and np.array(found.get_tensor())}

    half, single = after_two_steps(dtype), after_two_steps("float32")
    assert half["master"].dtype == np.float32
    np.testing.assert_allclose(half["master"], single["w"], rtol=1e-5)
    np.testing.assert_array_equal(half["w"], half["master"].astype(half["w"].dtype))


# recorded from 2.6.2, and for the last four from the code of 3.3.1: what stays in half precision
STAYS_HALF = {
    "Adagrad": {"moment"},
    "Adadelta": {"_avg_squared_grad", "_avg_squared_update"},
    "RMSProp": {"momentum", "mean_square", "mean_grad"},
    "Adamax": {"beta1_pow_acc"},
    "ASGD": {"d", "y"},
    "Rprop": {"prevs", "learning_rates"},
}


@pytest.mark.every(5)
@pytest.mark.filterwarnings("ignore:Accumulating with FP16")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALVES)
def test_dtypes_of_the_state_of_half_parameters(name: str, dtype: str) -> None:
    """State with a master weight is float32; without one, a few optimizers keep it in half."""
    for masters in (True, False):
        with fresh() as (main, _):
            w = static.create_parameter([3], dtype, name="w")
            optimizer = make(name, multi_precision=masters)
            optimizer.minimize(paddle.sum(paddle.cast(w, "float32")))
            for kind, state in optimizer._accumulators.items():
                half = not masters and kind in STAYS_HALF.get(name, ())
                wanted = "int64" if kind == "m" else dtype if half else "float32"
                assert state["w"].dtype == wanted, kind
            start()
            run()
            assert main.global_block().var("learning_rate_0").dtype == "float32"


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:Accumulating with FP16")
def test_slow_weights_and_averages_of_half_parameters_are_float32() -> None:
    """Both are float32, as in Paddle, and work with and without a master weight."""
    for masters in (True, False):
        with fresh() as (main, _):
            w = static.create_parameter(
                [2], "float16", name="w", default_initializer=paddle.nn.initializer.Constant(1.0)
            )
            optimizer = paddle.optimizer.SGD(0.25, multi_precision=masters)
            loss = paddle.sum(paddle.cast(w, "float32"))
            paddle.incubate.LookAhead(optimizer, 0.5, 2).minimize(loss)
            average = static.ExponentialMovingAverage(0.5)
            average.update()
            dtypes = {v.name: v.dtype for v in main.list_vars() if v.persistable}
            assert dtypes["w_slow_0"] == dtypes["w_ema_0"] == "float32"
            start()
            found = [run([w])[0].tolist() for _ in range(4)]
            with average.apply(static.Executor(paddle.CPUPlace())):
                mean = w.get_value().numpy()
        assert found == [[0.75, 0.75], [0.625, 0.625], [0.375, 0.375], [0.375, 0.375]]
        np.testing.assert_allclose(mean, [0.40625 / 0.9375] * 2, rtol=1e-3)


def test_half_precision_without_master_weights_warns() -> None:
    """One warning names the option."""
    with fresh():
        w = static.create_parameter([2], "float16")
        with pytest.warns(UserWarning, match="multi_precision=True"):
            paddle.optimizer.Adam(0.1).minimize(paddle.sum(w))


def test_skip_update() -> None:
    """An update with a true skip condition changes nothing."""
    with fresh() as (main, _):
        found = static.data("found", [1], "bool")
        loss = paddle.sum(weight("w", [1.0]))
        (update, *_), _ = paddle.optimizer.Adam(0.1).minimize(loss)
        update.inputs["SkipUpdate"] = [found.name]
        main.touch()
        start()
        seen = []
        for skip in (True, False):
            run(found=np.array([skip]))
            names = ("w", "w_moment1_0", "w_beta1_pow_acc_0")
            block = main.global_block()
            seen.append([float(block.var(n).get_value().numpy()[0]) for n in names])
    np.testing.assert_allclose(seen[0], [1.0, 0.0, 0.9], rtol=1e-6)
    np.testing.assert_allclose(seen[1], [0.9, 0.1, 0.81], rtol=1e-6)


def test_groups() -> None:
    """A group has its own rate, decay, clip and hyper-parameters."""
    with fresh() as (main, _):
        a, b = weight("a", [1.0]), weight("b", [1.0])
        clip = paddle.nn.ClipGradByValue(0.5)
        groups = [
            {"params": [a], "learning_rate": 0.1, "grad_clip": clip},
            {"params": b, "weight_decay": 0.5, "momentum": 0.0},
        ]
        optimizer = paddle.optimizer.Momentum(0.1, parameters=groups)
        optimizer.minimize(paddle.sum(a * 4.0) + paddle.sum(b * 2.0))
        start()
        run()
        run()
        left = {n: float(main.global_block().var(n).get_value().numpy()[0]) for n in "ab"}
    assert left["a"] == pytest.approx(1 - 0.01 * 0.5 * (1 + 1.9))
    assert left["b"] == pytest.approx((1 - 0.25) - 0.1 * (2 + 0.5 * 0.75))


def test_wrong_groups() -> None:
    """Each error names the fault of the group."""
    with fresh():
        a = weight("a", [1.0])
        for groups, error, text in (
            ({"params": [a]}, TypeError, "iterable"),
            ([{"param": [a]}], ValueError, "params should be set"),
            ([{"params": {a}}], TypeError, "ordered collections"),
            ([{"params": [a]}, {"params": [a]}], ValueError, "more than one parameter group"),
        ):
            with pytest.raises(error, match=text):
                paddle.optimizer.SGD(0.1, parameters=groups)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda o: o.Adam(0.1, beta1=1.0), ValueError, "beta1 in \\[0,1\\)"),
        (lambda o: o.NAdam(-1.0), ValueError, "Invalid learning rate"),
        (lambda o: o.NAdam(0.1, momentum_decay=-1), ValueError, "momentum_decay >= 0"),
        (lambda o: o.RMSProp(0.1, rho=-1.0), ValueError, "rho >= 0"),
        (lambda o: o.Adadelta(0.1, rho=None), ValueError, "rho is not set"),
        (lambda o: o.ASGD(0.1, batch_num=0), ValueError, "batch_num should be greater"),
        (lambda o: o.Rprop(0.1, learning_rate_range=(1, 2)), ValueError, "learning_rate_range"),
        (lambda o: o.Rprop(0.1, etas=(1, 2)), ValueError, "etas"),
        (lambda o: o.Rprop(o.lr.StepDecay(0.1, 1)), TypeError, "must be a number"),
        (lambda o: o.AdamW(0.1, lr_ratio=1.0), TypeError, "lr_ratio"),
        (lambda o: o.LBFGS(), NotImplementedError, "closure"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], text: str) -> None:
    """The error names the argument."""
    with pytest.raises(error, match=text):
        call(paddle.optimizer)


def test_state_that_does_not_fit() -> None:
    """A state dict must have every variable, with its shape and dtype."""
    with fresh():
        optimizer = paddle.optimizer.Momentum(paddle.optimizer.lr.StepDecay(0.5, 1))
        optimizer.minimize(paddle.sum(weight("w", [1.0])))
        with pytest.raises(ValueError, match="w_velocity_0 not found"):
            optimizer.set_state_dict({})
        with pytest.raises(ValueError, match="float64"):
            optimizer.set_state_dict({"w_velocity_0": np.zeros([1])})
        optimizer.set_state_dict(
            {
                "w_velocity_0": np.ones([1], "float32"),
                "LR_Scheduler": {"last_epoch": 3, "last_lr": 2},
            }
        )
        assert optimizer.get_lr() == 2


def test_rate_from_the_program() -> None:
    """A learning rate may be a Variable, and so may a parameter's own."""
    with fresh() as (main, _):
        rate = static.data("rate", [1], "float32")
        optimizer = paddle.optimizer.SGD(rate)
        optimizer.minimize(paddle.sum(weight("w", [1.0])))
        with pytest.raises(UnsupportedError, match="fetch it"):
            optimizer.get_lr()
        start()
        run(rate=np.array([0.25], "float32"))
        assert float(main.global_block().var("w").get_value().numpy()[0]) == 0.75
    assert types(main)[-1] == "sgd"
