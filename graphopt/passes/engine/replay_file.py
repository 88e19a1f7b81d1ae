"""The file that replays a failure: a program as `.mlir` text, with everything else in comments.

Header lines are `// key: JSON`, free text is `// | text`, and inputs are the bits of an array in
base64, or a seed for random numbers. The first line that is not a comment ends the header.
The program keeps the source lines of its ops, so the file can be read by `graphopt-opt` too.
Nothing in a file is executed, and no array may be larger than `LARGEST`.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Attribute

from graphopt.errors import FormatError
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.text import ModuleParser, ModulePrinter, wrap_lines
from graphopt.ir.dtypes import DType, find_dtype

Array = np.ndarray[Any, Any]
TITLE = "// graphopt replay file, format 1"
# the most bytes of one array, and of all arrays of a file
LARGEST = 1 << 28
_WIDTH = 94
_VERSIONS_KEY = "versions"


@dataclass(frozen=True)
class MadeUp:
    """An input whose values do not matter: uniform numbers of a seed, the same on any machine."""

    dtype: str
    shape: tuple[int, ...]
    seed: int

    def array(self) -> Array:
        """Generate uniform numbers from -1 to 1; integers are 0 or 1."""
        raw = np.random.PCG64(self.seed).random_raw(math.prod(self.shape))
        unit = (np.asarray(raw, np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        dtype = DType(self.dtype)
        numbers = 2 * unit - 1 if dtype.is_differentiable else np.floor(2 * unit)
        return numbers.astype(dtype.numpy).reshape(self.shape)


@dataclass(frozen=True)
class ReplayFile:
    """A program, the steps to run on it, and the failure that follows.

    `steps` are passes in the syntax of `-p`; fusions that share one sweep are one step. `limit` is
    the value of `--opt-bisect-limit`.

    `kind` is the kind of failure: one of `graphopt.debug.differences.Kind`. `rtol` and `atol` are
    None for the tolerances of the element type. `imports` names the modules that register the
    passes.
    """

    what: str
    kind: str
    module: ModuleOp
    steps: tuple[tuple[str, ...], ...] = ()
    limit: int = -1
    seed: int = 7
    against: str = "unoptimised"
    rtol: float | None = None
    atol: float | None = None
    verify_each: bool = False
    imports: tuple[str, ...] = ()
    versions: str = ""
    notes: str = ""
    inputs: Mapping[str, Array | MadeUp] = field(default_factory=dict[str, "Array | MadeUp"])

    def arrays(self) -> dict[str, Array]:
        """Collect the inputs by name, and generate those given by a seed."""
        return {n: v.array() if isinstance(v, MadeUp) else v for n, v in self.inputs.items()}

    def command(self, path: object) -> str:
        """Compose the command that runs the file again."""
        extra = "".join(f" --import {name}" for name in self.imports)
        return f"graphopt replay {path}{extra}"


_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "what": str,
    "kind": str,
    "steps": list,
    "limit": int,
    "seed": int,
    "against": str,
    "rtol": (float, int, type(None)),
    "atol": (float, int, type(None)),
    "verify_each": bool,
    _VERSIONS_KEY: str,
}


class _LocatedPrinter(ModulePrinter):
    """A printer of modules that prints only known locations."""

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, UnknownLoc):
            self.print_string("\0")
        else:
            super().print_attribute(attribute)


def module_text(module: ModuleOp) -> str:
    """Print a module with its known source lines; long lines are wrapped."""
    return wrap_lines(lines_text(module))


def lines_text(module: ModuleOp) -> str:
    """Print a module with its known source lines, each op on one line, however long."""
    stream = StringIO()
    _LocatedPrinter(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue().replace(" \0", "").replace("\0", "loc(unknown)")


def write(replay: ReplayFile, path: object = "FILE") -> str:
    """Compose the text of a replay file; the command in its header names `path`."""
    lines = [TITLE, f"//   {replay.command(path)}"]
    lines += ["// exits with 1 while the failure happens, and with 0 when it is gone:"]
    for key in _KEYS:
        lines.append(f"// {key}: {json.dumps(getattr(replay, key))}")
    lines += [f"// import: {json.dumps(name)}" for name in replay.imports]
    lines += [f"// | {line}".rstrip() for line in replay.notes.splitlines()]
    for name, value in replay.inputs.items():
        lines += _input_lines(name, value)
    return "\n".join([*lines, module_text(replay.module), ""])


def _input_lines(name: str, value: Array | MadeUp) -> Iterator[str]:
    entry: dict[str, Any] = {"name": name}
    if isinstance(value, MadeUp):
        entry |= {"dtype": value.dtype, "shape": list(value.shape), "seed": value.seed}
        yield f"// input: {json.dumps(entry)}"
        return
    entry |= {"dtype": value.dtype.name, "shape": list(value.shape)}
    if value.size <= 8 and value.dtype.kind in "fiub":
        entry["numbers"] = str(value.ravel().tolist())  # for readers only; the bytes below count
    yield f"// input: {json.dumps(entry)}"
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 9)).decode()
    yield from (f"// = {data[at : at + _WIDTH]}" for at in range(0, len(data), _WIDTH))


def is_replay_file(text: str) -> bool:
    """True for the text of a replay file."""
    return text.startswith(TITLE.rpartition(",")[0])


def read(text: str, source: str) -> ReplayFile:
    """Parse a replay file; raise FormatError, naming `source` and the line, if it is invalid."""
    if not text.startswith(TITLE):
        raise FormatError(f"{source}: the first line should be '{TITLE}'")
    lines = text.splitlines()
    values: dict[str, Any] = {}
    inputs: dict[str, Array | MadeUp] = {}
    imports: list[str] = []
    notes: list[str] = []
    number = 3
    while number < len(lines) and lines[number].startswith("//"):
        where = f"{source}:{number + 1}"
        key, _, rest = lines[number][2:].strip().partition(" ")
        number += 1
        if key == "|":
            notes.append(rest)
        elif key == "input:":
            data: list[str] = []
            while number < len(lines) and lines[number].startswith("// = "):
                data.append(lines[number][5:])
                number += 1
            name, value = _read_input(rest, "".join(data), where)
            inputs[name] = value
        elif key == "import:":
            imports.append(str(_json(rest, where)))
        elif key.endswith(":") and key[:-1] in _KEYS:
            values[key[:-1]] = _check_value(key[:-1], _json(rest, where), where)
        else:
            raise FormatError(f"{where}: expected one of {', '.join(_KEYS)}, found '{key}'")
    if sum(_bytes(value) for value in inputs.values()) > LARGEST:
        raise FormatError(f"{source}: the inputs take more than {LARGEST} bytes")
    for key in ("what", "kind"):
        if key not in values:
            raise FormatError(f"{source}: the header has no line '// {key}: ...'")
    module = ModuleParser(new_context(), text, source).parse_module()
    return ReplayFile(
        **values, module=module, imports=tuple(imports), notes="\n".join(notes), inputs=inputs
    )


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: expected JSON after the key: {error}") from None


def _check_value(key: str, value: Any, where: str) -> Any:
    wanted = _KEYS[key]
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise FormatError(f"{where}: {key} cannot be {value!r}")
    if key == "steps":
        steps = cast(list[Any], value)
        if not all(isinstance(step, list) for step in steps):
            raise FormatError(f"{where}: steps should be lists of passes, found {value!r}")
        return tuple(tuple(str(made) for made in step) for step in steps)
    return value


def _read_input(text: str, data: str, where: str) -> tuple[str, Array | MadeUp]:
    entry = _json(text, where)
    try:
        name, dtype = str(entry["name"]), find_dtype(entry["dtype"])
        if dtype is None:
            raise TypeError(f"{entry['dtype']!r} is not an element type")
        shape = tuple(_size(dim) for dim in cast(Sequence[Any], entry["shape"]))
        seed = entry.get("seed")
        wanted = math.prod(shape) * dtype.numpy.itemsize
        if wanted > LARGEST:
            raise ValueError(f"{wanted} bytes are more than {LARGEST}")
        if seed is not None:
            return name, MadeUp(f"{dtype}", shape, _size(seed))
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(data, validate=True), wanted + 1)
        if len(raw) != wanted:
            raise ValueError(f"{len(raw)} bytes, not {wanted}")
        return name, np.frombuffer(raw, dtype.numpy).reshape(shape).copy()
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise FormatError(f"{where}: no readable input: {error}") from None


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"expected a size, found {value!r}")
    return value


def _bytes(value: Array | MadeUp) -> int:
    if isinstance(value, MadeUp):
        return math.prod(value.shape) * DType(value.dtype).numpy.itemsize
    return value.nbytes
