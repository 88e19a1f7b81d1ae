"""Automatic buckets: images and texts of any size give few programs and the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import nn, static
from graphopt.buckets import Buckets, automatic, one_of, sparing
from graphopt.runtime.host.failures import GivenUp
from graphopt.runtime.host.form import HostForm
from graphopt.runtime.runners.met_sizes import MOST_AT_ONCE, MetSizes
from graphopt.runtime.settings.flags import TIER
from graphopt_tests.runtime.bucket_runs import (
    Built,
    Feed,
    assert_close,
    assert_same,
    run,
    run_unasked,
)


def images() -> Built:
    """Build a trained net of images: down, a gate by a global mean, up, and a classifier."""
    x = static.data("x", [None, 2, None, None], "float32")
    small = nn.Conv2D(2, 4, 3, stride=2, padding=1)(x)
    gate = F.sigmoid(nn.Conv2D(4, 4, 1)(F.adaptive_avg_pool2d(small, 1)))
    large = nn.Conv2DTranspose(4, 2, 2, stride=2)(F.hardswish(small * gate))
    mask = F.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
    top = F.max_pool2d(mask, 3, stride=2, padding=1)
    scores = static.nn.fc(F.adaptive_max_pool2d(top, 1), 3)
    loss = paddle.mean(large * large) + paddle.mean(scores)
    paddle.optimizer.SGD(0.1).minimize(loss)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        shape = (rows, 2, 4 * length, 2 * length + 8)
        return {"x": generator.normal(size=shape).astype("float32")}

    return [loss, large, scores], feed


@pytest.mark.exhaustive
def test_images_in_training() -> None:
    """Gradients and updates equal those without padding."""
    buckets = Buckets({"batch": one_of(4)}, others=one_of(24, 32))
    assert assert_same(images, buckets)["exact"] == []


def texts() -> Built:
    """Build tokens and a mask with the same open axes."""
    tokens = static.data("tokens", [None, None], "int64")
    mask = static.data("mask", [None, None], "float32")
    hidden = nn.Embedding(12, 8)(tokens) * paddle.unsqueeze(mask, 2)
    return [paddle.sum(hidden, axis=1), F.softmax(hidden, axis=1)], lambda generator, rows, n: {
        "tokens": generator.integers(0, 12, (rows, n)),
        "mask": generator.integers(0, 2, (rows, n)).astype("float32"),
    }


@pytest.mark.exhaustive
def test_a_compiled_size_serves_smaller_ones() -> None:
    """Of five sizes, the third and the fifth run in earlier, larger programs."""
    found, _, stats = run(texts, automatic(reuse=8.0))
    expected, _, exact = run(texts, None)
    for mine, theirs in zip(found, expected, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    assert stats["exact"] == []
    # and the startup program
    assert (exact["compiled_shapes"], stats["compiled_shapes"]) == (6, 3)


def test_feeds_that_disagree_run_unpadded() -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        a = static.data("a", [None, None], "float32")
        b = static.data("b", [None, None], "float32")
        out = paddle.sum(a) + paddle.sum(b)
    executor = static.Executor(buckets=automatic())
    feed = {"a": np.ones((2, 3), "float32"), "b": np.ones((2, 4), "float32")}
    assert executor.run(main, feed=feed, fetch_list=[out])[0] == 14
    assert executor.stats["exact"] == [
        "feeds-disagree: feed 'b' has 4 rows of 'axis 1', another one 3"
    ]


def test_images_of_other_sizes_run_unpadded() -> None:
    """An odd height changes on its way down and up, which is an error as without buckets."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [1, 2, None, 8], "float32")
        half = F.max_pool2d(x, 2, stride=2, ceil_mode=True)
        out = F.interpolate(half, scale_factor=2, mode="nearest") + x
    executor = static.Executor(buckets=Buckets({}, others=one_of(12)))
    (found,) = executor.run(main, feed={"x": np.ones((1, 2, 10, 8), "float32")}, fetch_list=[out])
    assert found.shape == (1, 2, 10, 8)
    with pytest.raises(paddle.errors.FeedError, match="add"):
        executor.run(main, feed={"x": np.ones((1, 2, 9, 8), "float32")}, fetch_list=[out])
    assert executor.stats["exact"] == ["sizes-disagree: (axis 2+1)//2*2 and axis 2 are 10 and 9"]


def test_sparing_sizes() -> None:
    """Sizes grow by powers of two, with at most the given share of padding."""
    fit = sparing(0.12)
    for rows in range(1, 3000):
        assert rows <= fit(rows) <= rows * 1.12 + 1
        assert fit(fit(rows)) == fit(rows)
    assert len({fit(rows) for rows in range(512, 1025)}) <= 17
    with pytest.raises(ValueError, match="between 0 and 1"):
        sparing(1.5)
    with pytest.raises(ValueError, match="reuse should be 1 or more"):
        automatic(reuse=0.5)


def recognizer() -> Built:
    """Build words from image columns, reshaped by sizes that the program reads; and a mean."""
    x = static.data("x", [None, 2, 4, None], "float32")
    columns = F.relu(nn.Conv2D(2, 3, (4, 3), padding=(0, 1))(x))
    size = paddle.shape(columns)
    words = paddle.transpose(paddle.flatten(columns, 2, 3), [0, 2, 1])
    zero, one, three = (paddle.full([1], n, "int32") for n in (0, 1, 3))
    again = paddle.reshape(words * 2.0, paddle.concat([zero, one, size[3:4], three]))
    mean = paddle.sum(columns, axis=3) / paddle.cast(size[3], "float32")
    return [again, mean, size], lambda generator, rows, length: {
        "x": generator.normal(size=(rows, 2, 4, length)).astype("float32")
    }


@pytest.mark.exhaustive
def test_sizes_as_values() -> None:
    """A size used as a number is the data's; a size used in a reshape is the array's."""
    buckets = Buckets({"batch": one_of(4)}, others=one_of(8))
    assert assert_same(recognizer, buckets)["exact"] == []


def run_in_numpy(build: Callable[[], Built], buckets: Buckets) -> tuple[Any, ...]:
    """Run as `run`, in NumPy's form."""
    paddle.set_flags({TIER: "host"})
    try:
        return run(build, buckets)
    finally:
        paddle.set_flags({TIER: "full"})


def test_numpy_computes_no_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy gets unpadded feeds, with the numbers of a compiled program on padded ones."""

    def rows() -> Built:
        fetches, feed = recognizer()
        return [*fetches, paddle.reshape(fetches[0], [-1, 3])], feed

    seen, call = list[Any](), HostForm.__call__

    def watched(form: HostForm, updated: Any, read_only: Any, fed: Any, key: Any) -> Any:
        seen.extend(each.shape[3] for each in fed if np.ndim(each) == 4)
        return call(form, updated, read_only, fed, key)

    monkeypatch.setattr(HostForm, "__call__", watched)
    buckets = Buckets({"batch": one_of(4)}, others=one_of(8))
    wanted, state, _ = run(rows, buckets)
    assert not seen
    found, after, stats = run_in_numpy(rows, buckets)
    assert_close(wanted, state, found, after)
    assert (seen, stats["exact"], stats["padding"]) == ([5, 8, 3, 7, 2], [], 0)


def test_what_numpy_gives_up_runs_with_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled form that takes over is compiled for padded sizes."""
    buckets = Buckets({"batch": one_of(4)}, others=one_of(8))
    wanted, state, _ = run(recognizer, buckets)
    call, runs = HostForm.__call__, iter(range(99))

    def gives_up(form: HostForm, *arguments: Any) -> Any:
        if next(runs) == 2:
            raise GivenUp
        return call(form, *arguments)

    monkeypatch.setattr(HostForm, "__call__", gives_up)
    found, after, stats = run_in_numpy(recognizer, buckets)
    assert_close(wanted, state, found, after)
    assert stats["exact"] == [] and stats["padding"] > 0


def sized() -> Built:
    """Build tensors with a feed's sizes: a number, two axes, a weight and a product."""
    x = static.data("x", [None, None], "float32")
    weight = static.create_parameter([1, 3], "float32")
    rows, columns = paddle.shape(x)[0], paddle.shape(x)[1]
    one = paddle.full([columns], 2, "int32")
    both = paddle.zeros([2, rows, columns]) + x
    wide = paddle.expand(weight, [rows, 3]) * paddle.sum(x, axis=1, keepdim=True)
    product = paddle.sum(paddle.ones([rows, 4, 1]), axis=[0, 2])
    loss = paddle.sum(wide * wide)
    paddle.optimizer.SGD(0.1).minimize(loss)
    fetches = [one, both, wide, product, loss]
    return fetches, lambda generator, rows, length: {
        "x": generator.normal(size=(rows, length)).astype("float32")
    }


@pytest.mark.exhaustive
def test_tensors_of_a_size_that_is_read() -> None:
    """Tensors of a size that is read get the padding rows, which have no effect."""
    buckets = Buckets({"batch": one_of(4)}, others=one_of(8))
    assert assert_same(sized, buckets)["exact"] == []


def test_tensors_of_a_size_that_is_computed_run_exactly() -> None:
    """A computed size must be known at compile time, so it is not padded."""

    def build() -> Built:
        x = static.data("x", [None, None], "float32")
        weight = static.create_parameter([1], "float32")
        twice = paddle.shape(x)[1] * 2
        return [x * weight, paddle.zeros([twice])], lambda generator, rows, length: {
            "x": generator.normal(size=(rows, length)).astype("float32")
        }

    _, _, stats = run(build, Buckets({"batch": one_of(4)}, others=one_of(8)))
    assert any("size-of-tensor" in reason for reason in stats["exact"])


PRICE = 1.0
SIZES: list[tuple[str, int, float, float | None, float | None, bool]] = [
    # the case, runs with padding so far, the seconds of each, the price, NumPy's seconds, exact
    ("new, and NumPy has cost less than twice compiling", 0, 0.0, PRICE, 1.9, True),
    ("new, and NumPy has cost more", 0, 0.0, PRICE, 2.1, False),
    ("new, and NumPy computes none", 0, 0.0, PRICE, None, False),
    ("new, and no time may decide", 0, 0.0, None, 0.0, False),
    ("its first run, which may have compiled, took long", 1, 9.0, PRICE, 0.0, False),
    ("its padded runs took less than four times the price", 4, PRICE, PRICE, 0.0, False),
    ("they took longer", 6, PRICE, PRICE, None, True),
    ("no time may decide, and it has come 256 times", 257, PRICE, None, None, False),
    ("no time may decide, and it has come more often", 258, PRICE, None, None, True),
]


@pytest.mark.parametrize("row", SIZES, ids=lambda row: row[0])
def test_which_sizes_of_a_predictor_run_as_they_are(
    row: tuple[str, int, float, float | None, float | None, bool],
) -> None:
    """The first two sizes, sizes that are cheap in NumPy, and frequent sizes run unpadded."""
    _, runs, seconds, price, in_numpy, is_exact = row
    sizes = MetSizes(trains=False)
    for _ in range(runs):
        sizes.ran_padded((3,), seconds)
    assert sizes.pays_exact((3,), price, lambda: in_numpy) is is_exact


def test_few_sizes_run_as_they_are_because_numpy_computes_them() -> None:
    sizes, found = MetSizes(trains=False), 0
    for n in range(MOST_AT_ONCE + 9):
        if sizes.pays_exact((n,), PRICE, lambda: 0.0):
            sizes.add_exact((n,))
            found += 1
    assert found == MOST_AT_ONCE


def test_a_size_that_runs_as_it_is_does_so_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a training, the first two do, and every size that was once exact stays so."""
    sizes, pays = MetSizes(trains=True), True
    monkeypatch.setattr(MetSizes, "pays_exact", lambda *_: pays)
    given = [{"x": np.zeros((rows, 2))} for rows in (1, 2, 3, 4)]
    dims: dict[str, tuple[str | None, ...]] = {"x": ("batch", None)}
    ran = [sizes.run_exact(each, dims, (), repeats=False) for each in given[:3]]
    pays = False
    ran += [sizes.run_exact(each, dims, (), repeats=False) for each in given]
    assert ran == [True, True, True, True, True, True, False]


class Costs:
    """Stand in for the executables of a program that NumPy computes, for `host_seconds` so far."""

    def __init__(self) -> None:
        self.compiled = SimpleNamespace(price=PRICE, masked=None)
        self.costs = SimpleNamespace(host_seconds=0.0)


def run_lengths(*runs: tuple[int, float]) -> list[tuple[bool, bool]]:
    """Feed texts of these lengths, which take NumPy these seconds; return exact and paid by run."""
    sizes = MetSizes(trains=False)
    own: Any = Costs()
    dims: dict[str, tuple[str | None, ...]] = {"x": (None, "axis 1")}
    found: list[tuple[bool, bool]] = []
    for length, seconds in runs:
        feeds = {"x": np.zeros((1, length))}
        is_exact = sizes.run_exact(feeds, dims, [own], repeats=False)
        found.append((is_exact, sizes.has_paid))
        own.costs.host_seconds += seconds if is_exact else 0.0
    return found


FIRST = [(3, 0.01), (4, 0.01)]
EXACT, PADDED = (True, False), (False, True)


def test_sizes_that_one_program_would_serve_pay_for_it_together() -> None:
    """The third length begins a group; four more are up to half as long, and the last one pays."""
    alike = [(64, 0.6), (60, 0.6), (50, 0.5), (40, 0.5), (63, 0.5)]
    assert run_lengths(*FIRST, *alike) == [EXACT] * 6 + [PADDED]


def test_sizes_that_one_program_would_not_serve_pay_alone() -> None:
    assert run_lengths(*FIRST, *[(16 * 4**n, 1.9) for n in range(6)]) == [EXACT] * 8


def test_a_size_that_takes_most_of_the_time_is_not_padded() -> None:
    """It is compiled for itself, and has then paid for no other size of its group."""
    ran = run_lengths(*FIRST, (60, 0.8), *[(64, 0.9)] * 9, (60, 0.8), (59, 0.8), (58, 0.8))
    assert ran == [EXACT] * 14 + [PADDED]


def dimensions(*shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[str | None, ...]]:
    """Return the dimensions of feeds with open axes, after runs with these shapes."""
    sizes_met = MetSizes(trains=False)
    by_position: dict[str, tuple[str | None, ...]] = {}
    for shape in shapes:
        by_position = {
            name: tuple("batch" if at == 0 else f"axis {at}" for at in range(len(sizes)))
            for name, sizes in shape.items()
        }
        sizes_met.note(by_position, {name: np.zeros(sizes) for name, sizes in shape.items()})
    return sizes_met.dims_by_sizes(by_position)


def test_which_open_axes_are_one_dimension() -> None:
    """Axes with equal sizes in each run are one dimension; later axes must have varied."""
    assert dimensions({"x": (4, 8)}) == {"x": ("batch", None)}
    assert dimensions({"x": (4, 8, 3)}, {"x": (4, 9, 3)}) == {"x": ("batch", "axis 1", None)}
    words = {"words": (4, 8), "mask": (4, 8, 8)}
    assert dimensions(words, {"words": (4, 9), "mask": (4, 9, 9)}) == {
        "words": ("batch", "axis 1"),
        "mask": ("batch", "axis 1", "axis 1"),
    }
    texts = {"source": (4, 8), "target": (4, 7), "labels": (4, 7)}
    assert dimensions(texts, {"source": (4, 9), "target": (4, 5), "labels": (4, 5)}) == {
        "source": ("batch", "axis 1"),
        "target": ("batch", "axis 1 of target"),
        "labels": ("batch", "axis 1 of target"),
    }
    # two that were equal by chance
    met = {"a": (4, 8), "b": (4, 8)}, {"a": (4, 9), "b": (4, 9)}, {"a": (4, 9), "b": (4, 7)}
    assert dimensions(*met) == {"a": ("batch", "axis 1"), "b": ("batch", "axis 1 of b")}


def tagger() -> Built:
    """Build a trained tagger: tokens with a label each, and a mask of tokens by tokens."""
    tokens = static.data("tokens", [None, None], "int64")
    mask = static.data("mask", [None, None, None], "float32")
    labels = static.data("labels", [None, None], "int64")
    hidden = nn.Embedding(12, 8)(tokens)
    scores = paddle.matmul(hidden, hidden, transpose_y=True) + mask
    out = nn.Linear(8, 3)(paddle.matmul(F.softmax(scores), hidden))
    loss = F.cross_entropy(out, labels, ignore_index=-100)
    paddle.optimizer.Adam(0.1).minimize(loss)

    def feed(generator: Any, rows: int, length: int) -> Feed:
        causal = np.triu(np.full((length, length), -1e4, "float32"), 1)
        tokens = generator.integers(0, 12, (rows, length))
        return {
            "tokens": tokens,
            "mask": np.broadcast_to(causal, (rows, length, length)).copy(),
            "labels": np.where(tokens == 0, -100, tokens % 3),
        }

    return [loss, out], feed


@pytest.mark.exhaustive
@pytest.mark.parametrize("build", [tagger, images, sized], ids=lambda build: build.__name__)
def test_a_training_of_ever_new_sizes(build: Any) -> None:
    """From the second length on, the batches of a training are padded."""
    sizes = ((3, 8), (3, 10), (3, 12), (3, 11), (2, 9), (3, 8))
    wanted, state, exact = run(build, None, sizes)
    found, changed, stats = run_unasked(build, sizes)
    assert_close(wanted, state, found, changed)
    assert stats["exact"] == []
    assert stats["padding"] > 0
    # the first size and the startup program run as they are
    assert (exact["compiled_shapes"], stats["compiled_shapes"]) == (6, 4)


@pytest.mark.exhaustive
def test_a_training_from_a_seed_that_goes_on_from_its_middle() -> None:
    """Padding depends on the batch's sizes alone, so a resumed training gives the same numbers."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 4
    with static.program_guard(main, startup):
        (loss, _), feed = tagger()
    generator = np.random.default_rng(1)
    batches = [feed(generator, 3, length) for length in (9, 12, 11, 9, 10, 11)]
    found: list[list[Any]] = []
    for middle in (0, 3):
        with static.scope_guard(static.Scope()):
            static.Executor().run(startup)
            found.append([])
            for part in (batches[:middle], batches[middle:]):
                executor = static.Executor()
                found[-1] += [
                    executor.run(main, feed=batch, fetch_list=[loss])[0] for batch in part
                ]
            stats = executor.stats
    np.testing.assert_array_equal(*found)
    # 9 and 11 run as 10 and 12, and 10 as it is
    assert (stats["padding"], stats["exact"]) == (2, [])


def test_a_training_from_a_seed_with_texts_without_words() -> None:
    """A feed without elements runs as it is, and changes nothing."""
    main, startup = static.Program(), static.Program()
    main.random_seed = 3
    with static.program_guard(main, startup):
        tokens = static.data("tokens", [None, None], "int64")
        loss = paddle.sum(nn.Embedding(4, 2)(tokens))
        paddle.optimizer.SGD(0.1).minimize(loss)
    executor = static.Executor()
    executor.run(startup)
    for length in (3, 0, 4, 0):
        (found,) = executor.run(main, {"tokens": np.zeros((2, length), "int64")}, [loss])
        assert bool(found) is bool(length)


@pytest.mark.exhaustive
def test_the_last_batch_of_an_epoch_runs_as_it_is() -> None:
    _, _, stats = run_unasked(tagger, ((3, 8), (3, 8), (1, 8), (3, 8), (1, 8)))
    assert "rows" not in stats
    assert stats["compiled_shapes"] == 3


def attend(hidden: Any, mask: Any) -> Any:
    """Attend to the rows that the mask leaves visible."""
    scores = paddle.matmul(hidden, hidden, transpose_y=True)
    return paddle.matmul(F.softmax(scores + mask), hidden)


def rotate(hidden: Any, columns: Any) -> Any:
    """Rotate rows by an angle that grows with the position."""
    speeds = paddle.to_tensor(np.array([1.0, 0.1, 0.01, 0.001], "float32"))
    angles = paddle.einsum("i,j->ij", paddle.arange(columns, dtype="float32"), speeds)
    angles = paddle.concat([angles, angles], axis=-1)
    return hidden * paddle.cos(angles) + hidden * paddle.sin(angles)


def mask_ends(hidden: Any, words: Any, columns: Any) -> Any:
    """Set rows to 0 after the last nonzero word."""
    lengths = paddle.sum(paddle.cast(words != 0, "int64"), axis=1)
    mask = F.sequence_mask(lengths, maxlen=columns, dtype="float32")
    return hidden * paddle.expand_as(paddle.unsqueeze(mask, -1), hidden)


def number(words: Any, columns: Any) -> Any:
    """Embed the position of each word."""
    row = paddle.unsqueeze(paddle.arange(columns), 0)
    return nn.Embedding(64, 8)(paddle.expand(row, [paddle.shape(words)[0], columns]))


def shift(hidden: Any) -> Any:
    """Shift rows by one position."""
    return paddle.concat([paddle.zeros_like(hidden[:, :1]), hidden[:, :-1]], axis=1)


# what texts are made of; each takes words, a row for each of them, and their number
IDIOMS: dict[str, Any] = {
    "a triangle of a filled tensor": lambda words, hidden, columns: attend(
        hidden, paddle.triu(paddle.full([columns, columns], -1e4, "float32"), 1)
    ),
    "causal attention": lambda words, hidden, columns: F.scaled_dot_product_attention(
        *[paddle.reshape(hidden, [0, 0, 2, 4])] * 3, is_causal=True
    ),
    "positions": lambda words, hidden, columns: hidden + number(words, columns),
    "rotations": lambda words, hidden, columns: rotate(hidden, columns),
    "a mask by lengths": lambda words, hidden, columns: mask_ends(hidden, words, columns),
    "rows shifted": lambda words, hidden, columns: shift(hidden) * hidden,
    "differences of rows": lambda words, hidden, columns: hidden[:, 1:] - hidden[:, :-1],
    "sums of products": lambda words, hidden, columns: paddle.einsum(
        "bid,bjd->bi", hidden, paddle.tanh(hidden)
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", IDIOMS)
def test_texts(name: str) -> None:
    """Common idioms of texts are padded, and train as without padding."""

    def build() -> Built:
        words = static.data("words", [None, None], "int64")
        out = IDIOMS[name](words, nn.Embedding(12, 8)(words), paddle.shape(words)[1])
        loss = paddle.mean(out * out)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return [loss, out], lambda generator, rows, length: {
            "words": generator.integers(0, 12, (rows, length))
        }

    few = ((3, 5), (2, 3), (2, 4))
    assert assert_same(build, Buckets({"batch": one_of(4)}, others=one_of(8)), few)["exact"] == []


def test_a_table_may_be_shorter_than_the_padding() -> None:
    """A table is not sliced by a padded size, so the program runs unpadded."""

    def build() -> Built:
        x = static.data("x", [None, None, 2], "float32")
        table = static.create_parameter([6, 2], "float32")
        return [x + table[: paddle.shape(x)[1]]], lambda generator, rows, length: {
            "x": generator.normal(size=(rows, length, 2)).astype("float32")
        }

    buckets = Buckets({"batch": one_of(4)}, others=one_of(8))
    assert any("size-of-tensor" in reason for reason in run(build, buckets, ((3, 5),))[2]["exact"])
