"""Saved operators on sequences of different lengths (LoD), and the lookup of these lengths.

In Paddle a tensor carries its lengths. Here they are a variable: `x@lens` beside a fed `x`, int64,
one length for each sequence. Operators that the front end appends name it in their slot `Lengths`.
For operators of files it is found by walking over the block: operators pass on the lengths of their
first input, as in Paddle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.dynamic import RepeatInterleave
from graphopt.ir.dialect.ops.sequence.beam_search import BeamSearch
from graphopt.ir.dialect.ops.sequence.layers import (
    SequenceConv,
    SequenceExpand,
    SequencePad,
    SequencePool,
    SequenceReverse,
    SequenceRowConv,
    SequenceSoftmax,
    SequenceUnpad,
)
from graphopt.ir.dialect.ops.sequence.matching import FilterByInstag, MatchMatrixTensor
from graphopt.ir.dialect.ops.sequence.recurrent import SequenceGru, SequenceLstm, SequenceLstmp
from graphopt.ir.dialect.ops.sequence.rows import (
    SequenceAlign,
    SequenceConcat,
    SequenceEditDistance,
    SequenceEnumerate,
    SequenceErase,
    SequenceReorder,
    SequenceRepeat,
    SequenceReshape,
    SequenceScatter,
    SequenceSlice,
)
from graphopt.ir.dialect.ops.sequence.tagging import SCHEMES, ChunkEval, CrfDecoding, LinearChainCrf
from graphopt.ir.dialect.ops.shape import StopGradient
from graphopt.ir.program import LENGTHS, Block, Operator, Program
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import TRANSLATIONS, translates

# operators with dense results
_DENSE = ("sequence_pool", "sequence_pad", "reduce_sum", "reduce_mean", "reduce_max", "mean")
# the slots that hold the sequence lengths of results
_COUNTS = ("NmsRoisNum", "RpnRoisNum", "RoisNum", "OutLengths")


def declare_lengths(program: Program, feeds: Sequence[str]) -> None:
    """Declare the variables for the lengths of a loaded program's feeds.

    Only a program with operators on sequences needs them. Variables with rows of sequences note the
    names of their lengths.
    """
    block = program.global_block()
    # operators on sequences are the operators that this file translates
    translations = (TRANSLATIONS.get(op.type) for op in block.ops)
    if any(found is not None and found.__module__ == __name__ for found in translations):
        for name in feeds:
            if name in block.vars and block.vars[name].lod_level:
                _declare(block, name)
    for name, lengths in _find_lengths(block, block.ops).items():
        if name in block.vars and block.vars[name].lod_level == 1:
            block.vars[name].sequence_lengths = (lengths,)


def _declare(block: Block, name: str) -> None:
    """Declare the variable for the lengths of a fed variable, unless the file has it."""
    lengths = block.vars.get(name + LENGTHS)
    if lengths is None:
        lengths = block.create_var(name + LENGTHS, (-1,), "int64", stop_gradient=True)
    lengths.is_data = True


def _lengths_of(emit: Emitter, slot: str) -> str:
    """Find the variable with the lengths of a slot's rows; UnsupportedError if there is none."""
    op = emit.op
    top = op.block.program.global_block()
    for name, variable in list(top.vars.items()):
        if variable.is_data and variable.lod_level:
            _declare(top, name)
    sources = _find_lengths(op.block, emit.before())
    names = op.input(slot)
    if not names:
        raise ProgramError(f"operator {op.type} needs an input '{slot}'")
    if names[0] not in sources:
        raise UnsupportedError(
            f"operator {op.type} needs the lengths of the sequences in '{names[0]}', but no feed "
            f"has these lengths; variables with lengths: {sorted(set(sources)) or 'none'}"
        )
    return sources[names[0]]


def _find_lengths(block: Block, ops: Iterable[Operator]) -> dict[str, str]:
    """Map the names of rows to the variables with their lengths, after these operators."""
    fed = block.program.global_block().vars.items()
    lengths = [name for name, v in fed if name.endswith(LENGTHS) and v.is_data]
    sources = {name.removesuffix(LENGTHS): name for name in lengths}
    for each in ops:
        if each.type == "feed":
            continue
        given = next((sources[n] for n in each.input_arg_names if n in sources), None)
        if each.type in ("sequence_expand", "sequence_expand_as", "lod_reset") and each.input("Y"):
            given = sources.get(each.input("Y")[0])
        elif each.type == "lod_reset":
            given = None
        elif each.type == "sequence_unpad":
            given = each.input("Length")[0]
        given = next((each.output(slot)[0] for slot in _COUNTS if each.output(slot)), given)
        for name in each.output_arg_names:
            variable = block.find_var(name)
            sources.pop(name, None)
            if given and each.type not in _DENSE and variable is not None and variable.lod_level:
                sources[name] = given
    return sources


def sequences(emit: Emitter, slot: str = "X", lengths: str = SLOT) -> tuple[SSAValue, SSAValue]:
    """Read the rows in a slot and their lengths."""
    given = emit.op.input(lengths)
    name = given[0] if given else _lengths_of(emit, slot)
    return emit.input(slot), emit.reshape(emit.read(name), -1)


@translates("sequence_pool")
def sequence_pool(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    attrs = {"pooltype": emit.attr("pooltype"), "pad_value": emit.attr("pad_value")}
    return emit.results(Out=emit(SequencePool, *sequences(emit), **attrs))


@translates("sequence_conv")
def sequence_conv(emit: Emitter) -> Written:
    emit.only("X", "Filter", "PaddingData", SLOT)
    if emit.attr("contextStride") != 1:
        raise UnsupportedError("operator sequence_conv with a stride is not supported")
    # a padding that is not trained is 0, whatever the slot holds
    padding = emit.input("PaddingData") if emit.attr("paddingTrainable") else None
    attrs = {
        "context_length": emit.attr("contextLength"),
        "context_start": emit.attr("contextStart"),
    }
    given = *sequences(emit), emit.input("Filter"), padding
    return emit.results(Out=emit(SequenceConv, *given, **attrs))


@translates("sequence_softmax")
def sequence_softmax(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    return emit.results(Out=emit(SequenceSoftmax, *sequences(emit)))


@translates("sequence_reverse")
def sequence_reverse(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    return emit.results(Y=emit(SequenceReverse, *sequences(emit)))


@translates("sequence_expand", "sequence_expand_as")
def sequence_expand(emit: Emitter) -> Written:
    """Repeat each row, without lengths of its own, as often as a sequence of y has rows.

    The front end gives the counts of sequences that are repeated as a whole.
    """
    emit.only("X", "Y", SLOT, "Counts", "OwnLengths")
    counts = emit.optional("Counts")
    if counts is not None:
        own = emit.optional("OwnLengths")
        rows = emit.input("X")
        if own is None:
            return emit.results(Out=emit(RepeatInterleave, rows, counts, axis=0))
        out, lengths = emit.all(SequenceRepeat, rows, own, counts)
        return emit.results(Out=out, OutLengths=lengths)
    rows, lengths = sequences(emit, "Y")
    if emit.op.type == "sequence_expand" and not emit.op.input(SLOT):
        variable = emit.op.block.find_var(emit.op.input("X")[0])
        if (variable is not None and variable.lod_level) or emit.attr("ref_level") > 0:
            raise UnsupportedError("operator sequence_expand of nested sequences is not supported")
    return emit.results(Out=emit(SequenceExpand, emit.input("X"), rows, lengths))


@translates("sequence_pad")
def sequence_pad(emit: Emitter) -> Written:
    emit.only("X", "PadValue", SLOT)
    rows, lengths = sequences(emit)
    length = emit.attr("padded_length")
    out = emit(SequencePad, rows, lengths, emit.input("PadValue"), padded_length=length)
    return emit.results(Out=out, Length=lengths)


@translates("sequence_unpad")
def sequence_unpad(emit: Emitter) -> Written:
    emit.only("X", "Length", SLOT)
    lengths = emit.reshape(emit.input("Length"), -1)
    return emit.results(Out=emit(SequenceUnpad, emit.input("X"), lengths))


@translates("lstm")
def lstm(emit: Emitter) -> Written:
    emit.only("Input", "Weight", "Bias", "H0", "C0", SLOT)
    rows, lengths = sequences(emit, "Input")
    states = emit.optional("H0"), emit.optional("C0")
    names = ("gate_activation", "cell_activation", "candidate_activation")
    hidden, cell = emit.all(
        SequenceLstm,
        *(rows, lengths, emit.input("Weight"), emit.input("Bias"), *states),
        is_reverse=emit.attr("is_reverse"),
        use_peepholes=emit.attr("use_peepholes"),
        **{name: emit.attr(name) for name in names},
    )
    return emit.results(Hidden=hidden, Cell=cell)


@translates("lstmp")
def lstmp(emit: Emitter) -> Written:
    emit.only("Input", "Weight", "ProjWeight", "Bias", "H0", "C0", SLOT)
    rows, lengths = sequences(emit, "Input")
    needed = [emit.input(slot) for slot in ("Weight", "ProjWeight", "Bias")]
    names = (
        *("is_reverse", "use_peepholes", "gate_activation", "cell_activation"),
        *("candidate_activation", "proj_activation", "cell_clip", "proj_clip"),
    )
    attrs = {name: emit.attr(name) for name in names}
    if attrs["proj_activation"] != "identity":
        # Paddle's kernel applies the activation of the cells to the projection, too
        attrs["proj_activation"] = attrs["cell_activation"]
    states = emit.optional("H0"), emit.optional("C0")
    projection, cell = emit.all(SequenceLstmp, rows, lengths, *needed, *states, **attrs)
    return emit.results(Projection=projection, Cell=cell)


@translates("gru")
def gru(emit: Emitter) -> Written:
    emit.only("Input", "Weight", "Bias", "H0", SLOT)
    hidden = emit(
        SequenceGru,
        *sequences(emit, "Input"),
        *(emit.input("Weight"), emit.optional("Bias"), emit.optional("H0")),
        is_reverse=emit.attr("is_reverse"),
        gate_activation=emit.attr("gate_activation"),
        activation=emit.attr("activation"),
        origin_mode=emit.attr("origin_mode"),
    )
    return emit.results(Hidden=hidden)


@translates("sequence_concat")
def sequence_concat(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    lengths = [emit.reshape(each, -1) for each in emit.inputs(SLOT)]
    if not lengths:
        raise UnsupportedError(
            "operator sequence_concat of a saved program is not supported: the lengths of its "
            "result are unknown"
        )
    return emit.results(Out=emit(SequenceConcat, emit.inputs("X"), lengths))


@translates("sequence_reshape")
def sequence_reshape(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    out, lengths = emit.all(SequenceReshape, *sequences(emit), new_dim=emit.attr("new_dim"))
    return emit.results(Out=out, OutLengths=lengths)


@translates("sequence_scatter")
def sequence_scatter(emit: Emitter) -> Written:
    emit.only("X", "Ids", "Updates", SLOT)
    index, lengths = sequences(emit, "Ids")
    out = emit(SequenceScatter, emit.input("X"), index, emit.input("Updates"), lengths)
    return emit.results(Out=out)


@translates("sequence_enumerate")
def sequence_enumerate(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    attrs = {"win_size": emit.attr("win_size"), "pad_value": emit.attr("pad_value")}
    return emit.results(Out=emit(SequenceEnumerate, *sequences(emit), **attrs))


@translates("sequence_slice")
def sequence_slice(emit: Emitter) -> Written:
    emit.only("X", "Offset", "Length", SLOT)
    numbers = [emit.reshape(emit.input(slot), -1) for slot in ("Offset", "Length")]
    return emit.results(Out=emit(SequenceSlice, *sequences(emit), *numbers))


@translates("sequence_erase")
def sequence_erase(emit: Emitter) -> Written:
    emit.only("X", SLOT)
    tokens = emit.attr("tokens")
    out, lengths = emit.all(SequenceErase, *sequences(emit), tokens=tuple(tokens))
    return emit.results(Out=out, OutLengths=lengths)


@translates("reorder_lod_tensor_by_rank")
def reorder_by_rank(emit: Emitter) -> Written:
    emit.only("X", "RankTable", SLOT)
    return emit.results(Out=emit(SequenceReorder, *sequences(emit), emit.input("RankTable")))


def _are_sequences(emit: Emitter, slot: str) -> bool:
    """True if a slot of an operator that also takes padded rows has rows of sequences."""
    if emit.op.input(SLOT):
        return True
    variable = emit.op.block.find_var(emit.op.input(slot)[0]) if emit.op.input(slot) else None
    return variable is not None and bool(variable.lod_level)


@translates("row_conv")
def row_conv(emit: Emitter) -> Written:
    if not _are_sequences(emit, "X"):
        return emit.by_row()
    emit.only("X", "Filter", SLOT)
    return emit.results(Out=emit(SequenceRowConv, *sequences(emit), emit.input("Filter")))


@translates("ctc_align")
def ctc_align(emit: Emitter) -> Written:
    if emit.op.input("InputLength") or not _are_sequences(emit, "Input"):
        return emit.by_row()
    emit.only("Input", SLOT)
    attrs = {"blank": emit.attr("blank"), "merge_repeated": emit.attr("merge_repeated")}
    out, lengths = emit.all(SequenceAlign, *sequences(emit, "Input"), **attrs)
    return emit.results(Output=out, OutLengths=lengths)


@translates("edit_distance")
def edit_distance(emit: Emitter) -> Written:
    if emit.op.input("HypsLength") or not _are_sequences(emit, "Hyps"):
        return emit.by_row()
    emit.only("Hyps", "Refs", SLOT)
    given = emit.op.input(SLOT) or [_lengths_of(emit, slot) for slot in ("Hyps", "Refs")]
    lengths = [emit.reshape(emit.read(name), -1) for name in given]
    rows = emit.input("Hyps"), emit.input("Refs")
    attrs = {"normalized": emit.attr("normalized")}
    out, count = emit.all(SequenceEditDistance, *rows, *lengths, **attrs)
    return emit.results(Out=out, SequenceNum=count)


@translates("beam_search")
def beam_search(emit: Emitter) -> Written:
    emit.only("pre_ids", "pre_scores", "ids", "scores", SLOT)
    lengths = [emit.reshape(each, -1) for each in emit.inputs(SLOT)]
    if not lengths:
        raise UnsupportedError(
            "operator beam_search of a saved program is not supported: the lengths of its beams "
            "are unknown"
        )
    ids, scores, parents, *counts = emit.all(
        BeamSearch,
        *(emit.input("pre_ids"), emit.input("pre_scores"), emit.optional("ids")),
        *(emit.input("scores"), lengths),
        beam_size=emit.attr("beam_size"),
        end_id=emit.attr("end_id"),
        level=emit.attr("level"),
        is_accumulated=emit.attr("is_accumulated"),
    )
    return emit.results(
        selected_ids=ids, selected_scores=scores, parent_idx=parents, OutLengths=counts
    )


def _steps(emit: Emitter, slot: str, length: str) -> tuple[SSAValue, SSAValue]:
    """Read a slot and its lengths: the lengths of padded steps, if given, or of its rows."""
    given = emit.optional(length)
    return sequences(emit, slot) if given is None else (emit.input(slot), emit.reshape(given, -1))


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
        num_chunk_types=emit.attr("num_chunk_types"),
        chunk_scheme=emit.choice("chunk_scheme", SCHEMES),
        excluded_chunk_types=tuple(emit.attr("excluded_chunk_types")),
        steps=int(emit.optional("SeqLength") is not None),
    )
    slots = (
        *("Precision", "Recall", "F1-Score"),
        *("NumInferChunks", "NumLabelChunks", "NumCorrectChunks"),
    )
    return emit.results(**dict(zip(slots, found, strict=True)))


@translates("match_matrix_tensor")
def match_matrix_tensor(emit: Emitter) -> Written:
    emit.only("X", "Y", "W", SLOT, "OtherLengths")
    rows = (*sequences(emit), *sequences(emit, "Y", "OtherLengths"))
    out, lengths, products = emit.all(MatchMatrixTensor, *rows, emit.input("W"))
    return emit.results(Out=out, OutLengths=lengths, Tmp=emit(StopGradient, products))


@translates("filter_by_instag")
def filter_by_instag(emit: Emitter) -> Written:
    emit.only("Ins", "Ins_tag", "Filter_tag", SLOT, "TagLengths")
    is_lod = emit.attr("is_lod")
    rows, lengths = sequences(emit, "Ins") if is_lod else (emit.input("Ins"), None)
    tags = sequences(emit, "Ins_tag", "TagLengths")
    wanted, gap = emit.reshape(emit.input("Filter_tag"), -1), emit.attr("out_val_if_empty")
    made = emit.all(FilterByInstag, rows, *tags, wanted, lengths, out_val_if_empty=gap)
    slots = ("Out", "LossWeight", "IndexMap", "OutLengths")
    return emit.results(**dict(zip(slots, made, strict=True)))
