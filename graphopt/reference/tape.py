"""Derivatives of NumPy code: arrays that remember how they were computed.

A `TapeNode` takes part in NumPy's functions by NumPy's own protocols, so that a rule computes the
same on nodes as on arrays. `pull_back` walks from results to their operands. It computes with the
same functions, on request on nodes again, so that cotangents have derivatives, too. The derivatives
of the single functions are in `derivatives.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Array = Any
Vjp = Callable[..., Array]
"""(cotangent, result, *arguments) -> the cotangent of one argument."""

UFUNCS: dict[Any, Sequence[Vjp | None]] = {}
"""NumPy ufunc -> the derivative rule of each argument; None for a zero derivative."""
FLAT: set[Any] = set()
"""Functions whose derivative is zero, or whose result is not floating-point."""
FUNCTIONS: dict[Any, Callable[..., Array]] = {}
"""NumPy function -> its replacement for arguments that are nodes."""


class NoDerivative(NotImplementedError):
    """The derivative of a NumPy function is not written down."""


class TapeNode(NDArrayOperatorsMixin):
    """An array, the arguments that it was computed from, and the derivatives for these."""

    __slots__ = ("arguments", "value", "vjps")
    __hash__ = object.__hash__  # pyright: ignore

    def __init__(
        self,
        value: Array,
        arguments: Sequence[Any] = (),
        vjps: Sequence[Vjp | None] = (),
    ) -> None:
        self.value = np.asarray(value)
        self.arguments = tuple(arguments)
        self.vjps = tuple(vjps)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def real(self) -> Array:
        return np.real(self)

    @property
    def imag(self) -> Array:
        return np.imag(self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise NoDerivative("a conversion to a plain array")

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc is np.add:
            return np.sum(inputs[0], **kwargs)
        if method != "__call__" or kwargs:
            raise NoDerivative(f"np.{ufunc.__name__}.{method} with {list(kwargs)}")
        if ufunc in FLAT:
            return ufunc(*map(value_of, inputs))
        if ufunc not in UFUNCS:
            raise NoDerivative(f"np.{ufunc.__name__}")
        return apply(ufunc, UFUNCS[ufunc], *inputs)

    def __array_function__(
        self, func: Any, types: Iterable[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if func in FUNCTIONS:
            return FUNCTIONS[func](*args, **kwargs)
        if func in FLAT:
            return func(*_values(args), **{k: value_of(v) for k, v in kwargs.items()})
        raise NoDerivative(f"np.{func.__name__}")

    def __getitem__(self, key: Any) -> Array:
        return FUNCTIONS["getitem"](self, key)

    def reshape(self, *shape: Any) -> Array:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Array:
        return np.transpose(self, axes[0] if len(axes) == 1 else (axes or None))

    def astype(self, dtype: Any) -> Array:
        return FUNCTIONS["astype"](self, dtype)


def value_of(x: Any) -> Any:
    """Return the array of a node; other values unchanged."""
    return x.value if isinstance(x, TapeNode) else x


def _values(args: Any) -> list[Any]:
    return [_values(a) if isinstance(a, (list, tuple)) else value_of(a) for a in args]


def apply(function: Callable[..., Array], vjps: Sequence[Vjp | None], *args: Any) -> Array:
    """Apply a function; the result is a node when a differentiable argument is a node."""
    value = function(*map(value_of, args))
    relevant = (isinstance(a, TapeNode) and v is not None for a, v in zip(args, vjps, strict=False))
    return TapeNode(value, args, vjps) if any(relevant) else value


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum a cotangent over the axes along which an argument was broadcast."""
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, dim in enumerate(shape) if dim == 1 and g.shape[i + extra] != 1
    )
    return np.reshape(np.sum(g, axis=axes) if axes else g, shape)


def pull_back(
    seeds: Sequence[tuple[TapeNode, Array]], *, stop: Iterable[TapeNode] = (), nodes: bool = False
) -> dict[int, Array]:
    """Compute the cotangent of every node that the seeds depend on, by `id`.

    Cotangents do not flow through the nodes of `stop`. With `nodes` the cotangents have
    derivatives.
    """
    blocked = {id(node) for node in stop}
    found: dict[int, Array] = {}
    for node, seed in seeds:
        _accumulate(found, node, seed)
    for node in _order([node for node, _ in seeds]):
        g = found.get(id(node))
        if g is None or id(node) in blocked:
            continue
        as_given = (node, *node.arguments)
        out, *args = as_given if nodes else map(value_of, as_given)
        for argument, vjp in zip(node.arguments, node.vjps, strict=False):
            if isinstance(argument, TapeNode) and vjp is not None:
                pulled = vjp(g, out, *args)
                _accumulate(found, argument, unbroadcast(pulled, argument.shape))
    return found


def _accumulate(found: dict[int, Array], node: TapeNode, g: Array) -> None:
    have = found.get(id(node))
    found[id(node)] = g if have is None else have + g


def _order(roots: Iterable[TapeNode]) -> list[TapeNode]:
    """Sort the roots and their ancestors, each node before its arguments."""
    order: list[TapeNode] = []
    seen: set[int] = set()
    stack: list[tuple[TapeNode, bool]] = [(root, False) for root in roots]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(a, False) for a in node.arguments if isinstance(a, TapeNode)]
    return order[::-1]
