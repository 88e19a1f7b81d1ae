"""Prepared parameters are never stale, however they change, and are computed only once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.debug.compare import assert_same_results
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.dialect.signature import prepare_function, signature_of
from graphopt.ir.dialect.text import text_of
from graphopt.ir.program import Program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.nn import functional as F
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.explain import as_text
from graphopt.passes.table.manager import optimize
from graphopt.reference import evaluate
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope

Array = np.ndarray[Any, Any]
IMAGES = np.random.default_rng(0).normal(size=(4, 3, 8, 8)).astype("float32")
WITHOUT = "FLAGS_graphopt_without"
ALL = "drop-kept-state,fold-batch-norm,assign-layout,choose-convolution,prepare-weights"


class Net:
    """A small network of convolutions and batch norms, with its test and training programs."""

    def __init__(self) -> None:
        self.executor = static.Executor()
        self.train, self.startup = static.Program(), static.Program()
        with static.program_guard(self.train, self.startup):
            image = static.data("image", [-1, 3, 8, 8], "float32")
            hidden = F.relu(self._layer(image, 8, 3))
            hidden = F.relu(self._layer(hidden, 8, 3, groups=8) + hidden)
            hidden = F.adaptive_avg_pool2d(self._layer(hidden, 4, 1), 1)
            self.out = static.nn.fc(hidden, 2)
            self.test = self.train.clone(for_test=True)
            self.plain = self.train.clone(for_test=True)
            paddle.optimizer.SGD(0.1).minimize(paddle.mean(self.out * self.out))

    def _layer(self, x: Any, channels: int, size: int, groups: int = 1) -> Any:
        x = static.nn.conv2d(x, channels, size, padding=size // 2, groups=groups, bias_attr=False)
        return static.nn.batch_norm(x)


@pytest.fixture
def net() -> Net:
    paddle.seed(1)
    return Net()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record each preparation."""
    calls: list[int] = []
    init = Prepare.__init__

    def counted(self: Prepare, *args: Any) -> None:
        init(self, *args)
        compute = self.function

        def function(state: Any) -> Any:
            calls.append(1)
            return compute(state)

        self.function = function

    monkeypatch.setattr(Prepare, "__init__", counted)
    return calls


def run(net: Net, program: Program, scope: Scope, *fetches: Any) -> list[Array]:
    feed = {"image": IMAGES}
    return net.executor.run(program, feed=feed, fetch_list=list(fetches), scope=scope)


def expected(net: Net, scope: Scope) -> Array:
    """Compute the output by a program without preparation."""
    paddle.set_flags({WITHOUT: ALL})
    try:
        return run(net, net.plain, scope, net.out)[0]
    finally:
        paddle.set_flags({WITHOUT: ""})


def check(net: Net, scope: Scope) -> None:
    found = run(net, net.test, scope, net.out)[0]
    np.testing.assert_allclose(found, expected(net, scope), rtol=1e-4, atol=1e-5)


@pytest.mark.exhaustive
def test_every_change_is_seen(net: Net, made: list[int]) -> None:
    """A training step, a set tensor, another startup and another scope each prepare once."""
    scope, other = Scope(), Scope()
    net.executor.run(net.startup, scope=scope)
    check(net, scope)
    assert len(made) == 1
    check(net, scope)
    assert len(made) == 1
    run(net, net.train, scope)
    check(net, scope)
    assert len(made) == 2
    variance = next(name for name in net.test.state_dict(scope=scope) if name.endswith(".w_2"))
    slot = scope.find_var(variance)
    assert slot is not None
    slot.get_tensor().set(slot.numpy() * 4)
    check(net, scope)
    assert len(made) == 3
    net.executor.run(net.startup, scope=scope)
    check(net, scope)
    assert len(made) == 4
    net.executor.run(net.startup, scope=other)
    check(net, other)
    check(net, scope)
    assert len(made) == 5


@pytest.mark.exhaustive
def test_batches_share_what_is_prepared(net: Net, made: list[int]) -> None:
    """Executables for other sizes use the same arrays."""
    scope, exe = Scope(), net.executor
    exe.run(net.startup, scope=scope)
    for rows in (1, 2, 4):
        exe.run(net.test, feed={"image": IMAGES[:rows]}, fetch_list=[net.out], scope=scope)
    assert len(made) == 1


def optimized(net: Net) -> Any:
    module = parse_program(net.test, ("image",), (net.out.name,))
    report = optimize(module, PassContext({}, platform="cpu"), verify_each=True)
    return module, report


def test_whole_pipeline(net: Net) -> None:
    """A test program is two functions, without batch norms or transposed filters in the step."""
    before = parse_program(net.test, ("image",), (net.out.name,))
    module, report = optimized(net)
    prepare = prepare_function(module)
    assert prepare is not None
    assert not signature_of(module).writes
    main = text_of(module).partition("@main")[2]
    assert "pd.batch_norm" not in main
    assert main.count("pd.transpose") == 2  # of the image, and of one pixel before the reshape
    assert 'filter_format = "HWIO"' in main
    assert_same_results(before, module)
    assert_same_results(before, module, run=evaluate)
    again = parse_text(text_of(module))
    assert text_of(again) == text_of(module)
    assert_same_results(module, again)
    assert "prepare-weights" in as_text(report, "any program")


def test_platforms(net: Net) -> None:
    """A program for any platform is unchanged."""
    module = parse_program(net.test, ("image",), (net.out.name,))
    text = text_of(module)
    optimize(module, PassContext({}))
    assert text_of(module) == text
