"""DynamicRNN: a step, written once, over sequences of different lengths (fluid.layers.DynamicRNN).

Paddle sorts the sequences by length and lets the batch shrink from step to step. Here they are
padded to the longest one, and a sequence that has ended keeps its memories; the results are the
same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.fluid.layers.sequence_lod import constant, sequence_pad, sequence_unpad
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sub_blocks import parent_of_current
from graphopt.ir.program import Variable, default_main_program
from graphopt.ir.program.lengths import levels_of
from graphopt.nn.layer.recurrence import swap_time
from graphopt.static.nn.static_rnn import StaticRNN
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import cast, unsqueeze
from graphopt.tensor.search import where


class DynamicRNN:
    """A loop over the steps of sequences, each to its own end.

        rnn = DynamicRNN()
        with rnn.block():
            word = rnn.step_input(words)            # sequences [total, d] -> [sequences, d]
            hidden = rnn.memory(shape=[8], value=0.0)
            new = layers.fc([word, hidden], 8, act="tanh")
            rnn.update_memory(hidden, new)
            rnn.output(new)
        outputs = rnn()                             # sequences [total, 8]

    Results of a sequence past its end are dropped. Programs with a DynamicRNN run op by op, because
    only a run knows the longest sequence. Paddle page: fluid.layers.DynamicRNN.
    """

    BEFORE_RNN, IN_RNN, AFTER_RNN = 0, 1, 2

    def __init__(self, name: str | None = None) -> None:
        self._rnn = StaticRNN(name)
        self._lengths: Variable | None = None
        self._goes_on: Variable | None = None

    @property
    def status(self) -> int:
        """The state of the step's description: before it, inside it, or after it."""
        return self._rnn.status

    @contextmanager
    def block(self) -> Iterator[None]:
        """Describe the step: operators appended inside run at each step of each sequence."""
        if self.status != self.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoke once")
        with self._rnn.step():
            yield

    def step_input(self, x: Variable, level: int = 0) -> Variable:
        """Return the rows of this step, one for each sequence of x; all inputs have equal lengths.

        Raises UnsupportedError for `level` above 0, and for an x whose rows are no sequences.
        """
        self._in_block("step_input")
        arguments.variable(x, "x", "DynamicRNN.step_input")
        if level:
            raise UnsupportedError("DynamicRNN.step_input(): only level 0 is supported")
        with _around():
            if self._lengths is None:
                ones = _fill_rows(x, [-1, 1], 1.0, "float32")
                steps, self._lengths = _steps(note(ones, levels_of(x)))
            else:
                steps = None
            rows, _ = _steps(x)
        if steps is not None:
            self._goes_on = cast(self._rnn.step_input(steps), "bool")
        return self._rnn.step_input(rows)

    def static_input(self, x: Variable) -> Variable:
        """Return x, which each step reads unchanged.

        It has a row, or a sequence, for each sequence of the step inputs.
        """
        self._in_block("static_input")
        self._check_started("static_input")
        return arguments.variable(x, "x", "DynamicRNN.static_input")

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> Variable:
        """Create a value that each step takes from the previous step: [sequences, ...].

        It starts as `init`, or as `value` in the `shape` of one row. `need_reorder` has no effect:
        the sequences keep the order of the feed.
        """
        self._in_block("memory")
        lengths = self._check_started("memory")
        if init is None:
            if shape is None:
                raise ValueError("DynamicRNN.memory(): give one of 'init' and 'shape'")
            with _around():
                init = _fill_rows(lengths, [-1, *shape], value, dtype)
        return self._rnn.memory(init=init)

    def update_memory(self, ex_mem: Variable, new_mem: Variable) -> None:
        """Set `ex_mem` to `new_mem` for the next step of the sequences that have one."""
        self._in_block("update_memory")
        self._check_started("update_memory")
        arguments.variable(ex_mem, "ex_mem", "DynamicRNN.update_memory")
        arguments.variable(new_mem, "new_mem", "DynamicRNN.update_memory")
        assert self._goes_on is not None
        more = list(range(2, len(ex_mem.shape)))
        goes_on = unsqueeze(self._goes_on, more) if more else self._goes_on
        self._rnn.update_memory(ex_mem, where(goes_on, new_mem, ex_mem))

    def output(self, *outputs: Variable) -> None:
        """Collect these values in every step."""
        self._in_block("output")
        self._rnn.output(*outputs)

    def __call__(self) -> Variable | list[Variable]:
        """Return the outputs as sequences like the first step input; one output without a list."""
        if self.status != self.AFTER_RNN:
            raise ValueError("Output of the dynamic RNN can only be visited outside the rnn block.")
        lengths = self._check_started("output")
        made = self._rnn()
        if isinstance(made, Variable):
            return sequence_unpad(swap_time(made), lengths)
        return [sequence_unpad(swap_time(each), lengths) for each in made]

    def _in_block(self, method: str) -> None:
        if self.status != self.IN_RNN:
            raise ValueError(f"{method} can only be invoked inside rnn block.")

    def _check_started(self, method: str) -> Variable:
        if self._lengths is None:
            raise ValueError(f"step_input should be invoked before {method}(...)")
        return self._lengths


@contextmanager
def _around() -> Iterator[None]:
    """Append to the block around the step."""
    program = default_main_program()
    inside = program.current_block_idx
    program.current_block_idx = parent_of_current(program).idx
    try:
        yield
    finally:
        program.current_block_idx = inside


def _steps(x: Variable) -> tuple[Variable, Variable]:
    """Pad sequences [total, ...] to [steps, sequences, ...]; also return their lengths."""
    padded, lengths = sequence_pad(x, constant(full([1], 0, x.dtype)))
    return swap_time(padded), lengths


def _fill_rows(like: Variable, shape: Sequence[int], value: float, dtype: Any) -> Variable:
    """Create a tensor of one value with as many rows as `like`."""
    attrs = {
        "shape": [int(size) for size in shape],
        "value": float(value),
        "dtype": arguments.dtype(dtype, "dtype", "DynamicRNN.memory").code,
    }
    return constant(emit("fill_constant_batch_size_like", {"Input": like}, attrs))
