"""StaticFunction: a Python function that runs as a program, and the decorator that makes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from functools import partial, update_wrapper
from types import FunctionType, MethodType
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import nest
from graphopt.frontend.calls import called_from_outside
from graphopt.frontend.first_values import needs_feed
from graphopt.frontend.mode import would_be_dynamic
from graphopt.frontend.tracing import TracedFunction, converting, current_trace
from graphopt.ir.program import Program, Variable
from graphopt.jit import settings
from graphopt.jit.conversion.calls import NOT_TO_STATIC, convert
from graphopt.jit.conversion.calls import ignore as ignore_functions
from graphopt.jit.conversion.function import source_of
from graphopt.jit.signature import (
    Arguments,
    bind,
    given_specs,
    key_of,
    specification,
)
from graphopt.jit.trace import Trace
from graphopt.nn.layer.layers import Layer
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.scope import global_scope
from graphopt.static.input import InputSpec

# The most traces of a function; further kinds of arguments are traced again each time.
MOST_TRACES = 64


class StaticFunction(TracedFunction):
    """A function whose calls run programs, one per kind of arguments (paddle.jit.to_static).

    A call with arrays or results of other calls traces the function at the first arguments of these
    shapes and dtypes, runs the program, and returns `Value`s. Constants such as
    `paddle.to_tensor(x)` are arrays in a script that has created no program. Other arguments, and
    the training mode of the layer, are constants of the trace. With `input_spec` the inputs follow
    it, and one program serves all that fit it. With a Variable of a program, and inside another
    traced function, a call appends the operators there. As an attribute of a class it is a method.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        input_spec: Sequence[Any] | None = None,
        build_strategy: BuildStrategy | None = None,
    ) -> None:
        self.dygraph_function = function
        self._signature = inspect.signature(function)
        self._specs = None if input_spec is None else given_specs(input_spec, "to_static")
        self._strategy = build_strategy or BuildStrategy()
        self._traces: Bounded[Hashable, Trace] = Bounded(MOST_TRACES)
        self._latest: Trace | None = None
        update_wrapper(self, function)

    def __get__(self, owner: Any, kind: type | None = None) -> StaticFunction:
        """Bind the method to an object."""
        if owner is None:
            return self
        # each object keeps its own bound methods, with its lifetime; a base class has others
        methods = vars(owner).setdefault("_static_methods", {})
        if self not in methods:
            method = MethodType(self.dygraph_function, owner)
            methods[self] = StaticFunction(method, self._specs, self._strategy)
        return methods[self]

    @called_from_outside
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as a program; raise as `Trace` and `Executor.run`."""
        arguments = bind(self._signature, args, kwargs)
        variables = [leaf for leaf in arguments.leaves if isinstance(leaf, Variable)]
        builds = bool(variables) and not would_be_dynamic()
        if builds or current_trace() is not None or any(map(needs_feed, variables)):
            function = self.dygraph_function
            if not settings.is_enabled():
                return function(*args, **kwargs)
            with converting(convert):
                return convert(function)(*args, **kwargs)
        if not settings.is_enabled():
            raise UnsupportedError(
                f"{self._name}: enable_to_static(False) is not supported, because graphopt has no "
                "dynamic mode; leave to_static enabled"
            )
        specs = self._specify(arguments)
        trace = self._trace(specs)
        pairs = zip(specs.leaves, arguments.leaves, strict=True)
        return trace.run([leaf for spec, leaf in pairs if isinstance(spec, InputSpec)])

    def with_hooks(self) -> StaticFunction:
        """Wrap a layer's method in the hooks of the layer."""
        method = self.dygraph_function
        assert isinstance(method, MethodType)

        def run_hooks(layer: Layer, *args: Any, **kwargs: Any) -> Any:
            return layer._with_hooks(convert(method), args, kwargs)

        setattr(run_hooks, "__signature__", inspect.signature(method.__func__))  # noqa: B010
        return StaticFunction(MethodType(run_hooks, method.__self__), self._specs, self._strategy)

    # -- traces --------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return getattr(self.dygraph_function, "__qualname__", repr(self.dygraph_function))

    @property
    def layer(self) -> Layer | None:
        """The layer that has this method."""
        owner = getattr(self.dygraph_function, "__self__", None)
        return owner if isinstance(owner, Layer) else None

    def _specify(self, arguments: Arguments) -> Arguments:
        """Compute the specifications of the arguments of a call."""
        given = arguments.signature.bind_partial(*(self._specs or ())).arguments
        trees: dict[str, Any] = {}
        for name, tree in arguments.trees.items():
            if name not in given:
                trees[name] = nest.map_leaves(specification, tree)
                continue
            found = nest.difference(given[name], tree)
            if found is not None:
                raise ValueError(
                    f"{self._name}(): the argument '{name}' does not match its input_spec: {found}"
                )
            pairs = zip(nest.leaves(tree), nest.leaves(given[name]), strict=True)
            trees[name] = nest.rebuild(tree, [specification(*pair) for pair in pairs])
        return Arguments(trees, arguments.signature)

    def _trace(self, specs: Arguments) -> Trace:
        layer = self.layer
        layers = [] if layer is None else layer.sublayers(include_self=True)
        modes = tuple(each.training for each in layers)
        # a program belongs to one scope, and structures with other names differ
        key = tuple(map(key_of, specs.leaves)), tuple(specs.names()), modes, global_scope()

        def make_program() -> Trace:
            state = [] if layer is None else [*layer.parameters(), *layer.buffers()]
            sources = [variable.block.program for variable in state]
            return Trace(self.dygraph_function, specs, sources, self._strategy)

        self._latest = self._traces.find(key, make_program)
        return self._latest

    def get_concrete_program(self, *args: Any, **kwargs: Any) -> Trace:
        """Return the trace for arguments, which may be InputSpecs."""
        return self._trace(self._specify(bind(self._signature, args, kwargs)))

    @property
    def concrete_program(self) -> Trace:
        """The latest trace, or the trace of `input_spec`; ValueError if there is neither."""
        if self._latest is None:
            if self._specs is None:
                raise ValueError(
                    f"{self._name} has not been traced: pass an input_spec to to_static, or call "
                    "the function once"
                )
            return self.get_concrete_program(*self._specs)
        return self._latest

    def traced_for(self, input_spec: Sequence[Any] | None) -> Trace:
        """Return the trace to save: for `input_spec`, or for the one of `to_static`."""
        chosen = self._specs if input_spec is None else given_specs(input_spec, "jit.save")
        return self.concrete_program if chosen is None else self._with_specs(chosen)

    def _with_specs(self, specs: Sequence[Any]) -> Trace:
        bound = bind(self._signature, specs, {})
        return self._trace(Arguments(bound.trees, bound.signature))

    @property
    def main_program(self) -> Program:
        """The program of the latest trace."""
        return self.concrete_program.main_program

    @property
    def inputs(self) -> list[Variable]:
        """The inputs of the latest trace."""
        return self.concrete_program.inputs

    @property
    def outputs(self) -> list[Variable]:
        """The results of the latest trace."""
        return self.concrete_program.output_variables

    @property
    def code(self) -> str:
        """The text of the traced function, with control flow as calls."""
        function = getattr(self.dygraph_function, "__func__", self.dygraph_function)
        return source_of(function)

    def rollback(self) -> Callable[..., Any]:
        """Return the original function; a layer gets back its original method."""
        layer = self.layer
        if layer is not None and layer.__dict__.get(self.__name__) is self:
            object.__delattr__(layer, self.__name__)
        return self.dygraph_function

    def compiled_program(self) -> CompiledProgram:
        """Return the program of the latest trace with its BuildStrategy, for `explain`."""
        return self.concrete_program.compiled_program

    def output_names(self) -> list[str]:
        """Return the names of the results of the latest trace."""
        return [variable.name for variable in self.outputs]


def to_static(
    function: Any = None,
    input_spec: Sequence[Any] | None = None,
    build_strategy: BuildStrategy | None = None,
    backend: str | None = None,
    **kwargs: Any,
) -> Any:
    """Convert a function or layer to run as a program (paddle.jit.to_static); also a decorator.

    A Layer is returned itself, with a `StaticFunction` as its `forward`. `input_spec` is a list of
    InputSpecs, nested as the arguments are; dimensions of None may differ between calls.
    `build_strategy` selects the passes. `full_graph` and `backend` are accepted: the whole function
    always becomes one program, which XLA compiles.

    Raises TypeError for other objects than functions, layers and BuildStrategies, ValueError for
    another backend than "CINN" and None and for an unknown argument, UnsupportedError for
    `property`.
    """
    if build_strategy is not None and not isinstance(build_strategy, BuildStrategy):
        raise TypeError(
            "Required type(build_strategy) shall be `paddle.static.BuildStrategy`, but received "
            f"{type(build_strategy).__name__}"
        )
    if backend not in ("CINN", None):
        raise ValueError(
            f"The backend of to_static should be 'CINN' or None, but received {backend}."
        )
    if kwargs.get("property"):
        raise UnsupportedError(
            "to_static(property=True) is not supported, because graphopt saves tensors only; "
            "return the value from forward()"
        )
    unknown = set(kwargs) - {"property", "full_graph"}
    if unknown:
        raise ValueError(f"to_static() has no argument '{min(unknown)}'")
    if function is None:
        return partial(to_static, input_spec=input_spec, build_strategy=build_strategy)
    if isinstance(function, Layer):
        forward: Any = function.forward
        plain = forward.dygraph_function if isinstance(forward, StaticFunction) else forward
        function.forward = StaticFunction(plain, input_spec, build_strategy)
        return function
    if isinstance(function, StaticFunction):
        function = function.dygraph_function
    if not isinstance(function, (FunctionType, MethodType)):
        raise TypeError(
            "to_static() takes a function or a Layer, but received "
            f"{getattr(function, '__name__', type(function).__name__)}"
        )
    return StaticFunction(function, input_spec, build_strategy)


def not_to_static(func: Any = None) -> Any:
    """Mark a function that traces call unchanged (paddle.jit.not_to_static); a decorator."""
    if func is None:
        return not_to_static
    setattr(func, NOT_TO_STATIC, True)
    return func


def ignore_module(modules: Sequence[Any]) -> None:
    """Call the functions of these modules unconverted in traces (paddle.jit.ignore_module)."""
    for module in modules:
        if not inspect.ismodule(module):
            raise TypeError(f"ignore_module() takes modules, found {type(module).__name__}")
        ignore_functions(module)
