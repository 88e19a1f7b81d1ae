"""One training step of `Executor.run` against the same step written by hand in plain JAX.

Same initial parameters, same optimizer, NumPy in, the loss out, one device; both are checked to
compute the same losses. They take turns, and the ratio is the median over the rounds, so that a
busy machine disturbs both alike. Prints a Markdown table.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

import graphopt as paddle
import graphopt.nn.functional as F
import graphopt.static as static

ROUNDS = 31
SECONDS_PER_TURN = 0.05

Array = Any
Arrays = dict[str, Array]
Step = Callable[[], Array]


class Model(NamedTuple):
    """A model twice: appended to the default program, and as a function of parameters.

    `forward` returns the loss and the new values of what is not differentiated, by name.
    """

    loss: static.Variable
    feed: Arrays
    forward: Callable[[Arrays, Arrays], tuple[Array, Arrays]]
    optimizer: Any
    update: Callable[[Arrays, Arrays, Any], tuple[Arrays, Any]]
    start: Callable[[Arrays], Any]


# -- optimizers in plain JAX -----------------------------------------------------------------------


def sgd(params: Arrays, grads: Arrays, state: None) -> tuple[Arrays, None]:
    return {name: params[name] - 0.01 * grad for name, grad in grads.items()}, state


def no_state(params: Arrays) -> None:
    return None


def adam(params: Arrays, grads: Arrays, state: Any) -> tuple[Arrays, Any]:
    first, second, count = state
    count = count + 1
    first = {n: 0.9 * first[n] + 0.1 * g for n, g in grads.items()}
    second = {n: 0.999 * second[n] + 0.001 * g * g for n, g in grads.items()}
    new = {
        n: params[n]
        - 0.001 * (first[n] / (1 - 0.9**count)) / (jnp.sqrt(second[n] / (1 - 0.999**count)) + 1e-8)
        for n in grads
    }
    return new, (first, second, count)


def moments(params: Arrays) -> Any:
    zeros = {name: jnp.zeros_like(value) for name, value in params.items()}
    return zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros((), jnp.float32)


# -- models ----------------------------------------------------------------------------------------


def tiny_fc() -> Model:
    """One linear layer with a mean behind it: nothing but overhead."""
    loss = paddle.mean(static.nn.fc(static.data("x", [None, 1]), 10))
    feed = {"x": np.random.default_rng(0).random((10, 1), "float32")}

    def forward(p: Arrays, feed: Arrays) -> tuple[Array, Arrays]:
        return jnp.mean(feed["x"] @ p["fc_0.w_0"] + p["fc_0.b_0"]), {}

    return Model(loss, feed, forward, paddle.optimizer.SGD(0.01), sgd, no_state)


def mlp() -> Model:
    """784 - 256 - 256 - 10 with Adam, 64 rows."""
    x, label = static.data("x", [None, 784]), static.data("label", [None, 1], "int64")
    hidden = static.nn.fc(static.nn.fc(x, 256, activation="relu"), 256, activation="relu")
    loss = F.cross_entropy(static.nn.fc(hidden, 10), label)

    def forward(p: Arrays, feed: Arrays) -> tuple[Array, Arrays]:
        h = feed["x"]
        for layer in ("fc_0", "fc_1"):
            h = jax.nn.relu(h @ p[f"{layer}.w_0"] + p[f"{layer}.b_0"])
        return cross_entropy(h @ p["fc_2.w_0"] + p["fc_2.b_0"], feed["label"]), {}

    return Model(loss, samples(64, 784), forward, paddle.optimizer.Adam(0.001), adam, moments)


def digits() -> Model:
    """Two convolutions with batch normalisation and two linear layers with Adam, 32 rows."""
    x, label = static.data("x", [None, 1, 8, 8]), static.data("label", [None, 1], "int64")
    h = x
    for _ in range(2):
        h = static.nn.conv2d(h, 32, filter_size=3, padding=1, bias_attr=False)
        h = static.nn.batch_norm(h, act="relu")
    h = static.nn.fc(F.max_pool2d(h, kernel_size=2), 64, activation="relu")
    loss = F.cross_entropy(static.nn.fc(h, 10), label)

    def forward(p: Arrays, feed: Arrays) -> tuple[Array, Arrays]:
        h, running = feed["x"], {}
        for number in range(2):
            h = lax.conv_general_dilated(h, p[f"conv2d_{number}.w_0"], (1, 1), "SAME")
            mean, variance = jnp.mean(h, (0, 2, 3)), jnp.var(h, (0, 2, 3))
            norm = f"batch_norm_{number}"
            running[f"{norm}.w_1"] = 0.9 * p[f"{norm}.w_1"] + 0.1 * mean
            running[f"{norm}.w_2"] = 0.9 * p[f"{norm}.w_2"] + 0.1 * variance
            scale = p[f"{norm}.w_0"] * lax.rsqrt(variance + 1e-5)
            h = (h - mean[:, None, None]) * scale[:, None, None]
            h = jax.nn.relu(h + p[f"{norm}.b_0"][:, None, None])
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        h = jax.nn.relu(h.reshape(len(h), -1) @ p["fc_0.w_0"] + p["fc_0.b_0"])
        return cross_entropy(h @ p["fc_1.w_0"] + p["fc_1.b_0"], feed["label"]), running

    return Model(loss, samples(32, 1, 8, 8), forward, paddle.optimizer.Adam(0.001), adam, moments)


def cross_entropy(logits: Array, label: Array) -> Array:
    """The mean cross entropy for labels [rows, 1]."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), label, axis=1))


def samples(*shape: int) -> Arrays:
    """Random rows with random labels."""
    random = np.random.default_rng(0)
    label = random.integers(0, 10, (shape[0], 1))
    return {"x": random.random(shape, "float32"), "label": label}


# -- measuring -------------------------------------------------------------------------------------


def steps_of(build: Callable[[], Model]) -> tuple[Step, Step]:
    """One step of graphopt and one of plain JAX, from the same parameters."""
    main, startup = static.Program(), static.Program()
    scope = static.Scope()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        model = build()
        model.optimizer.minimize(model.loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup, scope=scope)
    params = {
        parameter.name: jnp.asarray(scope.var(parameter.name).numpy())
        for parameter in main.all_parameters()
    }

    def graphopt_step() -> Array:
        return exe.run(main, feed=model.feed, fetch_list=[model.loss], scope=scope)[0]

    return graphopt_step, plain_step(model, params)


def plain_step(model: Model, params: Arrays) -> Step:
    """The step as one writes it without graphopt."""
    names = [name for name in params if not name.startswith("batch_norm") or name[-1] == "0"]
    trained = {name: params[name] for name in names}
    running = {name: value for name, value in params.items() if name not in trained}

    def step(trained: Arrays, running: Arrays, state: Any, feed: Arrays) -> Any:
        def loss_of(trained: Arrays) -> tuple[Array, Arrays]:
            return model.forward({**trained, **running}, feed)

        (loss, running), grads = jax.value_and_grad(loss_of, has_aux=True)(trained)
        trained, state = model.update(trained, grads, state)
        return loss, (trained, running, state)

    jitted = jax.jit(step, donate_argnums=(0, 1, 2))
    held = (trained, running, model.start(trained))
    # without x64 a label is an int32, and converting it at every step would be wasteful
    feed = {n: a.astype("int32") if a.dtype == "int64" else a for n, a in model.feed.items()}

    def run() -> Array:
        nonlocal held
        loss, held = jitted(*held, feed)
        return np.asarray(loss)

    return run


def time_of(step: Step, count: int) -> float:
    """Seconds per step."""
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def measure(build: Callable[[], Model]) -> tuple[float, float, float]:
    """Median microseconds of graphopt and of plain JAX, and the median ratio."""
    ours, plain = steps_of(build)
    for _ in range(5):
        np.testing.assert_allclose(ours(), plain(), rtol=1e-4, atol=1e-5)
    count = max(1, round(SECONDS_PER_TURN / time_of(plain, 10)))
    times: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        order = (ours, plain) if number % 2 == 0 else (plain, ours)
        taken = {step: time_of(step, count) for step in order}
        times.append((taken[ours], taken[plain]))
    ratio = statistics.median(a / b for a, b in times)
    a, b = (1e6 * statistics.median(column) for column in zip(*times, strict=True))
    return a, b, ratio


def main() -> None:
    """Measure every model."""
    print("| model | graphopt, µs | plain JAX, µs | ratio |")
    print("|---|---|---|---|")
    for build in (tiny_fc, mlp, digits):
        ours, plain, ratio = measure(build)
        print(f"| {build.__name__} | {ours:.0f} | {plain:.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
