"""Data parallel on two devices: time of a step against hand-written JAX, and bytes per device.

    python benchmarks/bench_data_parallel.py [--rounds 15] [--models fc mlp resnet18] [--buckets]

Variants alternate in one process, so that a busy machine slows all of them alike; it prints the
medians and their ratio to hand-written `jax.pmap` and `jax.shard_map`. `--buckets` measures one sum
over the devices for several gradients against one for each, by size: the source of JOIN_BYTES in
graphopt/passes/parallel/joining.py.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import graphopt as paddle
from graphopt import static
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy

DEVICES = 2
Array = Any
RATE = 0.01


# -- the models, in both frameworks -------------------------------------------------------------


class Conv:
    """A convolution followed by a batch norm: sizes, stride, and names in the scope."""

    def __init__(self, name: str, inner: int, outer: int, kernel: int, stride: int) -> None:
        self.name, self.inner, self.outer = name, inner, outer
        self.kernel, self.stride = kernel, stride


def resnet18_layers() -> list[tuple[Conv, Conv, Conv | None]]:
    """List the blocks of ResNet-18 for small images: two convolutions and a shortcut each."""
    blocks: list[tuple[Conv, Conv, Conv | None]] = []
    inner = 64
    for stage, width in enumerate([64, 128, 256, 512]):
        for number in range(2):
            stride = 2 if stage and not number else 1
            name = f"s{stage}b{number}"
            short = Conv(f"{name}s", inner, width, 1, stride) if inner != width else None
            blocks.append(
                (
                    Conv(f"{name}x", inner, width, 3, stride),
                    Conv(f"{name}y", width, width, 3, 1),
                    short,
                )
            )
            inner = width
    return blocks


def paddle_resnet(x: Any) -> Any:
    """Build ResNet-18, and return its logits."""

    def layer(x: Any, conv: Conv, act: str | None) -> Any:
        out = static.nn.conv2d(
            x,
            conv.outer,
            conv.kernel,
            stride=conv.stride,
            padding=conv.kernel // 2,
            bias_attr=False,
        )
        return static.nn.batch_norm(out, act=act)

    x = layer(x, Conv("stem", 3, 64, 3, 1), "relu")
    for first, second, short in resnet18_layers():
        rest = layer(x, short, None) if short else x
        x = paddle.nn.functional.relu(layer(layer(x, first, "relu"), second, None) + rest)
    return static.nn.fc(paddle.mean(x, axis=[2, 3]), 10)


def jax_resnet(weights: dict[str, Array], x: Array) -> Array:
    def layer(x: Array, conv: Conv) -> Array:
        x = lax.conv_general_dilated(
            x,
            weights[conv.name],
            (conv.stride, conv.stride),
            [(conv.kernel // 2, conv.kernel // 2)] * 2,
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )
        mean = x.mean((0, 2, 3), keepdims=True)
        variance = lax.square(x - mean).mean((0, 2, 3), keepdims=True)
        scale, bias = (weights[conv.name + k].reshape(1, -1, 1, 1) for k in "ab")
        # moving statistics are omitted: they are only a few numbers
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + bias

    x = jax.nn.relu(layer(x, Conv("stem", 3, 64, 3, 1)))
    for first, second, short in resnet18_layers():
        rest = layer(x, short) if short else x
        x = jax.nn.relu(layer(jax.nn.relu(layer(x, first)), second) + rest)
    return x.mean((2, 3)) @ weights["fw"] + weights["fb"]


def resnet_weights(random: np.random.Generator) -> dict[str, Array]:
    found: dict[str, Array] = {}
    convs = [Conv("stem", 3, 64, 3, 1)]
    for first, second, short in resnet18_layers():
        convs += [first, second, *([short] if short else [])]
    for conv in convs:
        shape = (conv.outer, conv.inner, conv.kernel, conv.kernel)
        found[conv.name] = random.normal(0, 0.05, shape)
        found[conv.name + "a"], found[conv.name + "b"] = np.ones(conv.outer), np.zeros(conv.outer)
    return found | {"fw": random.normal(0, 0.05, (512, 10)), "fb": np.zeros(10)}


def layers(sizes: list[int]) -> tuple[Callable[[Any], Any], Callable[..., Any], Callable[..., Any]]:
    """Define fully connected layers of these sizes: in Paddle, in JAX, and their weights."""

    def build(x: Any) -> Any:
        for number, size in enumerate(sizes[1:]):
            x = static.nn.fc(x, size, activation="relu" if number < len(sizes) - 2 else None)
        return x

    def apply(weights: dict[str, Array], x: Array) -> Array:
        for number in range(len(sizes) - 1):
            x = x @ weights[f"w{number}"] + weights[f"b{number}"]
            x = jax.nn.relu(x) if number < len(sizes) - 2 else x
        return x

    def weights(random: np.random.Generator) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for number, (inner, outer) in enumerate(itertools.pairwise(sizes)):
            found[f"w{number}"] = random.normal(0, 0.1, (inner, outer))
            found[f"b{number}"] = np.zeros(outer)
        return found

    return build, apply, weights


# name -> (shape of a row, rows, the three functions)
MODELS: dict[str, tuple[tuple[int, ...], int, Any]] = {
    "fc": ((13,), 16, layers([13, 1])),
    "mlp": ((784,), 128, layers([784, 256, 256, 10])),
    "resnet18": ((3, 16, 16), 8, (paddle_resnet, jax_resnet, resnet_weights)),
}


# -- steps ---------------------------------------------------------------------------------------


def hand_written(name: str, kind: str) -> Callable[[Array], Any]:
    """Build a training step with momentum in `jax.pmap` or `jax.shard_map`; state is replicated."""
    _, _, (_, apply, weights_of) = MODELS[name]
    initial = weights_of(np.random.default_rng(0))
    weights = {key: np.asarray(value, np.float32) for key, value in initial.items()}
    mesh = Mesh(np.array(jax.devices()), ("dp",), axis_types=(AxisType.Auto,))
    whole = NamedSharding(mesh, P())
    state = jax.device_put((weights, jax.tree.map(np.zeros_like, weights)), whole)

    def step(state: Any, x: Array) -> Any:
        weights, velocity = state

        def loss_of(weights: Any) -> Array:
            return jnp.mean(lax.square(apply(weights, x)))

        loss, grads = jax.value_and_grad(loss_of)(weights)
        grads = lax.pmean(grads, "dp")
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
        weights = jax.tree.map(lambda w, v: w - RATE * v, weights, velocity)
        return (weights, velocity), loss[None] if kind == "shard_map" else loss

    if kind == "pmap":
        mapped = jax.pmap(
            step, axis_name="dp", in_axes=(None, 0), out_axes=(None, 0), donate_argnums=0
        )
    else:
        mapped = jax.jit(
            jax.shard_map(
                step,
                mesh=mesh,
                in_specs=(P(), P("dp")),
                out_specs=(P(), P("dp")),
                check_vma=False,
            ),
            donate_argnums=0,
        )
    held = [state]

    def run(x: Array) -> Any:
        if kind == "pmap":
            x = x.reshape(DEVICES, -1, *x.shape[1:])
        held[0], loss = mapped(held[0], x)
        return np.array(loss)

    return run


def program(name: str, **flags: Any) -> tuple[Callable[[Array], Any], static.Scope]:
    """Build the same step as a data-parallel program; return it and its scope."""
    shape, _, (build, _, _) = MODELS[name]
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x = static.data("x", [None, *shape], "float32")
        loss = paddle.mean(paddle.square(build(x)))
        paddle.optimizer.Momentum(RATE, 0.9).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    strategy = BuildStrategy()
    for flag, value in flags.items():
        setattr(strategy, flag, value)
    places = static.cpu_places(DEVICES)
    compiled = CompiledProgram(main).with_data_parallel(loss.name, strategy, places=places)

    def run(x: Array) -> Any:
        return executor.run(compiled, feed={"x": x}, fetch_list=[loss.name], scope=scope)[0]

    return run, scope


def bytes_per_device(scope: static.Scope) -> int:
    """Count the bytes of state on the first device."""
    values = [slot.value for slot in scope._slots.values() if hasattr(slot.value, "sharding")]
    return sum(value.addressable_shards[0].data.nbytes for value in values)


def medians(steps: dict[str, Callable[[], Any]], rounds: int, inner: int) -> dict[str, float]:
    """Measure the median milliseconds of each step; the steps alternate."""
    for step in steps.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(inner):
                step()
            times[name].append((time.perf_counter() - start) / inner * 1e3)
    return {name: float(np.median(found)) for name, found in times.items()}


def compare(name: str, rounds: int) -> None:
    """Print a line for each variant of a model."""
    shape, rows, _ = MODELS[name]
    x = np.random.default_rng(1).normal(size=(rows, *shape)).astype(np.float32)
    reduce = BuildStrategy.ReduceStrategy.Reduce
    variants = {
        "AllReduce": program(name),
        "AllReduce, unfused": program(name, fuse_all_reduce_ops=False),
        "Reduce": program(name, reduce_strategy=reduce),
        "Reduce, unfused": program(name, reduce_strategy=reduce, fuse_broadcast_ops=False),
    }
    runs: dict[str, Callable[[Array], Any]] = {
        "pmap by hand": hand_written(name, "pmap"),
        "shard_map by hand": hand_written(name, "shard_map"),
        **{label: run for label, (run, _) in variants.items()},
    }
    steps = {label: (lambda run=run: run(x)) for label, run in runs.items()}
    found = medians(steps, rounds, 100 if name == "fc" else 10 if name == "mlp" else 1)
    for label, milliseconds in found.items():
        ratios = [milliseconds / found[by] for by in ("pmap by hand", "shard_map by hand")]
        held = bytes_per_device(variants[label][1]) if label in variants else 0
        text = f"{held:>12} bytes of state per device" if held else ""
        print(
            f"{name:9} {label:20} {milliseconds:9.3f} ms  "
            f"/ pmap {ratios[0]:5.2f}  / shard_map {ratios[1]:5.2f} {text}"
        )


def buckets(rounds: int) -> None:
    """Compare one sum for sixteen values with a sum for each, by size."""
    mesh = Mesh(np.array(jax.devices()), ("dp",), axis_types=(AxisType.Auto,))
    for kilobytes in (1, 4, 16, 32, 64, 128, 512):
        count = kilobytes * 256

        def single(values: Any) -> Any:
            return [lax.psum(value * 2, "dp") for value in values]

        def joined(values: Any, count: int = count) -> Any:
            total = lax.psum(jnp.concatenate([value * 2 for value in values]), "dp")
            return [lax.slice(total, (i * count,), ((i + 1) * count,)) for i in range(len(values))]

        values = [np.ones(count, np.float32)] * 16
        steps: dict[str, Callable[[], Any]] = {}
        for label, function in (("single", single), ("joined", joined)):
            mapped = jax.jit(
                jax.shard_map(function, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)
            )
            placed = jax.device_put(values, NamedSharding(mesh, P()))
            steps[label] = lambda mapped=mapped, placed=placed: jax.block_until_ready(
                mapped(placed)
            )
        found = medians(steps, rounds, 10)
        ratio = found["joined"] / found["single"]
        print(
            f"16 sums of {kilobytes:4} KB: {found['single']:7.3f} ms, as one "
            f"{found['joined']:7.3f} ms ({ratio:.2f})"
        )


def main() -> None:
    """Run the measurements that the command line selects."""
    paddle.set_flags({"FLAGS_graphopt_tier": "full"})  # keeps each step's form during a measurement
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--buckets", action="store_true")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    if options.buckets:
        buckets(options.rounds)
    for name in options.models:
        compare(name, options.rounds)


if __name__ == "__main__":
    main()
