"""Rows by what they hold: their hashes, and those with a tag (paddle.fluid.layers)."""

from __future__ import annotations

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """`num_hash` numbers below `hash_size` for each row of integers [..., d]: [..., num_hash, 1].

    They are the hashes XXH64 of the row's bytes with the seeds 0, 1, ... Paddle page:
    fluid.layers.hash, which 1.8.5 itself cannot call.
    """
    function = "hash"
    inputs = {"X": arguments.variable(input, "input", function)}
    attrs = {
        "num_hash": arguments.integer(num_hash, "num_hash", function),
        "mod_by": arguments.integer(hash_size, "hash_size", function),
    }
    return emit(function, inputs, attrs, name=name, stop_gradient=True)


def filter_by_instag(
    ins: Variable,
    ins_tag: Variable,
    filter_tag: Variable,
    is_lod: bool,
    out_val_if_empty: float = 0,
) -> list[Variable]:
    """The rows, or with `is_lod` the sequences of rows, one of whose tags is in `filter_tag`.

    `ins_tag` [tags, 1] are sequences, one for each row or sequence of `ins`. Also returns the
    weight of each in a loss [k, 1], which is 1. Where none is left there is one row of
    `out_val_if_empty` with the weight 0. UnsupportedError for sequences without lengths. Paddle
    page: fluid.layers.filter_by_instag.
    """
    function = "filter_by_instag"
    inputs = {
        "Ins": arguments.variable(ins, "ins", function),
        "Ins_tag": arguments.variable(ins_tag, "ins_tag", function),
        "Filter_tag": arguments.variable(filter_tag, "filter_tag", function),
        "TagLengths": of_one_level(ins_tag, function, "ins_tag"),
    }
    if arguments.flag(is_lod, "is_lod", function):
        inputs[SLOT] = of_one_level(ins, function, "ins")
    attrs = {
        "is_lod": bool(is_lod),
        "out_val_if_empty": arguments.number(out_val_if_empty, "out_val_if_empty", function),
    }
    slots = ("Out", "LossWeight", "IndexMap", "OutLengths")
    helper = LayerHelper(function)
    out, weight, index, lengths = helper.emit_all(function, inputs, attrs, slots)
    for each in (weight, index, lengths):
        each.stop_gradient = True
    return [note(out, [lengths.name]), weight]
