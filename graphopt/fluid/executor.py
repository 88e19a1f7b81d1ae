"""Executor of 1.8: what it fetches without `return_numpy` has sequence lengths."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.lod_tensor import LoDTensor, noted_lengths
from graphopt.ir.program import Program, default_main_program
from graphopt.runtime.executor import Executor as _Executor
from graphopt.runtime.fetch import fetch_names, split_updates
from graphopt.runtime.scope import Scope as Scope
from graphopt.runtime.scope import Tensor
from graphopt.runtime.scope import global_scope as global_scope
from graphopt.runtime.scope import scope_guard as scope_guard


class Executor(_Executor):
    """As `paddle.static.Executor` (Paddle page: fluid.Executor)."""

    def run(
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> list[Any]:
        """Run a program once; see `paddle.static.Executor.run`.

        Tensors that are fetched without `return_numpy` have the lengths that functions of
        `fluid.layers` noted on their variables, most of them none.
        """
        values = super().run(program, feed, fetch_list, *args, **kwargs)
        if not any(type(value) is Tensor for value in values):
            return values
        source = default_main_program() if program is None else program
        names = fetch_names(split_updates(fetch_list)[0])
        block = source.global_block() if isinstance(source, Program) else None
        made: list[Any] = []
        for name, value in zip(names, values, strict=True):
            tensor = LoDTensor()
            tensor._slot = value._slot
            rows = (tensor.shape() or [0])[0]
            variable = None if block is None else block.vars.get(name)
            tensor.set_recursive_sequence_lengths(noted_lengths(variable, feed, rows))
            made.append(tensor)
        return made
