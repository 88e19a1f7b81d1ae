"""A layer traced once with example inputs (TracedLayer of Paddle 1.8 and 2.0)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import nest
from graphopt.ir.program import Program
from graphopt.jit.static_function import StaticFunction
from graphopt.jit.trace import Trace
from graphopt.nn.layer.layers import Layer
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy


class TracedLayer:
    """The program of a layer for inputs of certain shapes; `trace` makes one.

    Paddle page: fluid.dygraph.TracedLayer.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @staticmethod
    def trace(layer: Layer, inputs: Any) -> tuple[Any, TracedLayer]:
        """Trace a layer on an array or a list of arrays; return its outputs and its program.

        Raises TypeError for other objects than layers, and as `paddle.jit.to_static`.
        """
        if not isinstance(layer, Layer):
            raise TypeError(f"TracedLayer.trace(): 'layer' should be a Layer, found {layer!r:.60}")
        function = StaticFunction(layer.forward)
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        outputs = function(*given)
        return outputs, TracedLayer(function.concrete_program)

    @property
    def program(self) -> Program:
        """The traced program."""
        return self._trace.main_program

    def set_strategy(
        self,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
    ) -> None:
        """Compile the program by this strategy; `exec_strategy` has no effect on one device."""
        self._trace.compile(build_strategy or BuildStrategy())

    def __call__(self, inputs: Any) -> list[Any]:
        """Run the program on an array or a list of arrays; return the outputs in one list."""
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        return list(nest.leaves(self._trace.run(given)))

    def save_inference_model(
        self,
        path: str,
        feed: Sequence[int] | None = None,
        fetch: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write the program with the inputs and outputs at these positions, and its parameters.

        By default all of them. The files are the same as `paddle.static.save_inference_model`'s.
        """
        inputs, outputs = self._trace.inputs, self._trace.output_variables
        self._trace.save(
            path,
            inputs if feed is None else [inputs[at] for at in feed],
            outputs if fetch is None else [outputs[at] for at in fetch],
            **kwargs,
        )
