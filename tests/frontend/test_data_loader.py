"""DataLoader, its datasets and samplers, and the loaders of a program."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, io, static
from graphopt.errors import FeedError
from graphopt.io.dataset import Dataset
from graphopt_tests.frontend.test_fluid import fresh


class Squares(Dataset):
    """A dataset of pairs of [n, n, n] and [n * n]."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return np.full([3], idx, "float32"), np.array([idx * idx], "float32")


class Counted(io.IterableDataset):
    """A stream of numbers, of which each worker yields its share."""

    def __iter__(self) -> Iterator[Any]:
        info = io.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for n in range(first, 7, step):
            yield np.array([n])


class Failing(Squares):
    def __getitem__(self, idx: int) -> Any:
        raise KeyError("no such picture")


class Dying(Squares):
    def __getitem__(self, idx: int) -> Any:
        os._exit(3)


def squares_of(batches: Any) -> list[list[float]]:
    return [np.array(batch[1]).ravel().tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("buffered", [False, True])
def test_batches_of_a_dataset(workers: int, buffered: bool) -> None:
    """Fields are stacked, in order, in this process and in workers."""
    loader = io.DataLoader(
        Squares(5), batch_size=2, num_workers=workers, use_buffer_reader=buffered
    )
    assert len(loader) == 3
    assert squares_of(loader) == squares_of(loader()) == [[0, 1], [4, 9], [16]]


def test_workers_that_stay() -> None:
    """Persistent workers serve every epoch, even after one that was left early."""
    loader = io.DataLoader(Squares(6), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert squares_of(loader) == [[0, 1], [4, 9], [16, 25]]
    next(iter(loader))
    assert squares_of(loader) == [[0, 1], [4, 9], [16, 25]]


@pytest.mark.parametrize(("workers", "expected"), [(0, [[0, 1, 2], [3, 4, 5], [6]]), (2, None)])
def test_a_dataset_that_iterates(workers: int, expected: Any) -> None:
    """Samples of a stream come in order; workers share them by get_worker_info."""
    loader = io.DataLoader(Counted(), batch_size=3, num_workers=workers)
    found = [np.array(batch).ravel().tolist() for batch in loader]
    assert found == (expected or [[0, 2, 4], [1, 3, 5], [6]])
    with pytest.raises(ValueError, match="length of IterableDataset"):
        len(loader)


@pytest.mark.parametrize(
    ("dataset", "workers", "kind", "text"),
    [
        (Failing(2), 0, KeyError, "no such picture"),
        (Failing(2), 1, RuntimeError, "no such picture"),
        (Dying(2), 1, RuntimeError, "ended with code 3"),
    ],
)
def test_errors_reach_the_loop(dataset: Any, workers: int, kind: type, text: str) -> None:
    """An error of a dataset is raised in the loop; a worker's has its traceback."""
    with pytest.raises(kind, match=text):
        list(io.DataLoader(dataset, num_workers=workers))


def test_feeds_for_places() -> None:
    """Without `return_list` each place gets a feed, keyed by variable names."""
    with static.program_guard(static.Program()):
        names = [static.data(name, [None, n]) for name, n in (("x", 3), ("y", 1))]
        places = [paddle.CPUPlace()] * 2
        loader = io.DataLoader(
            Squares(6), feed_list=names, places=places, return_list=False, batch_size=2
        )
        found = [[np.array(feed["y"]).ravel().tolist() for feed in feeds] for feeds in loader]
        assert found == [[[0, 1], [4, 9]], [[16, 25]]]
        few = io.DataLoader(Squares(6), feed_list=names[:1], return_list=False)
        with pytest.raises(ValueError, match="has 2 arrays, but feed_list has 1"):
            list(few)
    with pytest.raises(AssertionError, match="feed_list should be set"):
        io.DataLoader(Squares(6), return_list=False)


def test_the_dataset_makes_batches() -> None:
    """With `batch_size` None the dataset's items are batches."""
    found = list(io.DataLoader(Squares(2), batch_size=None))
    assert [np.array(batch[0]).shape for batch in found] == [(3,), (3,)]


def test_datasets_of_datasets() -> None:
    """Datasets can be concatenated, zipped, chained, cut, built from tensors and split."""
    two = io.ConcatDataset([Squares(2), Squares(3)])
    assert len(two) == 5
    assert [two[i][1].item() for i in (1, 2, -1)] == [1, 0, 4]
    assert len(io.ComposeDataset([Squares(2), Squares(2)])[1]) == 4
    assert [n.item() for n in io.ChainDataset([Counted(), Counted()])] == [*range(7), *range(7)]
    assert io.Subset(Squares(5), [4, 2])[1][1].item() == 4
    assert io.TensorDataset([np.arange(4), np.arange(4) * 2])[3] == (3, 6)
    parts = io.random_split(Squares(5), [2, 3])
    assert sorted(int(p[i][0][0]) for p in parts for i in range(len(p))) == [0, 1, 2, 3, 4]
    with pytest.raises(AssertionError, match="lengths of datasets"):
        io.ComposeDataset([Squares(2), Squares(3)])


def test_samplers_draw_from_numpy() -> None:
    """A seed of NumPy gives Paddle's order, as Paddle draws the same way."""
    np.random.seed(5)
    found = list(io.RandomSampler(Squares(6)))
    np.random.seed(5)
    assert found == np.random.choice(np.arange(6), 6, replace=False).tolist()
    assert list(io.SequenceSampler(Squares(3))) == [0, 1, 2]
    assert set(io.WeightedRandomSampler([0, 1, 0, 2], 20)) == {1, 3}
    assert sorted(io.SubsetRandomSampler([7, 9])) == [7, 9]
    with pytest.raises(ValueError, match="num_samples should not be specified"):
        io.RandomSampler(Squares(3), num_samples=2)


@pytest.mark.parametrize("drop_last", [False, True])
def test_trainers_share_a_dataset(drop_last: bool) -> None:
    """Trainers get equally many batches, and together every sample."""
    samplers = [
        io.DistributedBatchSampler(Squares(11), 2, 3, rank, drop_last=drop_last)
        for rank in range(3)
    ]
    batches = [list(sampler) for sampler in samplers]
    assert {len(found) for found in batches} == {len(samplers[0])} == {2}
    assert {n for found in batches for batch in found for n in batch} == set(range(11))
    shuffled = io.DistributedBatchSampler(Squares(4), 2, 1, 0, shuffle=True)
    shuffled.set_epoch(1)
    first = list(shuffled)
    shuffled.set_epoch(1)
    assert first == list(shuffled) != list(shuffled)


def net() -> tuple[Any, Any, Any, Any]:
    x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1])
    loss = fluid.layers.mean(x) + fluid.layers.mean(y)
    exe = fluid.Executor(fluid.CPUPlace())
    return x, y, loss, exe


def samples() -> Iterator[Any]:
    for n in range(5):
        yield np.full([3], n, "float32"), np.array([n], "float32")


def run_epoch(loader: Any, program: Any, exe: Any, loss: Any) -> list[float]:
    loader.start()
    found: list[float] = []
    try:
        while True:
            (value,) = exe.run(program, fetch_list=[loss])
            found.append(float(np.mean(value)))
    except fluid.core.EOFException:
        loader.reset()
    return found


def test_a_loader_inside_a_program() -> None:
    """A loader starts, feeds runs until EOFException, and resets, on one device and on two."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y, loss, exe = net()
        loader = fluid.io.DataLoader.from_generator([x, y], capacity=2, iterable=False)
        loader.set_sample_generator(samples, batch_size=2, drop_last=False)
        program = fluid.default_main_program()
        for _ in range(2):
            assert run_epoch(loader, program, exe, loss) == [1, 5, 8]
        # clones read from the same loader
        assert run_epoch(loader, program.clone(for_test=True), exe, loss) == [1, 5, 8]
        both = fluid.CompiledProgram(program).with_data_parallel(places=[fluid.CPUPlace()] * 2)
        # the third batch has no second one beside it
        assert run_epoch(loader, both, exe, loss) == [3]
        with pytest.raises(FeedError, match=r"loader of x, y .*test_data_loader.py:.* not started"):
            exe.run(program, fetch_list=[loss])
        fed = {"x": np.zeros([1, 3], "float32"), "y": np.ones([1, 1], "float32")}
        assert exe.run(program, feed=fed, fetch_list=[loss])[0] == 1


def test_py_reader() -> None:
    """py_reader declares the variables that read_file returns."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        reader = fluid.layers.py_reader(4, [(-1, 3), (-1, 1)], ["float32", "float32"])
        x, y = fluid.layers.read_file(fluid.layers.double_buffer(reader))
        loss = fluid.layers.mean(x) + fluid.layers.mean(y)
        reader.decorate_paddle_reader(paddle.batch(samples, 2))
        exe = fluid.Executor(fluid.CPUPlace())
        assert run_epoch(reader, fluid.default_main_program(), exe, loss) == [1, 5, 8]


def test_py_reader_has_batches_of_other_sizes_and_the_operators_of_its_release() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        reader = fluid.layers.py_reader(4, [(2, 8), (2, 8)], ["float32", "int64"])
        x, y = fluid.layers.read_file(reader)
        # the left operand decides the dtype
        total = fluid.layers.reduce_sum(x - y)
        rows = [
            (np.full([2, size], 3.0, "float32"), np.ones([2, size], "int64")) for size in (3, 5)
        ]
        reader.decorate_tensor_provider(lambda: iter(rows))
        exe = fluid.Executor(fluid.CPUPlace())
        assert run_epoch(reader, fluid.default_main_program(), exe, total) == [12, 20]


def test_an_iterable_loader() -> None:
    """An iterable loader yields feeds, or one list of arrays with `return_list`."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y, loss, exe = net()
        loader = fluid.io.DataLoader.from_generator([x, y], capacity=2)
        loader.set_sample_list_generator(paddle.batch(samples, 2), places=fluid.CPUPlace())
        found = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for feed in loader()]
        assert found == [1, 5, 8]
        reader = fluid.io.PyReader([x, y], capacity=2, return_list=True)
        reader.decorate_sample_list_generator(paddle.batch(samples, 2), fluid.cpu_places(2))
        assert [[np.array(part[0]).shape for part in parts] for parts in reader()] == [
            [(2, 3), (2, 3)]
        ]
        with pytest.raises(AssertionError, match="start"):
            loader.start()


def test_batches_are_made_ahead_from_the_start() -> None:
    """`start` begins to make batches, and `queue.size()` counts those that wait."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = static.data("x", [2], "float32")
        loader = fluid.io.DataLoader.from_generator([x], capacity=3, iterable=False)
        loader.set_batch_generator(lambda: ([np.full(2, n, "float32")] for n in range(10)))
        assert loader.queue.size() == 0
        loader.start()
        deadline = time.monotonic() + 5
        while loader.queue.size() < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert loader.queue.size() == 3
        loader.reset()
        assert loader.queue.size() == 0


def test_wrong_generators() -> None:
    """Errors name uneven rows and missing arrays."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, y, _loss, _exe = net()
        loader = fluid.io.DataLoader.from_generator([x, y], capacity=2)
        loader.set_batch_generator(lambda: iter([([[1, 2], [3]], [1])]), fluid.CPUPlace())
        with pytest.raises(TypeError, match="no array for 'x': its rows differ"):
            list(loader)
        loader.set_batch_generator(lambda: iter([([1],)]), fluid.CPUPlace())
        with pytest.raises(FeedError, match=r"yields 1 arrays, but feed_list has 2"):
            list(loader)


@pytest.mark.parametrize("threaded", [False, True])
def test_batches_that_a_script_pushes(threaded: bool) -> None:
    """A loader that is not started gives the batches pushed to its queue, until it is closed."""
    with fresh():
        reader = fluid.layers.py_reader(2, [(-1, 2), (-1, 1)], ["float32", "int64"])
        x, y = fluid.layers.read_file(reader)
        queue, exe = reader.queue, fluid.Executor(fluid.CPUPlace())
        batches = [
            [np.full((rows, 2), rows, "float32"), np.ones((rows, 1), "int64")] for rows in (2, 3)
        ]

        def push() -> None:
            for arrays in batches:
                tensors = fluid.LoDTensorArray()
                tensors += [fluid.create_lod_tensor(array, [], None) for array in arrays]
                assert queue.push(tensors)
            queue.close()

        thread = threading.Thread(target=push, daemon=True)
        thread.start()
        if not threaded:
            thread.join()
        for arrays in batches:
            for found, array in zip(exe.run(fetch_list=[x, y]), arrays, strict=True):
                np.testing.assert_array_equal(found, array)
        with pytest.raises(fluid.core.EOFException):
            exe.run(fetch_list=[x, y])
        assert not queue.push(batches[0])
        reader.reset()
        assert queue.push(batches[0]) and queue.size() == 1


@pytest.mark.parametrize("iterable", [False, True])
def test_a_generator_that_raises(iterable: bool) -> None:
    """The error is an `EnforceNotMet`, raised after the batches before it."""

    def batches() -> Iterator[Any]:
        yield [np.zeros((1, 2), "float32")]
        raise KeyError("no second batch")

    with fresh():
        x = fluid.data("x", [None, 2])
        loader = fluid.io.DataLoader.from_generator([x], 2, iterable=iterable)
        loader.set_batch_generator(batches, places=fluid.CPUPlace())
        exe = fluid.Executor(fluid.CPUPlace())
        epoch = iter(loader) if iterable else None
        if epoch is not None:
            assert list(next(epoch)[0]) == ["x"]
        else:
            loader.start()
            exe.run(fetch_list=[x])
        with pytest.raises(fluid.core.EnforceNotMet, match="KeyError: 'no second batch'") as error:
            exe.run(fetch_list=[x]) if epoch is None else next(epoch)
        assert isinstance(error.value.__cause__, KeyError)
