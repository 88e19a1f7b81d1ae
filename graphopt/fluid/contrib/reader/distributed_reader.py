"""Batches of one trainer among several (contrib.reader.distributed_reader)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

from graphopt.frontend.calls import publish
from graphopt.reader.decorator import Reader


def distributed_batch_reader(batch_reader: Reader) -> Reader:
    """Read the batches of this trainer: one of each group with a batch per trainer.

    An incomplete last group is dropped. PADDLE_TRAINERS_NUM and PADDLE_TRAINER_ID have the number
    of trainers and the number of this one. Raises ValueError for a trainer number out of range.
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
