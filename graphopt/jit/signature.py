"""Arguments of a traced function: which are fed, which are constants of the trace."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from graphopt.frontend import nest
from graphopt.frontend.first_values import value_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Variable
from graphopt.jit.value import RunValue
from graphopt.runtime.state.slots import Tensor
from graphopt.static.input import InputSpec

Tree = Any


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, or their specifications, by parameter.

    `leaves` are the leaves of all trees, in order; `names` the names of inputs among them.
    """

    trees: Mapping[str, Tree]
    signature: inspect.Signature

    @property
    def leaves(self) -> list[Any]:
        """Arrays, Variables, InputSpecs and constants."""
        return nest.leaves(list(self.trees.values()))

    def with_leaves(self, values: list[Any]) -> inspect.BoundArguments:
        """Bind the arguments of a call with these leaves instead."""
        trees = nest.rebuild(list(self.trees.values()), values)
        bound = inspect.BoundArguments(self.signature, {})  # pyright: ignore[reportArgumentType]
        for name, tree in zip(self.trees, trees, strict=True):
            kind = self.signature.parameters[name].kind
            bound.arguments[name] = (
                tuple(tree) if kind is inspect.Parameter.VAR_POSITIONAL else tree
            )
        return bound

    def names(self) -> list[str]:
        """Name the leaves after their parameters, numbered if a parameter has several."""
        found: list[str] = []
        for name, tree in self.trees.items():
            count = len(nest.leaves(tree))
            found += [name] if count == 1 else [f"{name}_{at}" for at in range(count)]
        return found


def bind(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Bind the arguments of a call, with defaults; raise TypeError where they do not fit.

    Tensors of a scope or a DataLoader are replaced by their arrays.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = Arguments(dict(bound.arguments), signature)
    if any(isinstance(leaf, Tensor) for leaf in arguments.leaves):
        trees = {name: nest.map_leaves(_array_in, tree) for name, tree in bound.arguments.items()}
        return Arguments(trees, signature)
    return arguments


def _array_in(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, Tensor) else leaf


def is_array(leaf: Any) -> bool:
    """True for arguments that are fed: arrays, results of other functions, and Variables."""
    return isinstance(leaf, (np.ndarray, RunValue, Variable, InputSpec))


def as_array(leaf: Any) -> np.ndarray[Any, Any]:
    """Return the values of a fed argument."""
    return value_of(leaf) if isinstance(leaf, Variable) else np.asarray(leaf)


def specification(leaf: Any, given: Any = None) -> Any:
    """Return the InputSpec of an argument: `given`, or one of its shape and dtype.

    A constant is its own specification.
    """
    if isinstance(given, InputSpec):
        return given
    if isinstance(leaf, InputSpec) or not is_array(leaf):
        return leaf
    if isinstance(leaf, Variable):
        return InputSpec(leaf.shape, leaf.dtype)
    return InputSpec(tuple(leaf.shape), as_dtype(leaf.dtype))


def key_of(spec: Any) -> Hashable:
    """Compute an argument's part of a trace's key."""
    if isinstance(spec, InputSpec):
        return spec.shape, f"{spec.dtype}", spec.name, spec.stop_gradient
    try:
        hash(spec)
    except TypeError:
        return type(spec), id(spec)
    return type(spec), spec


def given_specs(input_spec: Any, function: str) -> list[Any]:
    """Convert `input_spec` to a list, with specifications for Variables and arrays.

    Raises TypeError unless it is a list or tuple.
    """
    if not isinstance(input_spec, (list, tuple)):
        raise TypeError(
            f"{function}(): 'input_spec' must be a list or tuple of InputSpec, found "
            f"{type(input_spec).__name__}"
        )
    return [nest.map_leaves(specification, each) for each in cast(Sequence[Any], input_spec)]
