"""Step-by-step decoding until all sequences have ended, and beam search as such a decoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.mode import get_default_dtype
from graphopt.frontend.sub_blocks import parent_of_current
from graphopt.ir.program import Variable, VarKind, default_main_program, unique_name
from graphopt.nn.functional.activation import log_softmax
from graphopt.nn.functional.alignment import gather_tree
from graphopt.nn.layer.batch import batch_filled
from graphopt.nn.layer.recurrence import swap_time
from graphopt.nn.layer.structure import first, map_structure
from graphopt.tensor.array import array_write, tensor_array_to_tensor
from graphopt.tensor.blocks import While
from graphopt.tensor.creation import assign, full, full_like
from graphopt.tensor.logic import all as all_of
from graphopt.tensor.logic import equal, less_equal, logical_and, logical_not, logical_or
from graphopt.tensor.manipulation import broadcast_to, cast, flatten, reshape, unsqueeze
from graphopt.tensor.math import add, floor_divide, increment, remainder
from graphopt.tensor.positions import take_along_axis
from graphopt.tensor.rearrange import tile
from graphopt.tensor.search import topk, where

# stands for log(0)
IMPOSSIBLE = -1e9


class Decoder:
    """Base of the decoders of dynamic_decode: the first inputs and states, and one step."""

    def initialize(self, inits: Any) -> tuple[Any, Any, Any]:
        """Return the first inputs and states, and a bool Variable, True for ended rows."""
        raise NotImplementedError

    def step(self, time: Variable, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """Compute outputs, new states, next inputs, and ended rows at the step `time` [1]."""
        raise NotImplementedError

    def finalize(self, outputs: Any, final_states: Any, sequence_lengths: Any) -> Any:
        """Convert the outputs [time, ...] and states to their final form."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """True if ended rows may begin again, such as beams that change places."""
        return False


class BeamOutput(NamedTuple):
    """One step of a beam search, each [batch, beams]."""

    scores: Variable
    predicted_ids: Variable
    parent_ids: Variable


class BeamState(NamedTuple):
    """State of a beam search: the cell's states [batch, beams, ...], and [batch, beams]."""

    cell_states: Any
    log_probs: Variable
    finished: Variable
    lengths: Variable


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_size` likeliest sequences (paddle.nn.BeamSearchDecoder).

    `cell` takes the inputs of one step and states, with a row for each beam of each sequence.
    `embedding_fn` maps tokens to inputs, and `output_fn` the cell's outputs to logits [..., words].
    """

    OutputWrapper = BeamOutput
    StateWrapper = BeamState

    def __init__(
        self,
        cell: Any,
        start_token: int,
        end_token: int,
        beam_size: int,
        embedding_fn: Callable[..., Any] | None = None,
        output_fn: Callable[..., Any] | None = None,
    ) -> None:
        self.cell, self.embedding_fn, self.output_fn = cell, embedding_fn, output_fn
        self.start_token = arguments.integer(start_token, "start_token", "BeamSearchDecoder")
        self.end_token = arguments.integer(end_token, "end_token", "BeamSearchDecoder")
        self.beam_size = arguments.integer(beam_size, "beam_size", "BeamSearchDecoder")
        if self.beam_size < 1:
            raise ValueError(f"BeamSearchDecoder(): beam_size must be positive, found {beam_size}")

    @staticmethod
    def tile_beam_merge_with_batch(x: Variable, beam_size: int) -> Variable:
        """Repeat each row of [batch, ...] to [batch * beam_size, ...]."""
        return flatten(_tile_beams(x, beam_size), 0, 1)

    def initialize(self, inits: Any) -> tuple[Any, BeamState, Variable]:
        """Prepare the first step for the cell's states `inits` [batch, ...].

        All beams begin with the start token, and only the first one is possible.
        """
        states = map_structure(lambda x: _tile_beams(x, self.beam_size), inits)
        reference = first(inits)
        beams = [self.beam_size]
        tokens = batch_filled(reference, 0, self.start_token, beams, "int64")
        scores = np.full(self.beam_size, IMPOSSIBLE, get_default_dtype().numpy)
        scores[0] = 0
        zeros = batch_filled(reference, 0, 0.0, beams, scores.dtype)
        finished = cast(full_like(tokens, 0), "bool")
        state = BeamState(states, add(zeros, assign(scores)), finished, full_like(tokens, 0))
        return self.embedding_fn(tokens) if self.embedding_fn else tokens, state, finished

    def step(
        self, time: Variable, inputs: Any, states: BeamState, **kwargs: Any
    ) -> tuple[BeamOutput, BeamState, Any, Variable]:
        """Run one step of the cell on all beams, and keep the best continuations."""
        merged = map_structure(_merge_beams, inputs)
        outputs, cell_states = self.cell(
            merged, map_structure(_merge_beams, states.cell_states), **kwargs
        )
        outputs = map_structure(self._split, outputs)
        cell_states = map_structure(self._split, cell_states)
        logits = outputs if self.output_fn is None else self.output_fn(outputs)
        output, state = self._search(logits, cell_states, states)
        tokens = output.predicted_ids
        tokens.stop_gradient = True
        following = self.embedding_fn(tokens) if self.embedding_fn else tokens
        return output, state, following, state.finished

    def _split(self, x: Variable) -> Variable:
        return reshape(x, [-1, self.beam_size, *x.shape[1:]])

    def _search(
        self, logits: Variable, cell_states: Any, states: BeamState
    ) -> tuple[BeamOutput, BeamState]:
        words = logits.shape[-1]
        if not 0 <= self.end_token < words:
            raise ValueError(
                f"BeamSearchDecoder(): the end token {self.end_token} is none of {words} words"
            )
        # a finished beam continues with the end token only
        ended = np.full(words, IMPOSSIBLE, logits.dtype.numpy)
        ended[self.end_token] = 0
        scores = where(unsqueeze(states.finished, 2), assign(ended), log_softmax(logits))
        scores = add(scores, unsqueeze(states.log_probs, 2))
        best, index = topk(reshape(scores, [-1, self.beam_size * words]), self.beam_size)
        size = full([1], words, "int64")
        parents, tokens = floor_divide(index, size), remainder(index, size)
        finished = _pick(states.finished, parents)
        longer = cast(logical_not(finished), "int64")
        lengths = add(_pick(states.lengths, parents), longer)
        finished = logical_or(finished, equal(tokens, full([1], self.end_token, "int64")))
        cells = map_structure(lambda x: _pick(x, parents), cell_states)
        return BeamOutput(best, tokens, parents), BeamState(cells, best, finished, lengths)

    def finalize(
        self, outputs: BeamOutput, final_states: Any, sequence_lengths: Variable
    ) -> tuple[Variable, Any]:
        """Trace the whole sequences from the last step back."""
        return gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states

    @property
    def tracks_own_finished(self) -> bool:
        return True


def _tile_beams(x: Variable, beams: int) -> Variable:
    return tile(unsqueeze(x, 1), [1, beams, *[1] * (len(x.shape) - 1)])


def _merge_beams(x: Variable) -> Variable:
    return flatten(x, 0, 1)


def _pick(x: Variable, parents: Variable) -> Variable:
    """Gather rows of x [batch, beams, ...] by beam index [batch, beams]."""
    if x.dtype == "bool":
        return cast(_pick(cast(x, "int32"), parents), "bool")
    index = parents
    for _ in x.shape[2:]:
        index = unsqueeze(index, -1)
    sizes = [-1, *x.shape[1:]]
    return take_along_axis(x, broadcast_to(index, sizes), 1)


def dynamic_decode(
    decoder: Any,
    inits: Any = None,
    max_step_num: int | None = None,
    output_time_major: bool = False,
    impute_finished: bool = False,
    is_test: bool = False,
    return_length: bool = False,
    **kwargs: Any,
) -> Any:
    """Run a decoder until all sequences have ended (paddle.nn.dynamic_decode).

    It takes at most `max_step_num` + 1 steps. Returns the outputs [batch, steps, ...] (or time
    first, with `output_time_major`), the final states, and with `return_length` the lengths. With
    `impute_finished` ended sequences keep their states. Since the number of steps depends on data,
    a program with it runs op by op. Raises ValueError for a negative `max_step_num`.
    """
    inputs, states, finished = decoder.initialize(inits)
    lengths = cast(full_like(cast(finished, "int64"), 0), "int64")
    carried = map_structure(assign, {"in": inputs, "states": states, "lengths": lengths})
    finished, time = assign(finished), full([1], 0, "int64")
    most = None
    if max_step_num is not None:
        most = arguments.integer(max_step_num, "max_step_num", "dynamic_decode")
        if most < 0:
            raise ValueError(f"dynamic_decode(): max_step_num is negative: {max_step_num}")
    goes_on = logical_not(all_of(finished))
    loop = While(goes_on, is_test=is_test)
    with loop.block():
        inputs, states, lengths = carried["in"], carried["states"], carried["lengths"]
        outputs, new, following, ended = decoder.step(time, inputs, states, **kwargs)
        if decoder.tracks_own_finished:
            lengths = getattr(new, "lengths", lengths)
        else:
            lengths = add(lengths, cast(logical_not(finished), "int64"))
            ended = logical_or(ended, finished)
            if impute_finished:
                new = map_structure(
                    lambda old, now: _keep_finished(finished, old, now), states, new
                )
        arrays = map_structure(_array_around, outputs)
        map_structure(lambda array, x: array_write(x, time, array), arrays, outputs)
        # copy first: the step may return one of the other carried tensors
        after = map_structure(assign, {"in": following, "states": new, "lengths": lengths})
        ended = assign(ended)
        map_structure(assign, after, carried)
        assign(ended, finished)
        increment(time)
        more = logical_not(all_of(finished))
        if most is not None:
            more = logical_and(more, less_equal(time, full([1], most, "int64")))
        assign(more, goes_on)
    joined = map_structure(_stack_elements, arrays)
    states, lengths = carried["states"], carried["lengths"]
    with suppress(NotImplementedError):
        joined, states = decoder.finalize(joined, states, lengths)
    joined = joined if output_time_major else map_structure(swap_time, joined)
    return (joined, states, lengths) if return_length else (joined, states)


def _array_around(x: Variable) -> Variable:
    """Create a tensor array in the parent block, for elements like `x`."""
    return parent_of_current(default_main_program()).create_var(
        unique_name.generate("decoded"), x.shape, x.dtype, kind=VarKind.TENSOR_ARRAY
    )


def _stack_elements(array: Variable) -> Variable:
    """Stack the elements along a new first axis."""
    return tensor_array_to_tensor(array, 0, use_stack=True)[0]


def _keep_finished(finished: Variable, old: Variable, new: Variable) -> Variable:
    """Select the old state where a sequence has ended, else the new one."""
    for _ in range(len(new.shape) - len(finished.shape)):
        finished = unsqueeze(finished, -1)
    return where(finished, old, new)
