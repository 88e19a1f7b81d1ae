"""Data sets of text files: their lines, training on them, and the output."""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import distributed, fluid, static
from graphopt.errors import FeedError, UnsupportedError
from graphopt.fluid.executor import FetchHandler
from graphopt.fluid.incubate.data_generator import (
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)
from graphopt.frontend.script import run_script
from graphopt_tests.frontend.test_fluid import fresh

layers = fluid.layers
# words, a number and a label
LINES = ["2 1 2 1 0.5 1 1", "1 3 1 1.5 1 0", "3 4 5 6 1 2.5 1 1"]
MORE = ["1 7 1 3.5 1 0"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Write one file of LINES, and a compressed one of MORE."""
    first, second = tmp_path / "first.txt", tmp_path / "second.txt.gz"
    first.write_text("\n".join(LINES) + "\n")
    second.write_bytes(gzip.compress(("\n".join(MORE) + "\n").encode()))
    return [str(first), str(second)]


def slots() -> list[Any]:
    """Declare the variables of the three slots."""
    return [
        fluid.data("words", [None, 1], "int64", lod_level=1),
        fluid.data("number", [None, 1]),
        fluid.data("label", [None, 1], "int64"),
    ]


def dataset_of(files: list[str], variables: list[Any], kind: str = "QueueDataset") -> Any:
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var(variables)
    made.set_batch_size(2)
    made.set_thread(1)
    made.set_filelist(files)
    return made


def sums() -> tuple[Any, Any, Any]:
    """Build sums of words by sentence, with its number, and a running sum of all numbers."""
    words, number, _ = variables = slots()
    out = layers.concat([layers.sequence_pool(layers.cast(words, "float32"), "sum"), number], 1)
    total = layers.create_global_var([1], 0.0, "float32", persistable=True, name="total")
    layers.assign(layers.elementwise_add(total, layers.reduce_sum(number)), total)
    return variables, out, total


def train(dataset: Any, *fetches: Any, **others: Any) -> float:
    """Train on a data set, and return the sum of all numbers."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    names = [f"the {fetch.name}" for fetch in fetches]
    program = fluid.default_main_program()
    exe.train_from_dataset(program, dataset, fetch_list=fetches, fetch_info=names, **others)
    return float(np.array(fluid.global_scope().find_var("total").get_tensor())[0])


def test_what_is_printed(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every second batch is printed, in the form of Paddle 1.8.5."""
    with fresh():
        variables, out, _ = sums()
        total = train(dataset_of(files, variables), variables[0], out, print_period=2)
    assert total == 0.5 + 1.5 + 2.5 + 3.5
    assert capsys.readouterr().out == (
        "the words\twords\t\tlod: {{0, 3, 4}}\n\tdim: 4, 1\n\tlayout: NCHW\n\tdtype: int64_t\n"
        "\tdata: [4 5 6 7]\n\t\n"
        f"the {out.name}\t{out.name}\t\tlod: {{}}\n\tdim: 2, 2\n\tlayout: NCHW\n\tdtype: float\n"
        "\tdata: [15 2.5 7 3.5]\n\t\n"
    )


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset"])
def test_a_loader_of_a_data_set(files: list[str], kind: str) -> None:
    """Each step has a list of feeds, one for each place; incomplete lists are dropped."""
    with fresh():
        variables, out, _ = sums()
        dataset = dataset_of(files, variables, kind)
        dataset.set_batch_size(3)
        if kind == "InMemoryDataset":
            dataset.load_into_memory()
        place = fluid.CPUPlace()
        whole = fluid.io.DataLoader.from_dataset(dataset, [place])
        loader = fluid.io.DataLoader.from_dataset(dataset, [place], drop_last=False)
        exe = fluid.Executor(place)
        exe.run(fluid.default_startup_program())
        assert [feed["number"].shape() for (feed,) in whole()] == [[3, 1]]
        assert [len(feeds) for feeds in whole] == [1]
        found = [exe.run(feed=feed, fetch_list=[out])[0] for feed in loader]
        pairs = fluid.io.DataLoader.from_dataset(dataset, [place] * 2, drop_last=False)
        ((first, second),) = pairs
        assert first["words"].recursive_sequence_lengths() == [[2, 1, 3]]
        assert np.array(second["words"]).tolist() == [[7]]
        assert not list(fluid.io.DataLoader.from_dataset(dataset, [place] * 2))
        with pytest.raises(AssertionError, match="2 must be not less than place number 3"):
            fluid.io.DataLoader.from_dataset(dataset, [place] * 3)
        with pytest.raises(TypeError, match="must be a data set of fluid"):
            fluid.io.DataLoader.from_dataset([1], [place])
    np.testing.assert_array_equal(np.concatenate(found), [[3, 0.5], [3, 1.5], [15, 2.5], [7, 3.5]])


def test_a_data_set_in_memory(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A data set in memory is shuffled, trained on again and released."""
    with fresh():
        variables, _, _ = sums()
        dataset = dataset_of(files, variables, "InMemoryDataset")
        with pytest.raises(FeedError, match="call load_into_memory"):
            train(dataset)
        dataset.load_into_memory()
        assert (dataset.get_memory_data_size(), dataset.get_shuffle_data_size()) == (4, 0)
        random.seed(1)
        dataset.global_shuffle()
        assert dataset.get_shuffle_data_size() == 4
        exe_total = [train(dataset, variables[1], print_period=1) for _ in range(2)]
        dataset.release_memory()
        assert dataset.get_memory_data_size() == dataset.get_shuffle_data_size() == 0
        dataset.preload_into_memory()
        dataset.wait_preload_done()
        assert dataset.get_memory_data_size() == 4
    assert exe_total == [8, 8]
    data = [line for line in capsys.readouterr().out.splitlines() if "data" in line]
    # two epochs in the same order, which is not that of the files
    assert data[:2] == data[2:] != ["\tdata: [0.5 1.5]", "\tdata: [2.5 3.5]"]


def test_values_of_one_slot_are_exchanged(files: list[str]) -> None:
    with fresh():
        dataset = dataset_of(files, slots(), "InMemoryDataset")
        dataset.load_into_memory()
        random.seed(2)
        dataset.slots_shuffle(["number"])
        feeds = list(dataset.feeds())
    numbers = np.concatenate([feed["number"] for feed in feeds]).ravel().tolist()
    assert sorted(numbers) == [0.5, 1.5, 2.5, 3.5] != numbers
    assert [feed["words"][1] for feed in feeds] == [[2, 1], [3, 1]]


def test_a_pipe_command(files: list[str]) -> None:
    """The command is a shell line, whose input is each file."""
    with fresh():
        variables, _, _ = sums()
        dataset = dataset_of(files, variables)
        dataset.set_pipe_command("head -2 | sed 's/0.5/9.5/'")
        assert train(dataset) == 9.5 + 1.5 + 3.5
        dataset.set_pipe_command("cat; exit 3")
        with pytest.raises(FeedError, match=r"'cat; exit 3' ended with status 3 on .*first.txt"):
            train(dataset)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 1 0.5 1 1", "slot 'words' is empty; pad the slot"),
        ("1 5 1 0.5", "ends before the slot 'label'"),
        ("", "ends before the slot 'words'"),
        ("1 abc 1 0.5 1 1", "invalid literal .*'abc'"),
        ("1 5 1 0.5 3 1 1", "'label' should have 3 values, found 2"),
    ],
)
def test_lines_that_do_not_fit(line: str, message: str, tmp_path: Path) -> None:
    """The error has the line's number and the file."""
    path = tmp_path / "lines.txt"
    path.write_text(f"{LINES[0]}\n{line}\n")
    with fresh():
        variables, _, _ = sums()
        with pytest.raises(
            FeedError, match=rf"line 2 of the output of 'cat' for .*lines.txt: .*{message}"
        ):
            train(dataset_of([str(path)], variables))


def test_values_after_the_last_slot_are_ignored_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text(f"{LINES[0]} 1 7\n{LINES[1]}\n")
    with fresh():
        variables, _, _ = sums()
        with pytest.warns(UserWarning, match="values after the 3 slots"):
            assert train(dataset_of([str(path)], variables)) == 2


def test_identifiers_of_64_bits(tmp_path: Path) -> None:
    """Unsigned identifiers keep their bits; the line's own identifier is skipped."""
    path = tmp_path / "lines.txt"
    path.write_text("1 line7 1 18446744073709551615\n")
    with fresh():
        dataset = dataset_of([str(path)], slots()[:1], "InMemoryDataset")
        dataset.set_parse_ins_id(True)
        dataset.load_into_memory()
        (feed,) = dataset.feeds()
    assert feed["words"][0].tolist() == [[-1]]


def test_values_that_do_not_fill_a_shape(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("3 1 2 3\n")
    with fresh():
        dataset = dataset_of([str(path)], [fluid.data("x", [None, 2])])
        with pytest.raises(FeedError, match=r"'x' has 3 values in 1 line.*\[-1, 2\]"):
            list(dataset.feeds())


def test_what_is_refused(files: list[str]) -> None:
    with fresh():
        variables, out, _ = sums()
        queue = dataset_of(files, variables)
        with pytest.raises(NotImplementedError, match="does not support local shuffle"):
            queue.local_shuffle()
        with pytest.raises(NotImplementedError, match="does not support global shuffle"):
            queue.global_shuffle()
        with pytest.raises(ValueError, match="datafeed class Other does not exist"):
            fluid.DatasetFactory().create_dataset("Other")
        with pytest.raises(ValueError, match="only supports dtype=float32 and dtype=int64"):
            queue.set_use_var([layers.cast(out, "float64")])
        exe = fluid.Executor(fluid.CPUPlace())
        with pytest.raises(RuntimeError, match="dataset is need"):
            exe.train_from_dataset()
        with pytest.raises(AssertionError, match="1 value and fetch_info 0 names"):
            exe.train_from_dataset(dataset=queue, fetch_list=[out])
        queue.set_filelist(["none.txt"])
        with pytest.raises(FeedError, match=r"cannot read none.txt: No such file"):
            train(queue)
        queue.set_filelist(["hdfs:/none.txt"])
        with pytest.raises(UnsupportedError, match="only local files"):
            train(queue)


def test_a_fetch_handler(files: list[str]) -> None:
    """The handler is called with arrays, under the names that it chose."""
    seen: list[Any] = []

    class Handler(FetchHandler):
        def handler(self, res_dict: dict[str, Any]) -> None:
            seen.append({name: value.ravel().tolist() for name, value in res_dict.items()})

    with fresh():
        variables, _, _ = sums()
        train(dataset_of(files, variables), fetch_handler=Handler({"n": variables[1]}, 0))
    assert seen == [{"n": [0.5, 1.5]}, {"n": [2.5, 3.5]}]


def test_the_later_form(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As in Paddle 2.6.2, `init` sets the options, and each batch prints one line."""
    with static.program_guard(static.Program(), static.Program()):
        x = static.data("x", [-1, 1], "int64", lod_level=1)
        y = static.data("y", [-1, 1], "float32")
        z = static.data("z", [-1, 1], "int64")
        doubled = paddle.add(y, y)
        dataset = distributed.InMemoryDataset()
        dataset.init(batch_size=3, thread_num=1, use_var=[x, y, z], pipe_command="cat")
        dataset.set_filelist(files)
        dataset.load_into_memory()
        dataset.update_settings(batch_size=2)
        exe = static.Executor(paddle.CPUPlace())
        exe.infer_from_dataset(
            static.default_main_program(), dataset, fetch_list=[doubled, x], fetch_info=["d", "x"],
            print_period=2,
        )  # fmt: skip
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("time: [20")
    assert line.endswith("], batch: [2], d[2]:[5 7], x[4]:[4 5 6 7]")


class Words(MultiSlotDataGenerator):
    """A generator of a line's words, twice, and of their number."""

    def generate_sample(self, line: str | None) -> Any:
        def samples() -> Any:
            words = [int(word) for word in (line or "8").split()]
            yield [("words", words * 2), ("count", [len(words) / 2])]
            yield None

        return samples


def test_lines_of_a_generator(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", ["1 2\n", "3\n"])
    Words().run_from_stdin()
    Words().run_from_memory()
    assert capsys.readouterr().out == "4 1 2 1 2 1 1.0\n2 3 3 1 0.5\n2 8 8 1 0.5\n"
    assert (
        MultiSlotStringDataGenerator()._gen_str([("a", ["1", "x"]), ("b", ["2"])]) == "2 1 x 1 2\n"
    )


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (["text"], "must be in list or tuple type"),
        ([[("a", [])]], "can not be empty"),
        ([[("a", (1,))]], "must be in list type"),
        ([[(1, [1])]], "must be in str type"),
        ([[("a", ["1"])]], "must be in int or float"),
        ([[("a", [1])], [("b", [1])]], "require<a>, get<b>"),
        ([[("a", [1])], [("a", [1]), ("b", [1])]], "are inconsistent"),
    ],
)
def test_samples_that_do_not_fit(samples: list[Any], message: str) -> None:
    made = MultiSlotDataGenerator()
    with pytest.raises(ValueError, match=message):
        for sample in samples:
            made._gen_str(sample)


READER = """
import paddle.fluid.incubate.data_generator as dg

class Reader(dg.MultiSlotDataGenerator):
    def generate_sample(self, line):
        def samples():
            yield ("x", [float(line)]),
        return samples

Reader().run_from_stdin()
"""
SCRIPT = """
import paddle.fluid as fluid

x = fluid.data("x", [None, 1])
dataset = fluid.DatasetFactory().create_dataset()
dataset.set_use_var([x])
dataset.set_batch_size(2)
dataset.set_filelist(["numbers.txt"])
dataset.set_pipe_command("python reader.py")
out = fluid.layers.reduce_sum(x)
exe = fluid.Executor(fluid.CPUPlace())
exe.train_from_dataset(dataset=dataset, fetch_list=[out], fetch_info=["sum"], print_period=1)
"""


@pytest.mark.exhaustive
def test_a_reader_of_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`import paddle` imports graphopt in the processes of a script's data set, too."""
    (tmp_path / "numbers.txt").write_text("1\n2\n5\n")
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    with fresh():
        assert run_script("script.py") == 0
    data = [line for line in capsys.readouterr().out.splitlines() if "data" in line]
    assert data == ["\tdata: [3]", "\tdata: [5]"]
