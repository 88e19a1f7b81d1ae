"""Pickles in files: what is read, what is refused, and limits on cost."""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphopt.errors import FormatError, LimitError, UnsafeError
from graphopt.frontend.framework_io import load
from graphopt.ir.formats import Limits, read_pickle, write_pickle
from graphopt_tests.model_files import model_folders

X = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")


class Evil:
    """An object that runs code when Python's pickle reads it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


ARRAY = np.arange(3.0, dtype="float32")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (Evil(os.system, "touch owned"), "system"),
        ({"w": [Evil(eval, "1 + 1")]}, r"a call of (builtins|__builtin__)\.eval"),
        ({"w": Evil(getattr, "a", "b")}, r"\.getattr'"),
        (Path("x"), "Path"),
        (np.array([object()], dtype=object), "element type 'O"),
        (np.zeros(1, [("a", "f4")]), "element type 'V"),
        (np.array(["text"]), "element type '"),
        ({1, 2}, r"\.set'|found 0x8f"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_hostile_pickles_are_refused(value: Any, found: str, protocol: int, tmp_path: Path):
    path = tmp_path / "evil.pdparams"
    path.write_bytes(pickle.dumps(value, protocol))
    with pytest.raises((UnsafeError, FormatError), match=found) as error:
        load(str(path))
    assert "evil.pdparams: byte" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "error", "found"),
    [
        (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.", FormatError, "bytes more"),
        (b"\x80\x04]\x94h\x00a.", FormatError, "contains itself"),
        (b"\x80\x04}\x94\x8c\x01a\x94h\x00s.", FormatError, "contains itself"),
        (b"\x80\x04}]Ns.", FormatError, "as key"),
        (b"\x80\x04N.N", FormatError, "expected the end"),
        (b"\x80\x04N", FormatError, "bytes more"),
        (b"\x80\x04t.", FormatError, "mark"),
        (b"\x80\x04}}b.", UnsafeError, "state of a dict"),
        (b"\x80\x04)i.", UnsafeError, "object of a class"),
        (b"\x80\x04" + b"]" * 300 + b"a" * 299 + b".", LimitError, "nested"),
        (b"\x80\x01N.", FormatError, "protocol"),
        (b"\x80\x04cnumpy\nndarray\n.", UnsafeError, "numpy.ndarray"),
    ],
)
def test_malformed_pickles(data: bytes, error: type[FormatError], found: str):
    with pytest.raises(error, match=found) as raised:
        read_pickle(data, "f")
    assert type(raised.value) is error


def test_pickles_cannot_multiply_their_bytes():
    """A pickle that encodes one string again and again reaches a limit."""
    text = b"X" + struct.pack("<I", 50_000) + b"a" * 50_000 + b"q\x00"
    encode = b"c_codecs\nencode\nq\x01X\x06\x00\x00\x00latin1q\x020"
    again = b"h\x01h\x00h\x02\x86R"
    data = b"\x80\x02](" + text + encode.replace(b"0", b"") + again * 1000 + b"e."
    with pytest.raises(LimitError):
        read_pickle(data)


def test_limits_of_pickles():
    data = b"".join(write_pickle({"a": ARRAY}))
    assert read_pickle(data)["a"].tolist() == [0, 1, 2]
    with pytest.raises(LimitError):
        read_pickle(data, limits=Limits(tensor_bytes=8))
    with pytest.raises(LimitError):
        read_pickle(data, limits=Limits(pickle_steps=5))


def test_pickles_of_older_writers():
    """Big-endian, column-major and Python 2's arrays are read, and ordered dicts."""
    value = OrderedDict(a=ARRAY.astype(">f4"), b=np.asfortranarray(X), c=np.float64(2))
    for protocol in (2, 3, 4, 5):
        found = read_pickle(pickle.dumps(value, protocol=min(protocol, 4)))
        assert found["a"].dtype == np.dtype("float32") and found["c"] == 2.0
        np.testing.assert_array_equal(found["a"], ARRAY)
        np.testing.assert_array_equal(found["b"], X)


VERDICTS = {"format": FormatError, "limit": LimitError, "unsafe": UnsafeError}


def hostile_cases() -> list[tuple[Path, str]]:
    """List the pickles of the repository and of the corpus, with their expected outcomes."""
    return [
        (folder / "hostile" / row["file"], row["expect"])
        for folder in model_folders()
        for row in json.loads((folder / "hostile" / "cases.json").read_text())
        if row["kind"] == "pickle" and (folder / "hostile" / row["file"]).exists()
    ]


@pytest.mark.parametrize(("file", "expect"), hostile_cases(), ids=lambda v: getattr(v, "name", v))
def test_a_hostile_pickle_gets_its_verdict(file: Path, expect: str):
    if expect == "ok":
        read_pickle(file.read_bytes(), str(file))
        return
    with pytest.raises(VERDICTS[expect]) as caught:
        read_pickle(file.read_bytes(), str(file))
    assert type(caught.value) is VERDICTS[expect]
