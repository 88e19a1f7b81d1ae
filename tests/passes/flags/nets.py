"""Small networks with the pattern of one flag, and helpers to optimize them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.ir.translate.interface import data_names
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.report import Report
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.frontend.programs import fresh

Build = Callable[[], Any]
"""Appends a network to the default program and returns its result."""


def strategy(**flags: Any) -> BuildStrategy:
    """Make a BuildStrategy with these flags; enumerators may be given by name."""
    made = BuildStrategy()
    for name, value in flags.items():
        current = getattr(made, name)
        given_by_name = isinstance(value, str) and not isinstance(current, str)
        setattr(made, name, type(current)[value] if given_by_name else value)
    return made


def module_of(build: Build, *, train: bool = True) -> ModuleOp:
    """Parse the program of a network: one step of SGD on the mean of its result, or inference."""
    with fresh() as (main, _):
        out = build()
        if train:
            out = paddle.mean(out)
            paddle.optimizer.SGD(0.1).minimize(out)
        return parse_program(main, data_names(main), [out.name])


def optimized(
    build: Build,
    *,
    train: bool = True,
    replicas: int = 1,
    fetch: tuple[str, ...] = (),
    **flags: Any,
) -> tuple[ModuleOp, Report]:
    """Optimize the program of a network under these flags; return it with the report."""
    module = module_of(build, train=train)
    context = strategy(**flags).pass_context(
        replicas=replicas, data_parallel=replicas > 1, loss_grad="loss@GRAD"
    )
    return module, optimize(module, context.quiet(), near=True)


def ops_of(module: ModuleOp) -> Counter[str]:
    """Count the ops of each kind, without `pd.`."""
    names = (op.name for op in module.walk())
    return Counter(name.removeprefix("pd.") for name in names if name.startswith("pd."))


def run(
    build: Build, devices: int = 0, steps: int = 2, rows: int = 4, **flags: Any
) -> tuple[list[Any], Any, list[Any]]:
    """Train for some steps; return losses, parameters, and the compiled module and executable."""
    feeds = {"x": np.random.default_rng(0).standard_normal((rows, 8)).astype("float32")}
    with fresh() as (main, startup):
        paddle.seed(3)
        loss = paddle.mean(paddle.square(build()))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        program = static.CompiledProgram(main, strategy(**flags))
        if devices:
            program = program.with_data_parallel(
                loss_name=loss.name, places=static.cpu_places(devices)
            )
        losses = [executor.run(program, feeds, [loss])[0] for _ in range(steps)]
        slots = [static.global_scope().find_var(p.name) for p in main.all_parameters()]
        state = [slot.numpy() for slot in slots if slot is not None]
        return losses, state, [compiled_of(program).module, executable_of(program)]


def compiled_of(program: Any) -> Any:
    """Return the compiled program of a CompiledProgram, for one set of feeds and fetches."""
    (compiled,) = program._compiled_programs()
    return compiled


def executable_of(program: Any) -> Any:
    """Return XLA's executable of a program, for one set of shapes."""
    (executable,) = program._runner.executables()
    return executable.function


def feed(name: str = "x", *shape: int) -> Any:
    """Make a placeholder for rows of 8 numbers, or of another shape."""
    return static.data(name, [None, *(shape or (8,))], "float32")


def images() -> Any:
    return feed("images", 4, 6, 6)


# -- a network for each flag -----------------------------------------------------------------------


def add_and_relu() -> Any:
    return F.relu(paddle.add(nn.Embedding(3, 8)(static.data("i", [None], "int64")), feed()))


def norm_and_relu() -> Any:
    return F.relu(nn.BatchNorm2D(4)(images()))


def norm_add_relu() -> Any:
    x = images()
    return F.relu(paddle.add(nn.BatchNorm2D(4)(x), x))


def residual_units() -> Any:
    def conv(x: Any) -> Any:
        return nn.BatchNorm2D(4)(nn.Conv2D(4, 4, 3, padding=1, bias_attr=False)(x))

    x = images()
    return F.relu(paddle.add(x, conv(F.relu(conv(x)))))


def depthwise() -> Any:
    return nn.Conv2D(4, 4, 3, groups=4)(F.relu(nn.Conv2D(4, 4, 1)(images())))


def linear_relu() -> Any:
    return F.relu(nn.Linear(8, 8)(feed()))


def encoder_layer() -> Any:
    return nn.TransformerEncoderLayer(8, 2, 12)(feed("sequence", 4, 8))


def deep(layers: int = 12, width: int = 64) -> Any:
    """Build a chain of linear layers with one dropout among the first."""
    h = feed()
    for layer in range(layers):
        h = F.relu(nn.Linear(h.shape[-1], width)(h))
        if layer == 1:
            h = F.dropout(h, 0.1)
    return h


def functions(layers: int = 6, width: int = 512) -> Any:
    """Build elementwise functions of functions."""
    h = nn.Linear(8, width)(feed())
    for _ in range(layers):
        h = paddle.tanh(paddle.exp(paddle.sin(h)))
    return h


def norms(layers: int = 3, width: int = 512) -> Any:
    """Build linear layers, each of a norm and an activation."""
    h = nn.Linear(8, width)(feed())
    for _ in range(layers):
        h = nn.Linear(width, width)(F.gelu(nn.LayerNorm(width)(h)))
    return h


def shared_weight() -> Any:
    """Build eight products with one parameter."""
    weight = static.create_parameter([64, 64], "float32")
    h = paddle.concat([feed()] * 8, axis=1)
    for _ in range(8):
        h = paddle.tanh(paddle.matmul(h, weight))
    return h


def two_layers() -> Any:
    return nn.Linear(8, 4)(F.relu(nn.Linear(8, 8)(feed())))
