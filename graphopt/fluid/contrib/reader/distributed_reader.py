"""Batches of one trainer among several (contrib.reader.distributed_reader)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from graphopt.frontend.calls import publish
from graphopt.reader.decorator import Reader


def distributed_batch_reader(batch_reader: Reader) -> Reader:
    """The batches of this trainer: one of every group that has a batch for each trainer.

    A last group without enough batches is left out. The number of trainers and that of this one are
    PADDLE_TRAINERS_NUM and PADDLE_TRAINER_ID. Raises ValueError for a trainer with no such number.
    Paddle page: fluid.contrib.reader.distributed_batch_reader.
    """
    trainers = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
    trainer = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
    if not 0 <= trainer < trainers:
        raise ValueError(
            f"distributed_batch_reader(): PADDLE_TRAINER_ID is {trainer}, but PADDLE_TRAINERS_NUM "
            f"is {trainers}; trainers have the numbers from 0 to {trainers - 1}"
        )

    def own() -> Iterator[Any]:
        batches = iter(batch_reader())
        while len(group := list(islice(batches, trainers))) == trainers:
            yield group[trainer]

    return own


publish(globals(), __name__)
