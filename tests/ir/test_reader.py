"""Reading and writing saved programs: exact on every real file, sensible on programs built here."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.errors import FormatError, ProgramError, UnsupportedError
from graphopt.ir.formats import (
    load_model,
    read_combined,
    read_folder,
    read_program,
    saved_version,
    stored_variables,
    write_combined,
    write_folder,
    write_program,
    write_tensor,
)
from graphopt.ir.formats.limits import UNLIMITED
from graphopt.ir.formats.protobuf.message import UNKNOWN, decode, encode
from graphopt.ir.formats.protobuf.schema import OPERATOR, PROGRAM
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.program import AttrKind, Operator, Parameter, Program, VarKind
from graphopt.ir.program.location import Location
from graphopt_tests import model_files
from graphopt_tests.model_files import MODELS, SavedModel

LENET = MODELS / "infer_lenet" / "model.pdmodel"
FLUID = MODELS / "fluid18_mnist_conv" / "model"
SGD = MODELS / "train_mlp_sgd" / "pdmodel"

each_program = pytest.mark.parametrize("file", model_files.program_files(), ids=model_files.name_of)
each_model = pytest.mark.parametrize("model", model_files.saved_models(), ids=model_files.name_of)


def content(program: Program) -> list[Any]:
    """Collect everything in a program that has a meaning, for comparison."""
    return [
        (
            block.parent_idx,
            block.forward_block_idx,
            [
                (repr(v), v.kind, v.lod_level, v.need_check_feed, type(v))
                for v in block.vars.values()
            ],
            [(op.type, op.inputs, op.outputs, repr(op.attrs)) for op in block.ops],
        )
        for block in program.blocks
    ]


def forget_bytes(program: Program) -> Program:
    """Copy a program without the file's bytes, so that it has to be encoded again."""
    twin = program.clone()
    for block in twin.blocks:
        for item in (*block.vars.values(), *block.ops):
            item.saved = None
    return twin


@each_program
def test_a_program_is_written_as_it_was_read(file: Path) -> None:
    data = file.read_bytes()
    program = read_program(data, str(file))
    assert write_program(program) == data
    assert write_program(program.clone()) == data
    assert saved_version(program) >= 1008005


@each_program
def test_a_program_that_is_encoded_anew_means_the_same(file: Path) -> None:
    program = read_program(file.read_bytes())
    again = read_program(write_program(forget_bytes(program)))
    assert content(again) == content(program)
    kinds = [[op.attr_kinds for op in block.ops] for block in program.blocks]
    assert kinds == [[op.attr_kinds for op in block.ops] for block in again.blocks]


@each_program
def test_the_writer_chooses_the_kinds_that_paddle_chose(file: Path) -> None:
    program = read_program(file.read_bytes())
    twin = forget_bytes(program)
    for block in twin.blocks:
        for op in block.ops:
            by_kind = {n: k for n, k in op.attr_kinds.items() if k in (AttrKind.VAR, AttrKind.VARS)}
            op.attr_kinds = by_kind
    again = read_program(write_program(twin))
    for block, same in zip(program.blocks, again.blocks, strict=True):
        for op, copied in zip(block.ops, same.ops, strict=True):
            assert copied.attr_kinds == op.attr_kinds, op.type


@each_model
def test_parameters_are_written_as_they_were_read(model: SavedModel, tmp_path: Path) -> None:
    variables = stored_variables(read_program(model.program.read_bytes()))
    if model.params.is_dir():
        tensors = read_folder(model.params, variables)
        for name, tensor in tensors.items():
            assert write_tensor(*tensor) == (model.params / name).read_bytes()
        write_folder(tmp_path, tensors)
        again = read_folder(tmp_path, variables)
        assert {n: write_tensor(*t) for n, t in again.items()} == {
            n: write_tensor(*t) for n, t in tensors.items()
        }
    else:
        data = model.params.read_bytes()
        assert write_combined(read_combined(data, variables)) == data


@each_model
def test_a_model_loads_whole(model: SavedModel) -> None:
    loaded = load_model(model.program, model.params)
    assert list(loaded.parameters) == [v.name for v in stored_variables(loaded.program)]
    for name, array in loaded.parameters.items():
        assert not array.flags.writeable
        assert array.dtype == loaded.program.global_block().vars[name].dtype.numpy
    if model.feeds is not None:
        assert loaded.feed_names == model.feeds
        assert loaded.fetch_names
    state = model.params.with_suffix(".npz")
    if state.exists():
        with np.load(state) as expected:
            for name in loaded.parameters:
                np.testing.assert_array_equal(loaded.parameters[name], expected[name])


def test_a_model_is_found_by_prefix_file_and_folder() -> None:
    prefix = load_model(LENET.with_suffix(""))
    file = load_model(str(LENET))
    assert prefix.parameters.keys() == file.parameters.keys()
    assert content(prefix.program) == content(file.program)
    assert load_model(FLUID).feed_names == load_model(FLUID / "__model__").feed_names == ["img"]
    combined = MODELS / "fluid18_word2vec_combined" / "model"
    beside = load_model(combined).parameters
    assert beside.keys() == load_model(combined, params="__params__").parameters.keys()
    assert load_model(combined).feed_names == ["w0", "w1", "w2"]


def test_a_training_program_loads_without_parameters() -> None:
    model = load_model(SGD / "main.pdmodel")
    assert not model.parameters and not model.is_inference
    assert model.feed_names == ["x", "y"] and model.fetch_names
    with np.load(SGD / "state0.npz") as state:
        assert set(state) == {v.name for v in stored_variables(model.program)}
    names = [p.name for p in model.program.all_parameters()]
    assert names and all(isinstance(model.program.global_block().var(n), Parameter) for n in names)


def test_data_variables_are_marked() -> None:
    block = load_model(LENET).program.global_block()
    assert [v.name for v in block.vars.values() if v.is_data] == ["x"]
    block = load_model(SGD / "main.pdmodel").program.global_block()
    assert [v.name for v in block.vars.values() if v.is_data] == ["x", "y"]


def test_locations_are_the_users_lines() -> None:
    program = load_model(LENET).program
    (flatten,) = (op for op in program.global_block().ops if op.location and op.type[:4] == "flat")
    assert isinstance(flatten.location, Location)
    assert Path(flatten.location.file).name == "nets_dev.py"
    assert flatten.location.line == 21
    assert "op_callstack" in flatten.attrs


def test_variables_in_attributes_are_names() -> None:
    program = read_program((MODELS / "infer_static_attr_types" / "model.pdmodel").read_bytes())
    hidden = {
        (op.type, name): op.attrs[name]
        for op in program.global_block().ops
        for name, kind in op.attr_kinds.items()
        if kind in (AttrKind.VAR, AttrKind.VARS)
    }
    assert hidden["arg_max", "axis"] == "fill_constant_5.tmp_0"
    assert hidden["reduce_sum", "dim"] == ["fill_constant_1.tmp_0", "fill_constant_3.tmp_0"]


def test_a_changed_operator_keeps_the_rest() -> None:
    program = load_model(FLUID).program
    before = write_program(program)
    op = next(op for op in program.global_block().ops if op.type == "dropout")
    assert op.attrs["dropout_prob"] != 0.25
    op.attrs["dropout_prob"] = 0.25
    after = write_program(program)
    assert len(after) == len(before)
    assert sum(a != b for a, b in zip(after, before, strict=True)) <= 4


def test_what_the_schema_does_not_know_survives() -> None:
    source = {"type": "relu", "is_target": True, UNKNOWN: b"\xf8\x01\x07"}
    attrs = [{"name": "n", "type": AttrKind.LONG, "l": 3}, {"name": "n", "type": 9, "l": 3}]
    block = {"idx": 0, "parent_idx": -1, "ops": [{**source, "attrs": attrs}]}
    data = program_bytes([block]) + b"\xf8\x02\x01"
    program = read_program(data)
    assert write_program(program) == data
    op = program.global_block().ops[0]
    op.attrs["n"] = 4
    written = encode(OPERATOR, {**source, "attrs": [{"name": "n", "type": 9, "l": 4}]})
    assert written in write_program(program)
    assert decode(WireReader(written, "", UNLIMITED), OPERATOR, 0, len(written))["is_target"]


def program_bytes(blocks: list[dict[str, Any]]) -> bytes:
    """Serialize a program of these block messages."""
    return encode(PROGRAM, {"blocks": blocks})


def made_here() -> Program:
    """Build a small program as the front end does, with every kind of attribute value."""
    program = Program()
    block = program.global_block()
    x = block.create_var("x", [-1, 4], "float32", need_check_feed=True)
    block.create_parameter("w", [4, 2], "float32", trainable=False)
    block.create_var("scope", kind=VarKind.STEP_SCOPES)
    sub = program._create_block()
    attrs = {
        "scale": 2,
        "padding_idx": -1,
        "big": 1 << 40,
        "flag": True,
        "name": "ö",
        "ints": (1, 2),
        "longs": [1 << 40],
        "floats": [1, 2.5],
        "op_role_var": [],
        "shape": [],
        "dtype": x.dtype,
        "sub_block": sub,
        "axis": x,
        "dims": [x],
        "complex": 1j,
        "values": [1.5, True, 7, 2j],
        "count": np.int64(3),
        "unset": None,
    }
    block.ops.append(Operator(block, "anything", {"X": ["x", "w"]}, {"Out": ["x"]}, attrs))
    return program


def test_a_program_made_here_gets_fitting_kinds() -> None:
    program = made_here()
    again = read_program(write_program(program))
    op = again.global_block().ops[0]
    kind = AttrKind
    expected = {
        "scale": (kind.INT, 2),
        "padding_idx": (kind.INT, -1),
        "big": (kind.LONG, 1 << 40),
        "flag": (kind.BOOLEAN, True),
        "name": (kind.STRING, "ö"),
        "ints": (kind.INTS, [1, 2]),
        "longs": (kind.LONGS, [1 << 40]),
        "floats": (kind.FLOATS, [1.0, 2.5]),
        "op_role_var": (kind.STRINGS, []),
        "shape": (kind.INTS, []),
        "dtype": (kind.INT, 5),
        "sub_block": (kind.BLOCK, 1),
        "axis": (kind.VAR, "x"),
        "dims": (kind.VARS, ["x"]),
        "complex": (kind.SCALAR, 1j),
        "values": (kind.SCALARS, [1.5, True, 7, 2j]),
        "count": (kind.INT, 3),
    }
    assert {n: (op.attr_kinds[n], value) for n, value in op.attrs.items()} == expected
    assert again.global_block().vars.keys() == program.global_block().vars.keys()
    weight = again.global_block().var("w")
    assert isinstance(weight, Parameter) and weight.persistable and not weight.trainable
    assert again.global_block().var("x").need_check_feed
    assert saved_version(again) == 2006002
    assert write_program(again) == write_program(program)


def test_kinds_are_those_of_the_operator() -> None:
    """The operator decides the kind of an attribute: a whole number may be a float."""
    program = Program()
    block = program.global_block()
    given = {
        "scale": {"scale": 2, "bias": 0},
        "lookup_table_v2": {"padding_idx": 1},
        "lookup_table_v2_grad": {"padding_idx": 1},
        "tril_indices": {"offset": 1},
        "fill_diagonal_tensor": {"offset": 1},
        "prroi_pool": {"spatial_scale": 1, "pooled_width": 1},
    }
    for type, attrs in given.items():
        block.ops.append(Operator(block, type, {}, {}, attrs))
    ops = read_program(write_program(program)).global_block().ops
    kind = AttrKind
    assert [list(op.attr_kinds.values()) for op in ops] == [
        *([kind.FLOAT, kind.FLOAT], [kind.LONG], [kind.LONG]),
        *([kind.INT], [kind.LONG], [kind.FLOAT, kind.INT]),
    ]


@pytest.mark.parametrize("value", [object(), 1 << 64, [1, "a"], {"a": 1}, b"bytes", 1e300])
def test_a_value_that_no_file_can_hold_is_refused(value: object) -> None:
    program = Program()
    block = program.global_block()
    block.ops.append(Operator(block, "anything", {}, {}, {"it": value}))
    with pytest.raises(ProgramError, match="anything"):
        write_program(program)


floats = st.floats(width=32, allow_nan=False)
longs = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(max_size=9)
values = st.one_of(
    st.booleans(),
    longs,
    floats,
    texts,
    st.lists(st.booleans(), min_size=1),
    st.lists(longs),
    st.lists(floats, min_size=1),
    st.lists(texts, min_size=1),
)


@pytest.mark.exhaustive
@given(st.dictionaries(texts, values, max_size=6), texts, st.dictionaries(texts, st.just(["v"])))
def test_any_operator_survives(attrs: dict[str, Any], op_type: str, slots: dict[str, Any]) -> None:
    program = Program()
    block = program.global_block()
    block.create_var("v", [2, -1], "bfloat16", lod_level=1)
    attrs = {name: value for name, value in attrs.items() if name != "sub_block"}
    block.ops.append(Operator(block, f"op{op_type}", slots, slots, attrs))
    again = read_program(write_program(program))
    assert content(again) == content(program)


def test_files_of_other_formats_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.pdmodel").write_bytes(b' {\n "base_code": {"magic": "pir"}}')
    with pytest.raises(FormatError, match="expected the key 'program'"):
        load_model(tmp_path / "model")
    assert load_model(SGD / "main.pdparams").path == SGD / "main.pdmodel"
    shutil.copyfile(SGD / "main.pdparams", tmp_path / "__model__")
    with pytest.raises(UnsupportedError, match="pickle"):
        load_model(tmp_path)
    with pytest.raises(UnsupportedError, match="pickle"):
        load_model(SGD / "main.pdmodel", SGD / "main.pdparams")
    with pytest.raises(FileNotFoundError, match="looked for"):
        load_model(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="parameters at"):
        load_model(LENET, params="nothing")


def test_parameters_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    alone = tmp_path / "alone.pdmodel"
    alone.write_bytes(LENET.read_bytes())
    with pytest.raises(FormatError, match="expected a parameter file next to the program"):
        load_model(alone)
    params = LENET.with_suffix(".pdiparams").read_bytes()
    other = MODELS / "infer_bert_mini" / "model.pdiparams"
    with pytest.raises(FormatError, match="as the program declares"):
        load_model(LENET, other)
    variables = stored_variables(load_model(LENET).program)
    with pytest.raises(FormatError, match=r"expected the end after \d+ tensors"):
        read_combined(params + b"\0", variables)
    with pytest.raises(FormatError, match=r"the file ends after 1\b"):
        first = (
            struct.unpack_from("<i", params, 16)[0]
            + 20
            + variables[0].dtype.numpy.itemsize * (int(np.prod(variables[0].shape)))
        )
        read_combined(params[:first], variables)
