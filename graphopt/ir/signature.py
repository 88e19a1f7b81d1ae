"""What a module's `@main` takes and gives: feeds, state and fetches by name, in argument order.

A module may have a second function, `@prepare`, of state that no step writes: `@main` takes its
results, so that a runtime need compute them only when that state has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument

from graphopt.ir.types import Tensor

FEED = "pd.feed"
STATE = "pd.state"
FETCH = "pd.fetch"
# what `@prepare` gives and `@main` takes
PREPARED = "pd.prepared"
PER_REPLICA = "pd.per_replica"
SHARD_OF = "pd.shard_of"
# on a module: why backward passes of saved operators stayed operators, each a `pd.vjp`
KEPT_GRADIENTS = "pd.kept_gradients"
# on a module: its dropouts draw by a quicker generator
HASH_DROPOUT = "pd.hash_dropout"


def kept_gradients(module: ModuleOp) -> tuple[str, ...]:
    """Why gradient operators of the program are no `pd.grad`, a reason for each backward pass."""
    found = module.attributes.get(KEPT_GRADIENTS)
    texts = cast(ArrayAttr[StringAttr], found) if isinstance(found, ArrayAttr) else ()
    return tuple(text.data for text in texts)


def hash_dropout(module: ModuleOp) -> None:
    """Let the dropouts of a module draw by hashing a counter."""
    module.attributes[HASH_DROPOUT] = UnitAttr()


def hashes_dropout(module: ModuleOp) -> bool:
    """True when the dropouts of a module draw by hashing a counter."""
    return HASH_DROPOUT in module.attributes


@dataclass(frozen=True)
class Port:
    """One argument or result of `@main`. `per_replica` state differs between replicas.

    State with `shard_of` is a part, here, of a value of that type; the replicas together have it.
    """

    kind: str
    name: str
    type: Tensor
    per_replica: bool = False
    shard_of: Tensor | None = None


@dataclass(frozen=True)
class Signature:
    """The arguments and results of `@main`."""

    arguments: tuple[Port, ...]
    results: tuple[Port, ...]

    def names(self, ports: tuple[Port, ...], kind: str) -> tuple[str, ...]:
        """The names of the ports of one kind, in order."""
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
        """The state that each replica has its own value of."""
        return frozenset(p.name for p in (*self.arguments, *self.results) if p.per_replica)


def main_function(module: ModuleOp) -> FuncOp:
    """The `@main` function of a module; ValueError when there is none."""
    found = _function(module, "main")
    if found is None:
        raise ValueError("the module has no function @main")
    return found


def prepare_function(module: ModuleOp) -> FuncOp | None:
    """The `@prepare` function of a module, if it has one."""
    return _function(module, "prepare")


def _function(module: ModuleOp, name: str) -> FuncOp | None:
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == name:
            return op
    return None


def signature_of(module: ModuleOp) -> Signature:
    """The signature of a module's `@main`; ValueError when an argument has no role."""
    return function_signature(main_function(module))


def function_signature(function: FuncOp) -> Signature:
    """The signature of one function; ValueError when an argument has no role."""
    types = function.function_type
    return Signature(
        _ports(function.arg_attrs, types.inputs.data, "argument"),
        _ports(function.res_attrs, types.outputs.data, "result"),
    )


def inputs_of(module: ModuleOp) -> tuple[Port, ...]:
    """The feeds and the state that a module reads, in `@main` or in `@prepare`."""
    prepare = prepare_function(module)
    first = function_signature(prepare).arguments if prepare is not None else ()
    ports = {(port.kind, port.name): port for port in (*signature_of(module).arguments, *first)}
    return tuple(port for port in ports.values() if port.kind != PREPARED)


def result_port(function: FuncOp, index: int) -> Port:
    """One result of a function, without looking at the others."""
    attrs, types = function.res_attrs, function.function_type.outputs.data
    one = slice(index, index + 1)
    return _ports(ArrayAttr(attrs.data[one]) if attrs else None, types[one], "result")[0]


def add_feed(function: FuncOp, name: str, type_: Tensor) -> BlockArgument:
    """A new last argument of `@main`, fed under this name."""
    block, types = function.body.block, function.function_type
    attrs = function.arg_attrs.data if function.arg_attrs else ()
    function.function_type = FunctionType.from_lists([*types.inputs, type_], list(types.outputs))
    function.arg_attrs = ArrayAttr([*attrs, DictionaryAttr({FEED: StringAttr(name)})])
    return block.insert_arg(type_, len(block.args))


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
                whole = cast(Tensor | None, entry.get(SHARD_OF))
                ports.append(Port(kind, name.data, cast(Tensor, type_), per_replica, whole))
                break
        else:
            raise ValueError(
                f"{what} {position} says neither {FEED}, {STATE}, {FETCH} nor {PREPARED}; "
                f'write e.g. {{{FEED} = "x"}} after its type'
            )
    return tuple(ports)
