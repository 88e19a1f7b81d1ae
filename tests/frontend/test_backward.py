"""append_backward and gradients: the operators they append, and the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.program import OpRole
from graphopt_tests.frontend.programs import executor_of, fresh, run, start, types, weight


def regression(loss_of=paddle.mean):  # type: ignore[no-untyped-def]
    """Build a linear model on `x` and its loss."""
    x = static.data("x", [None, 2], "float32")
    w, b = weight("w", [[1.0], [2.0]]), weight("b", [0.5])
    return x, loss_of(paddle.square(paddle.matmul(x, w) + b))


def test_append_backward_builds_one_operator() -> None:
    """A seed with role Backward|Loss precedes `pd_grad`; pairs are in the order of creation."""
    with fresh() as (main, _):
        _, loss = regression()
        unused = weight("unused", [1.0])
        pairs = static.append_backward(loss)
        seed, grad = main.global_block().ops[-2:]
    assert [(p.name, g.name) for p, g in pairs] == [("w", "w@GRAD"), ("b", "b@GRAD")]
    assert unused.name not in grad.input("X")
    assert (seed.type, seed.role, seed.output("Out")) == (
        "fill_constant",
        OpRole.BACKWARD | OpRole.LOSS,
        [loss.name + "@GRAD"],
    )
    assert (grad.type, grad.role, grad.attr("parameters")) == ("pd_grad", OpRole.BACKWARD, [0, 1])
    assert grad.input("YGrad") == [loss.name + "@GRAD"]
    assert main.global_block().ops[-3].role == OpRole.LOSS


def test_gradients_of_a_regression() -> None:
    """The gradient is 2 x'(xw + b) / n."""
    with fresh():
        _, loss = regression()
        pairs = static.append_backward(loss)
        start()
        x = np.array([[1, 2], [3, -1], [0.5, 0.25]], "float32")
        w, b = run([g for _, g in pairs], x=x)
    error = x @ np.array([[1.0], [2.0]]) + 0.5
    np.testing.assert_allclose(w, 2 * x.T @ error / 3, rtol=1e-6)
    np.testing.assert_allclose(b, [2 * error.mean()], rtol=1e-6)


def test_a_loss_of_several_elements_is_refused() -> None:
    """A loss of several known elements raises an error; an open size is left to the run."""
    with fresh():
        x = static.data("x", [3, 2], "float32")
        with pytest.raises(ProgramError, match=r"loss of one element.*\[3, 2\]"):
            static.append_backward(x * weight("w", [1.0, 1.0]))
        with pytest.raises(UnsupportedError, match="callbacks"):
            static.append_backward(paddle.mean(x), callbacks=[print])
        with pytest.raises(TypeError, match="'callbacks' must be a list"):
            static.append_backward(paddle.mean(x), callbacks=print)
        for wrong in (np.ones(3), [np.ones(3)], "x"):
            with pytest.raises(TypeError, match="parameter_list"):
                static.append_backward(paddle.mean(x), parameter_list=wrong)
        with pytest.raises(ValueError, match="'y' in checkpoints"):
            static.append_backward(paddle.mean(x), checkpoints=["y"])
        static.append_backward(paddle.mean(x), checkpoints=[x])


def test_gradients_of_leaves_can_be_fetched() -> None:
    """Feeds, constants and global variables have gradients, even if no parameter leads to them."""
    with fresh() as (main, _):
        data = static.data("x", [2])
        made = paddle.full([2], 0.5)
        state = static.create_global_var([2], 0.25, "float32", persistable=True)
        stopped = static.data("y", [2])
        for leaf in (data, made, state):
            leaf.stop_gradient = False
        middle = data * made
        product = middle * state * stopped
        assert static.append_backward(paddle.sum(product + middle.detach())) == []
        assert main.global_block().var("x@GRAD").shape == (2,)
        start()
        names = [f"{v.name}@GRAD" for v in (data, made, state, middle)]
        found = run(names, x=np.array([1, 2], "f"), y=np.array([8, 4], "f"))
    want = [[1.0, 0.5], [2.0, 2.0], [4.0, 4.0], [2.0, 1.0]]
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_gradients_of_values_between_can_be_used() -> None:
    """Each intermediate value that passes gradients has one; others have none."""
    with fresh() as (main, _):
        x = static.data("x", [None, 2], "float32")
        hidden = paddle.matmul(x, weight("w", [[1.0], [2.0]]))
        cut = paddle.square(hidden)
        cut.stop_gradient = True
        out = hidden * hidden + cut
        static.append_backward(paddle.sum(out))
        block = main.global_block()
        assert block.var(f"{hidden.name}@GRAD").shape == (-1, 1)
        assert block.has_var(f"{out.name}@GRAD")
        assert not block.has_var(f"{cut.name}@GRAD")
        assert not main.clone(for_test=True).global_block().has_var(f"{out.name}@GRAD")
        length = paddle.sum(paddle.square(block.var(f"{hidden.name}@GRAD")))
        (second,) = static.gradients([length], [block.var("w")])
        start()
        found = run([f"{hidden.name}@GRAD", length, second], x=np.array([[1, 1]], "f"))
    np.testing.assert_allclose(found[0], [[6.0]])  # 2 h with h = 3
    np.testing.assert_allclose(found[1], 36.0)
    np.testing.assert_allclose(found[2], [[24.0], [24.0]])  # d(4 h^2) = 8 h x


def test_a_gradient_of_a_value_between_belongs_to_the_first_loss() -> None:
    """A later loss does not change a gradient; pruning keeps the operators that compute it."""
    with fresh() as (main, _):
        hidden = static.data("x", [2], "float32") * weight("w", [1.0, 2.0])
        static.append_backward(paddle.sum(hidden))
        static.append_backward(paddle.sum(hidden * 3.0))
        start()
        feed, name = {"x": np.ones(2, "float32")}, f"{hidden.name}@GRAD"
        for use_prune in (False, True):
            (found,) = executor_of(main).run(main, feed, [name], use_prune=use_prune)
            np.testing.assert_allclose(found, [1.0, 1.0])


def test_gradients_of_leaves_through_a_branch() -> None:
    """Only the branch that is taken has a gradient; the other has zeros."""
    with fresh():
        a, b = paddle.full([1], 0.1), paddle.full([1], 0.12)
        a.stop_gradient = b.stop_gradient = False
        out = static.nn.cond(a < b, lambda: a * 2.0, lambda: b * 3.0)
        static.append_backward(out)
        found = run([out, f"{a.name}@GRAD", f"{b.name}@GRAD"])
    np.testing.assert_allclose(found, [[0.2], [2.0], [0.0]], rtol=1e-6)


def test_minimize_needs_a_loss_of_one_element() -> None:
    """An open dimension of the loss is an error, as in Paddle."""
    with fresh():
        x, w = static.data("x", [None]), static.create_parameter([1], "float32")
        with pytest.raises(ProgramError, match=r"number of elements of loss should be 1.*\[-1\]"):
            paddle.optimizer.SGD(0.1).minimize(x * w)


def test_frozen_parameters_get_no_gradient() -> None:
    """`trainable=False`, `no_grad_set` and `parameter_list` choose the parameters."""
    with fresh():
        x = static.data("x", [None, 2], "float32")
        a, b = weight("a", [1.0, 1.0]), weight("b", [1.0, 1.0])
        c = weight("c", [1.0, 1.0], trainable=False)
        loss = paddle.sum(x * a + x * b + x * c)
        assert [p.name for p, _ in static.append_backward(loss)] == ["a", "b"]
        assert [p.name for p, _ in static.append_backward(loss, no_grad_set={"a"})] == ["b"]
        assert [p.name for p, _ in static.append_backward(loss, parameter_list=[b])] == ["b"]
        with pytest.raises(ValueError, match="'missing' in parameter_list"):
            static.append_backward(loss, parameter_list=["missing"])


def test_gradient_stops_at_stop_gradient() -> None:
    """A cut intermediate is a constant: the derivative of e^x * tanh(x) is e^x * tanh(x)."""
    with fresh() as (main, _):
        x = static.data("x", [3], "float32")
        x.stop_gradient = False
        cut = paddle.tanh(x)
        cut.stop_gradient = True
        (grad,) = static.gradients([paddle.sum(paddle.exp(x) * cut)], [x])
        assert main.global_block().ops[-1].input("NoGrad") == [cut.name]
        value = np.array([0.1, -0.5, 2], "float32")
        (got,) = run([grad], x=value)
    np.testing.assert_allclose(got, np.exp(value) * np.tanh(value), rtol=1e-6)


def test_unrelated_inputs_give_none() -> None:
    """An input that stops gradients, or has no path but through integers, gives None."""
    with fresh() as (main, _):
        x, y, z = (static.data(name, [4], "float32") for name in "xyz")
        x.stop_gradient = y.stop_gradient = False
        through_integers = paddle.cast(paddle.argmax(y), "float32")
        before = len(main.global_block().ops)
        assert static.gradients([paddle.sum(x)], [y]) == [None]
        assert len(main.global_block().ops) == before + 1  # the sum, and nothing for gradients
        assert static.gradients([through_integers], [y]) == [None]
        grads = static.gradients([paddle.sum(x * z)], [x, z])
        assert grads[0] is not None
        assert grads[1] is None


def test_no_inputs_have_no_gradients() -> None:
    with fresh():
        x = static.data("x", [2], "float32")
        assert static.gradients(paddle.mean(x), []) == []
        with pytest.raises(ValueError, match="'targets' is empty"):
            static.gradients([], x)


def test_a_taken_gradient_name_gets_a_prefix() -> None:
    """Later gradients of the same variable never overwrite the first one."""
    with fresh():
        x = static.data("x", [2], "float32")
        x.stop_gradient = False
        y = paddle.square(x) * x
        (first,) = static.gradients([y], [x])
        (second,) = static.gradients([first], [x])
        assert (first.name, second.name) == ("x@GRAD", "grad/x@GRAD")
        value = np.array([1.0, 3.0], "float32")
        got = run([first, second], x=value)
    np.testing.assert_allclose(got[0], 3 * value**2, rtol=1e-6)
    np.testing.assert_allclose(got[1], 6 * value, rtol=1e-6)


def test_several_targets_add_up_with_their_weights() -> None:
    """The gradient is that of weights . targets; a missing weight means ones."""
    with fresh():
        x = static.data("x", [2], "float32")
        x.stop_gradient = False
        w = static.data("w", [2], "float32")
        (grad,) = static.gradients([paddle.square(x), x * 5.0], [x], [w, None])
        value, scale = np.array([1.0, 3.0], "float32"), np.array([2.0, -1.0], "float32")
        (got,) = run([grad], x=value, w=scale)
    np.testing.assert_allclose(got, 2 * value * scale + 5, rtol=1e-6)


def test_a_second_loss_sees_the_parameters_of_its_forward_pass() -> None:
    """A gradient taken after an update of a shared parameter uses the value before it."""
    with fresh() as (main, _):
        x = static.data("x", [None, 2], "float32")
        w = weight("w", [1.0, 2.0])
        first, second = paddle.sum(x * w), paddle.sum(paddle.square(x * w))
        paddle.optimizer.SGD(1.0).minimize(first)
        (grad,) = static.gradients([second], [w])
        assert types(main)[-1] == "sgd"
        start()
        value = np.array([[1.0, 2.0], [3.0, 1.0]], "float32")
        (got,) = run([grad], x=value)
    np.testing.assert_allclose(got, (2 * value**2 * [1.0, 2.0]).sum(0), rtol=1e-6)


def test_a_target_that_mixes_values_of_a_name_is_refused() -> None:
    """A parameter that was overwritten in between has two values, and no single derivative."""
    with fresh():
        w = weight("w", [1.0, 2.0])
        early = paddle.square(w)
        paddle.assign(w * 2.0, output=w)
        late = paddle.sum(early * early)
        with pytest.raises(ProgramError, match="before and after operator"):
            static.gradients([late], [w])


def test_batch_norm_statistics_do_not_take_part() -> None:
    """Moving averages are overwritten in place, but are neither inputs nor stops of a gradient."""
    with fresh() as (main, _):
        x = static.data("x", [None, 3], "float32")
        pairs = static.append_backward(paddle.mean(static.nn.batch_norm(x)))
        grad = main.global_block().ops[-1]
    assert [p.name for p, _ in pairs] == ["batch_norm_0.w_0", "batch_norm_0.b_0"]
    assert grad.input("NoGrad") == []


def test_a_target_given_twice_counts_once() -> None:
    """A repeated target counts once, with its last weight, as in Paddle."""
    with fresh():
        x, seeds = static.data("x", [2], "float32"), static.data("seeds", [2], "float32")
        x.stop_gradient = False
        y = x * 3.0
        (once,) = static.gradients([y, y], [x])
        (last,) = static.gradients([y, y], [x], [seeds, seeds * 10.0])
        ones = np.ones(2, "float32")
        found = run([once, last], x=ones, seeds=ones)
    np.testing.assert_array_equal(found, [[3, 3], [30, 30]])


def test_every_update_of_a_row_gets_its_gradient() -> None:
    """The last of several updates of a row is written, but Paddle differentiates all of them."""
    with fresh():
        x, updates = static.data("x", [3, 1], "float32"), static.data("u", [2, 1], "float32")
        x.stop_gradient = updates.stop_gradient = False
        out = paddle.scatter(x, paddle.assign(np.array([1, 1])), updates)
        grads = static.gradients([out * out], [x, updates])
        feed = {"x": [[1], [2], [3]], "u": [[4], [5]]}
        found = run([out, *grads], **{name: np.array(v, "float32") for name, v in feed.items()})
    for have, want in zip(found, ([1, 5, 3], [2, 0, 6], [10, 10]), strict=True):
        np.testing.assert_array_equal(have.ravel(), want)


F = paddle.nn.functional
BOXES = np.array([[0.0, 0.0, 1.0, 1.0], [0.5, 0.5, 2.0, 2.0]], "float32")


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: F.kl_div(paddle.log(x), y),
        F.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
        lambda x, y: F.cross_entropy(x, y, soft_label=True),
        lambda x, y: F.log_loss(x[:, :1], y[:, :1]),
        lambda x, y: paddle.lerp(x, x * 2, y),
        lambda x, y: F.gaussian_nll_loss(x, x * 2, y),
        lambda x, y: F.nll_loss(x, paddle.assign(np.array([3, 1])), y[0]),
        lambda x, y: paddle.clip(x, y[0, 3], y[1, 3]),
        lambda x, y: paddle.scale(x, y[0, 3]),
    ],
)
def test_targets_and_weights_get_no_gradient(function: Any) -> None:
    """The target of a loss gets no gradient, as in Paddle."""
    with fresh():
        x, y = (static.data(name, [2, 4], "float32") for name in "xy")
        x.stop_gradient = y.stop_gradient = False
        made = paddle.scale(y, 2.0)
        loss = paddle.sum(function(x, made))
        assert static.gradients([loss], [y]) == [None]
        alone = static.gradients([loss], [x])[0]
        # nor where something else is computed of the target
        both = static.gradients([loss + paddle.sum(made)], [x, y])
        found = run([alone, *both], x=BOXES * 0.2 + 0.1, y=BOXES * 0.2 + 0.1)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], np.full((2, 4), 2, "float32"))


@pytest.mark.every(2)
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("inside", [None, static.nn.cond, static.nn.while_loop])
def test_targets_that_are_inputs_get_no_gradient(inside: Any, copied: bool) -> None:
    """The loss of an autoencoder gives its input the gradient of the prediction alone."""

    def loss_of(x: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x * 3.0, x, reduction="none")

    with fresh():
        x = static.data("x", [2, 4], "float32")
        x.stop_gradient = False
        given = paddle.assign(x) if copied else x
        if inside is static.nn.cond:
            made = inside(paddle.mean(x) > -9, lambda: loss_of(given), lambda: given)
        elif inside is static.nn.while_loop:
            once = paddle.zeros([1], "int64")
            made = inside(lambda i, h: i < 1, lambda i, h: [i + 1, loss_of(h)], [once, given])[1]
        else:
            made = loss_of(given)
        (found,) = run(static.gradients([paddle.sum(made)], [x]), x=BOXES)
    np.testing.assert_allclose(found, 3 / (1 + np.exp(-3 * BOXES)) - 3 * BOXES, 1e-5)


def test_boxes_get_no_gradient() -> None:
    with fresh():
        x = static.data("x", [2, 4], "float32")
        x.stop_gradient = False
        boxes = paddle.vision.ops.box_coder(x * 1.0, [0.1, 0.1, 0.2, 0.2], x * 2.0)
        assert static.gradients([paddle.sum(boxes)], [x]) == [None]


def test_shares_that_are_not_1_in_sum() -> None:
    """The derivative is the probabilities minus the shares, even if the shares do not sum to 1."""
    shares = np.array([[0.5, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], "float32")
    with fresh():
        x, y = (static.data(name, [2, 4], "float32") for name in "xy")
        x.stop_gradient = False
        loss = F.softmax_with_cross_entropy(x, y, soft_label=True)
        value, slope = run([loss, static.gradients([paddle.sum(loss)], [x])[0]], x=BOXES, y=shares)
    p = np.exp(BOXES) / np.exp(BOXES).sum(1, keepdims=True)
    np.testing.assert_allclose(value[:, 0], -(shares * np.log(p)).sum(1), 1e-6)
    np.testing.assert_allclose(slope, p - shares, 1e-6)


# What stops gradients ----------------------------------------------------------------------------


def test_outputs_stop_where_all_inputs_stop() -> None:
    """As in Paddle 2.6 and 3, an output stops gradients if all inputs of its operator do."""
    with fresh():
        x, y = static.data("x", [2, 3], "float32"), static.data("y", [2, 3], "float32")
        y.stop_gradient = False
        trained, frozen = weight("w", np.ones((2, 3))), weight("f", np.ones((2, 3)))
        frozen.stop_gradient = True
        stopped = [
            *(x * 2, paddle.exp(x * 2), x * frozen, paddle.concat([x, x]), x.detach() + 1),
            *paddle.split(x, 3, 1),
            *(paddle.full([2], 1.0) + 1, paddle.cast(paddle.argmax(y), "float32") * 2),
            static.nn.cond(paddle.sum(x) > 0, lambda: x * 2, lambda: x * 3),
        ]
        assert all(v.stop_gradient for v in stopped)
        going = [
            *(x * y, x * trained, static.nn.fc(x, 4), paddle.concat([x, y])),
            static.nn.cond(paddle.sum(x) > 0, lambda: x * 2, lambda: y * 3),
        ]
        assert not any(v.stop_gradient for v in going)
        assert static.gradients([stopped[1]], [stopped[0]]) == [None]


def test_stop_gradient_that_is_set_after_the_fact() -> None:
    """A flag that the script sets affects the operators that follow."""
    with fresh():
        x = static.data("x", [3], "float32")
        y = x * 2
        y.stop_gradient = False
        (gradient,) = static.gradients([y * y], [y])
        z = y * 1
        z.stop_gradient = True
        assert (z * 2).stop_gradient
        (found,) = run([gradient], x=np.ones(3, "float32"))
    assert found.tolist() == [4, 4, 4]


def test_an_assigned_parameter_is_trained() -> None:
    """Assigning a value that stops gradients to a parameter does not freeze the parameter."""
    with fresh():
        x, w = static.data("x", [3], "float32"), weight("w", [1.0, 2.0, 3.0])
        paddle.assign(x, w)
        assert not w.stop_gradient
        assert static.gradients([w * w], [w]) != [None]


def test_outputs_of_fluid_do_not_stop() -> None:
    """In 1.8 an output stops gradients only if the script says so."""
    program = static.Program()
    program.is_fluid = True
    with fresh(), static.program_guard(program):
        assert not (static.data("x", [3], "float32") * 2).stop_gradient


@pytest.mark.parametrize("in_loop", [False, True])
def test_gradients_of_an_array(in_loop: bool) -> None:
    """An array is refused by name, as a target and as an input; its elements have gradients."""
    with fresh():
        x, i = static.data("x", [3], "float32"), paddle.zeros([1], "int64")
        x.stop_gradient = False
        array = paddle.tensor.array_write(x * 1, i)
        if in_loop:

            def body(i: Any, array: Any) -> Any:
                twice = paddle.tensor.array_read(array, i) * 2
                return [i + 1, paddle.tensor.array_write(twice, i + 1, array)]

            i, array = static.nn.while_loop(lambda i, _: i < 3, body, [i, array])
        last = paddle.tensor.array_read(array, i)
        for target, wanted in ((last, array), (array, x)):
            with pytest.raises(UnsupportedError, match=f"'{array.name}' is a tensor array"):
                static.gradients([target], [wanted])
        (found,) = run(static.gradients([last], [x]), x=np.ones(3, "float32"))
    assert found.tolist() == [8.0 if in_loop else 1.0] * 3
