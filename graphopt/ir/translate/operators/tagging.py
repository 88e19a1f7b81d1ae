"""Saved operators on the tags of sequences: conditional random fields and chunks."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.tagging import SCHEMES, ChunkEval, CrfDecoding, LinearChainCrf
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation
from graphopt.ir.translate.operators.sequences import SLOT, sequences


def _steps(make: Maker, slot: str, length: str) -> tuple[SSAValue, SSAValue]:
    """A slot by steps, and its lengths: those given for padded steps, or those of rows."""
    given = make.optional(length)
    return sequences(make, slot) if given is None else (make.input(slot), make.reshaped(given, -1))


def _crf(make: Maker) -> Written:
    make.only("Emission", "Transition", "Label", "Length", SLOT)
    emission, lengths = _steps(make, "Emission", "Length")
    rest = make.input("Transition"), make.input("Label"), lengths
    return make.results(LogLikelihood=make(LinearChainCrf, emission, *rest))


def _decoding(make: Maker) -> Written:
    make.only("Emission", "Transition", "Label", "Length", SLOT)
    emission, lengths = _steps(make, "Emission", "Length")
    rest = make.input("Transition"), lengths, make.optional("Label")
    return make.results(ViterbiPath=make(CrfDecoding, emission, *rest))


def _chunk_eval(make: Maker) -> Written:
    make.only("Inference", "Label", "SeqLength", SLOT)
    inference, lengths = _steps(make, "Inference", "SeqLength")
    found = make.all(
        ChunkEval,
        *(inference, make.input("Label"), lengths),
        num_chunk_types=make.attr("num_chunk_types", 1),
        chunk_scheme=make.choice("chunk_scheme", "IOB", SCHEMES),
        excluded_chunk_types=tuple(make.attr("excluded_chunk_types", [])),
        steps=int(make.optional("SeqLength") is not None),
    )
    slots = (
        *("Precision", "Recall", "F1-Score"),
        *("NumInferChunks", "NumLabelChunks", "NumCorrectChunks"),
    )
    return make.results(**dict(zip(slots, found, strict=True)))


TAGGING: Mapping[str, Translation] = {
    type: translation(made)
    for type, made in {
        "linear_chain_crf": _crf,
        "crf_decoding": _decoding,
        "chunk_eval": _chunk_eval,
    }.items()
}
