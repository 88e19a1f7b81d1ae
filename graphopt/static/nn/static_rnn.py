"""StaticRNN: a step, written once, for all items of sequences (paddle.fluid.layers.StaticRNN)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from graphopt.errors import ProgramError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sub_blocks import (
    append_block_op,
    new_block,
    parent_of_current,
    reads_and_writes,
    scopes_of,
)
from graphopt.ir.dialect.shapes import UNKNOWN
from graphopt.ir.program import Block, Variable, default_main_program, undo, unique_name


@dataclass
class _Memory:
    """A memory: its initial value, its value in the step, and its value for the next step."""

    init: Variable
    before: Variable
    after: Variable | None = None


class StaticRNN:
    """A recurrence over sequences along their first axis, the time.

        rnn = StaticRNN()
        with rnn.step():
            word = rnn.step_input(words)          # [time, batch, ...] -> [batch, ...]
            hidden = rnn.memory(shape=[-1, 8], batch_ref=word)
            new = layers.fc([word, hidden], 8, act="relu")
            rnn.update_memory(hidden, new)
            rnn.step_output(new)
        outputs = rnn()                           # [time, batch, 8]

    Paddle page: paddle.fluid.layers.StaticRNN.
    """

    BEFORE_RNN_BLOCK, IN_RNN_BLOCK, AFTER_RNN_BLOCK = 0, 1, 2

    def __init__(self, name: str | None = None) -> None:
        self.helper = LayerHelper("static_rnn", name)
        self.memories: dict[str, _Memory] = {}
        self.inputs: list[Variable] = []
        self.outputs: list[Variable] = []
        self.status = self.BEFORE_RNN_BLOCK
        self.seq_len: int | None = None

    @contextmanager
    def step(self) -> Iterator[None]:
        """Describe the step: operators appended inside run at each time step."""
        if self.status != self.BEFORE_RNN_BLOCK:
            raise ValueError("StaticRNN: step() can be used only once")
        with undo.transaction():
            for name in ("memories", "inputs", "outputs"):
                undo.note(setattr, self, name, type(getattr(self, name))())
            undo.note_attributes(self, "status", "seq_len")
            self.status = self.IN_RNN_BLOCK
            with new_block() as inside:
                yield
                states = self._finish_memories()
            self.status = self.AFTER_RNN_BLOCK
            self._append(inside, states)

    def memory(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        batch_ref: Variable | None = None,
        init_value: float = 0.0,
        init_batch_dim_idx: int = 0,
        ref_batch_dim_idx: int = 1,
    ) -> Variable:
        """Declare a value that each step reads from the previous one; the first reads `init`.

        Without `init` it starts as a tensor of `shape` filled with `init_value`, whose dimension
        `init_batch_dim_idx` is dimension `ref_batch_dim_idx` of `batch_ref` (a step input, with the
        time axis counted). Raises ValueError when neither is given.
        """
        self._in_step("memory")
        if init is None:
            if shape is None or batch_ref is None:
                raise ValueError("if init is None, memory at least need shape and batch_ref")
            init = self._boot(shape, batch_ref, init_value, init_batch_dim_idx, ref_batch_dim_idx)
        arguments.variable(init, "init", "StaticRNN.memory")
        if parent_of_current(default_main_program()).find_var(init.name) is None:
            raise ProgramError(
                f"StaticRNN.memory(): the initial value '{init.name}' is computed inside the step; "
                "compute the value before the step"
            )
        block = default_main_program().current_block()
        name = unique_name.generate(f"{self.helper.name}@mem")
        before = block.create_var(name, init.shape, init.dtype)
        self.memories[name] = _Memory(init, before)
        return before

    def _boot(
        self, shape: Sequence[int], like: Variable, value: float, to: int, of: int
    ) -> Variable:
        arguments.variable(like, "batch_ref", "StaticRNN.memory")
        parent = parent_of_current(default_main_program())
        made = parent.create_var(unique_name.generate(f"{self.helper.name}@memory_boot"))
        attrs = {
            "value": float(value),
            "shape": [int(dim) for dim in shape],
            "dtype": like.dtype.code,
            "input_dim_idx": of,
            "output_dim_idx": to,
        }
        parent.append_op("fill_constant_batch_size_like", {"Input": like}, {"Out": made}, attrs)
        return made

    def step_input(self, x: Variable) -> Variable:
        """Return the item of a sequence at the current step; all sequences have one length."""
        self._in_step("step_input")
        arguments.variable(x, "x", "StaticRNN.step_input")
        if not x.shape:
            raise ProgramError(f"StaticRNN.step_input(): '{x.name}' is 0-D and has no time axis")
        length = x.shape[0]
        if self.seq_len in (None, UNKNOWN):
            self.seq_len = length
        elif length not in (UNKNOWN, self.seq_len):
            raise ValueError(
                f"Static RNN only take fix seq_len input: '{x.name}' has {length} steps, earlier "
                f"inputs have {self.seq_len}"
            )
        block = default_main_program().current_block()
        # it has the name of the sequence, which it hides inside the step
        item = block.create_var(x.name, x.shape[1:], x.dtype, stop_gradient=x.stop_gradient)
        self.inputs.append(item)
        return item

    def step_output(self, o: Variable) -> None:
        """Collect this value of every step into one output."""
        self._in_step("step_output")
        arguments.variable(o, "o", "StaticRNN.step_output")
        inner = self.helper.emit("rnn_memory_helper", {"X": o}, {"dtype": o.dtype.code})
        parent = parent_of_current(default_main_program())
        length = UNKNOWN if self.seq_len is None else self.seq_len
        self.outputs.append(parent.create_var(inner.name, (length, *inner.shape), inner.dtype))

    def output(self, *outputs: Variable) -> None:
        """Collect several values, as `step_output` does."""
        for each in outputs:
            self.step_output(each)

    def update_memory(self, mem: Variable, var: Variable) -> None:
        """Assign `var` to the memory `mem` for the next step."""
        self._in_step("update_memory")
        arguments.variable(mem, "mem", "StaticRNN.update_memory")
        arguments.variable(var, "var", "StaticRNN.update_memory")
        if mem.name not in self.memories:
            raise ProgramError(
                f"StaticRNN.update_memory(): '{mem.name}' is not a memory of this RNN"
            )
        self.memories[mem.name].after = var

    def __call__(self) -> Variable | list[Variable]:
        """Return the outputs, with the time as their first axis; a single one without a list."""
        if self.status != self.AFTER_RNN_BLOCK:
            raise ValueError("RNN output can only be retrieved after rnn block")
        if not self.outputs:
            raise ValueError("RNN has no output")
        return self.outputs[0] if len(self.outputs) == 1 else list(self.outputs)

    def _in_step(self, method: str) -> None:
        if self.status != self.IN_RNN_BLOCK:
            raise ValueError(f"You must invoke {method} in rnn block")

    def _finish_memories(self) -> list[str]:
        """Emit the memories' values for the next step, and return their names."""
        if not self.inputs:
            raise ProgramError(
                "StaticRNN: the step has no step_input, which sets the number of steps; call "
                "step_input"
            )
        names: list[str] = []
        for memory in self.memories.values():
            if memory.after is None:
                raise ProgramError(
                    f"{memory.init.name} should be updated in every step: call update_memory"
                )
            after = memory.after
            copy = self.helper.emit("rnn_memory_helper", {"X": after}, {"dtype": after.dtype.code})
            names.append(copy.name)
        return names

    def _append(self, inside: Block, states: list[str]) -> None:
        parent = inside.parent
        assert parent is not None
        reads, _ = reads_and_writes(inside)
        memories = list(self.memories.values())
        append_block_op(
            "recurrent",
            inside,
            {
                "inputs": [item.name for item in self.inputs],
                "initial_states": [memory.init for memory in memories],
                "parameters": reads,
            },
            {"outputs": self.outputs, "step_scopes": [scopes_of(parent)]},
            {
                "has_states": bool(memories),
                "ex_states": [memory.before.name for memory in memories],
                "states": states,
            },
        )
