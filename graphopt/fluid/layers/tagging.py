"""Tagging: conditional random fields and chunks of sequences, hashes and filters of rows.

Paddle module: paddle.fluid.layers.

Sequences are rows with lengths, or padded steps with a `length` for each sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import ProgramError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.parameters import as_weight_attr
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of


def _steps(x: Variable, slot: str, length: Variable | None, function: str) -> dict[str, Any]:
    arguments.variable(x, "input", function)
    if length is None:
        return {slot: x, SLOT: of_one_level(x, function, "input")}
    name = "SeqLength" if slot == "Inference" else "Length"
    return {slot: x, name: arguments.variable(length, "length", function)}


def linear_chain_crf(
    input: Variable, label: Variable, param_attr: Any = None, length: Variable | None = None
) -> Variable:
    """Compute the negative log-likelihood of the tags of each sequence: [sequences, 1].

    `input` has the scores of the tags, [rows, tags], or [sequences, steps, tags] with `length`. The
    parameter is [tags + 2, tags]: the scores of the first tag, of the last, and between tags.
    Paddle page: fluid.layers.linear_chain_crf.
    """
    function = "linear_chain_crf"
    inputs = _steps(input, "Emission", length, function)
    tags = input.shape[-1]
    helper = LayerHelper(function)
    weight = as_weight_attr(param_attr, function)
    inputs["Transition"] = helper.parameter(weight, [tags + 2, tags], input.dtype)
    inputs["Label"] = arguments.variable(label, "label", function)
    outs = ("Alpha", "EmissionExps", "TransitionExps", "LogLikelihood")
    made = [helper.temporary() for _ in outs]
    helper.append_op(function, inputs, {"LogLikelihood": made[-1]})
    return made[-1]


def crf_decoding(
    input: Variable,
    param_attr: Any,
    label: Variable | None = None,
    length: Variable | None = None,
) -> Variable:
    """Find the most likely tags, int64 [rows, 1] or [sequences, steps] (layers.crf_decoding).

    `param_attr` names the parameter of `linear_chain_crf`. With a label, return 1 where it is the
    same tag.
    """
    function = "crf_decoding"
    inputs = _steps(input, "Emission", length, function)
    name = getattr(as_weight_attr(param_attr, function), "name", None)
    helper = LayerHelper(function)
    found = None if name is None else helper.main_program.global_block().vars.get(name)
    if found is None:
        raise ProgramError(
            f"{function}(): there is no parameter {name!r}; 'param_attr' must name that of "
            "linear_chain_crf"
        )
    inputs["Transition"] = found
    if label is not None:
        inputs["Label"] = arguments.variable(label, "label", function)
    made = helper.emit(function, inputs, out="ViterbiPath", stop_gradient=True)
    return note(made, levels_of(input)) if length is None else made


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: Sequence[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple[Variable, ...]:
    """Compute precision, recall, F1, and the numbers of inferred, labeled and correct chunks.

    Tags are int64 [rows, 1], or [sequences, steps] with `seq_length`; `chunk_scheme` is IOB, IOE,
    IOBES or plain. Each result is [1]. Paddle page: fluid.layers.chunk_eval.
    """
    from graphopt.ir.dialect.ops.sequence.tagging import SCHEMES

    function = "chunk_eval"
    inputs = _steps(input, "Inference", seq_length, function)
    inputs["Label"] = arguments.variable(label, "label", function)
    excluded = arguments.integers(
        list(excluded_chunk_types or []), "excluded_chunk_types", function
    )
    attrs = {
        "chunk_scheme": arguments.choice(chunk_scheme, "chunk_scheme", function, SCHEMES),
        "num_chunk_types": arguments.integer(num_chunk_types, "num_chunk_types", function),
        "excluded_chunk_types": excluded,
    }
    shares, numbers = ("Precision", "Recall", "F1-Score"), ("Infer", "Label", "Correct")
    slots = (*shares, *(f"Num{kind}Chunks" for kind in numbers))
    return tuple(LayerHelper(function).emit_all(function, inputs, attrs, slots, stop_gradient=True))


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """Hash each row of integers [..., d] to `num_hash` numbers: [..., num_hash, 1].

    They are the hashes XXH64 of the row's bytes with the seeds 0, 1, ..., below `hash_size`. Paddle
    page: fluid.layers.hash, which 1.8.5 itself cannot call.
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
    """Select the rows, or with `is_lod` the sequences of rows, with a tag in `filter_tag`.

    `ins_tag` [tags, 1] are sequences, one for each row or sequence of `ins`. Also returns the
    weight of each in a loss [k, 1], which is 1. If none is left there is one row of
    `out_val_if_empty` with the weight 0. Raises UnsupportedError for sequences without lengths.
    Paddle page: fluid.layers.filter_by_instag.
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
