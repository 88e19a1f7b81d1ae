"""Recurrent layers: names, one operator against single steps, lengths, unknown sizes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt_tests.frontend.programs import fresh, run, start, types

CELLS = [nn.SimpleRNNCell, nn.GRUCell, nn.LSTMCell]
RNG = np.random.default_rng(5)


def noise(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def leaves(nested: Any) -> list[Any]:
    """List the Variables of a nested result in order."""
    if isinstance(nested, (list, tuple)):
        return [leaf for item in nested for leaf in leaves(item)]
    return [nested]


def by_steps(cell: type[Any]) -> type[Any]:
    """Derive the cell as a user's class, so that it is called once for each step."""
    return type("Own" + cell.__name__, (cell,), {})


def test_parameters_are_named_as_in_paddle() -> None:
    """Variables are named by cell; the state has short keys first, then the cells' keys."""
    with fresh():
        layer = nn.LSTM(3, 4, num_layers=2, direction="bidirect")
        state = {key: variable.name for key, variable in layer.state_dict().items()}
    kinds = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
    short = [f"{kind}_l{at}{end}" for at in (0, 1) for end in ("", "_reverse") for kind in kinds]
    long = [f"{at}.cell_{end}.{kind}" for at in (0, 1) for end in ("fw", "bw") for kind in kinds]
    names = [f"lstm_cell_{at}.{part}" for at in range(4) for part in ("w_0", "w_1", "b_0", "b_1")]
    assert list(state.items()) == list(zip(short + long, names * 2, strict=True))
    assert [list(p.shape) for p in layer.parameters()[8:10]] == [[16, 8], [16, 4]]


@pytest.mark.every(3)
@pytest.mark.parametrize(("given", "backwards"), [(True, False), (False, True)])
@pytest.mark.parametrize("cell", CELLS)
def test_one_operator_is_what_single_steps_give(
    cell: type[Any], given: bool, backwards: bool
) -> None:
    """RNN of a built-in cell, with any time length, equals the cell called for each step."""
    x, lengths = noise(2, 4, 3), np.array([2, 4], "int64")
    with fresh() as (main, _):
        once = nn.RNN(cell(3, 5), is_reverse=backwards)
        each = nn.RNN(by_steps(cell)(3, 5), is_reverse=backwards)
        length = static.data("l", [None], "int64") if given else None
        results = [
            leaves(layer(static.data(name, shape, "float32"), None, length))
            for layer, name, shape in ((once, "x", [-1, -1, 3]), (each, "y", [-1, 4, 3]))
        ]
        assert types(main).count("pd_rnn" if given else "rnn") == 1
        start()
        for name, parameter in each.state_dict().items():
            parameter.set_value(once.state_dict()[name].get_value())
        feed = {"x": x, "y": x, **({"l": lengths} if given else {})}
        found = run([*results[0], *results[1]], **feed)
    half = len(found) // 2
    for a, b in zip(found[:half], found[half:], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.every(3)
@pytest.mark.parametrize("layer", [nn.SimpleRNN, nn.GRU, nn.LSTM])
def test_stack_with_unknown_sizes(layer: type[Any]) -> None:
    """Two bidirectional layers have a state each, zeros past the lengths, and right shapes."""
    with fresh():
        x = static.data("x", [-1, -1, 3], "float32")
        length = static.data("l", [-1], "int32")
        out, state = layer(3, 4, 2, "bidirectional")(x, None, length)
        states = leaves(state)
        assert (out.shape, states[0].shape) == ((-1, -1, 8), (4, -1, 4))
        start()
        feed = {"x": noise(2, 5, 3), "l": np.array([2, 5], "int32")}
        found = run([out, *states], **feed)
    assert found[0].shape == (2, 5, 8) and found[1].shape == (4, 2, 4)
    assert not found[0][0, 2:].any() and found[0][1].all()
    np.testing.assert_array_equal(found[0][0, 1, :4], found[1][2, 0])
    np.testing.assert_array_equal(found[0][:, 0, 4:], found[1][3])


@pytest.mark.exhaustive
def test_projection_of_an_lstm() -> None:
    """The hidden state and the outputs are smaller than the cell state."""
    with fresh():
        x = static.data("x", [2, -1, 3], "float32")
        layer = nn.LSTM(3, 4, 2, "bidirect", proj_size=2)
        out, (hidden, cell) = layer(x)
        single, (last, _) = nn.LSTMCell(3, 4, proj_size=2)(static.data("s", [2, 3], "float32"))
        start()
        found = run([out, hidden, cell, single, last], x=noise(2, 3, 3), s=noise(2, 3))
    assert [a.shape for a in found] == [(2, 3, 4), (4, 2, 2), (4, 2, 4), (2, 2), (2, 2)]
    assert [list(p.shape) for p in layer.parameters()[:5]] == [[16, 3], [16, 2], [16], [16], [4, 2]]


def test_biases_can_be_left_out() -> None:
    """A bias whose attribute is False stays 0 and is not trained."""
    with fresh():
        layer = nn.GRU(3, 4, bias_ih_attr=False, bias_hh_attr=False)
        out, _ = layer(static.data("x", [1, 2, 3], "float32"))
        frozen = [p.stop_gradient for p in layer.parameters()]
        start()
        assert frozen == [False, False, True, True]
        assert run([out], x=np.zeros((1, 2, 3), "float32"))[0].any() == np.False_


def test_dropout_is_between_layers_and_for_training() -> None:
    """A clone for tests drops nothing; nor does a network of one layer."""
    with fresh() as (main, _):
        x = static.data("x", [2, 3, 4], "float32")
        dropped, _ = nn.GRU(4, 16, 2, dropout=0.5)(x)
        single, _ = nn.GRU(4, 16, 1, dropout=0.5)(x)
        start()
        executor, feed = static.Executor(paddle.CPUPlace()), {"x": noise(2, 3, 4)}
        runs = [executor.run(main, feed, [dropped, single]) for _ in range(2)]
        calm = main.clone(for_test=True)
        tests = [executor.run(calm, feed, [dropped])[0] for _ in range(2)]
    assert (runs[0][0] != runs[1][0]).any() and (runs[0][1] == runs[1][1]).all()
    np.testing.assert_array_equal(*tests)


@pytest.mark.exhaustive
def test_training_lowers_the_loss() -> None:
    """Every weight of a network with lengths and initial states has a gradient."""
    with fresh() as (main, _):
        x = static.data("x", [-1, 4, 2], "float32")
        length, state = static.data("l", [-1], "int64"), static.data("s", [2, -1, 3], "float32")
        layer = nn.GRU(2, 3, direction="bidirect")
        out, _ = layer(x, state, length)
        loss = paddle.mean(paddle.square(out - 0.5))
        paddle.optimizer.SGD(0.5).minimize(loss)
        start()
        feed = {"x": noise(3, 4, 2), "l": np.array([4, 1, 3]), "s": noise(2, 3, 3)}
        executor = static.Executor(paddle.CPUPlace())
        losses = [float(executor.run(main, feed, [loss])[0]) for _ in range(8)]
    assert losses[-1] < 0.9 * losses[0]


def test_initial_states_of_cells() -> None:
    """Initial states nest as the cell's state does, with the batch of a fed reference."""
    with fresh():
        x = static.data("x", [4, -1, 3], "float32")
        made = nn.LSTMCell(3, 2).get_initial_states(x, init_value=0.5, batch_dim_idx=1)
        other = nn.GRUCell(3, 2).get_initial_states([x], [-1, 3, 2], "float64")
        found = run([*made, other], x=noise(4, 5, 3))
    assert [a.shape for a in found] == [(5, 2), (5, 2), (4, 3, 2)]
    assert (found[0] == 0.5).all() and found[2].dtype == np.float64


def test_errors_say_what_to_do() -> None:
    """Wrong directions, sizes, states, and a user's cell for unknown steps are errors."""
    with fresh():
        x = static.data("x", [2, -1, 3], "float32")
        with pytest.raises(ValueError, match=r"direction.*bidirectional.*backward"):
            nn.LSTM(3, 4, direction="backward")
        with pytest.raises(ValueError, match="hidden_size of GRUCell must be greater than 0"):
            nn.GRUCell(3, 0)
        with pytest.raises(ValueError, match=r"LSTM\(\): initial_states should hold 2"):
            nn.LSTM(3, 4)(x, static.data("s", [1, 2, 4], "float32"))
        with pytest.raises(ProgramError, match=r"initial state of GRU.*\[1, 2, 4\].*\[1, 3, 4\]"):
            nn.GRU(3, 4)(x, static.data("t", [1, 3, 4], "float32"))
        with pytest.raises(ProgramError, match=r"input_size\].*\[-1, -1, 5\]"):
            nn.GRU(5, 4)(x)
        with pytest.raises(ProgramError, match="sequence_length must be int32 or int64"):
            nn.GRU(3, 4)(x, None, static.data("l", [2], "float32"))
        with pytest.raises(UnsupportedError, match=r"time dimension.*must be known"):
            nn.RNN(by_steps(nn.GRUCell)(3, 4))(x)
        with pytest.raises(ValueError, match="smaller than hidden_size 4"):
            nn.LSTM(3, 4, proj_size=4)


@pytest.mark.exhaustive
def test_decoding_with_caches_is_decoding_at_once() -> None:
    """Decoding by token, with cached projections, equals decoding with a causal mask."""
    with fresh():
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), 1)
        memory = static.data("m", [-1, 3, 4], "float32")
        target = static.data("t", [-1, 2, 4], "float32")
        mask = nn.Transformer(4, 2, 0, 0, 8).generate_square_subsequent_mask(2)
        whole = decoder(target, memory, tgt_mask=mask)
        cache, steps = decoder.gen_cache(memory), []
        for at in range(2):
            step, cache = decoder(target[:, at : at + 1], memory, cache=cache)
            steps.append(step)
        start()
        found = run([whole, paddle.concat(steps, 1)], m=noise(2, 3, 4), t=noise(2, 2, 4))
    np.testing.assert_allclose(*found, atol=1e-5)
