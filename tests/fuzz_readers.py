"""Reads mutated model files: each must be read, or refused with an error of graphopt, and quickly.

`make fuzz` runs it over 100,000 files, `python tests/fuzz_readers.py COUNT SEED` over others; the
files of one seed are always the same. Mutants are made of the models in `data/models`, of a few of
these models as ONNX if its packages are installed, and of the models in the folder GRAPHOPT_CORPUS,
if that is set. A program that is read is also parsed to a module.
"""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from graphopt.errors import GraphoptError
from graphopt.ir.formats import (
    Limits,
    load_model,
    read_combined,
    read_pickle,
    read_program,
    read_selected_rows,
    read_tensor,
    stored_variables,
)
from graphopt.ir.formats.protobuf.message import decode, encode
from graphopt.ir.formats.protobuf.schema import PROGRAM
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.program import Program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.models.model import import_model
from graphopt.models.npz_reader import read_entries

SECONDS = 5
# What reading may allocate: so many bytes for each of the file, and some that every file costs.
TIMES, BASE = 300, 8 << 20
LARGEST = 80_000  # seeds above this are cut, so that most of the time goes into many files

NUMBERS = (0, 1, -1, 2, 7, 255, 1 << 20, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 62), -9)
NAMES = ("", "x", "../../etc/passwd", "a\0b", "@EMPTY@", "feed", "é" * 300)


# Models that are small as ONNX, with branches, loops and all dtypes.
WRITTEN = ("infer_dtype_zoo", "infer_lenet", "infer_loop_if", "infer_decode_break")


class TooSlow(Exception):
    """A file that took more than `SECONDS` of CPU time."""


class Failure(NamedTuple):
    """A mutant that was neither read nor properly refused."""

    kind: str
    number: int
    problem: str
    data: bytes


class Seed(NamedTuple):
    """A sound file; `kind` names its reader."""

    kind: str
    data: bytes
    source: str


def folders() -> list[Path]:
    """List the folders of models: this repository's, and the corpus if the environment names one.

    Raise FileNotFoundError when the corpus is missing.
    """
    models = Path(__file__).parent / "data" / "models"
    corpus = os.environ.get("GRAPHOPT_CORPUS")
    return [models, Path(corpus).resolve(strict=True)] if corpus else [models]


def seeds() -> list[Seed]:
    """Collect every file that a reader takes, hostile ones included."""
    found = [seed for folder in folders() for seed in _seeds_in(folder)]
    return sorted([*found, *_onnx_seeds()])


def _onnx_seeds() -> Iterator[Seed]:
    """Write a few models as ONNX; yield none if `onnx_ir` is not installed."""
    if find_spec("onnx_ir") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in WRITTEN:
            case, file = Path(__file__).parent / "data" / "models" / name, Path(folder) / "m.onnx"
            import_model(next(case.glob("model.json"), case / "model.pdmodel")).export(file)
            yield Seed("onnx", file.read_bytes(), f"{name}/m.onnx")


def _seeds_in(folder: Path) -> Iterator[Seed]:
    for file in sorted(folder.glob("**/*")):
        if not file.is_file() or file.suffix == ".md" or file.stat().st_size > 3_000_000:
            continue
        kind = _kind_of(file)
        if kind:
            data = file.read_bytes()
            if kind in ("program", "json", "npz") and len(data) > LARGEST:
                continue
            yield Seed(kind, data[:LARGEST], f"{file.parent.name}/{file.name}")


def _kind_of(file: Path) -> str | None:
    if file.suffix in (".pdmodel", ".program") or file.name == "__model__":
        return "program"
    if file.suffix == ".npz":
        return "npz"
    if file.suffix in (".pdparams", ".pdopt", ".pkl"):
        return "pickle"
    if file.suffix == ".pdiparams" or file.name == "__params__":
        return "tensors"
    if file.suffix == ".json":
        known = file.name in ("meta.json", "cases.json", "index.json")
        return None if known else "json"
    if not file.suffix or file.parent.name == "model":
        return "rows" if "selected_rows" in str(file) else "tensors"
    return None


# Mutations ------------------------------------------------------------------------------------


def mutate_bytes(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """Make one to three changes that ignore the format."""
    mutant = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if not mutant:
            break
        at, size = chance.randrange(len(mutant)), chance.choice((1, 2, 4, 8, 32, 200))
        piece = bytes(mutant[at : at + size])
        start = chance.randrange(len(other)) if other else 0
        new: bytes = chance.choice(
            (
                bytes([mutant[at] ^ (1 << chance.randrange(8))]) + piece[1:],
                chance.randbytes(size),
                b"",
                piece * chance.choice((2, 2, 50)),
                other[start : start + size],
                b"\xff" * 9 + b"\x01",  # a varint of 64 bits
                b"\xff\xff\xff\xff\x7f",
                b"\x80" * chance.choice((3, 11)) + b"\x01",
                (1 << chance.choice((31, 40, 62))).to_bytes(8, "little"),
            )
        )
        mutant[at : at + len(piece)] = new
        if chance.random() < 0.1:
            del mutant[chance.randrange(len(mutant) + 1) :]
    return bytes(mutant)


def mutate_program(data: bytes, chance: random.Random) -> bytes:
    """Change the decoded message, and encode it again."""
    message = copy.deepcopy(decode(WireReader(data, "seed", Limits()), PROGRAM, 0, len(data)))
    for _ in range(chance.choice((1, 1, 2, 4))):
        blocks = message.get("blocks") or [{}]
        block = chance.choice(blocks)
        chance.choice(_CHANGES)(message, block, chance)
    return encode(PROGRAM, message)


def mutate_onnx(data: bytes, chance: random.Random) -> bytes:
    """Change nodes, tensors and values of a graph, at any depth."""
    import onnx

    model = onnx.ModelProto.FromString(data)
    graphs = [model.graph]
    graphs += [a.g for node in model.graph.node for a in node.attribute if a.HasField("g")]
    for _ in range(chance.choice((1, 1, 2, 4))):
        graph = chance.choice(graphs)
        if graph.node:
            _change_node(graph, chance.choice(graph.node), chance)
    return model.SerializeToString()


def _change_node(graph: Any, node: Any, chance: random.Random) -> None:
    """Replace, remove or repeat a node, change an attribute, or change a tensor's header."""
    other, change = chance.choice(graph.node), chance.randrange(8)
    names = [*NAMES, *(name for each in graph.node for name in (*each.input, *each.output))]
    if change == 0:
        node.op_type = other.op_type
    elif change == 1 and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(names)
    elif change == 2 and node.output:
        node.output[chance.randrange(len(node.output))] = chance.choice(names)
    elif change == 3:
        graph.node.remove(node)
    elif change == 4:
        graph.node.append(copy.deepcopy(other))
    elif change == 5 and node.attribute:
        attribute = chance.choice(node.attribute)
        attribute.i = chance.choice(NUMBERS)
        del attribute.ints[chance.randrange(2) :]
        attribute.ints.append(chance.choice(NUMBERS))
        attribute.type = chance.randrange(12)
    elif change == 6 and graph.initializer:
        tensor = chance.choice(graph.initializer)
        del tensor.dims[chance.randrange(3) :]
        tensor.dims.append(chance.choice(NUMBERS))
        tensor.data_type = chance.choice((tensor.data_type, chance.randrange(25)))
    else:
        node.input.append(chance.choice(names))


def _items(block: dict[str, Any], key: str) -> list[Any]:
    found = block.get(key) or []
    return found if isinstance(found, list) else []


def _names(message: dict[str, Any]) -> list[str]:
    return [v["name"] for b in message["blocks"] for v in _items(b, "vars")] + list(NAMES)


def _rename(message: dict[str, Any], block: dict[str, Any], chance: random.Random) -> None:
    """Let an operator read or write another variable."""
    for op in chance.sample(_items(block, "ops"), min(1, len(_items(block, "ops")))):
        slots = [s for key in ("inputs", "outputs") for s in _items(op, key)]
        if slots:
            slot = chance.choice(slots)
            names = list(slot.get("arguments", []))
            names.insert(chance.randrange(len(names) + 1), chance.choice(_names(message)))
            slot["arguments"] = names[chance.randrange(2) :]


def _retype(message: dict[str, Any], block: dict[str, Any], chance: random.Random) -> None:
    """Give an operator another type, or replace one of its slots or attributes."""
    ops = [op for b in message["blocks"] for op in _items(b, "ops")]
    if not ops or not _items(block, "ops"):
        return
    op, model = chance.choice(_items(block, "ops")), chance.choice(ops)
    if chance.random() < 0.5:
        op["type"] = model["type"]
    else:
        key = chance.choice(("inputs", "outputs", "attrs"))
        if _items(model, key):
            op[key] = [*_items(op, key)[1:], copy.deepcopy(chance.choice(_items(model, key)))]


def _renumber(message: dict[str, Any], block: dict[str, Any], chance: random.Random) -> None:
    """Change some numbers anywhere in the block."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in pairs:
            if isinstance(value, dict | list):
                walk(value)
            elif isinstance(value, int | float):
                places.append((node, key))

    walk(block)
    for node, key in chance.sample(places, min(len(places), chance.choice((1, 1, 5)))):
        old = node[key]
        if isinstance(old, bool):
            node[key] = not old
        elif isinstance(old, float):
            node[key] = chance.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
        else:
            node[key] = chance.choice((*NUMBERS, old + 1, old - 1))


def _reorder(message: dict[str, Any], block: dict[str, Any], chance: random.Random) -> None:
    """Remove, repeat or swap operators or variables."""
    items = block.get(chance.choice(("ops", "ops", "vars")))
    if not items:
        return
    at, to = chance.randrange(len(items)), chance.randrange(len(items))
    change = chance.randrange(3)
    if change == 0:
        del items[at]
    elif change == 1:
        items.insert(to, copy.deepcopy(items[at]))
    else:
        items[at], items[to] = items[to], items[at]


def _reshape(message: dict[str, Any], block: dict[str, Any], chance: random.Random) -> None:
    """Make a list of numbers, such as a shape, longer, shorter or enormous."""
    lists: list[list[Any]] = []

    def walk(node: Any) -> None:
        for value in node.values() if isinstance(node, dict) else node:
            if isinstance(value, list) and value and all(type(v) is int for v in value):
                lists.append(value)
            elif isinstance(value, dict | list):
                walk(value)

    walk(block)
    if lists:
        chosen = chance.choice(lists)
        count = chance.choice((0, 1, 2, 5, 30))
        chosen[:] = [chance.choice((*NUMBERS, *chosen)) for _ in range(count)]


def _nest(message: dict[str, Any], block: dict[str, Any], chance: random.Random) -> None:
    """Give a block another parent or number, or add a block."""
    blocks = message["blocks"]
    if chance.random() < 0.3:
        blocks.append(copy.deepcopy(block))
        blocks[-1]["idx"] = len(blocks) - 1
    key = chance.choice(("idx", "parent_idx", "forward_block_idx"))
    block[key] = chance.randrange(-1, len(blocks) + 1)


_CHANGES: tuple[Callable[..., None], ...] = (
    *(_rename, _rename, _retype, _retype, _renumber, _renumber, _renumber),
    *(_reorder, _reshape, _reshape, _nest),
)


def mutate_json(data: bytes, chance: random.Random) -> bytes:
    """Change the decoded values, and write them again."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    nodes: list[Any] = []

    def walk(node: Any, depth: int) -> None:
        if isinstance(node, dict | list) and node and depth < 100:
            nodes.append(node)
            for child in node.values() if isinstance(node, dict) else node:
                walk(child, depth + 1)

    walk(value, 0)
    for _ in range(chance.choice((1, 1, 2, 4)) if nodes else 0):
        node = chance.choice(nodes)
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            continue
        key, change = chance.choice(keys), chance.randrange(5)
        if change == 0:
            del node[key]
        elif change == 1:
            node[key] = copy.deepcopy(chance.choice(nodes))
        elif change == 2:
            node[key] = chance.choice((*NUMBERS, *NAMES, None, True, [], {}, 1e300))
        elif isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        else:
            node[chance.choice(NAMES)] = node[key]
    return json.dumps(value).encode()


def mutate_npz(data: bytes, chance: random.Random, other: bytes) -> bytes:
    """Damage one array of an archive, or give it another header; keep the checksums right."""
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen = chance.choice(names)
        for name in names:
            content = old.read(name)
            if name == chosen:
                head = mutate_bytes(content[:128], chance, other)
                content = head + content[128:] if chance.random() < 0.8 else content * 3
            packing = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            new.writestr(name, content, packing)
    return made.getvalue()


# Reading --------------------------------------------------------------------------------------


class Files:
    """The seeds, their mutants and the readers; keeps the programs of combined files."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.seeds = seeds()
        self.scratch = Path(tempfile.mkdtemp(prefix="graphopt-fuzz-"))
        self.kinds = sorted({seed.kind for seed in self.seeds})
        self.of_kind = {k: [s for s in self.seeds if s.kind == k] for k in self.kinds}
        programs = [s for s in self.of_kind["program"] if "hostile" not in s.source]
        self.programs = [read_program(s.data) for s in programs[:8]]

    def mutant(self, number: int) -> tuple[str, bytes]:
        """Return the kind and bytes of mutant `number`."""
        chance = random.Random(f"{self.seed}/{number}")
        kind = chance.choice(self.kinds)
        seed, other = self.sound(kind, chance), chance.choice(self.of_kind[kind])
        data = seed.data
        if kind == "program" and chance.random() < 0.8:
            try:
                return kind, mutate_program(data, chance)
            except (GraphoptError, LookupError, TypeError, ValueError, OverflowError):
                pass  # a hostile seed, or a change that the format cannot hold
        if kind == "onnx" and chance.random() < 0.7:
            return kind, mutate_onnx(data, chance)
        if kind == "json" and chance.random() < 0.7:
            return kind, mutate_json(data, chance)
        if kind == "npz" and chance.random() < 0.6:
            return kind, mutate_npz(data, chance, other.data)
        return kind, mutate_bytes(data, chance, other.data)

    def sound(self, kind: str, chance: random.Random) -> Seed:
        """Choose a seed, seldom a hostile one: most of its mutants have the same fault."""
        found = [s for s in self.of_kind[kind] if "hostile" not in s.source]
        return chance.choice(found if found and chance.random() < 0.9 else self.of_kind[kind])

    def read(self, kind: str, data: bytes) -> Program | None:
        """Read a mutant as a user would; return the program, if it is one."""
        if kind == "program":
            return read_program(data, "mutant")
        if kind == "pickle":
            read_pickle(data, "mutant")
        elif kind == "rows":
            read_selected_rows(data)
        elif kind == "npz":
            file = self.scratch / "state.npz"
            file.write_bytes(data)
            for entry in read_entries(file).values():
                # a program says how large its variables are; here they are as they claim
                if entry.stand_in().nbytes <= 20 * len(data):
                    entry.read()
        elif kind in ("json", "onnx"):
            file = self.scratch / f"model.{kind}"
            file.write_bytes(data)
            return load_model(file).program
        else:
            at = read_tensor(data, source="mutant")[1]
            if at < len(data):
                for program in self.programs[len(data) % 8 :][:1]:
                    read_combined(data, stored_variables(program), "mutant")
        return None

    def check(self, number: int) -> tuple[str, Failure | None]:
        """Read one mutant; return the outcome, and the failure, if any."""
        kind, data = self.mutant(number)
        program, outcome = None, f"{kind} read"
        tracemalloc.start()
        try:
            with _limited():
                try:
                    program = self.read(kind, data)
                except (GraphoptError, FileNotFoundError):
                    outcome = f"{kind} refused"
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                if peak > TIMES * len(data) + BASE:
                    return outcome, Failure(kind, number, f"{peak} bytes for {len(data)}", data)
                if program is not None:
                    outcome = f"{kind} read, {self.parse(program)}"
        except (Exception, RecursionError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = frames[-2 if isinstance(error, TooSlow) else -1]
            problem = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
            return "failed", Failure(kind, number, problem[:600], data)
        finally:
            tracemalloc.stop()
        return outcome, None

    def parse(self, program: Program) -> str:
        """Parse a program to a module, with its own feeds."""
        block = program.global_block()
        feeds = {n for op in block.ops if op.type == "feed" for n in op.output_arg_names}
        feeds |= {n for op in block.ops for n in op.input_arg_names if n in block.vars}
        fetches = [n for op in block.ops if op.type == "fetch" for n in op.input("X")]
        try:
            with warnings.catch_warnings():
                # a damaged name of an attribute is told, not refused
                warnings.filterwarnings("ignore", "operator .* has no attribute")
                parse_program(program, feeds, fetches)
        except GraphoptError:
            return "not parsed"
        return "parsed"


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TooSlow after `SECONDS` of this process's CPU time, however busy the machine is."""

    def stop(*_: Any) -> None:
        raise TooSlow(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(
    count: int, seed: int = 0, first: int = 0, report: Callable[[str], None] = lambda _: None
) -> list[Failure]:
    """Check `count` mutants of a seed, from mutant `first` on, and return the failures."""
    files, failures, outcomes = Files(seed), list[Failure](), Counter[str]()
    start = time.monotonic()
    for number in range(first, first + count):
        outcome, failure = files.check(number)
        outcomes[outcome] += 1
        if failure is not None:
            failures.append(failure)
            report(f"{failure.kind} {failure.number}: {failure.problem}")
        if (number + 1 - first) % 5000 == 0:
            report(f"{number + 1 - first} files in {time.monotonic() - start:.0f} s")
    for outcome, times in sorted(outcomes.items()):
        report(f"{times:8} {outcome}")
    return failures


def main(arguments: list[str]) -> int:
    """Check COUNT mutants of SEED from the third number on; return exit code 1 after a failure."""
    count, seed, first = [*map(int, arguments), *(100_000, 0, 0)[len(arguments) :]]
    failures = run(count, seed, first, lambda line: print(line, flush=True))
    folder = Path(tempfile.gettempdir()) / "graphopt-fuzz-failures"
    for failure in failures:
        folder.mkdir(exist_ok=True)
        (folder / f"{seed}-{failure.number}.{failure.kind}").write_bytes(failure.data)
    print(f"{len(failures)} failures of {count}" + (f", kept in {folder}" if failures else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
