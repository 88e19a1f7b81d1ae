"""Data sets of text files in Paddle's MultiSlot form (paddle.distributed.QueueDataset and others).

A line has the values of every slot, each after their count: `2 7 9 1 0.5` is the slot [7, 9] and
the slot [0.5]. A pipe command reads a file as its input and prints the lines. Slots of variables
with lengths are fed as sequences; slots of dense variables have one row for each line.

Paddle's threads each train on a part of the files, in no certain order. Here lines come in the
order of the files, as with one thread there, and are read ahead of the steps.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.display.units import several
from graphopt.errors import FeedError, UnsupportedError
from graphopt.frontend.paddle_names import PaddleFinder
from graphopt.frontend.prefetch import Prefetch
from graphopt.ir.program import Variable
from graphopt.ir.program.location import caller_level

Record = list[np.ndarray[Any, Any]]
_KINDS = {"float32": "float", "int64": "uint64"}
_REMOTE = ("hdfs:", "afs:")
# a folder in which `import paddle` imports graphopt, for readers that a script starts
_AS_PADDLE = Path(__file__).parent / "as_paddle"


class SlotDataset:
    """The settings of a data set, and the feeds read from its files.

    `feed_name` is Paddle's name of the reader.
    """

    feed_name = "MultiSlotDataFeed"

    def __init__(self) -> None:
        self.thread_num = 1
        self.filelist: list[str] = []
        self._batch_size = 1
        self._pipe_command = "cat"
        self._variables: list[Variable] = []
        # the words before the slots of each line: an identifier, text
        self._before: dict[str, bool] = {"ins_id": False, "content": False}
        self._warned = False

    def set_filelist(self, filelist: Sequence[str]) -> None:
        """Read these files, in this order; those that end in .gz are decompressed."""
        self.filelist = [os.fspath(name) for name in filelist]

    def _set_batch_size(self, batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"the batch size must be above 0, found {batch_size}")
        self._batch_size = batch_size

    def _set_thread(self, thread_num: int) -> None:
        self.thread_num = thread_num

    def _set_use_var(self, var_list: Sequence[Variable]) -> None:
        for variable in var_list:
            if variable.dtype not in _KINDS:
                raise ValueError(
                    "Currently, fluid.dataset only supports dtype=float32 and dtype=int64; "
                    f"'{variable.name}' is {variable.dtype}"
                )
        self._variables = list(var_list)

    def _set_pipe_command(self, pipe_command: str) -> None:
        self._pipe_command = pipe_command

    def _desc(self) -> str:
        """Format the settings as Paddle's protobuf text."""
        lines = [f'name: "{self.feed_name}"', f"batch_size: {self._batch_size}"]
        if self._variables:
            lines.append("multi_slot_desc {")
        for variable in self._variables:
            lines += ["  slots {", f'    name: "{variable.name}"']
            lines.append(f'    type: "{_KINDS[variable.dtype]}"')
            if not variable.lod_level:
                lines.append("    is_dense: true")
            lines.append("    is_used: true")
            if not variable.lod_level:
                lines += [f"    shape: {size}" for size in variable.shape]
            lines.append("  }")
        lines += ["}"] * bool(self._variables)
        return "\n".join([*lines, f'pipe_command: "{self._pipe_command}"', ""])

    def _records(self) -> Iterator[Record]:
        """Parse every line of every file into its slots."""
        if not self._variables:
            raise FeedError("the dataset has no variables; set them with set_use_var")
        for name in self.filelist:
            for number, line in enumerate(_lines(name, self._pipe_command), 1):
                try:
                    yield self._parse_line(line.split())
                except ValueError as error:
                    raise FeedError(
                        f"line {number} of the output of '{self._pipe_command}' for {name}: {error}"
                    ) from None

    def _parse_line(self, words: list[str]) -> Record:
        """Parse a line into its slots; raise ValueError if it does not fit."""
        at = 2 * sum(self._before.values())
        record: Record = []
        for variable in self._variables:
            if at >= len(words):
                raise ValueError(f"the line ends before the slot '{variable.name}'")
            count = int(words[at])
            values = words[at + 1 : at + 1 + count]
            if count < 1 or len(values) < count:
                raise ValueError(
                    f"the slot '{variable.name}' should have {several(count, 'value')}, "
                    f"found {len(values)}"
                    if count > 0
                    else f"the slot '{variable.name}' is empty; pad the slot in the pipe command"
                )
            record.append(_numbers(values, f"{variable.dtype}"))
            at += 1 + count
        if at < len(words) and not self._warned:
            self._warned = True
            warnings.warn(
                f"lines have values after the {len(self._variables)} slots; these values are "
                "ignored",
                stacklevel=caller_level(),
            )
        return record

    def _feed(self, records: Sequence[Record]) -> dict[str, Any]:
        """Build the feed of a batch."""
        feed: dict[str, Any] = {}
        for variable, values in zip(self._variables, zip(*records, strict=True), strict=True):
            whole = np.concatenate(values)
            if variable.lod_level:
                feed[variable.name] = whole.reshape(-1, 1), [len(own) for own in values]
                continue
            try:
                feed[variable.name] = whole.reshape(variable.shape)
            except ValueError:
                raise FeedError(
                    f"the slot '{variable.name}' has {several(whole.size, 'value')} in "
                    f"{several(len(records), 'line')}, which do not fill the variable's shape "
                    f"{list(variable.shape)}"
                ) from None
        return feed

    def _feeds_of(self, records: Iterable[Record], whole: bool) -> Iterator[dict[str, Any]]:
        left = iter(records)
        while group := list(islice(left, self._batch_size)):
            if len(group) == self._batch_size or not whole:
                yield self._feed(group)

    def feeds(self, whole: bool = False) -> Iterator[dict[str, Any]]:
        """Iterate over the feeds of all batches, read from the files ahead of their use.

        The last batch may be smaller; with `whole` it is dropped then.
        """
        return Prefetch(lambda: self._feeds_of(self._records(), whole), 4)


class InMemory(SlotDataset):
    """A data set that is loaded as a whole and may be shuffled."""

    feed_name = "MultiSlotInMemoryDataFeed"

    def __init__(self) -> None:
        super().__init__()
        self._memory: list[Record] | None = None
        self._shuffled = 0
        self._loading: threading.Thread | None = None
        self._error: BaseException | None = None

    def load_into_memory(self) -> None:
        """Read all files; raise FeedError for a line that does not fit."""
        self._memory = list(self._records())

    def preload_into_memory(self, thread_num: int | None = None) -> None:
        """Start a thread that reads all files; `wait_preload_done` joins it."""

        def load() -> None:
            try:
                self.load_into_memory()
            except BaseException as error:
                self._error = error

        self._loading = threading.Thread(target=load, name="preload", daemon=True)
        self._loading.start()

    def wait_preload_done(self) -> None:
        """Wait until all files are read; raise the errors of `load_into_memory`."""
        if self._loading is not None:
            self._loading.join()
        error, self._loading, self._error = self._error, None, None
        if error is not None:
            raise error

    def local_shuffle(self) -> None:
        """Shuffle the lines in memory with Python's `random`."""
        random.shuffle(self._require_memory())

    def global_shuffle(self, fleet: Any = None, thread_num: int = 12) -> None:
        """Shuffle as `local_shuffle`; UnsupportedError if several trainers would exchange lines."""
        if fleet is not None and fleet.worker_num() > 1:
            raise UnsupportedError(
                "global_shuffle() among several trainers is not supported: give each trainer its "
                "own files, shuffled by their names, and use local_shuffle()"
            )
        self.local_shuffle()
        self._shuffled = len(self._require_memory())

    def slots_shuffle(self, slots: Sequence[str]) -> None:
        """Shuffle the values of these slots among the lines in memory, each slot by itself."""
        records = self._require_memory()
        for at, variable in enumerate(self._variables):
            if variable.name in slots:
                values = [record[at] for record in records]
                random.shuffle(values)
                for record, own in zip(records, values, strict=True):
                    record[at] = own

    def release_memory(self) -> None:
        """Drop the lines in memory."""
        self._memory, self._shuffled = None, 0

    def get_memory_data_size(self, fleet: Any = None) -> Any:
        """Count the lines in memory, as a NumPy int64."""
        return np.int64(len(self._memory or ()))

    def get_shuffle_data_size(self, fleet: Any = None) -> Any:
        """Count the lines after `global_shuffle`, as a NumPy int64; 0 before it."""
        return np.int64(self._shuffled)

    def feeds(self, whole: bool = False) -> Iterator[dict[str, Any]]:
        """Iterate over feeds as `SlotDataset.feeds`, from the lines in memory."""
        return self._feeds_of(self._require_memory(), whole)

    def _require_memory(self) -> list[Record]:
        if self._memory is None:
            raise FeedError("the dataset is not in memory; call load_into_memory() first")
        return self._memory


def _lines(name: str, command: str) -> Iterator[str]:
    """Run a shell command with a file as its input, and yield the lines that it prints.

    Raises FeedError for a file that cannot be read, and for a command that fails.
    """
    if name.startswith(_REMOTE):
        raise UnsupportedError(
            f"{name}: only local files are supported; copy the file to this machine"
        )
    shell = f"set -o pipefail; zcat | ( {command} )" if name.endswith(".gz") else command
    try:
        file = open(name, "rb")  # noqa: SIM115
    except OSError as error:
        raise FeedError(f"cannot read {name}: {error.strerror}; check set_filelist") from None
    with (
        file,
        subprocess.Popen(
            ["bash", "-c", shell], stdin=file, stdout=subprocess.PIPE, env=_environment(), text=True
        ) as process,
    ):
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise FeedError(
            f"the pipe command '{command}' ended with status {process.returncode} on {name}"
        )


def _environment() -> dict[str, str] | None:
    """Build the environment of a pipe command, whose `import paddle` finds the same modules."""
    if not any(isinstance(finder, PaddleFinder) for finder in sys.meta_path):
        return None
    root = Path(__file__).parent.parent.parent
    known = [str(_AS_PADDLE), str(root), os.environ.get("PYTHONPATH", "")]
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in known if path),
        "PATH": os.pathsep.join(path for path in paths if path),
    }


def _numbers(words: list[str], dtype: str) -> np.ndarray[Any, Any]:
    """Parse the values of a slot; unsigned 64-bit identifiers keep their bits."""
    if dtype == "float32":
        return np.array(words, "float32")
    return np.array([int(word) % 2**64 for word in words], "uint64").view("int64")
