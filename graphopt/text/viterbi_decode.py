"""The likeliest tags of sequences, by the scores of tags and of their transitions."""

from __future__ import annotations

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.nn.layer.layers import Layer


def viterbi_decode(
    potentials: Variable,
    transition_params: Variable,
    lengths: Variable,
    include_bos_eos_tag: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Decode the most likely tags of each sequence, and their score.

    The scores are [batch], the tags int64 [batch, longest], with 0 after the end of a sequence.
    `potentials` [batch, steps, tags] has the scores of each tag at each step, `transition_params`
    [tags, tags] the scores of transitions from one tag to the next. `lengths` [batch] has the
    numbers of steps; `longest` is the largest of them. With `include_bos_eos_tag` the last tag
    stands for the start of a sequence, and the one before it for its end.

    Raises TypeError for arguments that are not Variables, ProgramError for shapes that do not fit,
    and, when the program runs, FeedError for lengths that are negative, above the steps, or all 0.
    Paddle page: paddle.text.viterbi_decode.
    """
    function = "viterbi_decode"
    inputs = {
        "Input": arguments.variable(potentials, "potentials", function),
        "Transition": arguments.variable(transition_params, "transition_params", function),
        "Length": arguments.variable(lengths, "lengths", function),
    }
    attrs = {
        "include_bos_eos_tag": arguments.flag(include_bos_eos_tag, "include_bos_eos_tag", function)
    }
    helper = LayerHelper(function)
    scores, path = helper.emit_all(function, inputs, attrs, ("Scores", "Path"))
    path.stop_gradient = True
    return scores, path


class ViterbiDecoder(Layer):
    """`viterbi_decode` with these transitions (Paddle page: paddle.text.ViterbiDecoder)."""

    def __init__(
        self, transitions: Variable, include_bos_eos_tag: bool = True, name: str | None = None
    ) -> None:
        super().__init__()
        self.transitions = transitions
        self.include_bos_eos_tag = include_bos_eos_tag
        self.name = name

    def forward(self, potentials: Variable, lengths: Variable) -> tuple[Variable, Variable]:
        """Call `viterbi_decode`."""
        return viterbi_decode(
            potentials, self.transitions, lengths, self.include_bos_eos_tag, self.name
        )
