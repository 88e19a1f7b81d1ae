"""The file that replays a failure: it is read as it was written, and other text is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.errors import FormatError
from graphopt.ir.dtypes import NUMBERED
from graphopt.passes.engine import replay_file
from graphopt.passes.engine.replay_file import MadeUp, ReplayFile, read, write
from graphopt.testing import parse

PROGRAM = """
func.func @main(%x: tensor<?x2xf32> {pd.feed = "x"}) -> (tensor<?x2xf32> {pd.fetch = "y"}) {
  %a = pd.exp(%x) : tensor<?x2xf32> loc("my script.py":7:0)
  %y = pd.relu(%a) : tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
"""


def sample() -> ReplayFile:
    """Make a file in which every field is set."""
    return ReplayFile(
        what='it says "no"\nand more',
        kind="numbers",
        module=parse(PROGRAM),
        steps=(('a{at="b c"}', "d"), ("e",)),
        limit=3,
        seed=11,
        against="float64",
        rtol=1e-3,
        verify_each=True,
        imports=("mine", "other.py"),
        versions="graphopt 1",
        notes="first\n\n  third // | = input: {",
        inputs={
            "a name": np.array([[np.nan, -0.0], [np.inf, 1e-45]], np.float32),
            "half": np.array([1.5], ml_dtypes.bfloat16),
            "none": np.zeros((0, 3), np.int64),
            "scalar": np.array(True),
            "made up": MadeUp("float16", (100, 3), 5),
        },
    )


def test_what_is_written_is_read() -> None:
    """Every field, every bit and the source lines survive; writing again gives the same text."""
    file = sample()
    text = write(file, "x.mlir")
    found = read(text, "x.mlir")
    assert write(found, "x.mlir") == text
    assert replace(found, module=file.module, inputs={}) == replace(file, inputs={})
    for name, array in file.arrays().items():
        again = found.arrays()[name]
        assert (again.dtype, again.shape, again.tobytes()) == (
            array.dtype,
            array.shape,
            array.tobytes(),
        )
    assert 'loc("my script.py":7:0)' in text
    assert "unknown" not in text
    assert "//   graphopt replay x.mlir --import mine --import other.py" in text
    assert parse(text).is_structurally_equivalent(file.module)


@pytest.mark.parametrize("dtype", NUMBERED)
def test_made_up_numbers(dtype: str) -> None:
    """The numbers depend on the seed alone, and have the dtype and shape of the file."""
    array = MadeUp(dtype, (2, 50), 3).array()
    assert (array.dtype, array.shape) == (np.dtype(NUMBERED[NUMBERED.index(dtype)].numpy), (2, 50))  # pyright: ignore
    assert len(set(array.ravel().tolist())) > 1
    np.testing.assert_array_equal(array, MadeUp(dtype, (2, 50), 3).array())


def test_made_up_numbers_stay() -> None:
    """The numbers of old files do not change."""
    numbers = MadeUp("float64", (3,), 1).array()
    wanted = [0.023643249400513433, 0.9009273926518706, -0.7116807745607325]
    assert numbers.tolist() == wanted


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("// graphopt", "// some", "the first line should be"),
        ('// kind: "numbers"\n', "", "no line '// kind"),
        ("// limit: 3", "// limit: three", "expected JSON"),
        ("// limit: 3", "// limit: true", "limit cannot be True"),
        ("// limit: 3", '// limit: "3"', "limit cannot be '3'"),
        ("// limit: 3", "// command: 3", "expected one of"),
        ('["e"]', '"e"', "lists of passes"),
        ('"shape": [1]', '"shape": [2]', "2 bytes, not 4"),
        ('"shape": [1]', '"shape": [-1]', "expected a size"),
        ('"shape": [1]', '"shape": [4611686018427387903]', "more than"),
        ('"shape": [100, 3]', '"shape": [100000000, 3]', "more than"),
        ('"shape": [100, 3]', '"shape": 3', "no readable input"),
        ('"dtype": "bfloat16"', '"dtype": "object"', "is not an element type"),
        ('"seed": 5', '"seed": -5', "expected a size"),
        ("// = ", "// = ?", "no readable input"),
    ],
)
def test_malformed_files(old: str, new: str, words: str) -> None:
    """Malformed files are refused, with the line."""
    text = write(sample())
    assert old in text
    with pytest.raises(FormatError, match=words) as caught:
        read(text.replace(old, new), "some.mlir")
    assert str(caught.value).startswith("some.mlir:")


@lru_cache(maxsize=1)
def written() -> str:
    return write(sample())


@pytest.mark.exhaustive
@given(st.data())
def test_mutated_headers(data: st.DataObject) -> None:
    """A mutated header is read or refused, without other exceptions."""
    head, _, program = written().partition("builtin.module")
    at = data.draw(st.integers(0, len(head) - 1))
    new = data.draw(st.text(max_size=3)) + head[at + data.draw(st.integers(0, 5)) :]
    try:
        read(f"{head[:at]}{new}builtin.module{program}", "some.mlir")
    except FormatError:
        return
    except Exception as error:
        assert type(error).__module__.startswith("xdsl"), error


def test_a_bomb_is_not_unpacked() -> None:
    """Data that unpack to more than their shape holds are refused before they are unpacked."""
    big = replace(sample(), inputs={"x": np.zeros(1 << 20, np.float32)})
    text = write(big).replace("[1048576]", "[1]")
    with pytest.raises(FormatError, match="5 bytes, not 4"):
        read(text, "some.mlir")


def test_which_text_is_such_a_file() -> None:
    """A replay file is recognized by its first line."""
    assert replay_file.is_replay_file(write(sample()))
    assert not replay_file.is_replay_file(PROGRAM)
