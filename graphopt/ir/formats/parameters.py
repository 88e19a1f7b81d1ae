"""The parameters of a program: combined files, and folders with one file per variable.

A combined file has no names in it: it has the tensors of the program's stored variables in the
order of their names, so every tensor is checked against its declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from graphopt.errors import FormatError, MismatchError, UnsupportedError
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.files import path_of_variable, read_together
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.quote import quote
from graphopt.ir.formats.seal import Piece, sealed_tensor
from graphopt.ir.formats.tensor_stream import SavedTensor, read_tensor, write_tensor
from graphopt.ir.program import Program, Variable, VarKind

# Kinds of variables that are declared persistable, but not stored in files.
_NOT_STORED = (VarKind.FEED_MINIBATCH, VarKind.FETCH_LIST, VarKind.READER, VarKind.RAW)


def stored_variables(program: Program) -> list[Variable]:
    """List the variables that parameter files hold, in the order of their names, once each."""
    found: dict[str, Variable] = {}
    for variable in program.list_vars():
        if variable.persistable and variable.kind not in _NOT_STORED:
            found.setdefault(variable.name, variable)
    return [found[name] for name in sorted(found)]


def read_combined(
    data: bytes,
    variables: Sequence[Variable],
    source: str = "<parameters>",
    limits: Limits | None = None,
) -> dict[str, SavedTensor]:
    """Read the tensors of a combined file (`.pdiparams`, `__params__`) for `variables`.

    The arrays are read-only views on `data`. Raises FormatError when a tensor has another shape or
    element type than its variable, or the file holds more or fewer tensors.
    """
    tensors: dict[str, SavedTensor] = {}
    offset = 0
    for variable in variables:
        where = f"{source}, variable {quote(variable.name)}"
        if offset == len(data):
            raise MismatchError(
                f"{where}: byte {offset}: expected {len(variables)} tensors, "
                f"the file ends after {len(tensors)}"
            )
        tensors[variable.name], offset = _read(data, offset, variable, where, limits)
    if offset != len(data):
        raise MismatchError(
            f"{source}: byte {offset}: expected the end after {len(variables)} tensors, "
            f"found {len(data) - offset} bytes more"
        )
    return tensors


def read_folder(
    folder: Path, variables: Sequence[Variable], limits: Limits | None = None
) -> dict[str, SavedTensor]:
    """Read the tensors of a folder with one file per variable, named like the variable.

    Raises FormatError as `read_combined` does, or when a file is missing, and UnsafeError when a
    variable's name leads out of the folder.
    """
    return read_folder_with(folder, variables, {}, limits)[0]


def read_folder_with(
    folder: Path,
    variables: Sequence[Variable],
    others: Mapping[Path, int],
    limits: Limits | None = None,
) -> tuple[dict[str, SavedTensor], dict[Path, bytes]]:
    """Read as `read_folder`, with other files of the same save; `others` has their size limits.

    Returns the tensors and the bytes of all files.
    """
    limits = limits or Limits()
    paths = {v.name: path_of_variable(folder, v.name) for v in variables}
    files = {**others, **dict.fromkeys(paths.values(), limits.params_bytes)}
    try:
        contents = read_together(lambda: files, folder)
    except OSError as error:
        name = next((n for n, path in paths.items() if str(path) == error.filename), "")
        where = f"{folder}, variable {quote(name)}" if name else str(folder)
        raise FormatError(f"{where}: expected a file: {error.strerror}") from None
    tensors: dict[str, SavedTensor] = {}
    for variable in variables:
        where = f"{folder}, variable {quote(variable.name)}"
        data = contents[paths[variable.name]]
        tensors[variable.name], end = _read(data, 0, variable, where, limits)
        if end != len(data):
            raise FormatError(
                f"{where}: byte {end}: expected the end, found {len(data) - end} bytes more"
            )
    return tensors, contents


def _read(
    data: bytes, offset: int, variable: Variable, where: str, limits: Limits | None
) -> tuple[SavedTensor, int]:
    if variable.kind != VarKind.DENSE_TENSOR:
        raise UnsupportedError(
            f"{where}: only dense tensors can be loaded as parameters, found a variable of kind "
            f"{variable.kind}; convert the variable to a dense tensor before saving"
        )
    tensor, end = read_tensor(data, offset, where, limits)
    _check_declared(tensor, offset, variable, where)
    return tensor, end


def _check_declared(tensor: SavedTensor, offset: int, variable: Variable, where: str) -> None:
    if not variable.has_type:
        return
    shape, declared = tensor.array.shape, variable.shape
    fits = len(shape) == len(declared) and all(
        want in (-1, have) for want, have in zip(declared, shape, strict=True)
    )
    if not fits or tensor.array.dtype != variable.dtype.numpy:
        raise MismatchError(
            f"{where}: byte {offset}: expected {variable.dtype} {list(declared)} as the program "
            f"declares, found {tensor.array.dtype} {list(shape)}"
        )


def write_combined(tensors: Mapping[str, SavedTensor]) -> bytes:
    """Encode a combined file: the tensors in the order of their names."""
    return b"".join(write_tensor(*tensors[name]) for name in sorted(tensors))


def write_folder(
    folder: Path,
    tensors: Mapping[str, SavedTensor],
    others: Mapping[Path, Iterable[Piece]] | None = None,
) -> None:
    """Write one file per variable in `folder`, with `others` in it, in one save.

    Raises UnsafeError for a name that leads out of the folder.
    """
    paths = {name: path_of_variable(folder, name) for name in tensors}
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    files = {path: _pieces(tensors[name]) for name, path in paths.items()}
    write_files({**files, **(others or {})}, folder)


def _pieces(tensor: SavedTensor) -> Iterator[Piece]:
    """Encode a tensor only when its bytes are written."""
    yield from sealed_tensor(write_tensor(*tensor), len(tensor.lod))


def sealed_combined(streams: Iterable[bytes]) -> Iterator[Piece]:
    """Yield the pieces of a combined file, with room for a save's mark in the first tensor."""
    for index, stream in enumerate(streams):
        if index:
            yield stream
        else:
            yield from sealed_tensor(stream)
