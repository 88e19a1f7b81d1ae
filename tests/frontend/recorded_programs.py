"""Programs with results recorded from Paddle, in `tests/data/recorded`.

    python tests/frontend/recorded_programs.py

records them, run by an interpreter that has Paddle 2.6.2. Each function builds a program: it calls
`feed(name, array)` for its inputs, and returns its results by name. `test_recorded_programs.py`
compares them with graphopt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[1] / "data" / "recorded"
Feed = Callable[[str, Any], Any]
Values = dict[str, Any]


def regions(paddle: Any, feed: Feed) -> Values:
    """Pool over boxes, and apply deformable convolutions (paddle.vision.ops)."""
    ops, chance = paddle.vision.ops, np.random.RandomState(0)
    x = feed("x", chance.rand(2, 8, 6, 6).astype("float32"))
    boxes = np.array([[0, 0, 3, 3], [1, 1, 5, 5], [0.5, 1, 4, 2.5]], "float32")
    boxes, count = feed("boxes", boxes), feed("count", np.array([1, 2], "int32"))
    offset = feed("offset", (chance.rand(2, 18, 4, 4) - 0.5).astype("float32"))
    mask = feed("mask", chance.rand(2, 9, 4, 4).astype("float32"))
    weight = feed("weight", chance.rand(3, 8, 3, 3).astype("float32"))
    return {
        "align": ops.roi_align(x, boxes, count, 2),
        "align_unaligned": ops.roi_align(x, boxes, count, (2, 3), 0.5, 2, False),
        "pool": ops.roi_pool(x, boxes, count, 2),
        "layer": ops.RoIAlign(2, 0.5)(x, boxes, count),
        "deformed": ops.deform_conv2d(x, offset, weight, mask=mask),
        "deformed_without_mask": ops.deform_conv2d(x, offset, weight),
    }


def boxes(paddle: Any, feed: Feed) -> Values:
    """Build anchors, decode them, and choose boxes (paddle.vision.ops)."""
    ops, chance = paddle.vision.ops, np.random.RandomState(0)

    def drawn(name: str, *shape: int) -> Any:
        return feed(name, chance.rand(*shape).astype("float32"))

    found: Values = {}
    size = feed("size", np.array([[64, 64]], "int32"))
    anchors = [10, 13, 16, 30]
    found["yolo"], found["yolo_scores"] = ops.yolo_box(
        drawn("yolo_x", 1, 16, 2, 2), size, anchors, 2, 0.01, 32, iou_aware=True
    )
    map = drawn("map", 1, 14, 2, 2)
    truth = feed("truth", (chance.rand(1, 3, 4) * 0.5 + 0.1).astype("float32"))
    label = feed("label", np.array([[0, 1, 1]], "int32"))
    found["yolo_loss"] = ops.yolo_loss(map, truth, label, [*anchors, 33, 23], [0, 1], 2, 0.7, 32)
    image = drawn("image", 1, 3, 32, 32)
    found["prior"], found["prior_variance"] = ops.prior_box(
        map, image, [8.0], [16.0], [1.0, 2.0], flip=True
    )
    corners = np.array([[0.1, 0.2, 0.5, 0.6], [0.3, 0.3, 0.6, 0.9], [0, 0, 0.4, 0.4]], "float32")
    prior, target = feed("prior_corners", corners), feed("target", corners[:2] + 0.05)
    found["code"] = ops.box_coder(prior, [0.1, 0.1, 0.2, 0.2], target)
    five = [[0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30], [21, 20, 31, 30], [0, 0, 9, 9]]
    rows = feed("rows", np.array(five, "float32"))
    scores = feed("scores", np.array([0.5, 0.6, 0.3, 0.9, 0.1], "float32"))
    found["nms"], found["nms_scores"] = ops.nms(rows, 0.5), ops.nms(rows, 0.5, scores)
    numbers = feed("numbers", np.array([2, 3], "int32"))
    levels, restore, counts = ops.distribute_fpn_proposals(rows, 2, 3, 2, 8, rois_num=numbers)
    found |= {f"level_{i}": level for i, level in enumerate(levels)}
    found |= {f"count_{i}": count for i, count in enumerate(counts)} | {"restore": restore}
    batch = feed("batch", np.array([five], "float32"))
    found["matrix"], found["matrix_count"], found["matrix_index"] = ops.matrix_nms(
        batch, drawn("classes", 1, 2, 5), 0.1, 0.05, 5, 5, background_label=-1, return_index=True
    )
    places = np.mgrid[:3, :3].transpose(1, 2, 0)[:, :, None, [0, 1, 0, 1]] * 8
    sizes = np.array([[0, 0, 8, 8], [0, 0, 12, 6]])
    found["proposals"], found["proposal_scores"], found["proposal_count"] = ops.generate_proposals(
        drawn("rpn", 1, 2, 3, 3),
        drawn("deltas", 1, 8, 3, 3),
        feed("shape", np.array([[24.0, 24.0]], "float32")),
        feed("anchors", (places + sizes).astype("float32")),
        feed("variances", np.ones((3, 3, 2, 4), "float32")),
        *(12, 6, 0.5, 0.1),
        return_rois_num=True,
    )
    return found


def graphs(paddle: Any, feed: Feed) -> Values:
    """Send messages along edges, and reduce segments (paddle.geometric)."""
    geometric, chance = paddle.geometric, np.random.RandomState(0)
    x = feed("x", chance.rand(4, 3).astype("float32"))
    y = feed("y", chance.rand(5, 1).astype("float32"))
    start = feed("start", np.array([0, 1, 2, 0, 3], "int64"))
    end = feed("end", np.array([1, 2, 1, 0, 1], "int64"))
    ids = feed("ids", np.array([0, 0, 2, 2], "int64"))
    found: Values = {}
    for kind in ("sum", "mean", "min", "max"):
        found[f"sent_{kind}"] = geometric.send_u_recv(x, start, end, kind)
        found[f"segment_{kind}"] = getattr(geometric, f"segment_{kind}")(x, ids)
    for kind in ("add", "sub", "mul", "div"):
        found[f"edges_{kind}"] = geometric.send_ue_recv(x, y, start, end, kind, "max", 6)
        found[f"ends_{kind}"] = geometric.send_uv(x, x, start, end, kind)
    return found


def transforms(paddle: Any, feed: Feed) -> Values:
    """Apply Fourier transforms, with each norm, sizes and axes (paddle.fft)."""
    fft, chance = paddle.fft, np.random.RandomState(0)
    real = feed("real", chance.rand(3, 4, 5).astype("float32"))
    pairs = chance.rand(3, 4, 5) + 1j * chance.rand(3, 4, 5)
    pairs = feed("pairs", pairs.astype("complex64"))
    whole = feed("whole", chance.randint(0, 9, (4, 6)))
    found: Values = {}
    for name in ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft"):
        x = pairs if name in ("irfft", "hfft") else real
        one, two, many = (getattr(fft, f"{name}{end}") for end in ("", "2", "n"))
        for norm in ("backward", "forward", "ortho"):
            found[f"{name}_{norm}"] = one(x, norm=norm)
        found[f"{name}_cut"], found[f"{name}_long"] = one(x, 3, 1), one(x, 7)
        found[f"{name}2"], found[f"{name}n"] = two(x), many(x, [2, 6], [0, 2])
        found[f"{name}n_all"] = many(x)
        if x is real:
            found[f"{name}_int"] = one(whole)
    found["fft_complex"], found["ifftn_complex"] = fft.fft(pairs), fft.ifftn(pairs, [3, 4])
    found["frequencies"], found["odd_frequencies"] = fft.fftfreq(6, 0.5), fft.fftfreq(5)
    found["half_frequencies"] = fft.rfftfreq(7, 2.0)
    found["shift"], found["unshift"] = fft.fftshift(real), fft.ifftshift(real, 2)
    return found


def signals(paddle: Any, feed: Feed) -> Values:
    """Apply short-time Fourier transforms and their inverses (paddle.signal)."""
    signal, chance = paddle.signal, np.random.RandomState(0)
    x = feed("x", chance.rand(2, 40).astype("float32"))
    window = feed("window", np.hanning(8).astype("float32"))
    one = feed("one", chance.rand(30).astype("float64"))
    spectra = signal.stft(x, 8, 2)
    windowed = signal.stft(x, 10, 3, 8, window, normalized=True)
    return {
        "stft": spectra,
        "windowed": windowed,
        "one": signal.stft(one, 6, center=False, onesided=False),
        "constant": signal.stft(one, 6, pad_mode="constant"),
        "back": signal.istft(spectra, 8, 2),
        "windowed_back": signal.istft(windowed, 10, 3, 8, window, normalized=True, length=30),
        "complex_back": signal.istft(
            signal.stft(x, 8, 2, onesided=False), 8, 2, onesided=False, return_complex=True
        ),
    }


def distributions(paddle: Any, feed: Feed) -> Values:
    """Compute everything but the samples of distributions (paddle.distribution)."""
    kinds, chance = paddle.distribution, np.random.RandomState(0)

    def drawn(name: str, *shape: int) -> Any:
        return feed(name, (chance.rand(*shape) * 0.8 + 0.1).astype("float32"))

    a, b, c, d = (drawn(name, 3) for name in "abcd")
    rows, others = drawn("rows", 2, 3), drawn("others", 2, 3)
    value, table = drawn("value", 3), drawn("table", 2, 3)
    shares = table / paddle.sum(table, -1, keepdim=True)
    counts = feed("counts", np.array([[1.0, 2.0, 1.0], [4.0, 0.0, 0.0]], "float32"))
    classes = feed("classes", np.array([2, 0], "int64"))
    pairs = {
        "normal": (kinds.Normal(a, b), kinds.Normal(c, d), value),
        "numbers": (kinds.Normal(1.0, 2.0), kinds.Normal(0.5, 1.0), value),
        "laplace": (kinds.Laplace(a, b), kinds.Laplace(c, d), value),
        "cauchy": (kinds.Cauchy(a, b), kinds.Cauchy(c, d), value),
        "gumbel": (kinds.Gumbel(a, b), None, value),
        "log_normal": (kinds.LogNormal(a, b), kinds.LogNormal(c, d), value),
        "uniform": (kinds.Uniform(a - 1.0, b + 1.0), None, value),
        "bernoulli": (kinds.Bernoulli(a), kinds.Bernoulli(b), feed("bits", np.eye(3, dtype="f4"))),
        "categorical": (kinds.Categorical(rows), kinds.Categorical(others), classes),
        "multinomial": (kinds.Multinomial(4, rows), None, counts),
        "beta": (kinds.Beta(a, b), kinds.Beta(c, d), value),
        "dirichlet": (kinds.Dirichlet(rows), kinds.Dirichlet(others), shares),
        "independent": (kinds.Independent(kinds.Normal(rows, others), 1), None, table),
        "geometric": (kinds.Geometric(a), kinds.Geometric(b), 2),
    }
    found: Values = {}
    for name, (one, other, at) in pairs.items():
        found[f"{name}_entropy"] = one.entropy()
        found[f"{name}_log"] = one.log_pmf(at) if name == "geometric" else one.log_prob(at)
        if name not in ("cauchy", "categorical", "uniform"):
            found[f"{name}_mean"], found[f"{name}_variance"] = one.mean, one.variance
        if name in ("laplace", "cauchy", "gumbel", "bernoulli", "geometric"):
            found[f"{name}_cdf"] = one.cdf(at)
        if other is not None:
            found[f"{name}_kl"] = kinds.kl_divergence(one, other)
    found["icdf"] = pairs["laplace"][0].icdf(value)
    found["probs"] = pairs["categorical"][0].probs(classes)
    return found


def random_variables(paddle: Any, feed: Feed) -> Values:
    """Apply transforms, their inverses and determinants (paddle.distribution)."""
    kinds, chance = paddle.distribution, np.random.RandomState(0)
    x = feed("x", (chance.rand(2, 3) * 0.8 + 0.1).astype("float32"))
    loc, scale = feed("loc", np.array([1, 2, 3], "f4")), feed("scale", np.array([2, -1, 4], "f4"))
    affine, exp = kinds.AffineTransform(loc, scale), kinds.ExpTransform()
    transforms = {
        "affine": affine,
        "chain": kinds.ChainTransform([affine, exp]),
        "exp": exp,
        "independent": kinds.IndependentTransform(exp, 1),
        "power": kinds.PowerTransform(feed("power", np.array(2.0, "f4"))),
        "reshape": kinds.ReshapeTransform((3,), (3, 1)),
        "sigmoid": kinds.SigmoidTransform(),
        "stack": kinds.StackTransform([exp, kinds.TanhTransform(), exp], 1),
        "sticks": kinds.StickBreakingTransform(),
        "tanh": kinds.TanhTransform(),
    }
    found: Values = {}
    for name, transform in transforms.items():
        y = transform.forward(x)
        found[name], found[f"{name}_back"] = y, transform.inverse(y)
        found[f"{name}_slope"] = transform.forward_log_det_jacobian(x)
    found["softmax"] = kinds.SoftmaxTransform().forward(x)
    found["absolute"] = kinds.AbsTransform().forward(-x)
    moved = kinds.TransformedDistribution(kinds.Normal(loc, paddle.exp(loc)), [exp])
    found["log_density"] = moved.log_prob(x)
    return found


PROGRAMS: dict[str, Callable[[Any, Feed], Values]] = {
    "regions": regions,
    "boxes": boxes,
    "graphs": graphs,
    "transforms": transforms,
    "signals": signals,
    "distributions": distributions,
    "random_variables": random_variables,
}


def results(paddle: Any, build: Callable[[Any, Feed], Values]) -> dict[str, Any]:
    """Run a program, and return its results as arrays by name."""
    arrays: dict[str, Any] = {}

    def feed(name: str, array: Any) -> Any:
        arrays[name] = array
        return paddle.static.data(name, array.shape, str(array.dtype))

    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        found = build(paddle, feed)
    executor = paddle.static.Executor(paddle.CPUPlace())
    if startup.global_block().ops:
        executor.run(startup)
    fetched = executor.run(main, arrays, list(found.values()), return_numpy=False)
    return {name: np.array(value) for name, value in zip(found, fetched, strict=True)}


# programs that static mode of Paddle 2.6.2 cannot build; its dynamic mode computes the results
DYNAMIC = ("signals", "distributions", "random_variables")


def main() -> None:
    """Record every program with the installed Paddle."""
    import paddle

    DATA.mkdir(exist_ok=True)
    for name, build in PROGRAMS.items():
        if name in DYNAMIC:
            paddle.disable_static()
            made = build(paddle, lambda _, array: paddle.to_tensor(array))
            found = {key: value.numpy() for key, value in made.items()}
        else:
            paddle.enable_static()
            found = results(paddle, build)
        np.savez_compressed(DATA / f"{name}.npz", **found)


if __name__ == "__main__":
    main()
