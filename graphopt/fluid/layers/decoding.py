"""Decoders of one sequence at a time: where inputs come from, and how words are chosen.

Paddle pages: paddle.fluid.layers.BasicDecoder, DecodeHelper, TrainingHelper,
GreedyEmbeddingHelper, SampleEmbeddingHelper. `graphopt.nn.decode` runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphopt.fluid.layers.random import sampling_id
from graphopt.ir.program import Variable
from graphopt.nn.decode import Decoder
from graphopt.nn.functional.activation import softmax
from graphopt.nn.layer.structure import map_structure
from graphopt.tensor.creation import full, full_like, zeros_like
from graphopt.tensor.logic import equal, less_equal
from graphopt.tensor.manipulation import cast, concat, gather, squeeze
from graphopt.tensor.math import add, divide
from graphopt.tensor.search import argmax


class DecodeHelper:
    """Base of helpers, which supply a BasicDecoder's inputs and choose its words."""

    def initialize(self) -> tuple[Any, Variable]:
        """Return the first inputs, and a bool Variable [batch], true for ended beams."""
        raise NotImplementedError

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        """Choose the words [batch] from a step's outputs."""
        raise NotImplementedError

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Variable, Any, Any]:
        """Return the beams that ended in this step, the inputs of the next step, and the states."""
        raise NotImplementedError


class TrainingHelper(DecodeHelper):
    """Teacher forcing with inputs [batch, steps, ...], or time first with `time_major`.

    The inputs may nest. `sequence_length` has the integer length of each sequence, [batch].
    """

    def __init__(self, inputs: Any, sequence_length: Variable, time_major: bool = False) -> None:
        self.axis = 0 if time_major else 1
        self.sequence_length = cast(sequence_length, "int64")
        # the step after the last one is read, but never used
        self.inputs = map_structure(self._with_one_more, inputs)

    def _with_one_more(self, x: Variable) -> Variable:
        return concat([x, zeros_like(self._at(x, full([1], 0, "int64"), keep=True))], self.axis)

    def _at(self, x: Variable, time: Variable, *, keep: bool = False) -> Variable:
        item = gather(x, time, self.axis)
        return item if keep else squeeze(item, self.axis)

    def initialize(self) -> tuple[Any, Variable]:
        start = full([1], 0, "int64")
        ended = equal(self.sequence_length, zeros_like(self.sequence_length))
        return map_structure(lambda x: self._at(x, start), self.inputs), ended

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        return argmax(outputs, -1)

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Variable, Any, Any]:
        following = add(time, full([1], 1, "int64"))
        ended = less_equal(self.sequence_length, following)
        return ended, map_structure(lambda x: self._at(x, following), self.inputs), states


class GreedyEmbeddingHelper(DecodeHelper):
    """The likeliest word of each step, through `embedding_fn`, is the input of the next.

    `start_tokens` are int64 [batch], as are the words that `embedding_fn` takes; a sequence ends
    with `end_token`.
    """

    def __init__(
        self, embedding_fn: Callable[[Variable], Any], start_tokens: Variable, end_token: int
    ) -> None:
        self.embedding_fn, self.start_tokens = embedding_fn, start_tokens
        self.end_token = int(end_token)

    def initialize(self) -> tuple[Any, Variable]:
        ended = cast(full_like(self.start_tokens, 0), "bool")
        return self.embedding_fn(self.start_tokens), ended

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        return argmax(outputs, -1)

    def next_inputs(
        self, time: Variable, outputs: Any, states: Any, sample_ids: Variable
    ) -> tuple[Variable, Any, Any]:
        ended = equal(sample_ids, full_like(sample_ids, self.end_token))
        return ended, self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """A GreedyEmbeddingHelper that draws words from softmax(outputs / softmax_temperature).

    `outputs` are logits [batch, words]; a `seed` draws the same words in each step of the program.
    """

    def __init__(
        self,
        embedding_fn: Callable[[Variable], Any],
        start_tokens: Variable,
        end_token: int,
        softmax_temperature: float | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding_fn, start_tokens, end_token)
        self.temperature, self.seed = softmax_temperature, seed

    def sample(self, time: Variable, outputs: Any, states: Any) -> Variable:
        if self.temperature is not None:
            outputs = divide(outputs, full([1], np.float32(self.temperature), outputs.dtype))
        return cast(sampling_id(softmax(outputs), seed=self.seed or 0), "int64")


class BasicDecoder(Decoder):
    """A cell followed by `output_fn`; a helper decides its inputs and words."""

    class OutputWrapper(NamedTuple):
        """The result of a step: the outputs and the words chosen by them."""

        cell_outputs: Any
        sample_ids: Any

    def __init__(
        self, cell: Any, helper: DecodeHelper, output_fn: Callable[[Any], Any] | None = None
    ) -> None:
        self.cell, self.helper, self.output_fn = cell, helper, output_fn

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        """Return the helper's first inputs, the cell's initial states and the ended beams."""
        inputs, ended = self.helper.initialize()
        return inputs, inits, ended

    def step(
        self, time: Variable, inputs: Any, states: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Run one step of the cell; then let the helper choose the words and the next inputs."""
        outputs, states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        words = self.helper.sample(time, outputs, states)
        ended, following, states = self.helper.next_inputs(time, outputs, states, words)
        return BasicDecoder.OutputWrapper(outputs, words), states, following, ended
