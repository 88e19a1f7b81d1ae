"""Moving averages of parameters, metrics, and the state of whole programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.formats.protobuf.program_desc import write_program
from graphopt_tests.frontend.programs import fresh, run, start, weight


def test_exponential_moving_average() -> None:
    """The corrected average replaces the parameter until it is restored."""
    with fresh() as (main, _):
        w = weight("w", [1.0])
        weight("left", [1.0], do_model_average=False)
        paddle.optimizer.SGD(0.5).minimize(paddle.sum(w))
        ema = static.ExponentialMovingAverage(0.9)
        ema.update()
        start()
        executor = static.Executor(paddle.CPUPlace())
        average = 0.0
        for step in (1, 2):
            run()
            average = 0.9 * average + 0.1 * (1 - 0.5 * step)
        assert not main.global_block().has_var("left_ema_0")
        with ema.apply(executor):
            assert w.get_value().numpy()[0] == pytest.approx(average / (1 - 0.9**2))
        assert w.get_value().numpy()[0] == 0.0
        with ema.apply(executor, need_restore=False):
            pass
        assert w.get_value().numpy()[0] != 0.0
        ema.restore(executor)
        assert w.get_value().numpy()[0] == 0.0


def test_decay_that_grows_with_the_steps() -> None:
    """The decay is min(decay, (1 + t) / (10 + t))."""
    with fresh() as (main, _):
        steps = static.data("steps", [1], "int64")
        weight("w", [1.0])
        static.ExponentialMovingAverage(0.5, thres_steps=steps).update()
        start()
        seen = []
        for t in (0, 100):
            run(steps=np.array([t]))
            seen.append(main.global_block().var("w_ema_0").get_value().numpy()[0])
    np.testing.assert_allclose(seen, [0.9, 0.9 * 0.5 + 0.5], rtol=1e-6)


def batches() -> list[tuple[Any, Any]]:
    """Build three batches of probabilities and labels."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(3):
        p = rng.random((20, 1)).astype("float32")
        made.append((np.concatenate([1 - p, p], 1), rng.integers(0, 2, (20, 1))))
    return made


def test_auc_agrees_with_the_class() -> None:
    """The layer's AUC over all batches, and over the last two, is the class's."""
    with fresh():
        x, y = static.data("x", [-1, 2], "float32"), static.data("y", [-1, 1], "int64")
        whole, last, stats = static.auc(x, y, num_thresholds=99, slide_steps=2)
        start()
        found = [run([whole, last], x=p, y=label) for p, label in batches()]
    assert [list(s.shape) for s in stats] == [[301], [301], [1, 100], [1, 100]]
    for count, (area, recent) in enumerate(found, 1):
        everything, window = (paddle.metric.Auc(num_thresholds=99) for _ in range(2))
        for p, label in batches()[:count]:
            everything.update(p, label)
        for p, label in batches()[max(0, count - 2) : count]:
            window.update(p, label)
        np.testing.assert_allclose(area, everything.accumulate())
        np.testing.assert_allclose(recent, window.accumulate())


def test_auc_of_bad_input() -> None:
    """A wrong curve is an error; a probability above 1 gives nan."""
    with fresh():
        x, y = static.data("x", [-1, 2], "float32"), static.data("y", [-1, 1], "int64")
        with pytest.raises(ProgramError, match="curve"):
            static.auc(x, y, curve="LIFT")
    with fresh():
        x, y = static.data("x", [-1, 2], "float32"), static.data("y", [-1, 1], "int64")
        whole, _, _ = static.auc(x, y)
        start()
        assert np.isnan(run([whole], x=np.array([[0, 2.0]], "float32"), y=np.array([[1]]))[0])
    with pytest.raises(ValueError, match="outside"):
        paddle.metric.Auc().update(np.array([[0, 2.0]]), np.array([[1]]))


def test_metrics_of_arrays() -> None:
    """Metrics of fetched arrays: precision, recall and accuracy."""
    scores, labels = np.array([[0.9], [0.5], [0.2], [0.6]]), np.array([[1], [1], [1], [0]])
    precision, recall = paddle.metric.Precision(), paddle.metric.Recall()
    precision.update(scores, labels)
    recall.update(scores, labels)
    assert precision.accumulate() == pytest.approx(2 / 3)  # 0.5 counts as positive here
    assert recall.accumulate() == pytest.approx(1 / 3)  # and as negative here
    with fresh():
        accuracy = paddle.metric.Accuracy(topk=(1, 2))
        x, y = static.data("x", [-1, 3], "float32"), static.data("y", [-1, 1], "int64")
        right = run([accuracy.compute(x, y)], x=np.eye(3, dtype="float32"), y=labels[:3])[0]
    assert accuracy.update(right) == [1 / 3, 2 / 3]
    assert accuracy.accumulate() == [1 / 3, 2 / 3]
    assert accuracy.name() == ["acc_top1", "acc_top2"]


def test_state_of_a_program() -> None:
    """state_dict separates parameters and the rest; set_state_dict skips values that do not fit."""
    with fresh() as (main, _):
        w = weight("w", [1.0])
        with pytest.raises(ValueError, match="run the startup program"):
            main.state_dict()
        paddle.optimizer.Momentum(0.5).minimize(paddle.sum(w))
        start()
        assert list(main.state_dict("param")) == ["w"]
        assert set(main.state_dict("opt")) == {"w_velocity_0", "learning_rate_0"}
        with pytest.raises(ValueError, match="'param', 'opt' or 'all'"):
            main.state_dict("some")
        new = {"w": np.array([3.0], "float32"), "w_velocity_0": np.zeros([2]), "x": np.zeros([1])}
        with pytest.warns(UserWarning) as warned:
            main.set_state_dict(new)
        assert [str(w.message)[:30] for w in warned] == [
            "Skip loading for 'w_velocity_0",
            "Skip loading for 'x'. Because ",
        ]
        assert np.array(main.state_dict()["w"]) == [3.0]
        again = static.Program.parse_from_string(write_program(main))
        assert [op.type for op in again.global_block().ops] == [
            op.type for op in main.global_block().ops
        ]


@pytest.mark.exhaustive
def test_structured_initializers() -> None:
    """Dirac passes channels through, Orthogonal is orthonormal, Bilinear upsamples."""
    initial = paddle.nn.initializer
    with fresh():
        made = {
            "dirac": ([4, 2, 3], initial.Dirac(2)),
            "wide": ([3, 5], initial.Orthogonal(2.0)),
            "tall": ([6, 2, 2], initial.Orthogonal()),
            "bilinear": ([1, 1, 4, 4], initial.Bilinear()),
        }
        variables = {
            name: static.create_parameter(
                shape, "float32", attr=paddle.ParamAttr(name, initializer=initializer)
            )
            for name, (shape, initializer) in made.items()
        }
        start()
        found = {name: v.get_value().numpy() for name, v in variables.items()}
        for initializer in (initial.Dirac(), initial.Orthogonal(), initial.Bilinear()):
            attr = paddle.ParamAttr(initializer=initializer)
            with pytest.raises(ValueError, match="dimension"):
                static.create_parameter([3], "float32", attr=attr)
    assert np.argwhere(found["dirac"]).tolist() == [[0, 0, 1], [1, 1, 1], [2, 0, 1], [3, 1, 1]]
    np.testing.assert_allclose(found["wide"] @ found["wide"].T, 4 * np.eye(3), atol=1e-5)
    tall = found["tall"].reshape(6, 4)
    np.testing.assert_allclose(tall.T @ tall, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(found["bilinear"][0, 0, 0], [0.0625, 0.28125, 0.375, 0.15625])


def test_lookahead() -> None:
    """Every second step the parameter goes half-way back to its value after the first step."""
    with fresh():
        w = weight("w", [1.0])
        inner = paddle.optimizer.SGD(0.25)
        ahead = paddle.incubate.LookAhead(inner, alpha=0.5, k=2)
        ahead.minimize(paddle.sum(w))
        assert ahead.get_lr() == 0.25
        start()
        seen = []
        for _ in range(4):
            run()
            seen.append(float(w.get_value().numpy()[0]))
        with pytest.raises(ValueError, match="alpha"):
            paddle.incubate.LookAhead(inner, alpha=2.0)
    assert seen == [0.75, 0.625, 0.375, 0.375]


def test_model_average() -> None:
    """The mean is over a window, which starts again when it is full."""
    with fresh():
        w = weight("w", [1.0])
        paddle.optimizer.SGD(0.25).minimize(paddle.sum(w))
        mean = paddle.incubate.ModelAverage(1.0, min_average_window=2, max_average_window=2)
        start()
        executor = static.Executor(paddle.CPUPlace())
        seen = []
        for _ in range(3):
            run()
            with mean.apply(executor):
                seen.append(float(w.get_value().numpy()[0]))
        assert float(w.get_value().numpy()[0]) == 0.25
        with pytest.raises(ValueError, match="Executor"), mean.apply():
            pass
    assert seen == [0.75, 0.625, pytest.approx((0.75 + 0.5 + 0.25) / 3)]


@pytest.mark.parametrize("number", [1.0, 2.0])
def test_auc_of_weighted_instances_is_refused(number: float) -> None:
    """Weights other than 1 are refused; Paddle 3 writes 1 for all instances."""
    p = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]], "float32")
    feed = {"x": p, "y": np.array([[0], [1], [1]])}
    with fresh():
        x, y = static.data("x", [3, 2], "float32"), static.data("y", [3, 1], "int64")
        weights = paddle.full([1, 1], number)
        whole, *_ = static.auc(x, y, num_thresholds=99)
        op = next(op for op in whole.block.ops if op.type == "auc")
        op.inputs["InsTagWeight"] = [weights.name]
        start()
        if number == 1:
            np.testing.assert_allclose(run([whole], **feed)[0], 1.0)
        else:
            with pytest.raises(UnsupportedError, match="not support 'ins_tag_weight'"):
                run([whole], **feed)
