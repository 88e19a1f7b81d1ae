"""Decoders with fed caches: buffers between steps give the results of unbuffered runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import static
from graphopt.errors import FeedError
from graphopt.ir.program import unique_name
from graphopt.passes.padding.dims import CannotPad
from graphopt.runtime.feeds.buckets import powers_of_two
from graphopt.runtime.runners import decoder as decoders
from graphopt.runtime.state.buffers import HeldRows

Array = np.ndarray[Any, Any]
WIDTH, HEADS, WORDS, LONGEST = 8, 2, 11, 14


def attention(q: Any, k: Any, v: Any) -> Any:
    """Compute the softmax of scores, times values."""
    scores = paddle.matmul(q, k, transpose_y=True) * (WIDTH // HEADS) ** -0.5
    return paddle.matmul(F.softmax(scores), v)


def in_heads(x: Any) -> Any:
    """Reshape [batch, rows, width] to [batch, heads, rows, size]."""
    return paddle.transpose(paddle.reshape(x, [0, 0, HEADS, -1]), [0, 2, 1, 3])


def projected(x: Any) -> list[Any]:
    """Project queries, keys and values."""
    return [in_heads(static.nn.fc(x, WIDTH, num_flatten_dims=2)) for _ in range(3)]


def joined(x: Any) -> Any:
    """Join the heads of each row."""
    return paddle.reshape(paddle.transpose(x, [0, 2, 1, 3]), [0, 0, WIDTH])


def gpt() -> list[Any]:
    """Build a decoder whose learned positions are read after the cache's."""
    ids = static.data("ids", [-1, -1], "int64")
    keys, values = (
        static.data(name, [-1, HEADS, -1, WIDTH // HEADS], "float32") for name in ("k", "v")
    )
    past = paddle.shape(keys)[2]
    table = static.create_parameter([LONGEST, WIDTH], "float32")
    places = paddle.slice(table, [0], [past], [past + paddle.shape(ids)[1]])
    x = F.embedding(ids, static.create_parameter([WORDS, WIDTH], "float32")) + places
    q, k, v = projected(x)
    k, v = paddle.concat([keys, k], axis=2), paddle.concat([values, v], axis=2)
    x = x + joined(attention(q, k, v))
    return [static.nn.fc(x, WORDS, num_flatten_dims=2), k, v]


def t5() -> list[Any]:
    """Build a decoder that also attends to the fixed rows of an encoder."""
    ids = static.data("ids", [-1, 1], "int64")
    ek, ev, keys, values = (
        static.data(name, [-1, HEADS, -1, WIDTH // HEADS], "float32")
        for name in ("ek", "ev", "k", "v")
    )
    x = static.nn.embedding(ids, [WORDS, WIDTH])
    q, k, v = projected(x)
    k, v = paddle.concat([keys, k], axis=2), paddle.concat([values, v], axis=2)
    x = x + joined(attention(q, k, v))
    x = x + joined(attention(in_heads(x), ek, ev))
    return [static.nn.fc(x, WORDS, num_flatten_dims=2), k, v]


def beams() -> list[Any]:
    """Build a decoder that gathers the caches of the surviving beams."""
    ids, parents = static.data("ids", [-1, 1], "int64"), static.data("parents", [-1], "int64")
    keys, values = (
        static.data(name, [-1, HEADS, -1, WIDTH // HEADS], "float32") for name in ("k", "v")
    )
    q, k, v = projected(static.nn.embedding(ids, [WORDS, WIDTH]))
    k, v = paddle.concat([keys, k], axis=2), paddle.concat([values, v], axis=2)
    logits = static.nn.fc(joined(attention(q, k, v)), WORDS, num_flatten_dims=2)
    return [logits, *(paddle.gather(x, parents) for x in (k, v))]


class Model:
    """A decoder with its parameters, and its steps."""

    def __init__(self, build: Callable[[], list[Any]]) -> None:
        main, startup = static.Program(), static.Program()
        startup.random_seed = 3
        self.program, self.scope = main, static.Scope()
        with unique_name.guard(), static.program_guard(main, startup):
            self.fetches = build()
        self.executor = static.Executor(paddle.CPUPlace())
        self.executor.run(startup, scope=self.scope)
        self.other = static.Executor(paddle.CPUPlace())
        self.other._runner.keeps_caches = False  # pyright: ignore
        self.others: dict[str, Array] = {}

    def run(self, ids: int, k: Any, v: Any, executor: Any = None, **options: Any) -> list[Any]:
        """Run a step of two sequences, and return its fetches."""
        feed = {"ids": np.array([[ids % WORDS], [(ids + 3) % WORDS]]), "k": k, "v": v}
        return (executor or self.executor).run(
            *(self.program, feed | self.others, self.fetches), scope=self.scope, **options
        )

    def exact(self, ids: int, k: Any, v: Any) -> list[Array]:
        """Run a step without buffers."""
        return self.run(ids, np.array(k), np.array(v), self.other)


def caches(rows: int, seed: int = 0) -> list[Array]:
    """Draw keys and values of two sequences."""
    generator = np.random.default_rng(seed)
    shape = (2, HEADS, rows, WIDTH // HEADS)
    return [generator.standard_normal(shape).astype("float32") for _ in "kv"]


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use buffers of 4, 8, 16 rows, and run background work at once."""
    monkeypatch.setattr(decoders, "fit", powers_of_two(4))
    monkeypatch.setattr(decoders, "submit", lambda work: work.work())
    yield


@pytest.fixture(scope="module")
def model() -> Model:
    """Build a model that tests share."""
    return Model(gpt)


def started(model: Model, rows: int = 3, **options: Any) -> list[Any]:
    """Run two steps, after which a decoder is detected; return keys and values."""
    k, v = caches(rows)
    for ids in range(2):
        _, k, v = model.run(ids, k, v, **options)
    return [k, v]


def is_held(tensor: Any) -> bool:
    """True for a fetch that is the rows of a buffer."""
    return type(tensor._slot.value) is HeldRows


def assert_equal(found: list[Any], wanted: list[Any]) -> None:
    """Check that each fetch has the shape and the numbers of the other run."""
    for one, other in zip(found, wanted, strict=True):
        assert np.array(one).shape == other.shape
        np.testing.assert_allclose(np.array(one), other, rtol=1e-5, atol=1e-5)


ALL = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("build", "return_numpy"),
    [
        pytest.param(gpt, False, marks=ALL),
        pytest.param(gpt, True, marks=ALL),
        pytest.param(t5, False, marks=ALL),
        pytest.param(beams, True, marks=ALL),
    ],
)
def test_equal_at_every_length(build: Callable[[], list[Any]], return_numpy: bool) -> None:
    """Each size of buffers has one program, with the same numbers, fetched either way."""
    model = Model(build)
    if build is beams:
        model.others = {"parents": np.array([1, 0])}
    if build is t5:
        model.others = dict(zip(("ek", "ev"), caches(5, seed=1), strict=True))
    k, v = caches(3)
    for ids in range(8):
        wanted = model.exact(ids, k, v)
        found = model.run(ids, k, v, return_numpy=return_numpy)
        assert_equal(found, wanted)
        _, k, v = found
    assert model.executor.stats.get("caches", []) == ["kept in buffers: k, v"]
    decoder = next(d for d in all_decoders(model))
    assert [*decoder._ready] == [8, 16]


@pytest.mark.exhaustive
def test_saved_model() -> None:
    """A saved decoder has rotary positions, and one key-value head for two query heads."""
    path = Path(__file__).parents[1] / "data" / "models" / "infer_llama_cache"
    model = paddle.import_model(str(path / "model"))
    inputs = dict(np.load(path / "inputs.npz"))
    executor, other = (static.Executor(paddle.CPUPlace()) for _ in range(2))
    other._runner.keeps_caches = False  # pyright: ignore
    while inputs["c0"].shape[1] < 16:
        inputs["ids"] = (inputs["ids"] + 1) % 30
        fetches = (model.program, inputs, model.fetch_names)
        found, wanted = (each.run(*fetches, scope=model.scope) for each in (executor, other))
        assert_equal(found, wanted)
        _, inputs["c0"], inputs["c1"] = found
    assert executor.stats.get("caches", []) == ["kept in buffers: c0, c1"]


@pytest.mark.exhaustive
def test_a_known_size_has_buffers_once_the_decoder_is_found() -> None:
    model, (k, v) = Model(gpt), caches(4)
    model.run(1, k, v)
    found = model.run(1, k, v, return_numpy=False)
    assert not is_held(found[1])
    model.run(1, *found[1:])  # a row more than before
    found = model.run(1, k, v, return_numpy=False)
    assert is_held(found[1])
    assert_equal([np.array(each) for each in found], model.exact(1, k, v))


def all_decoders(model: Model) -> list[decoders.CachedDecoder]:
    """List the decoders of a model's executor."""
    met = model.executor._runner.decoders._met[model.program]  # pyright: ignore
    return [decoder for growth in met.values() for decoder in growth.decoders]


@pytest.mark.exhaustive
def test_no_copies(model: Model) -> None:
    """The fetches of all steps are rows of one buffer, which steps write in place."""
    k, v = started(model, return_numpy=False)
    assert is_held(k)
    buffer = k._slot.value.buffer
    before = buffer.array.unsafe_buffer_pointer()
    _, later, v = model.run(2, k, v, return_numpy=False)
    assert later._slot.value.buffer is buffer
    assert buffer.array.unsafe_buffer_pointer() == before
    assert k.shape() == [2, HEADS, 5, WIDTH // HEADS]
    np.testing.assert_array_equal(np.array(later)[:, :, :5], np.array(k))


def test_going_back(model: Model) -> None:
    """An older fetch can be fed again; later rows, of another sequence, stay valid."""
    k, v = started(model, return_numpy=False)
    kept = np.array(k)
    first = model.run(2, k, v, return_numpy=False)
    shown = np.array(first[1])
    second = model.run(7, k, v, return_numpy=False)
    assert_equal(second, model.exact(7, k, v))
    np.testing.assert_array_equal(np.array(first[1]), shown)
    np.testing.assert_array_equal(np.array(k), kept)
    assert_equal(model.run(3, *first[1:]), model.exact(3, *first[1:]))


def test_sequences_in_turns(model: Model) -> None:
    """Each sequence has its own buffers."""
    one, other = started(model, return_numpy=False), started(model, rows=4, return_numpy=False)
    for ids in range(3):
        for pair in (one, other):
            wanted = model.exact(ids, *pair)
            found = model.run(ids, *pair, return_numpy=False)
            assert_equal(found, wanted)
            pair[:] = found[1:]


@pytest.mark.exhaustive
def test_other_numbers_of_sequences_in_turns() -> None:
    """The sizes of a step are compared with several earlier steps."""
    model = Model(gpt)
    pairs = [caches(3), [each[:1] for each in caches(4)]]
    for ids in range(4):
        for pair, rows in zip(pairs, (2, 1), strict=True):
            feed = {"ids": np.full((rows, 1), ids), "k": pair[0], "v": pair[1]}
            pair[:] = model.executor.run(
                model.program, feed, model.fetches, scope=model.scope, return_numpy=False
            )[1:]
    assert all(map(is_held, pairs[0] + pairs[1]))
    assert len(all_decoders(model)) == 2


def test_arrays_that_a_script_writes(model: Model) -> None:
    """A fetched array is a copy: changes are fed, and affect no other array."""
    k, v = started(model)
    _, later, _ = model.run(2, k, v)
    shown = later.copy()
    k[:, :, 0] = 5.0
    assert_equal(model.run(2, k, v), model.exact(2, k, v))
    np.testing.assert_array_equal(later, shown)


def test_other_feeds(model: Model) -> None:
    """Lists, arrays of JAX, views, and caches of other lengths run as they are fed."""
    import jax.numpy as jnp

    k, v = started(model)
    wanted = model.exact(2, k, v)
    assert_equal(model.run(2, k.tolist(), jnp.asarray(v)), wanted)
    assert_equal(model.run(2, np.asfortranarray(k), v[:]), wanted)
    with pytest.raises(FeedError):
        model.run(2, k.astype("float64"), v)
    prompt = np.array([[1, 2], [3, 4]])
    feed = {"ids": prompt, "k": k, "v": v}
    found = model.executor.run(
        model.program, feed=feed, fetch_list=model.fetches, scope=model.scope
    )
    assert found[1].shape[2] == k.shape[2] + 2


@pytest.mark.exhaustive
def test_no_step_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy computes steps until a thread has compiled a form for buffers, the next size early."""
    model, work = Model(gpt), list[Any]()
    monkeypatch.setattr(decoders, "submit", work.append)
    monkeypatch.setenv("FLAGS_graphopt_tier", "auto")
    k, v = started(model, return_numpy=False)
    assert not is_held(k)
    assert len(work) == 1
    work.pop().work()
    sizes = [8, 8, 8, 16]
    for ids, size in enumerate(sizes, 2):
        _, k, v = model.run(ids, k, v, return_numpy=False)
        assert k._slot.value.buffer.size == size
        for each in work:
            each.work()
    assert len(work) == 1


def test_end_of_the_table(model: Model) -> None:
    """Past the last position there are no rows, with buffers or without."""
    k, v = caches(LONGEST - 2)
    for ids in range(2):
        _, k, v = model.run(ids, k, v)
    for run in (model.run, model.exact):
        logits, *_ = run(2, k, v)
        assert logits.shape == (2, 0, WORDS)


def test_step_that_fails(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed step its buffers are not reused, and their rows are not lost."""
    k, v = started(model, return_numpy=False)
    wanted = model.exact(2, k, v)
    decoder = all_decoders(model)[0]
    size = k._slot.value.buffer.size

    def fails(feeds: Any, scope: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setitem(decoder._ready, size, fails)
        with pytest.raises(KeyboardInterrupt):
            model.run(2, k, v)
    assert k._slot.value.buffer.count == -1
    assert_equal(model.run(2, k, v), wanted)


def test_threads(model: Model) -> None:
    """Two threads decode at once, each its own sequence."""
    errors: list[BaseException] = []

    def decode(rows: int) -> None:
        try:
            k, v = caches(rows, seed=rows)
            for ids in range(4):
                wanted = k
                _, k, v = model.run(ids, k, v, return_numpy=False)
                np.testing.assert_array_equal(np.array(k)[:, :, : rows + ids], np.array(wanted))
        except BaseException as error:
            errors.append(error)

    started(model)
    threads = [threading.Thread(target=decode, args=(rows,)) for rows in (3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def windowed() -> list[Any]:
    """Build a cache of which the last rows are read."""
    x, k = static.data("ids", [2, 1], "int64"), static.data("k", [2, HEADS, -1, 4], "float32")
    v = static.data("v", [2, HEADS, -1, 4], "float32")
    new = paddle.reshape(static.nn.embedding(x, [WORDS, WIDTH]), [2, HEADS, 1, 4])
    keys, values = paddle.concat([k, new], axis=2), paddle.concat([v, new], axis=2)
    return [paddle.sum(keys[:, :, -3:], axis=2), keys, values]


@pytest.mark.exhaustive
def test_refusal() -> None:
    """A program without proof runs without buffers; the statistics give the reason."""
    model = Model(windowed)
    k, v = caches(3)
    for ids in range(3):
        wanted = model.exact(ids, k, v)
        found = model.run(ids, k, v)
        assert_equal(found, wanted)
        _, k, v = found
    (reason,) = model.executor.stats.get("caches", [])
    assert reason.startswith("counts-rows: pd.slice")


def test_few_refusals() -> None:
    """After a few refusals, a program is not parsed for further sizes."""
    met, sizes = decoders.Decoders(), list[Any]()
    program = Model(windowed).program

    def refuses(types: Any) -> Any:
        sizes.append(types)
        raise CannotPad("counts-rows", "it cuts rows")

    for batch in range(1, 20):
        for rows in (3, 4):
            feeds = {"x": np.zeros((batch, rows))}
            assert met.meet(program, feeds, ("y",), refuses, runs_at_once=False) is None
    assert len(sizes) == decoders.MOST_REFUSED


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (gpt, "buffers for k, v are kept between steps; a step writes 1 row"),
        (windowed, "keep-caches: declined, counts-rows"),
    ],
)
def test_explain(build: Callable[[], list[Any]], text: str) -> None:
    """The report names the buffered caches, or the reason against them."""
    with unique_name.guard(), static.program_guard(static.Program(), static.Program()):
        fetches = build()
        shown = str(paddle.explain(static.default_main_program(), fetch_list=fetches))
    assert text in " ".join(shown.split())
