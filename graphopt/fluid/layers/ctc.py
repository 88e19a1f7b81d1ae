"""The loss of labels that are not aligned with their input (paddle.fluid.layers)."""

from __future__ import annotations

from graphopt.fluid.layers.sequence_lod import sequence_pad
from graphopt.fluid.layers.tensor import fill_constant
from graphopt.frontend import arguments
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable
from graphopt.nn.functional.alignment import warpctc as _warpctc
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import reshape


@one_layer("warpctc")
def warpctc(
    input: Variable,
    label: Variable,
    blank: int = 0,
    norm_by_times: bool = False,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> Variable:
    """The CTC loss [sequences, 1] of logits, through which a softmax is taken (layers.warpctc).

    Logits [rows, classes] and labels [tokens, 1] are sequences (lod_level 1); or both lengths are
    given, and they are [time, batch, classes] and [batch, length]. `norm_by_times` divides the
    gradient by the input lengths. Raises UnsupportedError for rows without lengths.
    """
    if input_length is not None or label_length is not None:
        return _warpctc(input, label, blank, norm_by_times, input_length, label_length)
    scores, steps = _padded(input, "input")
    tokens, counts = _padded(label, "label")
    scores = transpose(scores, [1, 0, 2])
    return _warpctc(scores, reshape(tokens, [0, -1]), blank, norm_by_times, steps, counts)


def _padded(x: Variable, argument: str) -> tuple[Variable, Variable]:
    """Sequences side by side, and their lengths."""
    arguments.variable(x, argument, "warpctc")
    return sequence_pad(x, fill_constant([1], x.dtype, 0))
