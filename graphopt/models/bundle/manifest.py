"""The records of a bundle's manifest: what executables have to know, as JSON and back.

Reading raises whatever malformed records lead to; `layout.as_format_error` is around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Region

from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.index_bound import IndexBound
from graphopt.ir.dialect.signature import main_function, prepare_function
from graphopt.ir.dialect.text import ModuleParser, ModulePrinter
from graphopt.passes.padding.dims import Axes, Dim, Extent, Factor
from graphopt.passes.padding.masked import Masked
from graphopt.runtime.machine import Machine

Record = dict[str, Any]


def machine_record(machine: Machine) -> Record:
    """A kind of machine."""
    return {**machine._asdict(), "instructions": sorted(machine.instructions)}


def machine_of(record: Mapping[str, Any]) -> Machine:
    """The machine of a record."""
    names = frozenset(map(str, record["instructions"]))
    return Machine(str(record["processor"]), names, str(record["compiler"]))


def skeleton_text(module: ModuleOp) -> str:
    """A module with the types of `@main` and the whole of `@prepare`, as text."""
    main = main_function(module)
    types = FuncOp(
        main.sym_name.data,
        main.function_type,
        Region(),
        visibility="private",
        arg_attrs=main.arg_attrs,
        res_attrs=main.res_attrs,
    )
    prepare = prepare_function(module)
    stream = StringIO()
    # the generic form, in which a function without a body keeps the roles of its arguments
    ModulePrinter(stream, print_generic_format=True).print_op(
        ModuleOp([types, *([prepare.clone()] if prepare is not None else [])])
    )
    return stream.getvalue()


def skeleton_of(text: str) -> ModuleOp:
    """The module of a text, checked."""
    module = ModuleParser(new_context(), text, "skeleton").parse_module()
    module.verify()
    return module


def bounds_record(bounds: Mapping[str, Sequence[IndexBound]]) -> Record:
    """The numbers that feeds may hold."""
    return {name: [asdict(bound) for bound in each] for name, each in bounds.items()}


def bounds_of(record: Mapping[str, Any]) -> dict[str, tuple[IndexBound, ...]]:
    """The bounds of a record."""
    return {
        name: tuple(
            IndexBound(
                int(bound["low"]),
                int(bound["high"]),
                None if bound["allowed"] is None else int(bound["allowed"]),
                str(bound["reader"]),
            )
            for bound in each
        )
        for name, each in record.items()
    }


def axes_record(axes: Mapping[str, Axes]) -> Record:
    """The padded axes of feeds or fetches."""
    return {name: [_dim_record(dim) for dim in each] for name, each in axes.items()}


def axes_of(record: Mapping[str, Any]) -> dict[str, Axes]:
    """The axes of a record."""
    return {name: tuple(map(_dim_of, each)) for name, each in record.items()}


def masked_record(masked: Masked) -> Record:
    """The additional feeds of a masked program."""
    return {
        "masks": [_dim_record(dim) for dim in masked.masks],
        "counts": [_dim_record(dim) for dim in masked.counts],
        "fetches": axes_record(masked.fetches),
        "extents": [asdict(extent) for extent in sorted(masked.extents, key=str)],
        "equal": [[_dim_record(dim) for dim in pair] for pair in sorted(masked.equal, key=str)],
    }


def masked_of(record: Mapping[str, Any]) -> Masked:
    """The additional feeds of a record."""
    return Masked(
        tuple(_padded(dim) for dim in record["masks"]),
        tuple(_padded(dim) for dim in record["counts"]),
        axes_of(record["fetches"]),
        frozenset(_extent_of(extent) for extent in record["extents"]),
        frozenset((_padded(one), _padded(other)) for one, other in record["equal"]),
    )


def _dim_record(dim: Dim | None) -> list[Any] | None:
    if dim is None:
        return None
    return [asdict(factor) if isinstance(factor, Extent) else factor for factor in dim]


def _dim_of(record: Sequence[Any] | None) -> Dim | None:
    return None if record is None else _padded(record)


def _padded(record: Sequence[Any]) -> Dim:
    return tuple(map(_factor_of, record))


def _factor_of(record: Any) -> Factor:
    if isinstance(record, dict):
        return _extent_of(record)
    if not isinstance(record, str | int):
        raise TypeError(f"expected a name or a number, found {record!r}")
    return record


def _extent_of(record: Mapping[str, Any]) -> Extent:
    numbers = {key: int(value) for key, value in record.items() if key != "name"}
    return Extent(str(record["name"]), **numbers)
