"""Generators of lines in Paddle's MultiSlot form, for pipe commands of data sets.

A script derives a class with `generate_sample`, and its `run_from_stdin` maps the lines of its
input to lines for `graphopt.frontend.multi_slot`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from graphopt.frontend.missing import explain

Sample = Sequence[tuple[str, Sequence[Any]]]


class DataGenerator:
    """Base of generators (paddle.distributed.fleet.DataGenerator)."""

    def __init__(self) -> None:
        self._proto_info: list[tuple[str, str]] | None = None
        self.batch_size_ = 32

    def set_batch(self, batch_size: int) -> None:
        """Set the number of samples that `generate_batch` receives at a time."""
        self.batch_size_ = batch_size

    def generate_sample(self, line: str | None) -> Callable[[], Iterable[Sample | None]]:
        """Return a function that yields a line's samples, ((name, [value, ...]), ...) each.

        Derived classes define it.
        """
        raise NotImplementedError(
            "Please rewrite this function to return a list or tuple: "
            "[(name, [feasign, ...]), ...] or ((name, [feasign, ...]), ...)"
        )

    def generate_batch(self, samples: list[Sample]) -> Callable[[], Iterable[Sample]]:
        """Return a function that yields a batch's samples, by default unchanged."""
        return lambda: iter(samples)

    def run_from_stdin(self) -> None:
        """Print the samples of each line of the input."""
        self._write(sample for line in sys.stdin for sample in self.generate_sample(line)())

    def run_from_memory(self) -> None:
        """Print the samples that `generate_sample(None)` makes."""
        self._write(self.generate_sample(None)())

    def _write(self, samples: Iterable[Sample | None]) -> None:
        for batch in self._batches(samples):
            for sample in self.generate_batch(batch)():
                sys.stdout.write(self._gen_str(sample))

    def _batches(self, samples: Iterable[Sample | None]) -> Iterator[list[Sample]]:
        batch: list[Sample] = []
        for sample in samples:
            if sample is None:
                continue
            batch.append(sample)
            if len(batch) == self.batch_size_:
                yield batch
                batch = []
        if batch:
            yield batch

    def _gen_str(self, line: Sample) -> str:
        raise NotImplementedError(
            "derive from MultiSlotDataGenerator or MultiSlotStringDataGenerator"
        )


def _check(line: Any, example: str) -> None:
    if not isinstance(line, (list, tuple)):
        raise ValueError(
            f"the output of process() must be in list or tuple type, for example {example}"
        )


class MultiSlotStringDataGenerator(DataGenerator):
    """Samples whose values are text already (fleet.MultiSlotStringDataGenerator)."""

    def _gen_str(self, line: Sample) -> str:
        _check(line, "[('words', ['1926', '08', '17']), ('label', ['1'])]")
        return " ".join(" ".join([str(len(own)), *own]) for _, own in line) + "\n"


class MultiSlotDataGenerator(DataGenerator):
    """Samples of int and float values, which are checked (fleet.MultiSlotDataGenerator).

    All samples must have the fields of the first one; otherwise it raises ValueError.
    """

    def _gen_str(self, line: Sample) -> str:
        _check(line, "[('words', [1926, 8, 17]), ('label', [1])]")
        for name, values in line:
            _check_field(name, values)
        if self._proto_info is None:
            self._proto_info = [(name, "uint64") for name, _ in line]
        if len(line) != len(self._proto_info):
            raise ValueError("the complete field set of two given line are inconsistent.")
        for at, (name, values) in enumerate(line):
            wanted = self._proto_info[at][0]
            if name != wanted:
                raise ValueError(
                    "the field name of two given line are not match: "
                    f"require<{wanted}>, get<{name}>."
                )
            if any(isinstance(value, float) for value in values):
                self._proto_info[at] = name, "float"
        return " ".join(" ".join(map(str, [len(own), *own])) for _, own in line) + "\n"


def _check_field(name: Any, values: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"name {type(name)} must be in str type")
    if not isinstance(values, list):
        raise ValueError(f"elements {type(values)} must be in list type")
    if not values:
        raise ValueError(
            "the elements of each field can not be empty, you need padding it in process()."
        )
    for value in values:
        if not isinstance(value, (int, float)):
            raise ValueError(f"the type of element {type(value)} must be in int or float")


explain(globals())
