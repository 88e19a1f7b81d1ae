"""Metrics that keep their state in the program (paddle.fluid.evaluator).

An evaluator appends operators that add each batch to persistable variables; call `reset` before the
first batch. `fluid.metrics` is the later form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.fluid import layers
from graphopt.fluid.layer_helper import LayerHelper
from graphopt.fluid.metrics import DetectionMAP as DetectionMAP
from graphopt.fluid.metrics import chunk_scores
from graphopt.frontend.calls import publish
from graphopt.ir.program import Program, Variable, program_guard, unique_name
from graphopt.nn.functional.alignment import edit_distance


def _copy(program: Program, variable: Variable) -> Variable:
    block = program.current_block()
    return block.create_var(variable.name, variable.shape, variable.dtype, persistable=True)


class Evaluator:
    """Base of the evaluators: `states` cover all batches, `metrics` the last one."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.states: list[Variable] = []
        self.metrics: list[Variable] = []
        self.helper = LayerHelper(name, **kwargs)
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError("You can only invoke Evaluator in root block")

    def reset(self, executor: Any, reset_program: Program | None = None) -> None:
        """Set the states to zero."""
        program = reset_program or Program()
        with program_guard(program):
            for state in self.states:
                layers.fill_constant(state.shape, state.dtype, 0.0, out=_copy(program, state))
        executor.run(program)

    def _add(self, suffix: str, value: Variable) -> Variable:
        """Create a state to which each run adds the value."""
        name = f"{unique_name.generate(self.helper.name)}_{suffix}"
        state = self.helper.create_variable(name, [1], value.dtype, persistable=True)
        layers.sums([state, value], out=state)
        self.states.append(state)
        return state

    def _values(self, executor: Any, eval_program: Program | None) -> list[Any]:
        """Fetch the values of the states."""
        program = eval_program or Program()
        fetched = executor.run(program, fetch_list=[_copy(program, s) for s in self.states])
        return [np.asarray(value).item() for value in fetched]


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of chunks (Paddle page: fluid.evaluator.ChunkEvaluator)."""

    def __init__(
        self,
        input: Variable,
        label: Variable,
        chunk_scheme: str,
        num_chunk_types: int,
        excluded_chunk_types: Any = None,
    ) -> None:
        super().__init__("chunk_eval")
        *scores, inferred, labelled, correct = layers.chunk_eval(
            input, label, chunk_scheme, num_chunk_types, excluded_chunk_types
        )
        self.num_infer_chunks = self._add("num_infer_chunks", inferred)
        self.num_label_chunks = self._add("num_label_chunks", labelled)
        self.num_correct_chunks = self._add("num_correct_chunks", correct)
        self.metrics.extend(scores)

    def eval(self, executor: Any, eval_program: Program | None = None) -> tuple[Any, ...]:
        """Compute precision, recall and F1 of all batches, as arrays of shape [1]."""
        scores = chunk_scores(*self._values(executor, eval_program))
        return tuple(np.array([score], "float32") for score in scores)


class EditDistance(Evaluator):
    """The mean edit distance of sequences (Paddle page: fluid.evaluator.EditDistance)."""

    def __init__(
        self, input: Variable, label: Variable, ignored_tokens: Any = None, **kwargs: Any
    ) -> None:
        super().__init__("edit_distance", **kwargs)
        distances, count = edit_distance(input, label, ignored_tokens=ignored_tokens)
        right = layers.equal(distances, layers.fill_constant([1], "float32", 0.0))
        wrong = layers.elementwise_sub(count, layers.reduce_sum(layers.cast(right, "int64")))
        total = layers.reduce_sum(distances)
        self.total_distance = self._add("total_distance", total)
        self.seq_num = self._add("seq_num", count)
        self.instance_error = self._add("instance_error", wrong)
        self.metrics.extend([total, wrong])

    def eval(self, executor: Any, eval_program: Program | None = None) -> tuple[Any, ...]:
        """Compute the mean distance, and the share of nonzero ones, as arrays of shape [1]."""
        total, count, wrong = self._values(executor, eval_program)
        return np.array([total / count], "float32"), np.array([wrong / count], "float32")


publish(globals(), __name__)
