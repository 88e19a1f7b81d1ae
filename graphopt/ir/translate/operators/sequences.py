"""Saved operators on sequences of different lengths (LoD), and where they find the lengths.

In Paddle a tensor carries its lengths. Here they are a variable: `x@lens` beside a fed `x`, int64,
one length for each sequence. Operators that the front end appends name it in their slot `Lengths`;
for those of files it is found by walking over the block, where operators hand the lengths of their
first input on, as Paddle's do.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.data_sized import RepeatInterleave
from graphopt.ir.dialect.ops.sequence import (
    SequenceConv,
    SequenceExpand,
    SequenceGru,
    SequenceLstm,
    SequenceLstmp,
    SequencePad,
    SequencePool,
    SequenceReverse,
    SequenceRowConv,
    SequenceSoftmax,
    SequenceUnpad,
)
from graphopt.ir.dialect.ops.sequence_rows import (
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
from graphopt.ir.program import LENGTHS, Operator, Program
from graphopt.ir.translate.operators.making import Maker, Translation, Written, translation

# the slot of operators of the front end with the lengths of their first input
SLOT = "Lengths"
# operators whose results are dense
_DENSE = ("sequence_pool", "sequence_pad", "reduce_sum", "reduce_mean", "reduce_max", "mean")


def declare_lengths(program: Program) -> None:
    """Give a program with operators on sequences the variables through which lengths are fed."""
    block = program.global_block()
    if not any(op.type in SEQUENCES for op in block.ops):
        return
    for op in list(block.ops):
        for name in op.output_arg_names if op.type == "feed" else ():
            variable = block.vars.get(name)
            if variable is not None and variable.lod_level and not block.has_var(name + LENGTHS):
                made = block.create_var(name + LENGTHS, (-1,), "int64", stop_gradient=True)
                made.is_data = True


def _lengths_of(op: Operator, slot: str) -> str:
    """The variable with the lengths of a slot's rows; UnsupportedError when there is none."""
    sources: dict[str, str] = {}
    block = op.block
    for name, variable in block.program.global_block().vars.items():
        if name.endswith(LENGTHS) and variable.is_data:
            sources[name.removesuffix(LENGTHS)] = name
    for each in block.ops:
        if each is op:
            break
        if each.type == "feed":
            continue
        given = next((sources[n] for n in each.input_arg_names if n in sources), None)
        if each.type in ("sequence_expand", "sequence_expand_as", "lod_reset") and each.input("Y"):
            given = sources.get(each.input("Y")[0])
        elif each.type == "lod_reset":
            given = None
        elif each.type == "sequence_unpad":
            given = each.input("Length")[0]
        for name in each.output_arg_names:
            variable = block.find_var(name)
            sources.pop(name, None)
            if given and each.type not in _DENSE and variable is not None and variable.lod_level:
                sources[name] = given
    names = op.input(slot)
    if not names:
        raise ProgramError(f"operator {op.type} needs an input '{slot}'")
    if names[0] not in sources:
        raise UnsupportedError(
            f"operator {op.type} needs the lengths of the sequences in '{names[0]}', but no feed "
            f"has them; variables with lengths: {sorted(set(sources)) or 'none'}"
        )
    return sources[names[0]]


def sequences(make: Maker, slot: str = "X") -> tuple[SSAValue, SSAValue]:
    """The rows in a slot and their lengths."""
    given = make.op.input(SLOT)
    name = given[0] if given else _lengths_of(make.op, slot)
    return make.input(slot), make.reshaped(make.translator.read(name), -1)


def _pool(make: Maker) -> Written:
    make.only("X", SLOT)
    attrs = {"pooltype": make.attr("pooltype", "AVERAGE"), "pad_value": make.attr("pad_value", 0.0)}
    return make.results(Out=make(SequencePool, *sequences(make), **attrs))


def _conv(make: Maker) -> Written:
    make.only("X", "Filter", SLOT)
    if make.attr("contextStride", 1) != 1 or make.attr("paddingTrainable", False):
        raise UnsupportedError("sequence_conv with a stride or with trainable padding")
    attrs = {
        "context_length": make.attr("contextLength", 1),
        "context_start": make.attr("contextStart", 0),
    }
    return make.results(Out=make(SequenceConv, *sequences(make), make.input("Filter"), **attrs))


def _softmax(make: Maker) -> Written:
    make.only("X", SLOT)
    return make.results(Out=make(SequenceSoftmax, *sequences(make)))


def _reverse(make: Maker) -> Written:
    make.only("X", SLOT)
    return make.results(Y=make(SequenceReverse, *sequences(make)))


def _expand(make: Maker) -> Written:
    """Rows without lengths of their own, each as often as a sequence of y has rows.

    The front end gives the counts of sequences that are repeated as a whole.
    """
    make.only("X", "Y", SLOT, "Counts", "OwnLengths")
    counts = make.optional("Counts")
    if counts is not None:
        own = make.optional("OwnLengths")
        rows = make.input("X")
        if own is None:
            return make.results(Out=make(RepeatInterleave, rows, counts, axis=0))
        out, lengths = make.all(SequenceRepeat, rows, own, counts)
        return make.results(Out=out, OutLengths=lengths)
    rows, lengths = sequences(make, "Y")
    if make.op.type == "sequence_expand":
        variable = make.op.block.find_var(make.op.input("X")[0])
        if (variable is not None and variable.lod_level) or make.attr("ref_level", -1) > 0:
            raise UnsupportedError("sequence_expand of what are sequences themselves")
    return make.results(Out=make(SequenceExpand, make.input("X"), rows, lengths))


def _pad(make: Maker) -> Written:
    make.only("X", "PadValue", SLOT)
    rows, lengths = sequences(make)
    length = make.attr("padded_length", -1)
    out = make(SequencePad, rows, lengths, make.input("PadValue"), padded_length=length)
    return make.results(Out=out, Length=lengths)


def _unpad(make: Maker) -> Written:
    make.only("X", "Length", SLOT)
    lengths = make.reshaped(make.input("Length"), -1)
    return make.results(Out=make(SequenceUnpad, make.input("X"), lengths))


def _lstm(make: Maker) -> Written:
    make.only("Input", "Weight", "Bias", "H0", "C0", SLOT)
    rows, lengths = sequences(make, "Input")
    states = make.optional("H0"), make.optional("C0")
    names = ("gate_activation", "cell_activation", "candidate_activation")
    defaults = ("sigmoid", "tanh", "tanh")
    hidden, cell = make.all(
        SequenceLstm,
        *(rows, lengths, make.input("Weight"), make.input("Bias"), *states),
        is_reverse=make.attr("is_reverse", False),
        use_peepholes=make.attr("use_peepholes", True),
        **{name: make.attr(name, default) for name, default in zip(names, defaults, strict=True)},
    )
    return make.results(Hidden=hidden, Cell=cell)


def _lstmp(make: Maker) -> Written:
    make.only("Input", "Weight", "ProjWeight", "Bias", "H0", "C0", SLOT)
    rows, lengths = sequences(make, "Input")
    needed = [make.input(slot) for slot in ("Weight", "ProjWeight", "Bias")]
    defaults = {
        "is_reverse": False,
        "use_peepholes": True,
        "gate_activation": "sigmoid",
        "cell_activation": "tanh",
        "candidate_activation": "tanh",
        "proj_activation": "tanh",
        "cell_clip": 0.0,
        "proj_clip": 0.0,
    }
    attrs = {name: make.attr(name, default) for name, default in defaults.items()}
    if attrs["proj_activation"] != "identity":
        # Paddle's kernel applies the activation of the cells to the projection, too
        attrs["proj_activation"] = attrs["cell_activation"]
    states = make.optional("H0"), make.optional("C0")
    projection, cell = make.all(SequenceLstmp, rows, lengths, *needed, *states, **attrs)
    return make.results(Projection=projection, Cell=cell)


def _gru(make: Maker) -> Written:
    make.only("Input", "Weight", "Bias", "H0", SLOT)
    hidden = make(
        SequenceGru,
        *sequences(make, "Input"),
        *(make.input("Weight"), make.optional("Bias"), make.optional("H0")),
        is_reverse=make.attr("is_reverse", False),
        gate_activation=make.attr("gate_activation", "sigmoid"),
        activation=make.attr("activation", "tanh"),
        origin_mode=make.attr("origin_mode", False),
    )
    return make.results(Hidden=hidden)


def _concat(make: Maker) -> Written:
    make.only("X", SLOT)
    lengths = [make.reshaped(each, -1) for each in make.inputs(SLOT)]
    if not lengths:
        raise UnsupportedError("sequence_concat of a file: the lengths of its result are unknown")
    return make.results(Out=make(SequenceConcat, make.inputs("X"), lengths))


def _reshape(make: Maker) -> Written:
    make.only("X", SLOT)
    out, lengths = make.all(SequenceReshape, *sequences(make), new_dim=make.attr("new_dim", 1))
    return make.results(Out=out, OutLengths=lengths)


def _scatter(make: Maker) -> Written:
    make.only("X", "Ids", "Updates", SLOT)
    index, lengths = sequences(make, "Ids")
    out = make(SequenceScatter, make.input("X"), index, make.input("Updates"), lengths)
    return make.results(Out=out)


def _enumerate(make: Maker) -> Written:
    make.only("X", SLOT)
    attrs = {"win_size": make.attr("win_size", 1), "pad_value": make.attr("pad_value", 0)}
    return make.results(Out=make(SequenceEnumerate, *sequences(make), **attrs))


def _slice(make: Maker) -> Written:
    make.only("X", "Offset", "Length", SLOT)
    numbers = [make.reshaped(make.input(slot), -1) for slot in ("Offset", "Length")]
    return make.results(Out=make(SequenceSlice, *sequences(make), *numbers))


def _erase(make: Maker) -> Written:
    make.only("X", SLOT)
    tokens = make.attr("tokens", [])
    out, lengths = make.all(SequenceErase, *sequences(make), tokens=tuple(tokens))
    return make.results(Out=out, OutLengths=lengths)


def _reorder(make: Maker) -> Written:
    make.only("X", "RankTable", SLOT)
    return make.results(Out=make(SequenceReorder, *sequences(make), make.input("RankTable")))


def _are_sequences(make: Maker, slot: str) -> bool:
    """True if an operator that takes padded rows too is given rows of sequences."""
    if make.op.input(SLOT):
        return True
    variable = make.op.block.find_var(make.op.input(slot)[0]) if make.op.input(slot) else None
    return variable is not None and bool(variable.lod_level)


def _row_conv(make: Maker) -> Written:
    if not _are_sequences(make, "X"):
        return make.by_row()
    make.only("X", "Filter", SLOT)
    return make.results(Out=make(SequenceRowConv, *sequences(make), make.input("Filter")))


def _align(make: Maker) -> Written:
    if make.op.input("InputLength") or not _are_sequences(make, "Input"):
        return make.by_row()
    make.only("Input", SLOT)
    attrs = {"blank": make.attr("blank", 0), "merge_repeated": make.attr("merge_repeated", True)}
    out, lengths = make.all(SequenceAlign, *sequences(make, "Input"), **attrs)
    return make.results(Output=out, OutLengths=lengths)


def _edit_distance(make: Maker) -> Written:
    if make.op.input("HypsLength") or not _are_sequences(make, "Hyps"):
        return make.by_row()
    make.only("Hyps", "Refs", SLOT)
    given = make.op.input(SLOT) or [_lengths_of(make.op, slot) for slot in ("Hyps", "Refs")]
    lengths = [make.reshaped(make.translator.read(name), -1) for name in given]
    rows = make.input("Hyps"), make.input("Refs")
    attrs = {"normalized": make.attr("normalized", False)}
    out, count = make.all(SequenceEditDistance, *rows, *lengths, **attrs)
    return make.results(Out=out, SequenceNum=count)


SEQUENCES: Mapping[str, Translation] = {
    type: translation(made)
    for type, made in {
        "sequence_pool": _pool,
        "sequence_conv": _conv,
        "sequence_softmax": _softmax,
        "sequence_reverse": _reverse,
        "sequence_expand": _expand,
        "sequence_expand_as": _expand,
        "sequence_pad": _pad,
        "sequence_unpad": _unpad,
        "sequence_concat": _concat,
        "sequence_reshape": _reshape,
        "sequence_scatter": _scatter,
        "sequence_enumerate": _enumerate,
        "sequence_slice": _slice,
        "sequence_erase": _erase,
        "reorder_lod_tensor_by_rank": _reorder,
        "row_conv": _row_conv,
        "ctc_align": _align,
        "edit_distance": _edit_distance,
        "lstm": _lstm,
        "lstmp": _lstmp,
        "gru": _gru,
    }.items()
}
