"""Beam search over sequences of different lengths (paddle.fluid.layers.rnn).

Programs with it run op by op (see `graphopt.tensor.data_sized`).
"""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import variable_of
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of


def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
) -> Any:
    """Select the best `beam_size` continuations of each sentence: words [chosen, 1], and scores.

    A row of scores [beams, k] has the candidates of one beam, whose words are `ids`, or 0 to k - 1
    without them; the sequences at `level` of `scores` are the beams of one sentence. Unless
    `is_accumulated`, scores are probabilities, whose logarithms are added to `pre_scores`. A beam
    whose last word in `pre_ids` [beams, 1] is `end_id` continues with itself alone. With
    `return_parent_idx`, also return the beam that each result continues, int32 [chosen]. Raises
    UnsupportedError when the lengths of `scores` are unknown.
    Paddle page: fluid.layers.beam_search.
    """
    function = "beam_search"
    given = {"pre_ids": pre_ids, "pre_scores": pre_scores, "ids": ids, "scores": scores}
    inputs: dict[str, Any] = {
        slot: arguments.variable(value, slot, function)
        for slot, value in given.items()
        if slot != "ids" or value is not None
    }
    count = max(len(levels_of(scores)), 1)
    inputs[SLOT] = [variable_of(scores, function, "scores", i) for i in range(count)]
    attrs = {
        "beam_size": arguments.integer(beam_size, "beam_size", function),
        "end_id": arguments.integer(end_id, "end_id", function),
        "level": arguments.integer(level, "level", function),
        "is_accumulated": arguments.flag(is_accumulated, "is_accumulated", function),
    }
    helper = LayerHelper(function, name)
    chosen_scores, chosen_ids, parents, *lengths = (
        helper.temporary(stop_gradient=True) for _ in range(5)
    )
    outputs = {
        "selected_ids": chosen_ids,
        "selected_scores": chosen_scores,
        "parent_idx": parents,
        "OutLengths": lengths,
    }
    helper.append_op(function, inputs, outputs, attrs)
    for chosen in (chosen_ids, chosen_scores):
        note(chosen, [each.name for each in lengths])
    found = chosen_ids, chosen_scores
    return (*found, parents) if return_parent_idx else found


def beam_search_decode(
    ids: Variable, scores: Variable, beam_size: int, end_id: int, name: str | None = None
) -> tuple[Variable, Variable]:
    """Collect the sentences of tensor arrays filled by `beam_search`: words and scores [n].

    Both are sequences of two levels: the sentences of each source, the best one first, and their
    words, with one `end_id` at most. `beam_size` has no effect. Raises UnsupportedError for arrays
    without lengths. Paddle page: fluid.layers.beam_search_decode.
    """
    function = "beam_search_decode"
    arguments.variable(ids, "ids", function)
    arguments.variable(scores, "scores", function)
    levels = levels_of(ids)
    if len(levels) != 2:
        raise UnsupportedError(
            f"{function}(): the elements of '{ids.name}' should be sequences of two levels; fill "
            "it with the results of fluid.layers.beam_search, and start with a feed of lod_level=2"
        )
    attrs = {
        "beam_size": arguments.integer(beam_size, "beam_size", function),
        "end_id": arguments.integer(end_id, "end_id", function),
    }
    helper = LayerHelper(function, name)
    words, marks, *lengths = (helper.temporary(stop_gradient=True) for _ in range(4))
    for made, dtype in ((words, "int64"), (marks, scores.dtype)):
        made.shape, made.dtype = (-1,), dtype
    for made in lengths:
        made.shape, made.dtype = (-1,), "int64"
    outputs = {"SentenceIds": words, "SentenceScores": marks}
    outputs |= dict(zip(("SourceCounts", "WordCounts"), lengths, strict=True))
    inputs = {"Ids": ids, "Scores": scores, SLOT: list(levels)}
    helper.append_op(function, inputs, outputs, attrs)
    found = [note(made, [each.name for each in lengths]) for made in (words, marks)]
    return found[0], found[1]
