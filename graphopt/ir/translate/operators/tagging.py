"""Saved operators on the tags of sequences: conditional random fields and chunks."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.sequence.tagging import SCHEMES, ChunkEval, CrfDecoding, LinearChainCrf
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates
from graphopt.ir.translate.operators.sequences import SLOT, sequences


def _steps(emit: Emitter, slot: str, length: str) -> tuple[SSAValue, SSAValue]:
    """A slot by steps, and its lengths: those given for padded steps, or those of rows."""
    given = emit.optional(length)
    return sequences(emit, slot) if given is None else (emit.input(slot), emit.reshaped(given, -1))


@translates("linear_chain_crf")
def linear_chain_crf(emit: Emitter) -> Written:
    emit.only("Emission", "Transition", "Label", "Length", SLOT)
    emission, lengths = _steps(emit, "Emission", "Length")
    rest = emit.input("Transition"), emit.input("Label"), lengths
    return emit.results(LogLikelihood=emit(LinearChainCrf, emission, *rest))


@translates("crf_decoding")
def crf_decoding(emit: Emitter) -> Written:
    emit.only("Emission", "Transition", "Label", "Length", SLOT)
    emission, lengths = _steps(emit, "Emission", "Length")
    rest = emit.input("Transition"), lengths, emit.optional("Label")
    return emit.results(ViterbiPath=emit(CrfDecoding, emission, *rest))


@translates("chunk_eval")
def chunk_eval(emit: Emitter) -> Written:
    emit.only("Inference", "Label", "SeqLength", SLOT)
    inference, lengths = _steps(emit, "Inference", "SeqLength")
    found = emit.all(
        ChunkEval,
        *(inference, emit.input("Label"), lengths),
        num_chunk_types=emit.attr("num_chunk_types", 1),
        chunk_scheme=emit.choice("chunk_scheme", "IOB", SCHEMES),
        excluded_chunk_types=tuple(emit.attr("excluded_chunk_types", [])),
        steps=int(emit.optional("SeqLength") is not None),
    )
    slots = (
        *("Precision", "Recall", "F1-Score"),
        *("NumInferChunks", "NumLabelChunks", "NumCorrectChunks"),
    )
    return emit.results(**dict(zip(slots, found, strict=True)))
