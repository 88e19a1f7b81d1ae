"""Operators as Paddle's records, and the part of a program that targets need."""

from __future__ import annotations

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh


def test_operators_have_descriptions_and_programs_are_pruned() -> None:
    """The record of an operator as methods; the part of a program that targets depend on."""
    with fresh() as (main, _):
        x = static.data("x", [2, 2], "float32")
        y = paddle.tanh(x * 2.0)
        paddle.exp(x)
        loss = paddle.mean(static.nn.fc(y, 1))
        paddle.optimizer.SGD(0.1).minimize(loss)
    record = main.global_block().ops[0].desc
    assert (record.type(), record.input("X")) == ("scale", ["x"])
    assert record.output_arg_names() == ["tmp_0"]
    assert record.has_attr("scale") and record.attr("scale") == 2.0
    assert "scale" in record.attr_names() and "X" in record.input_names()
    record._rename_output("tmp_0", "other")
    assert main.global_block().ops[0].output("Out") == record.output("Out") == ["other"]
    record._rename_output("other", "tmp_0")
    for target in (y, [y], y.name):
        assert [op.type for op in main._prune(target).global_block().ops] == ["scale", "tanh"]
    kept = main._prune([main.global_block().ops[2]]).global_block().ops
    assert [op.type for op in kept] == ["exp"]
