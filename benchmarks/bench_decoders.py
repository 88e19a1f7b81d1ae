"""Decoders that are fed their caches, compared with JAX written by hand with fixed-size caches.

    python benchmarks/bench_decoders.py [--only gpt,beams] [--layers 4] [--width 256] [--steps 100]

The scripts are written for Paddle: they extend caches with `concat`, and feed them as fetched. The
function in JAX writes into donated caches at a position, with a mask. Both alternate at each step
and compute the same tokens; a ratio is the median over the steps. graphopt runs the full form. `as
NumPy` fetches the caches as NumPy arrays.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("FLAGS_graphopt_tier", "full")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static

HEADS, WORDS, LONGEST, PROMPT, SOURCE, BEAMS = 8, 4000, 1024, 100, 50, 4
KINDS = ("gpt", "llama", "t5", "beams")
Array = Any


class DecoderCase:
    """One decoder: its program, and its step in JAX."""

    def __init__(self, kind: str, layers: int, width: int) -> None:
        self.kind, self.layers, self.width = kind, layers, width
        self.batch = BEAMS if kind == "beams" else 1
        self.names = [f"{which}{layer}" for layer in range(layers) for which in "kv"]
        self.program, startup = static.Program(), static.Program()
        with static.program_guard(self.program, startup):
            self.fetches = self._build()
        self.executor, self.scope = static.Executor(paddle.CPUPlace()), static.Scope()
        self.executor.run(startup, scope=self.scope)
        values = [v.name for v in self.program.list_vars() if v.persistable]
        found = (self.scope.find_var(name).get_tensor() for name in values)
        self.parameters = [jnp.asarray(np.array(tensor)) for tensor in found]
        self.step = jax.jit(self._step, donate_argnums=3)

    # -- the script --------------------------------------------------------------------------------

    def _linear(self, x: Any, size: int) -> Any:
        return static.nn.fc(x, size, num_flatten_dims=2)

    def _heads(self, x: Any) -> Any:
        return paddle.transpose(paddle.reshape(x, [0, 0, HEADS, -1]), [0, 2, 1, 3])

    def _attend(self, q: Any, k: Any, v: Any) -> Any:
        scores = paddle.matmul(q, k, transpose_y=True) * (self.width // HEADS) ** -0.5
        mixed = paddle.transpose(paddle.matmul(F.softmax(scores), v), [0, 2, 1, 3])
        return self._linear(paddle.reshape(mixed, [0, 0, self.width]), self.width)

    def _build(self) -> list[Any]:
        size = self.width // HEADS
        ids = static.data("ids", [-1, 1], "int64")
        caches = [static.data(name, [-1, HEADS, -1, size], "float32") for name in self.names]
        past = paddle.shape(caches[0])[2]
        table = static.create_parameter(
            [LONGEST, size if self.kind == "llama" else self.width], "float32"
        )
        place = paddle.slice(table, [0], [past], [past + 1])
        x = static.nn.embedding(ids, [WORDS, self.width])
        if self.kind != "llama":
            x = x + place
        source: list[Any] = []
        if self.kind == "t5":
            shape = [-1, HEADS, SOURCE, size]
            source = [static.data(name, shape, "float32") for name in ("ek", "ev")]
        if self.kind == "beams":
            parents = static.data("parents", [-1], "int64")
            caches = [paddle.gather(cache, parents) for cache in caches]
        grown: list[Any] = []
        for layer in range(self.layers):
            h = static.nn.layer_norm(x, begin_norm_axis=2)
            q, k, v = (self._heads(self._linear(h, self.width)) for _ in range(3))
            if self.kind == "llama":
                q, k = q * place, k * place
            k, v = (
                paddle.concat([cache, new], axis=2)
                for cache, new in zip(caches[2 * layer : 2 * layer + 2], (k, v), strict=True)
            )
            grown += [k, v]
            x = x + self._attend(q, k, v)
            if source:
                h = static.nn.layer_norm(x, begin_norm_axis=2)
                x = x + self._attend(self._heads(self._linear(h, self.width)), *source)
            h = static.nn.layer_norm(x, begin_norm_axis=2)
            x = x + self._linear(F.gelu(self._linear(h, 4 * self.width)), self.width)
        return [self._linear(static.nn.layer_norm(x, begin_norm_axis=2), WORDS), *grown]

    # -- hand-written JAX
    # ---------------------------------------------------------------------------

    def _step(
        self, parameters: list[Array], ids: Array, past: Array, caches: list[Array], more: Any
    ) -> tuple[Array, list[Array]]:
        given: Iterator[Array] = iter(parameters)
        table, words = next(given), next(given)
        size, rows = self.width // HEADS, caches[0].shape[2]

        def norm(x: Array) -> Array:
            scale, bias = next(given), next(given)
            centred = x - x.mean(-1, keepdims=True)
            variance = (centred**2).mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt(variance + 1e-5) * scale + bias

        def linear(x: Array) -> Array:
            weight, bias = next(given), next(given)
            return x @ weight + bias

        def heads(x: Array) -> Array:
            return x.reshape(*x.shape[:2], HEADS, size).transpose(0, 2, 1, 3)

        def attend(q: Array, k: Array, v: Array, real: Array | None) -> Array:
            scores = (q @ k.swapaxes(-1, -2)) * size**-0.5
            if real is not None:
                scores = jnp.where(real, scores, -jnp.inf)
            mixed = jax.nn.softmax(scores) @ v
            return linear(mixed.transpose(0, 2, 1, 3).reshape(*ids.shape, self.width))

        place = jax.lax.dynamic_slice_in_dim(table, past, 1)
        x = words[ids]
        x = x if self.kind == "llama" else x + place
        if self.kind == "beams":
            caches = [cache[more] for cache in caches]
        real, grown = jnp.arange(rows) <= past, list[Array]()
        write = jax.lax.dynamic_update_slice_in_dim
        for layer in range(self.layers):
            h = norm(x)
            q, k, v = (heads(linear(h)) for _ in range(3))
            if self.kind == "llama":
                q, k = q * place, k * place
            k, v = (write(caches[2 * layer + at], new, past, 2) for at, new in ((0, k), (1, v)))
            grown += [k, v]
            x = x + attend(q, k, v, real)
            if self.kind == "t5":
                x = x + attend(heads(linear(norm(x))), *more, None)
            x = x + linear(jax.nn.gelu(linear(norm(x)), approximate=False))
        return linear(norm(x)), grown

    # -- both --------------------------------------------------------------------------------------

    def run(self, steps: int, as_numpy: bool) -> tuple[list[float], list[float]]:
        """Measure the seconds of both for each step; AssertionError if their numbers differ."""
        generator = np.random.default_rng(0)
        size = self.width // HEADS

        def rows(count: int) -> Array:
            return generator.standard_normal((self.batch, HEADS, count, size)).astype("float32")

        fed: dict[str, Any] = {name: rows(PROMPT) for name in self.names}
        room = max(64, 1 << (PROMPT + steps).bit_length()) - PROMPT
        widths = ((0, 0), (0, 0), (0, room), (0, 0))
        caches = [jnp.asarray(np.pad(fed[name], widths)) for name in self.names]
        others: dict[str, Any] = {}
        more: Any = ()
        if self.kind == "t5":
            others = {name: rows(SOURCE) for name in ("ek", "ev")}
            more = tuple(map(jnp.asarray, others.values()))
        if self.kind == "beams":
            others = {"parents": np.array([0, 0, 1, 2])}
            more = jnp.asarray(others["parents"])
        times: tuple[list[float], list[float]] = ([], [])
        for step in range(steps):
            ids = np.full((self.batch, 1), step % WORDS)
            start = time.perf_counter()
            found, *grown = self.executor.run(
                *(self.program, {"ids": ids, **others, **fed}, self.fetches),
                scope=self.scope,
                return_numpy=as_numpy,
            )
            ours = np.array(found)
            between = time.perf_counter()
            out, caches = self.step(
                self.parameters, ids.astype("int32"), np.int32(PROMPT + step), caches, more
            )
            theirs = np.array(out)
            end = time.perf_counter()
            fed = dict(zip(self.names, grown, strict=True))
            assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-3), self.kind
            times[0].append(between - start)
            times[1].append(end - between)
        return times


def measured(decoder: DecoderCase, steps: int, *, as_numpy: bool) -> str:
    """Measure a row of the table: milliseconds of both, and the ratio."""
    decoder.run(6, as_numpy)  # compile first
    ours, theirs = (each[4:] for each in decoder.run(steps, as_numpy))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    name = f"{decoder.kind}{', as NumPy' if as_numpy else ''}"
    shown = (f"{1e3 * statistics.median(each):.3f}" for each in (ours, theirs))
    return f"| {name} | {' | '.join(shown)} | {ratio:.2f} |"


def main(show: Callable[[str], None] = print) -> None:
    """Print a table of the decoders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    show("| decoder | graphopt, ms | JAX by hand, ms | ratio |\n|---|---|---|---|")
    for kind in options.only.split(","):
        decoder = DecoderCase(kind, options.layers, options.width)
        for as_numpy in (False, True):
            show(measured(decoder, options.steps, as_numpy=as_numpy))
        caches = decoder.executor.stats.get("caches")
        assert caches == [f"kept in buffers: {', '.join(decoder.names)}"], caches


if __name__ == "__main__":
    main()
