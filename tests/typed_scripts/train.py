"""A script of a user as a type checker reads it.

`make types` checks it by basedpyright and by mypy: what is right has a type, and each mistake below
is an error, which its two comments expect; a comment without an error would be an error itself.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from typing import assert_type

import graphopt as paddle
from graphopt import nn, static
from graphopt.static import Variable


def network(x: Variable, y: Variable) -> Variable:
    """Operators, indices and methods of variables give variables."""
    assert_type(x + 1, Variable)
    assert_type(2.0 - x, Variable)
    assert_type(-x @ y, Variable)
    assert_type(x[:, 0], Variable)
    assert_type(x > y, Variable)
    assert_type(x == y, Variable)
    assert_type(x.mean(), Variable)
    assert_type(x.reshape([-1, 2]).astype("float32").T, Variable)
    assert_type(x.sum(axis=1, keepdim=True), Variable)
    assert_type(x.ndim, int)
    first, *_ = x
    assert_type(first, Variable)
    hidden = nn.functional.relu(static.nn.fc(x, 16))
    return paddle.mean(hidden)


def mistakes(x: Variable) -> None:
    """Misspelt names are errors where they stand."""
    x.maen()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    x.reshape()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    x.mean(axes=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    strategy = static.BuildStrategy()
    strategy.fuse_bn_act_op = True  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    execution = static.ExecutionStrategy()
    execution.num_thread = 2  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def train() -> None:
    """A strategy, an optimizer, a run."""
    x = static.data("x", [None, 4], "float32")
    loss = network(x, x)
    paddle.optimizer.Adam(learning_rate=1e-3).minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    strategy = static.BuildStrategy()
    strategy.fuse_gemm_epilogue = True
    strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    program = static.CompiledProgram(static.default_main_program(), strategy)
    found = paddle.explain(program, strategy)
    assert_type(found.table()[0].fired, int)
    exe.run(program, feed={}, fetch_list=[loss])
