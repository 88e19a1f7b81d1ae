"""The ports of a module's `@main`: feeds, state and fetches by name, in argument order.

A module may have a second function, `@prepare`, of state that no step writes: `@main` takes its
results, so that a runtime need compute them only when that state has changed.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from graphopt.ir.dialect.types import Tensor, dtype_of, shape_of, show
from graphopt.ir.dtypes import DType

FEED = "pd.feed"
STATE = "pd.state"
FETCH = "pd.fetch"
# a result of `@prepare` that is an argument of `@main`
PREPARED = "pd.prepared"
PER_REPLICA = "pd.per_replica"
SHARD_OF = "pd.shard_of"
CUT = "pd.cut"
STACK_OF = "pd.stack_of"
ORDER = "pd.order"
# on a module: why gradient operators of a saved program stayed operators, each a `pd.vjp`
KEPT_GRADIENTS = "pd.kept_gradients"
# on a module: float32 products may not be computed in TF32
FULL_PRECISION = "pd.full_precision"
# on a module: the results of its ops are checked for NaN and infinities
CHECK_FINITE = "pd.check_finite"


def kept_gradients(module: ModuleOp) -> tuple[str, ...]:
    """Return why gradient operators did not become a `pd.grad`, one reason per backward pass."""
    found = module.attributes.get(KEPT_GRADIENTS)
    texts = cast(ArrayAttr[StringAttr], found) if isinstance(found, ArrayAttr) else ()
    return tuple(text.data for text in texts)


def compute_in_full(module: ModuleOp) -> None:
    """Require float32 products in float32, not in TF32, on any device."""
    module.attributes[FULL_PRECISION] = UnitAttr()


def computes_in_full(module: ModuleOp) -> bool:
    """True when float32 products may not be in TF32."""
    return FULL_PRECISION in module.attributes


def check_finite(module: ModuleOp) -> None:
    """Require a module to check the results of its ops for NaN and infinities."""
    module.attributes[CHECK_FINITE] = UnitAttr()


def checks_finite(module: ModuleOp) -> bool:
    """True when a module checks the results of its ops for NaN and infinities."""
    return CHECK_FINITE in module.attributes


@dataclass(frozen=True)
class Port:
    """One argument or result of `@main`. `per_replica` state differs between replicas.

    State with `shard_of` is a part of a value of that type, which the replicas hold together; with
    `cut` as well it is a piece along that axis, and the devices of a replica hold it together.
    State with `stack_of` stacks the variables of these names, of one type, along a new first axis.
    State with `order` has its axes in another order: axis i is the variable's axis order[i].
    """

    kind: str
    name: str
    type: Tensor
    per_replica: bool = False
    shard_of: Tensor | None = None
    stack_of: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    cut: int | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that this port holds."""
        return self.stack_of or (self.name,)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes; -1 for open ones."""
        return shape_of(self.type)

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return dtype_of(self.type)

    @property
    def whole(self) -> tuple[int, ...] | None:
        """The shape of the value that devices hold together; None where each has its own value."""
        return None if self.shard_of is None else shape_of(self.shard_of)


@dataclass(frozen=True)
class Signature:
    """The arguments and results of `@main`."""

    arguments: tuple[Port, ...]
    results: tuple[Port, ...]

    def names(self, ports: tuple[Port, ...], kind: str) -> tuple[str, ...]:
        """List the names of the ports of one kind, in order."""
        return tuple(port.name for port in ports if port.kind == kind)

    @property
    def feeds(self) -> tuple[str, ...]:
        """The variables that must be fed."""
        return self.names(self.arguments, FEED)

    @property
    def reads(self) -> tuple[str, ...]:
        """The state that the function reads."""
        return self.names(self.arguments, STATE)

    @property
    def fetches(self) -> tuple[str, ...]:
        """The fetched variables."""
        return self.names(self.results, FETCH)

    @property
    def writes(self) -> tuple[str, ...]:
        """The state that the function writes."""
        return self.names(self.results, STATE)

    @property
    def per_replica(self) -> frozenset[str]:
        """The state with its own value on each replica."""
        return frozenset(p.name for p in (*self.arguments, *self.results) if p.per_replica)


def main_function(module: ModuleOp) -> FuncOp:
    """Return the `@main` function of a module; raise ValueError when there is none."""
    found = _function(module, "main")
    if found is None:
        raise ValueError("the module has no function @main")
    return found


def prepare_function(module: ModuleOp) -> FuncOp | None:
    """Return the `@prepare` function of a module; None when there is none."""
    return _function(module, "prepare")


def _function(module: ModuleOp, name: str) -> FuncOp | None:
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == name:
            return op
    return None


def signature_of(module: ModuleOp) -> Signature:
    """Read the signature of a module's `@main`; raise ValueError for an argument without a role."""
    return function_signature(main_function(module))


def function_signature(function: FuncOp) -> Signature:
    """Read the signature of one function; raise ValueError for an argument without a role."""
    parts = function.function_type, function.arg_attrs, function.res_attrs
    known = _signatures.get(function)
    # attributes are immutable: an edit of the signature replaces them
    if known is not None and all(map(operator.is_, known[0], parts)):
        return known[1]
    types = function.function_type
    found = Signature(
        _ports(function.arg_attrs, types.inputs.data, "argument"),
        _ports(function.res_attrs, types.outputs.data, "result"),
    )
    for ports, what in ((found.arguments, "arguments"), (found.results, "results")):
        _check_stacks(ports, what)
    _signatures[function] = parts, found
    return found


_signatures: WeakKeyDictionary[FuncOp, tuple[tuple[Attribute | None, ...], Signature]]
_signatures = WeakKeyDictionary()
"""The signature of each function, with the attributes that it was read from."""


def inputs_of(module: ModuleOp) -> tuple[Port, ...]:
    """List the feeds and the state that a module reads, in `@main` or in `@prepare`."""
    prepare = prepare_function(module)
    first = function_signature(prepare).arguments if prepare is not None else ()
    ports = {(port.kind, port.name): port for port in (*signature_of(module).arguments, *first)}
    return tuple(port for port in ports.values() if port.kind != PREPARED)


def result_port(function: FuncOp, index: int) -> Port:
    """Read one result port of a function, without reading the others."""
    attrs, types = function.res_attrs, function.function_type.outputs.data
    one = slice(index, index + 1)
    return _ports(ArrayAttr(attrs.data[one]) if attrs else None, types[one], "result")[0]


def stack_name(names: Sequence[str]) -> str:
    """Name a stack of variables; no other stack begins with the same variable."""
    return f"{names[0]} .. {names[-1]}"


def stack_entry(names: Sequence[str]) -> DictionaryAttr:
    """Build the attributes of an argument or a result that is a stack of variables."""
    listed = ArrayAttr([StringAttr(name) for name in names])
    return DictionaryAttr({STATE: StringAttr(stack_name(names)), STACK_OF: listed})


def _ports(
    attrs: ArrayAttr[DictionaryAttr] | None, types: tuple[Attribute, ...], what: str
) -> tuple[Port, ...]:
    dictionaries: list[Mapping[str, Attribute]] = (
        [d.data for d in attrs] if attrs is not None else [{} for _ in types]
    )
    ports: list[Port] = []
    for position, (entry, type_) in enumerate(zip(dictionaries, types, strict=True)):
        for kind in (FEED, STATE, FETCH, PREPARED):
            name = entry.get(kind)
            if isinstance(name, StringAttr):
                per_replica = isinstance(entry.get(PER_REPLICA), UnitAttr)
                whole = cast("Tensor | None", entry.get(SHARD_OF))
                where = f"{what} {position} of @main"
                members, order = _members(entry, type_, where), _order(entry, type_, where)
                type_ = cast(Tensor, type_)
                port = Port(kind, name.data, type_, per_replica, whole, members, order)
                ports.append(replace(port, cut=_cut(entry, port, where)) if CUT in entry else port)
                break
        else:
            raise ValueError(
                f"{what} {position} says neither {FEED}, {STATE}, {FETCH} nor {PREPARED}; "
                f'write e.g. {{{FEED} = "x"}} after its type'
            )
    return tuple(ports)


def _check_stacks(ports: tuple[Port, ...], what: str) -> None:
    """Raise ValueError when a variable is in a stack and elsewhere, too."""
    if any(port.stack_of for port in ports):
        names = [name for port in ports if port.kind == STATE for name in port.variables]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"several {what} of @main are the variable '{twice}'")


def _members(entry: Mapping[str, Attribute], type_: Attribute, where: str) -> tuple[str, ...]:
    """Read the variables of a stack; raise ValueError unless the first axis has an item of each."""
    if STACK_OF not in entry:
        return ()
    found = entry[STACK_OF]
    listed: tuple[Attribute, ...] = ()
    if isinstance(found, ArrayAttr):
        listed = cast("ArrayAttr[Attribute]", found).data
    names = tuple(name.data for name in listed if isinstance(name, StringAttr))
    if len(set(names)) != len(listed) or shape_of(type_)[:1] != (len(names),):
        raise ValueError(
            f"{where} is {show(type_)}, and {STACK_OF} must list as many variables as its first "
            f"axis is long, each once; found {found}"
        )
    return names


def _order(entry: Mapping[str, Attribute], type_: Attribute, where: str) -> tuple[int, ...]:
    """Read the axis order of state; raise ValueError unless it is a permutation of the axes."""
    if ORDER not in entry:
        return ()
    found = entry[ORDER]
    order = found.get_values() if isinstance(found, DenseArrayBase) else ()
    if sorted(order) != list(range(len(shape_of(type_)))):
        raise ValueError(
            f"{where} is {show(type_)}, and {ORDER} must be an order of its axes, as an "
            f"array<i64: ...>; found {found}"
        )
    return tuple(int(axis) for axis in order)


def _cut(entry: Mapping[str, Attribute], port: Port, where: str) -> int:
    """Read the axis of a piece; raise ValueError unless only that axis differs from the whole."""
    found, whole = entry[CUT], port.whole
    axis = cast("IntegerAttr[Any]", found).value.data if isinstance(found, IntegerAttr) else -1
    shape = port.shape
    others = whole is not None and (*whole[:axis], *whole[axis + 1 :])
    if whole is None or not 0 <= axis < len(shape) or others != (*shape[:axis], *shape[axis + 1 :]):
        raise ValueError(
            f"{where} is {show(port.type)}, and {CUT} must be the axis along which {SHARD_OF} is "
            f"longer, as an i64; found {found}"
        )
    return axis
