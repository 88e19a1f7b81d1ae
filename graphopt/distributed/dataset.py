"""Data sets of text files that `Executor.train_from_dataset` reads (paddle.distributed)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend.multi_slot import InMemory, SlotDataset
from graphopt.ir.program import Variable


class DatasetBase(SlotDataset):
    """The settings that both data sets share."""

    def init(
        self,
        batch_size: int = 1,
        thread_num: int = 1,
        use_var: Sequence[Variable] = (),
        pipe_command: str = "cat",
        input_type: int = 0,
        fs_name: str = "",
        fs_ugi: str = "",
        download_cmd: str = "cat",
        **others: Any,
    ) -> None:
        """Feed `batch_size` lines in a step to the variables `use_var`, a slot to each.

        `pipe_command` is a shell command that makes the lines of each file. The other arguments
        have no effect: lines come in the order of the files, which are local. Raises ValueError for
        variables of a dtype that is neither float32 nor int64.
        """
        self._set_batch_size(batch_size)
        self._set_thread(thread_num)
        self._set_use_var(use_var)
        self._set_pipe_command(pipe_command)


class InMemoryDataset(InMemory, DatasetBase):
    """A data set that is loaded as a whole (paddle.distributed.InMemoryDataset)."""

    def update_settings(self, **settings: Any) -> None:
        """Change some of the arguments of `init`; others have no effect."""
        setters = {
            "batch_size": self._set_batch_size,
            "thread_num": self._set_thread,
            "use_var": self._set_use_var,
            "pipe_command": self._set_pipe_command,
        }
        for name, value in settings.items():
            if name in setters:
                setters[name](value)
            elif name in ("parse_ins_id", "parse_content"):
                self._before[name.removeprefix("parse_")] = bool(value)


class QueueDataset(DatasetBase):
    """A data set that is read during training (paddle.distributed.QueueDataset)."""
