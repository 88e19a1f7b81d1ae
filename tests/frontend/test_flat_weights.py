"""A recurrent layer's weights in one variable, without which Paddle loads no file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphopt as paddle
from graphopt import nn, static, utils


@pytest.mark.parametrize("of", ["the program", "a clone"])
def test_they_are_saved(of: str, tmp_path: Path) -> None:
    """The weights of each layer and direction precede all biases, as in Paddle 2.6.2."""
    main, start = static.Program(), static.Program()
    with (
        static.program_guard(main, start),
        static.scope_guard(static.Scope()),
        utils.unique_name.guard(),
    ):
        x = static.data("x", [None, 5, 4], "float32")
        nn.LSTM(4, 3, direction="bidirect")(x)
        nn.GRU(4, 3, num_layers=2, bias_ih_attr=False)(x)
        static.Executor().run(start)
        saved = main if of == "the program" else main.clone(for_test=True)
        static.save(saved, str(tmp_path / "m"))
        state = paddle.load(str(tmp_path / "m.pdparams"), return_numpy=True)
        for layer, cell in (("lstm_0", "lstm_cell"), ("gru_0", "gru_cell")):
            kinds = ("w_0", "w_1"), ("b_0", "b_1")
            parts = [
                state[f"{cell}_{number}.{kind}"].ravel()
                for pair in kinds
                for number in (0, 1)
                for kind in pair
            ]
            np.testing.assert_array_equal(state[f"{layer}.w_0"], np.concatenate(parts))
        static.load(main, str(tmp_path / "m"))
