"""The facts that `graphopt info` prints of a saved model."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphopt.display.table import table
from graphopt.display.units import several, shape, size
from graphopt.errors import GraphoptError
from graphopt.ir.formats.find import find_given, find_parameters, is_onnx
from graphopt.ir.formats.model import LoadedModel
from graphopt.ir.formats.parameters import stored_variables
from graphopt.ir.program import EMPTY, Operator, Program, saved_version
from graphopt.ir.program.gradient_types import GRAD_TYPE
from graphopt.ir.translate.blocks.block import SKIPPED
from graphopt.ir.translate.blocks.program import HANDLERS, parse_program
from graphopt.ir.translate.inference import block_indices
from graphopt.ir.translate.onnx.naming import opset_of
from graphopt.ir.translate.operators.registry import TRANSLATIONS, translation_of
from graphopt.ir.translate.operators.table import BY_TYPE
from graphopt.models.model import read_parameters, read_program_only

# The suffix of gradient operators of any order.
_GRADIENT = re.compile(r"(?:_(?:double_|triple_)?grad\d?)+$")
_PIR_VERSION = re.compile(rb'"version"\s*:\s*(\d+)')


@dataclass(frozen=True)
class UnsupportedOperator:
    """An operator that graphopt cannot run: its places, and the requirements for its support."""

    type: str
    block: int
    index: int
    output: str
    source: str
    needed: str


@dataclass(frozen=True)
class Info:
    """The facts of `graphopt info` about a model."""

    path: str
    format: str
    version: str
    kind: str
    bytes: int
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    parameters: dict[str, Any]
    blocks: int
    operators: dict[str, int]
    unsupported: list[UnsupportedOperator] = field(default_factory=list[UnsupportedOperator])
    problem: str = ""
    """The reason why a program of known operators cannot run."""


def info_of(path: str, params: str | None = None) -> Info:
    """Read the facts of a model; raise only when `path` is not a readable model."""
    read = read_program_only(path)
    program = read.program
    ops = [op for block in program.blocks for op in block.ops]
    problem = _problem(read)
    unsupported = [_describe_unsupported(op) for op in _unknown(ops)] if problem else []
    format, version = _format(read)
    return Info(
        path=str(read.path),
        format=format,
        version=version,
        kind=_kind(read, ops),
        bytes=read.path.stat().st_size,
        inputs=[_variable(program, name) for name in read.feed_names],
        outputs=[_variable(program, name) for name in read.fetch_names],
        parameters=_parameters(read, params),
        blocks=len(program.blocks),
        operators=dict(Counter(op.type for op in ops).most_common()),
        unsupported=unsupported,
        problem="" if unsupported else problem,
    )


def _format(read: LoadedModel) -> tuple[str, str]:
    with read.path.open("rb") as file:
        head = file.read(512)
    if is_onnx(head):
        return "ONNX", f"opset {opset_of(read.program)}"
    if head.lstrip().startswith(b"{"):
        found = _PIR_VERSION.search(head)
        return "PIR JSON", found[1].decode() if found else "unknown"
    version = saved_version(read.program)
    if not version:
        return "ProgramDesc", "unknown"
    return "ProgramDesc", f"{version // 1000000}.{version // 1000 % 1000}.{version % 1000}"


def _variable(program: Program, name: str) -> dict[str, Any]:
    variable = program.global_block().find_var(name)
    if variable is None or not variable.has_type:
        return {"name": name, "dtype": "unknown", "shape": None}
    shape = [-1 if dim < 0 else dim for dim in variable.shape]
    return {"name": name, "dtype": f"{variable.dtype}", "shape": shape}


def _parameters(read: LoadedModel, params: str | None) -> dict[str, Any]:
    """Count the declared parameters, and find and check the files that hold them."""
    variables = stored_variables(read.program)
    typed = [v for v in variables if v.has_type and all(dim >= 0 for dim in v.shape)]
    sizes = {v.name: _elements(v.shape) for v in typed}
    found: dict[str, Any] = {
        "count": len(variables),
        "elements": sum(sizes.values()),
        "bytes": sum(sizes[v.name] * v.dtype.numpy.itemsize for v in typed),
        "files": [],
        "problem": "",
    }
    try:
        sources = [find_given(read.path, Path(params))] if params else []
        sources = sources or find_parameters(read.path)
        found["files"] = [str(source) for source in sources]
        if read_parameters(read, params) is None and variables:
            found["problem"] = "no parameters in the folder of the program; give them with --params"
    except (GraphoptError, OSError) as error:
        found["problem"] = str(error)
    return found


def _elements(dims: tuple[int, ...]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _kind(read: LoadedModel, ops: Sequence[Operator]) -> str:
    if read.is_inference:
        return "inference model"
    if any(_GRADIENT.search(op.type) or op.type == GRAD_TYPE for op in ops):
        return "training program"
    return "program" if read.feed_names or read.fetch_names else "startup program"


def _unknown(ops: Sequence[Operator]) -> list[Operator]:
    """Collect the operators that no table has.

    A gradient operator is read as a whole. It counts only if its forward operator is unknown too,
    or if no other operator is unknown.
    """
    found = [op for op in ops if not _is_known(op.type)]
    others = [
        op
        for op in found
        if not (_GRADIENT.search(op.type) and _is_known(_GRADIENT.sub("", op.type)))
    ]
    return others or found


def _is_known(type: str) -> bool:
    kinds = (BY_TYPE, HANDLERS, SKIPPED, (GRAD_TYPE, "feed", "fetch"))
    return translation_of(type) is not None or any(type in kind for kind in kinds)


def _describe_unsupported(op: Operator) -> UnsupportedOperator:
    outputs = [name for name in op.output_arg_names if name != EMPTY]
    if _GRADIENT.search(op.type):
        forward = _GRADIENT.sub("", op.type)
        needed = f"the gradient operator of {forward}, as saved training programs contain it"
    elif list(block_indices(op)):
        needed = "a handler for its blocks in graphopt/ir/translate/blocks/program.py"
    else:
        needed = (
            "a row in graphopt/ir/operators/operators.txt, or a new op "
            "(CONTRIBUTING.md, Adding an op)"
        )
        near = difflib.get_close_matches(op.type, {*BY_TYPE, *TRANSLATIONS}, n=2, cutoff=0.8)
        if near:
            needed += f"; similar operators: {', '.join(near)}"
    return UnsupportedOperator(
        op.type,
        op.block.idx,
        op.block.ops.index(op),
        outputs[0] if outputs else "",
        str(op.location) if op.location else "",
        needed,
    )


def _problem(read: LoadedModel) -> str:
    try:
        parse_program(read.program, read.fed_names, read.fetch_names, in_one=True)
    except (GraphoptError, ValueError, KeyError) as error:
        return str(error)
    return ""


def text_of(info: Info) -> str:
    """Format the facts as text."""
    parameters = info.parameters
    lines = [
        f"{info.path}: {info.format}, version {info.version}, {info.kind}, {size(info.bytes)}",
        f"operators: {sum(info.operators.values())} in {several(info.blocks, 'block')}",
        f"parameters: {parameters['count']} with {parameters['elements']:,} "
        f"{'element' if parameters['elements'] == 1 else 'elements'}, "
        f"{size(parameters['bytes'])}"
        + (f", from {', '.join(parameters['files'])}" if parameters["files"] else ""),
    ]
    if parameters["problem"]:
        lines.append(f"  {parameters['problem']}")
    for what, entries in (("inputs", info.inputs), ("outputs", info.outputs)):
        rows = [
            (e["name"], e["dtype"], "-" if e["shape"] is None else shape(e["shape"]))
            for e in entries
        ]
        lines += ["", f"{what}:" if rows else f"{what}: none"]
        if rows:
            lines.append(table(("name", "dtype", "shape"), rows))
    lines += ["", table(("operator", "count"), info.operators.items()), ""]
    if info.unsupported:
        count = len(info.unsupported)
        lines.append(f"{several(count, 'operator')} {'is' if count == 1 else 'are'} not supported:")
        lines.append(
            table(
                ("operator", "block", "index", "output", "source"),
                ((u.type, u.block, u.index, u.output, u.source) for u in info.unsupported),
            )
        )
        needs = dict.fromkeys((u.type, u.needed) for u in info.unsupported)
        lines += [f"  {type}: needs {needed}" for type, needed in needs]
    elif info.problem:
        lines.append(f"every operator is known, but the program cannot be run: {info.problem}")
    else:
        lines.append("every operator is supported")
    return "\n".join(lines)
