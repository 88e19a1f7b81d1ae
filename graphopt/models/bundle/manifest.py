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
