"""Malformed and hostile files raise an error with a position, and never crash or hang."""

from __future__ import annotations

import json
import random
import shutil
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from graphopt.errors import FormatError, GraphoptError, LimitError, ProgramError, UnsafeError
from graphopt.ir.formats import (
    Limits,
    load_model,
    read_folder,
    read_program,
    read_tensor,
    stored_variables,
    write_folder,
    write_program,
)
from graphopt.ir.formats.protobuf.message import UNKNOWN, Message, encode
from graphopt.ir.formats.protobuf.schema import PROGRAM
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.program import AttrKind, Program
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.runtime.devices.places import CPUPlace
from graphopt.runtime.executor import Executor
from graphopt_tests import fuzz_readers, model_files
from graphopt_tests.example_counts import examples
from graphopt_tests.model_files import MODELS

VERDICTS = {"format": FormatError, "limit": LimitError}


class Case(NamedTuple):
    """A file and its expected outcome."""

    file: Path
    kind: str
    expect: str


def hostile_cases() -> list[Case]:
    """List the cases of programs in both formats and of tensor streams."""
    folders = [folder / "hostile" for folder in model_files.model_folders()]
    return [
        Case(folder / row["file"], row["kind"], row["expect"])
        for folder in folders
        for row in json.loads((folder / "cases.json").read_text())
        if row["kind"] in ("pdmodel", "pdmodel+dir", "pir", "tensor")
        and (folder / row["file"]).exists()
    ]


def read_case(case: Case, scratch: Path) -> None:
    if case.kind == "tensor":
        data = case.file.read_bytes()
        assert read_tensor(data, source=str(case.file))[1] == len(data)
    elif case.kind == "pdmodel+dir":
        shutil.copyfile(case.file, scratch / "__model__")
        load_model(scratch)
    else:
        load_model(case.file)


@pytest.mark.parametrize("case", hostile_cases(), ids=lambda case: case.file.name)
def test_a_hostile_file_gets_its_verdict(case: Case, tmp_path: Path) -> None:
    if case.expect == "ok":
        read_case(case, tmp_path)
        return
    with pytest.raises(VERDICTS[case.expect]) as caught:
        read_case(case, tmp_path)
    assert isinstance(caught.value, LimitError) == (case.expect == "limit")
    message = str(caught.value)
    assert "expected" in message
    assert case.file.name in message or str(tmp_path) in message
    places = (
        "byte ",
        "block ",
        "variable ",
        "program.",
        "base_code.",
        "top: ",
        "JSON",
        "key",
        "64-bit",
    )
    assert any(place in message for place in places)


def test_a_claim_costs_no_memory() -> None:
    data = (MODELS / "hostile" / "t_dims_petabyte.pdiparams").read_bytes()
    tracemalloc.start()
    with pytest.raises(LimitError):
        read_tensor(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def block(idx: int = 0, parent: int = -1, /, **fields: Any) -> Message:
    """Build a block message with the given fields."""
    return {"idx": idx, "parent_idx": parent, **fields}


def read_blocks(*blocks: Message, **limits: int) -> None:
    read_program(encode(PROGRAM, {"blocks": blocks}), "it", Limits(**limits))


def variable(name: str, kind: int = 7, /, **fields: Any) -> Message:
    return {"name": name, "type": {"type": kind}, **fields}


def runs(*targets: int) -> Message:
    attrs = [
        {"name": f"b{i}", "type": AttrKind.BLOCK, "block_idx": t} for i, t in enumerate(targets)
    ]
    return {"type": "run", "attrs": attrs}


def test_blocks_that_unfold_without_end_are_refused() -> None:
    chain = [block(i, min(0, i - 1), ops=[runs(i + 1, i + 1)]) for i in range(40)]
    with pytest.raises(LimitError, match="unfolded"):
        read_blocks(*chain, block(40, 0))
    deep = [block(i, min(0, i - 1), ops=[runs(i + 1)]) for i in range(400)]
    with pytest.raises(LimitError, match="deep"):
        read_blocks(*deep, block(400, 0))


def test_a_block_sees_the_block_that_it_mirrors() -> None:
    forward = block(1, 0, vars=[variable("hidden")])
    reads = {"type": "read", "inputs": [{"parameter": "X", "arguments": ["hidden"]}]}
    read_blocks(block(), forward, block(2, 0, ops=[reads], forward_block_idx=1))
    with pytest.raises(FormatError, match=r"block 2, operator 0 \('read'\).*'hidden'"):
        read_blocks(block(), forward, block(2, 0, ops=[reads]))
    with pytest.raises(FormatError, match="forward block"):
        read_blocks(block(), block(1, 0, forward_block_idx=2))
    with pytest.raises(FormatError, match="tree"):
        read_blocks(block(), block(1, 2), block(2, 1))


def test_variables_in_attributes_must_be_visible() -> None:
    attr = {"name": "axis", "type": AttrKind.VAR, "var_name": "gone"}
    with pytest.raises(FormatError, match=r"attribute 'axis'.*'gone'"):
        read_blocks(block(ops=[{"type": "reads", "attrs": [attr]}]))


@pytest.mark.parametrize("kind", [AttrKind.FLOAT, AttrKind.LONG])
def test_a_column_is_a_number(kind: int) -> None:
    value = {"l" if kind == AttrKind.LONG else "f": 0}
    feed = {
        "type": "feed",
        "outputs": [{"parameter": "Out", "arguments": ["x"]}],
        "attrs": [{"name": "col", "type": kind, **value}],
    }
    with pytest.raises(FormatError, match=r"operator 0 \('feed'\).*INT attribute 'col'"):
        read_blocks(block(vars=[variable("x")], ops=[feed]))
    feed["outputs"] = []
    with pytest.raises(FormatError, match="one variable of block 0 in 'Out'"):
        read_blocks(block(vars=[variable("x")], ops=[feed]))


def test_limits_are_kept() -> None:
    ops = [{"type": "a"}, {"type": "b"}]
    names = [variable("a"), variable("b")]
    for limit, content in (("operators", {"ops": ops}), ("variables", {"vars": names})):
        read_blocks(block(**content), **{limit: 2})
        with pytest.raises(LimitError, match=f"at most 1 {limit}"):
            read_blocks(block(**content), **{limit: 1})
    with pytest.raises(LimitError, match="at most 1 blocks"):
        read_blocks(block(), block(1, 0), blocks=1)
    with pytest.raises(LimitError, match="at most 5 messages"):
        read_blocks(block(ops=ops, vars=names), messages=5)
    with pytest.raises(LimitError, match="at most 10 bytes"):
        load_model(MODELS / "infer_lenet" / "model", limits=Limits(program_bytes=10))
    with pytest.raises(LimitError, match="at most 10 bytes"):
        load_model(MODELS / "infer_lenet" / "model", limits=Limits(params_bytes=10))


@pytest.mark.exhaustive
def test_many_unknown_fields_take_linear_time() -> None:
    unknown = b"\xf8\x01\x07" * 200_000
    program = read_program(encode(PROGRAM, {"blocks": [block(**{UNKNOWN: unknown})]}))
    assert unknown in write_program(program)


def test_errors_can_be_printed_whatever_the_names() -> None:
    names = [variable("\udcff" * 10_000), variable("\udcff" * 10_000)]
    with pytest.raises(FormatError) as caught:
        read_blocks(block(vars=names))
    assert len(str(caught.value).encode()) < 400


def stored(name: str, folder: Path) -> None:
    """Load a program with one stored variable from a folder of parameters."""
    data = encode(PROGRAM, {"blocks": [block(vars=[variable(name, persistable=True)])]})
    (folder / "__model__").write_bytes(data)
    load_model(folder)


def test_variable_names_stay_in_their_folder(tmp_path: Path) -> None:
    fluid = MODELS / "fluid18_mnist_conv" / "model"
    variables = stored_variables(load_model(fluid).program)[:1]
    (tensor,) = read_folder(fluid, variables).values()
    folder = tmp_path / "model"
    folder.mkdir()
    write_folder(folder, {"scope/w": tensor})
    stored("scope/w", folder)
    write_folder(tmp_path, {"outside": tensor})
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "self").symlink_to(folder / "self")
    for name in ("../outside", str(tmp_path / "outside"), "link", "", ".", "scope/.."):
        if name:  # a program has no variable without a name
            with pytest.raises(UnsafeError, match="stored in the folder"):
                stored(name, folder)
        with pytest.raises(UnsafeError, match="stored in the folder"):
            write_folder(folder, {name: tensor})
    for name in ("a\0b", "gone", "x" * 5000, "scope", "self", "__model__/w"):
        with pytest.raises(FormatError):
            stored(name, folder)


MUTANTS = ("infer_static_attr_types", "infer_loop_if")


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Change, insert, delete or repeat a few bytes."""
    mutant = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at, size = chance.randrange(len(mutant)), chance.choice((1, 1, 1, 2, 8, 40))
        piece = mutant[at : at + size]
        new: bytes = chance.choice(
            (chance.randbytes(size), b"", bytes(piece) * 2, b"\xff" * size, b"\0" * size)
        )
        mutant[at : at + size] = new
    return bytes(mutant)


# how many mutants of each model
COUNT = examples(150)


@pytest.mark.every(2)
@pytest.mark.parametrize("case", MUTANTS)
def test_mutants_are_read_or_refused(case: str) -> None:
    data = (MODELS / case / "model.pdmodel").read_bytes()
    chance = random.Random(case)
    refused = 0
    for _ in range(COUNT):
        mutant = mutate(data, chance)
        try:
            program = read_program(mutant)
        except GraphoptError:
            refused += 1
            continue
        written = write_program(program)
        assert write_program(read_program(written)) == written
    assert 0 < refused < COUNT


def test_mutated_tensors_are_read_or_refused() -> None:
    data = (MODELS / "state_lod_tensor_v26" / "v").read_bytes()
    chance = random.Random("tensor")
    refused = 0
    for _ in range(300):
        try:
            read_tensor(mutate(data, chance))
        except GraphoptError:
            refused += 1
    assert 0 < refused < 300


@pytest.mark.parametrize("case", MUTANTS)
def test_a_cut_program_is_refused(case: str) -> None:
    data = (MODELS / case / "model.pdmodel").read_bytes()
    end_of_block = WireReader(data, "", Limits()).record(0, len(data))[-1]
    for stop in random.Random(case).sample(range(1, end_of_block), 60):
        with pytest.raises(FormatError, match="cut: byte "):
            read_program(data[:stop], "cut")


@pytest.mark.exhaustive
def test_some_mutants_of_every_format() -> None:
    """Mutants are read or refused; `make fuzz` tries more files."""
    failures = fuzz_readers.run(examples(500), seed=1)
    assert not failures, "\n".join(f"{f.kind} {f.number}: {f.problem}" for f in failures)


def saved_program(*ops: Message, **variables: Message) -> Program:
    """Encode and read a program with these operators."""
    names = [variable(name, **fields) for name, fields in variables.items()]
    return read_program(encode(PROGRAM, {"blocks": [block(vars=names, ops=ops)]}))


@pytest.mark.parametrize(
    ("type", "problem"),
    [
        ("mul", "operator mul needs an input 'X'"),
        ("assign_value", "operator assign_value is malformed: ValueError"),
    ],
)
def test_a_malformed_operator_is_named(type: str, problem: str) -> None:
    """The error for a missing slot or attribute names the operator of the file."""
    out = {"parameter": "Out", "arguments": ["y"]}
    program = saved_program({"type": type, "outputs": [out]}, y={})
    with pytest.raises(ProgramError, match=problem):
        parse_program(program, fetches=["y"])


@pytest.mark.parametrize("size", [1 << 39, 1 << 60])
def test_an_enormous_tensor_is_refused_before_a_run(size: int) -> None:
    out = {"parameter": "Out", "arguments": ["y"]}
    attrs = [
        {"name": "shape", "type": AttrKind.LONGS, "longs": [size]},
        {"name": "dtype", "type": AttrKind.INT, "i": 5},
        {"name": "value", "type": AttrKind.FLOAT, "f": 1.0},
    ]
    program = saved_program({"type": "fill_constant", "outputs": [out], "attrs": attrs}, y={})
    with pytest.raises(ProgramError, match=f"{4 * size} bytes"):
        Executor(CPUPlace()).run(program, fetch_list=["y"])
