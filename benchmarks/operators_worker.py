"""One process of bench_operators.py: single operators, under Paddle or under `graphopt run`.

Each line of its input is JSON: the name of an operator, whether to run its derivatives, and the
seconds to measure for. It answers each with the median of the seconds of a run, or an error.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from paddle import nn, static
from paddle.nn import functional

draw = np.random.default_rng(0)


def numbers(*shape: int) -> Any:
    return draw.standard_normal(shape, "float32")


def ids(below: int, *shape: int) -> Any:
    return draw.integers(0, below, shape)


IMAGES, ROWS, WORDS = numbers(8, 64, 56, 56), numbers(512, 1024), numbers(8, 256, 512)
SMALL, VOLUMES = numbers(4, 32, 28, 28), numbers(2, 8, 16, 28, 28)
MATRICES, BATCH = numbers(128, 128), numbers(16, 64, 64)


def of(layer: Callable[..., Any], *more: Any, **options: Any) -> Callable[..., Any]:
    """Return a function of Variables that calls a layer with further arguments."""
    return lambda *given: layer(*given, *more, **options)


def conv(*more: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: static.nn.conv2d(x, *more, **options)


def transposed(**options: Any) -> Callable[..., Any]:
    return lambda x: static.nn.conv2d_transpose(x, 32, filter_size=4, stride=2, **options)


def labelled(loss: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    return loss, [numbers(4096, 1000), ids(1000, 4096, 1)]


OPERATORS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    # elementwise
    "relu": (functional.relu, [IMAGES]),
    "gelu": (functional.gelu, [WORDS]),
    "sigmoid": (functional.sigmoid, [WORDS]),
    "tanh": (paddle.tanh, [WORDS]),
    "exp": (paddle.exp, [WORDS]),
    "sin": (paddle.sin, [WORDS]),
    "swish": (functional.swish, [WORDS]),
    "softplus": (functional.softplus, [WORDS]),
    "dropout": (of(functional.dropout, 0.3), [WORDS]),
    "clip": (of(paddle.clip, -1, 1), [WORDS]),
    # by row
    "softmax": (functional.softmax, [WORDS]),
    "log_softmax": (functional.log_softmax, [WORDS]),
    "layer_norm": (of(functional.layer_norm, [512]), [WORDS]),
    "mean": (of(paddle.mean, axis=1), [WORDS]),
    "max": (of(paddle.max, axis=-1), [WORDS]),
    "prod": (of(paddle.prod, axis=-1), [WORDS]),
    "logsumexp": (of(paddle.logsumexp, axis=-1), [WORDS]),
    "cumsum": (of(paddle.cumsum, axis=-1), [WORDS]),
    "cumsum of columns": (of(paddle.cumsum, axis=1), [WORDS]),
    "norm": (of(paddle.norm, axis=-1), [WORDS]),
    "std": (of(paddle.std, axis=-1), [WORDS]),
    # ordering
    "argmax": (of(paddle.argmax, axis=-1), [WORDS]),
    "sort": (paddle.sort, [ROWS]),
    "argsort": (paddle.argsort, [ROWS]),
    "sort of ids": (paddle.sort, [ids(100_000, 512, 1024)]),
    "top 10": (lambda x: paddle.topk(x, 10)[0], [ROWS]),
    "top 300": (lambda x: paddle.topk(x, 300)[0], [ROWS]),
    "kthvalue": (lambda x: paddle.kthvalue(x, 5)[0], [ROWS]),
    "median": (of(paddle.median, axis=-1), [ROWS]),
    "unique": (paddle.unique, [ids(1000, 100_000)]),
    # data movement
    "transpose": (of(paddle.transpose, [0, 2, 3, 1]), [IMAGES]),
    "concat": (lambda x: paddle.concat([x, x, x], 1), [IMAGES]),
    "gather": (paddle.gather, [ROWS, ids(512, 256)]),
    "gather_nd": (paddle.gather_nd, [ROWS, ids(512, 2000, 1)]),
    "index_sample": (paddle.index_sample, [ROWS, ids(1024, 512, 64)]),
    "scatter": (of(paddle.scatter, overwrite=False), [ROWS, ids(512, 256), numbers(256, 1024)]),
    "scatter_nd_add": (paddle.scatter_nd_add, [ROWS, ids(512, 3000, 1), numbers(3000, 1024)]),
    "segment_sum": (paddle.incubate.segment_sum, [ROWS, np.sort(ids(50, 512))]),
    "embedding": (of(static.nn.embedding, [50_000, 128]), [ids(50_000, 64, 64)]),
    "one_hot": (of(functional.one_hot, 1000), [ids(1000, 4096)]),
    "masked_select": (lambda x: paddle.masked_select(x, x > 0), [ROWS]),
    "roll": (of(paddle.roll, 3, axis=1), [WORDS]),
    "pad": (of(functional.pad, [1, 1, 1, 1]), [IMAGES]),
    # products
    "matmul": (lambda x: paddle.matmul(x, x, transpose_y=True), [WORDS]),
    "fc": (of(static.nn.fc, 512), [ROWS]),
    "conv 1x1": (conv(128, 1), [IMAGES]),
    "conv 3x3": (conv(64, 3, padding=1), [IMAGES]),
    "conv 3x3, strides": (conv(128, 3, stride=2, padding=1), [IMAGES]),
    "conv 3x3, holes": (conv(64, 3, padding=2, dilation=2), [IMAGES]),
    "conv 3x3, groups": (conv(64, 3, padding=1, groups=8), [IMAGES]),
    "conv 1x1, groups": (conv(64, 1, groups=4), [IMAGES]),
    "conv depthwise": (conv(64, 3, padding=1, groups=64), [IMAGES]),
    "conv 7x7 of images": (conv(64, 7, stride=2, padding=3), [numbers(4, 3, 224, 224)]),
    "conv transposed": (transposed(padding=1), [SMALL]),
    "conv transposed, groups": (transposed(padding=1, groups=8), [SMALL]),
    "conv of volumes": (lambda x: static.nn.conv3d(x, 16, 3, padding=1), [VOLUMES]),
    "conv of volumes, transposed": (
        lambda x: static.nn.conv3d_transpose(x, 16, filter_size=2, stride=2),
        [numbers(2, 8, 8, 14, 14)],
    ),
    "lstm": (lambda x: nn.LSTM(128, 128)(x)[0], [numbers(16, 50, 128)]),
    "gru": (lambda x: nn.GRU(128, 128)(x)[0], [numbers(16, 50, 128)]),
    "attention": (lambda x: nn.MultiHeadAttention(256, 8)(x, x, x), [numbers(8, 128, 256)]),
    # images
    "batch_norm": (static.nn.batch_norm, [IMAGES]),
    "group_norm": (of(static.nn.group_norm, 8), [IMAGES]),
    "instance_norm": (static.nn.instance_norm, [IMAGES]),
    "max pool": (of(functional.max_pool2d, 3, 2, 1), [IMAGES]),
    "average pool": (of(functional.avg_pool2d, 2, 2), [IMAGES]),
    "adaptive pool to 7": (of(functional.adaptive_avg_pool2d, 7), [IMAGES]),
    "adaptive pool to 5": (of(functional.adaptive_avg_pool2d, 5), [IMAGES]),
    "pool of volumes": (of(functional.max_pool3d, 2, 2), [numbers(2, 16, 16, 28, 28)]),
    "bilinear": (of(functional.interpolate, scale_factor=2, mode="bilinear"), [SMALL]),
    "bicubic": (of(functional.interpolate, scale_factor=2, mode="bicubic"), [SMALL]),
    "unfold": (of(functional.unfold, 3, 1, 1), [SMALL]),
    "pixel_shuffle": (of(functional.pixel_shuffle, 2), [IMAGES]),
    # losses
    "cross_entropy": labelled(of(functional.cross_entropy, reduction="none")),
    "smooth_l1": (lambda x: functional.smooth_l1_loss(x, x * 0.5), [ROWS]),
    # linear algebra
    "inverse": (paddle.inverse, [BATCH]),
    "solve": (lambda x: paddle.linalg.solve(x, x), [BATCH]),
    "svd": (lambda x: paddle.linalg.svd(x)[1], [MATRICES]),
    "qr": (lambda x: paddle.linalg.qr(x)[1], [MATRICES]),
    "fft": (lambda x: paddle.abs(paddle.fft.rfft(x)), [WORDS]),
}


def run_of(name: str, with_derivatives: bool) -> Callable[[], Any]:
    """Build the operator's program; return a function that runs it once."""
    made, arrays = OPERATORS[name]
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup), static.scope_guard(scope):
        given = [static.data(f"x{n}", a.shape, a.dtype.name) for n, a in enumerate(arrays)]
        wrt = [x for x, a in zip(given, arrays, strict=True) if a.dtype.kind == "f"]
        for x in wrt:
            x.stop_gradient = False
        out = made(*given)
        fetches = [out]
        if with_derivatives:
            of_all = [*wrt, *main.all_parameters()]
            found = static.gradients([paddle.mean(out * out)], of_all)
            # a scalar for each, so that no copy is measured
            fetches = [paddle.sum(each) for each in found if each is not None]
            if not fetches:
                raise ValueError("it has no derivatives")
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
    feed = {f"x{n}": array for n, array in enumerate(arrays)}

    def run() -> Any:
        return executor.run(main, feed=feed, fetch_list=fetches, scope=scope)

    run()
    return run


def main() -> None:
    paddle.enable_static()
    print(json.dumps(list(OPERATORS)), flush=True)
    runs: dict[tuple[str, bool], Callable[[], Any]] = {}
    for line in sys.stdin:
        name, with_derivatives, seconds = json.loads(line)
        key = name, with_derivatives
        try:
            run = runs.get(key) or run_of(*key)
            runs = {key: run}
            times: list[float] = []
            ends = time.perf_counter() + seconds
            while not times or time.perf_counter() < ends:
                began = time.perf_counter()
                run()
                times.append(time.perf_counter() - began)
            print(json.dumps(statistics.median(times)), flush=True)
        except Exception as error:
            print(json.dumps(f"{type(error).__name__}: {error}".splitlines()[0][:120]), flush=True)


if __name__ == "__main__":
    main()
