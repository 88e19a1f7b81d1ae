"""Runs of a small program on feeds of several sizes, unpadded and in buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.buckets import Buckets
from graphopt.ir.program import unique_name
from graphopt_tests.example_counts import is_short

Feed = dict[str, Any]
# numbers of rows and lengths
Sizes = tuple[tuple[int, int], ...]
# the fetches, and the feed of a generator, a number of rows and a length
Built = tuple[list[Any], Callable[[Any, int, int], Feed]]
# every size is compiled as it is, and two buckets: (4, 8) and (2, 4)
SIZES = ((3, 5), (4, 8), (1, 3), (3, 7), (2, 2))
FEW_SIZES = ((3, 5), (1, 3), (2, 2))


def run(
    build: Callable[[], Built], buckets: Buckets | None, sizes: Sizes = SIZES
) -> tuple[Any, ...]:
    """Run a few steps; return their fetches, the state after them, and the compile statistics.

    Without buckets sequences are not padded, either.
    """
    paddle.set_flags({"FLAGS_graphopt_buckets": "off"})
    try:
        return _run(build, buckets, sizes)
    finally:
        paddle.set_flags({"FLAGS_graphopt_buckets": "auto"})


def run_unasked(build: Callable[[], Built], sizes: Sizes, *, seed: int = 0) -> tuple[Any, ...]:
    """Run as `run`, but let the Executor choose buckets; the training has the seed, 0 for none."""
    return _run(build, None, sizes, seed)


def _run(
    build: Callable[[], Built], buckets: Buckets | None, sizes: Sizes, seed: int = 4
) -> tuple[Any, ...]:
    main, startup = static.Program(), static.Program()
    main.random_seed, startup.random_seed = seed, 4
    with (
        unique_name.guard(),
        static.program_guard(main, startup),
        static.scope_guard(static.Scope()),
    ):
        fetches, feed = build()
        executor = static.Executor(paddle.CPUPlace(), buckets=buckets)
        executor.run(startup)
        generator = np.random.default_rng(1)
        found = [
            executor.run(main, feed=feed(generator, *size), fetch_list=fetches) for size in sizes
        ]
        scope = static.global_scope()
        state = {
            v.name: np.array(scope.find_var(v.name).get_tensor())
            for v in main.list_vars()
            if v.persistable
        }
        return found, state, executor.stats


def assert_same(
    build: Callable[[], Built], buckets: Buckets, few: Sizes = FEW_SIZES
) -> dict[str, Any]:
    """Check that buckets preserve fetches and state, with fewer programs; return the statistics."""
    sizes = few if is_short() else SIZES
    wanted, state, exact = run(build, None, sizes)
    found, changed, stats = run(build, buckets, sizes)
    assert stats["exact"] == []
    assert stats["padding"] > 0
    assert stats["compiled_shapes"] < exact["compiled_shapes"]
    assert_close(wanted, state, found, changed)
    return stats


def assert_close(wanted: Any, state: Any, found: Any, changed: Any) -> None:
    """Check that the fetches of several steps, and the state after them, are close."""
    for old, new in zip(wanted, found, strict=True):
        for a, b in zip(old, new, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    assert changed.keys() == state.keys()
    for name, array in state.items():
        np.testing.assert_allclose(changed[name], array, rtol=1e-3, atol=1e-5, err_msg=name)
