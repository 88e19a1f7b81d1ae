"""Small training programs, and helpers to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Program, Variable
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.executor import Executor
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy

Array = np.ndarray[Any, Any]


@dataclass
class Net:
    """A program with its startup program, a test's variables, and an executor.

    The startup program has run in the global scope.
    """

    main: Program
    loss: Variable
    out: Variable
    startup: Program
    executor: Executor = field(default_factory=lambda: Executor(paddle.CPUPlace()))

    def start(self) -> Net:
        """Run the startup program, if it has operators."""
        if self.startup.global_block().ops:
            self.executor.run(self.startup)
        return self

    def run(self, feed: Any, fetch: Any = (), program: Any = None, **options: Any) -> list[Any]:
        """Run the program, or another one."""
        program = self.main if program is None else program
        return self.executor.run(program, feed=feed, fetch_list=list_of(fetch), **options)

    def parallel(
        self, devices: int = 2, *, steps: int = 1, loss_name: Any = None, **flags: Any
    ) -> CompiledProgram:
        """Compile the program for this many CPU places with these BuildStrategy flags."""
        execution = ExecutionStrategy()
        execution.num_iteration_per_run = steps
        return CompiledProgram(self.main).with_data_parallel(
            loss_name=self.loss.name if loss_name is None else loss_name,
            build_strategy=strategy(**flags),
            exec_strategy=execution,
            places=static.cpu_places(devices),
        )


def list_of(fetch: Any) -> Any:
    """Convert a tuple of fetches to a list; return any other object unchanged."""
    return list(fetch) if isinstance(fetch, tuple) else fetch


def strategy(**flags: Any) -> BuildStrategy:
    """Make a BuildStrategy with these flags; the gradient scale may be given by name."""
    made = BuildStrategy()
    for name, value in flags.items():
        if name == "gradient_scale_strategy":
            value = BuildStrategy.GradientScaleStrategy[value]
        setattr(made, name, value)
    return made


def build(make: Callable[[], tuple[Variable, Variable]], seed: int = 0) -> Net:
    """Build the net of `make`, which returns (loss, output) and appends its own optimizer."""
    main, startup = Program(), Program()
    main.random_seed = startup.random_seed = seed
    with static.program_guard(main, startup):
        loss, out = make()
    return Net(main, loss, out, startup).start()


def parameter(name: str, value: Any, **options: Any) -> Variable:
    """Create a parameter with this initial value."""
    array = np.array(value, "float32")
    attr = paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(array), **options)
    return static.create_parameter(list(array.shape), "float32", attr=attr)


def fc_mean(rate: float = 0.1, weight: float = 2.0, *, train: bool = True) -> Net:
    """Build X [N, 1] times w [1, 1], the mean, SGD."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("X", [None, 1], "float32")
        out = paddle.matmul(x, parameter("w", [[weight]]))
        loss = paddle.mean(out)
        if train:
            paddle.optimizer.SGD(rate).minimize(loss)
        return loss, out

    return build(make)


def regression(
    optimizer: Callable[[], Any] = lambda: paddle.optimizer.SGD(0.1),
    *,
    reduce: Callable[[Variable], Variable] = paddle.mean,
    width: int = 3,
    seed: int = 5,
) -> Net:
    """Build a linear layer from x [N, width] to y [N, 2] with squared error."""
    weights = np.random.default_rng(seed).normal(size=(width, 2))

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, width], "float32")
        y = static.data("y", [None, 2], "float32")
        out = paddle.matmul(x, parameter("w", weights)) + parameter("b", [0.1, -0.2])
        loss = reduce(paddle.square(out - y))
        optimizer().minimize(loss)
        return loss, out

    return build(make)


def rows(*values: float) -> dict[str, Array]:
    """Make a feed of `X` for `fc_mean`."""
    return {"X": np.array(values, "float32").reshape(-1, 1)}


def regression_feed(count: int, width: int = 3, seed: int = 0) -> dict[str, Array]:
    """Make a feed of `x` and `y` for `regression`."""
    generator = np.random.default_rng(seed)
    sizes = {"x": (count, width), "y": (count, 2)}
    return {name: generator.normal(size=size).astype("float32") for name, size in sizes.items()}


def value(name: str) -> Array:
    """Return a value of the global scope."""
    slot = static.global_scope().find_var(name)
    assert slot is not None, f"the scope has no {name}"
    return np.array(slot.get_tensor())


def write(name: str, array: Any) -> None:
    """Replace a value of the global scope."""
    slot = static.global_scope().find_var(name)
    assert slot is not None, f"the scope has no {name}"
    slot.get_tensor().set(np.asarray(array, "float32"))


def close(found: Any, wanted: Sequence[Any] | Array | float, tolerance: float = 1e-5) -> None:
    """Raise AssertionError unless both have one shape and nearly the same numbers."""
    wanted = np.asarray(wanted)
    assert np.shape(found) == wanted.shape, f"{np.shape(found)} is not {wanted.shape}"
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
