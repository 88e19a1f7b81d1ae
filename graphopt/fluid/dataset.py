"""Data sets of text files that `Executor.train_from_dataset` reads (paddle.fluid.dataset)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend.multi_slot import InMemory, SlotDataset
from graphopt.ir.program import Variable


class DatasetBase(SlotDataset):
    """The settings that all data sets share (Paddle page: fluid.dataset.DatasetBase)."""

    def set_pipe_command(self, pipe_command: str) -> None:
        """Produce the lines of each file by a shell command; "cat" for files that have them."""
        self._set_pipe_command(pipe_command)

    def set_batch_size(self, batch_size: int) -> None:
        """Feed this many lines in a step; ValueError below 1."""
        self._set_batch_size(batch_size)

    def set_thread(self, thread_num: int) -> None:
        """Note a number of threads, which has no effect: lines come in the order of the files."""
        self._set_thread(thread_num)

    def set_use_var(self, var_list: Sequence[Variable]) -> None:
        """Feed the slots of a line to these variables, in this order.

        Raises ValueError for a dtype other than float32 and int64.
        """
        self._set_use_var(var_list)

    def set_hdfs_config(self, fs_name: str, fs_ugi: str) -> None:
        """Do nothing: files are local; a name of HDFS in the list of files is refused."""

    def set_download_cmd(self, download_cmd: str) -> None:
        """Do nothing, as `set_hdfs_config`."""

    def desc(self) -> str:
        """Format the settings as Paddle's text."""
        return self._desc()


class InMemoryDataset(InMemory, DatasetBase):
    """A data set that is loaded as a whole (Paddle page: fluid.dataset.InMemoryDataset)."""

    def set_parse_ins_id(self, parse_ins_id: bool) -> None:
        """Choose whether to skip an identifier at the start of each line (`1 ID`)."""
        self._before["ins_id"] = parse_ins_id

    def set_parse_content(self, parse_content: bool) -> None:
        """Choose whether to skip a text at the start of each line (`1 TEXT`)."""
        self._before["content"] = parse_content

    def set_queue_num(self, queue_num: int) -> None:
        """Do nothing: there is one queue."""

    def set_fleet_send_batch_size(self, fleet_send_batch_size: int = 1024) -> None:
        """Do nothing: trainers exchange no lines."""

    def set_fea_eval(self, record_candidate_size: int, fea_eval: bool = True) -> None:
        """Do nothing: `slots_shuffle` uses all lines."""

    def set_merge_by_lineid(self, merge_size: int = 2) -> None:
        """Raise UnsupportedError."""
        raise UnsupportedError(
            "set_merge_by_lineid() is not supported: merge the lines in the pipe command"
        )


class QueueDataset(DatasetBase):
    """A data set that is read during training (Paddle page: fluid.dataset.QueueDataset)."""

    def local_shuffle(self) -> None:
        """Raise NotImplementedError, as in Paddle."""
        raise _no_shuffle("local")

    def global_shuffle(self, fleet: Any = None) -> None:
        """Raise NotImplementedError, as in Paddle."""
        raise _no_shuffle("global")


class FileInstantDataset(QueueDataset):
    """A `QueueDataset` under another name (Paddle page: fluid.dataset.FileInstantDataset)."""

    feed_name = "MultiSlotFileInstantDataFeed"


def _no_shuffle(which: str) -> NotImplementedError:
    return NotImplementedError(
        f"QueueDataset does not support {which} shuffle, please use InMemoryDataset for "
        f"{which}_shuffle"
    )


class DatasetFactory:
    """A factory of data sets by name (Paddle page: fluid.dataset.DatasetFactory)."""

    def create_dataset(self, datafeed_class: str = "QueueDataset") -> DatasetBase:
        """Create a QueueDataset, InMemoryDataset or FileInstantDataset; ValueError for others."""
        kinds = (QueueDataset, InMemoryDataset, FileInstantDataset)
        found = next((kind for kind in kinds if kind.__name__ == datafeed_class), None)
        if found is None:
            raise ValueError(f"datafeed class {datafeed_class} does not exist")
        return found()
