"""Unsound files and values that used to pass, or to end in errors of other libraries."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt.cli import opt
from graphopt.errors import FormatError, LimitError, ProgramError
from graphopt.ir.dialect.context import parse_text
from graphopt.ir.formats import read_pickle, read_program
from graphopt.ir.formats.protobuf.message import encode
from graphopt.ir.formats.protobuf.schema import PROGRAM
from graphopt_tests.model_files import MODELS

MLP = MODELS / "train_mlp_sgd" / "pdmodel" / "main.pdmodel"


def test_an_npz_is_checked_against_the_program_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, unknown=np.zeros(1 << 22, np.uint8))
    read: list[Any] = []
    whole = zipfile.ZipExtFile.read

    def counted(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        data = whole(self, n)
        read.append(len(data))
        return data

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    with pytest.raises(FormatError, match=r"bomb\.npz: expected values"):
        paddle.import_model(MLP, path)
    assert sum(read) < 1000


def damaged(change: str) -> bytes:
    made = io.BytesIO()
    np.savez(made, a=np.arange(6.0).reshape(2, 3))
    data = made.getvalue()
    changes = {
        "header": data.replace(b"'descr': '<f8'", b"'descr': '<f8(("),
        "dtype": data.replace(b"<f8", b"|O8"),
        "huge": data.replace(b"(2, 3), }", b"(99999999999, 3), }"[:9]),
        "cut": data[:-30],
        "start": data.replace(b"\x93NUMPY", b"\x93NUMPX"),
        "checksum": data.replace(np.arange(6.0).tobytes(), np.ones(6).tobytes()),
    }
    return changes[change]


@pytest.mark.parametrize("change", ["header", "dtype", "huge", "cut", "start", "checksum"])
def test_a_damaged_npz_is_a_format_error_that_names_the_file(change: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(damaged(change))
    with pytest.raises(FormatError, match=r"bad\.npz"):
        paddle.import_model(MLP, path)


def variable(name: str, *dims: int) -> dict[str, Any]:
    tensor = {"tensor": {"data_type": 5, "dims": list(dims)}}
    return {"name": name, "type": {"type": 7, "lod_tensor": tensor}}


@pytest.mark.parametrize(
    ("found", "error", "words"),
    [
        (variable("", 2), FormatError, "a variable with a name"),
        (variable("x", 1 << 62), LimitError, "'x' to have dimensions of at most"),
    ],
)
def test_an_unsound_variable_is_refused(found: Any, error: type, words: str) -> None:
    block = {"idx": 0, "parent_idx": -1, "vars": [found]}
    with pytest.raises(error, match=words):
        read_program(encode(PROGRAM, {"blocks": [block]}), "file")


def test_a_pickle_frame_ends_within_its_file() -> None:
    data = pickle.dumps({"a": list(range(10))}, protocol=4)
    assert data[2] == 0x95
    longer = data[:3] + (len(data)).to_bytes(8, "little") + data[11:]
    with pytest.raises(FormatError, match="byte 2: expected a frame of at most"):
        read_pickle(longer, "file")


@pytest.mark.parametrize(
    ("path", "error"), [("", ValueError), (None, TypeError), (b"model", TypeError), (3, TypeError)]
)
def test_no_path_is_no_model(path: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="import_model: path"):
        paddle.import_model(path)


def test_a_value_that_contains_itself_cannot_be_saved(tmp_path: Path) -> None:
    cyclic: list[Any] = [1]
    cyclic.append({"again": cyclic})
    with pytest.raises(ProgramError, match="list that contains itself"):
        paddle.save(cyclic, str(tmp_path / "a"))
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(ProgramError, match="nest deeper"):
        paddle.save(deep, str(tmp_path / "a"))
    shared = [1, 2]
    paddle.save([shared, shared], str(tmp_path / "a"))
    assert paddle.load(str(tmp_path / "a")) == [[1, 2], [1, 2]]


def test_modules_that_nest_too_deep_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "builtin.module {\n" * 3000 + "}\n" * 3000
    with pytest.raises(FormatError, match="nest"):
        parse_text(text, "deep.mlir")
    path = tmp_path / "deep.mlir"
    path.write_text(text)
    assert opt.main([str(path)]) == 1
    assert "deep.mlir" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("pd.split(%x) {num = 2147483648}", "2147483648 parts of one dimension"),
        (
            'pd.dynamic(inputs = [], values = [%n]) {op = "pd.arange", groups = [], '
            'dynamic = ["end"], attrs = {}}',
            "2147483648 sizes, axes or positions in one tensor",
        ),
    ],
)
def test_numbers_of_values_that_no_program_has(op: str, words: str) -> None:
    """An op with too many values is refused before it makes a list of them."""
    text = f"""
func.func @main(feed %x: tensor<2147483648xf32>, feed %n: tensor<2147483648xi32>) {{
  %y = {op}
  func.return
}}"""
    with pytest.raises(Exception, match=words):
        parse_text(text, "<text>").verify()
