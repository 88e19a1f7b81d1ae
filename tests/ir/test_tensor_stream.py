"""Tensor streams: every element type and shape reads back, as a view of the file's bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphopt.errors import FormatError, LimitError, ProgramError, UnsupportedError
from graphopt.ir.dtypes import NUMBERED, DType
from graphopt.ir.formats import (
    Limits,
    SavedRows,
    read_selected_rows,
    read_tensor,
    write_selected_rows,
    write_tensor,
)
from graphopt_tests.model_files import MODELS

LOD = MODELS / "state_lod_tensor_v26"
ROWS = MODELS / "state_selected_rows_v26"
shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)


def some_array(dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Build an array of random bits, the whole width of its dtype."""
    count = int(np.prod(shape, dtype=int))
    if dtype == "bool":
        return (np.arange(count) % 3 == 0).reshape(shape)
    numbers = np.random.default_rng(0).integers(0, 256, count * dtype.numpy.itemsize, np.uint8)
    return numbers.view(dtype.numpy).reshape(shape)


@pytest.mark.exhaustive
@given(st.sampled_from(NUMBERED), shapes, st.binary(max_size=3))
def test_any_array_comes_back(dtype: DType, shape: tuple[int, ...], before: bytes) -> None:
    array = some_array(dtype, shape)
    data = before + write_tensor(array) + b"after"
    tensor, end = read_tensor(data, len(before))
    assert data[end:] == b"after"
    assert tensor.lod == ()
    assert (tensor.array.dtype, tensor.array.shape) == (array.dtype, array.shape)
    assert tensor.array.tobytes() == array.tobytes()
    assert write_tensor(*tensor) == data[len(before) : end]


def test_an_array_is_a_view_that_cannot_be_written() -> None:
    data = write_tensor(np.arange(6.0))
    (array, _), _ = read_tensor(data)
    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize("order", ["F", "big-endian", "strided"])
def test_any_layout_is_stored_row_major_and_little_endian(order: str) -> None:
    plain = np.arange(12, dtype=np.int32).reshape(3, 4)
    layouts = {
        "F": np.asfortranarray(plain),
        "big-endian": plain.astype(">i4"),
        "strided": np.repeat(plain, 2, axis=0)[::2],
    }
    assert write_tensor(layouts[order]) == write_tensor(plain)


def test_levels_of_detail_come_back() -> None:
    data = (LOD / "v").read_bytes()
    tensor, end = read_tensor(data)
    assert end == len(data)
    with np.load(LOD / "expected.npz") as expected:
        np.testing.assert_array_equal(tensor.array, expected["data"])
        for level, offsets in enumerate(tensor.lod):
            np.testing.assert_array_equal(offsets, expected[f"lod{level}"])
    assert write_tensor(*tensor) == data


def test_selected_rows_come_back() -> None:
    data = (ROWS / "v").read_bytes()
    tensor, end = read_selected_rows(data)
    assert end == len(data)
    with np.load(ROWS / "expected.npz") as expected:
        np.testing.assert_array_equal(tensor.array, expected["data"])
        np.testing.assert_array_equal(tensor.rows, expected["rows"])
        assert tensor.height == expected["height"]
    assert write_selected_rows(tensor) == data


@pytest.mark.parametrize(
    ("rows", "height"), [((0, 1, 2), 3), ((0, -1), 3), ((0, 3), 3), ((), 3)], ids=str
)
def test_selected_rows_must_be_rows(rows: tuple[int, ...], height: int) -> None:
    data = write_selected_rows(SavedRows(np.zeros((2, 2), np.float32), rows, height))
    with pytest.raises(FormatError, match=r"byte 4: expected"):
        read_selected_rows(data)


@pytest.mark.parametrize("lod", [[[0, 1]], [[0, 3]], [[1, 2]], [[0, 2, 1]], [[]]], ids=str)
def test_offsets_must_cover_the_rows(lod: list[list[int]]) -> None:
    data = write_tensor(np.zeros((2, 2), np.float32), lod)
    with pytest.raises(FormatError, match="LoD"):
        read_tensor(data)


def test_element_types_without_arrays_are_named() -> None:
    data = bytearray(write_tensor(np.zeros(3, np.uint8)))
    assert data[20:22] == b"\x08\x14"
    data[21] = 32
    with pytest.raises(UnsupportedError, match="float8_e4m3fn"):
        read_tensor(bytes(data))
    with pytest.raises(ProgramError, match="uint64"):
        write_tensor(np.zeros(3, np.uint64))


def test_a_tensor_keeps_to_the_limits() -> None:
    data = write_tensor(np.zeros((2, 3), np.float32), [[0, 1, 2], [0, 1, 2]])
    for limits in (Limits(rank=1), Limits(tensor_bytes=23), Limits(lod_levels=1)):
        with pytest.raises(LimitError, match="at most"):
            read_tensor(data, limits=limits)
    read_tensor(data, limits=Limits(rank=2, tensor_bytes=24, lod_levels=2))


def test_an_empty_tensor_with_impossible_dimensions_is_refused() -> None:
    huge = np.ndarray((0,), np.float32)
    data = (
        write_tensor(huge)[:20] + b"\x08\x05\x10\x00" + b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    )
    data = data[:16] + (len(data) - 20).to_bytes(4, "little") + data[20:]
    with pytest.raises(LimitError, match="bytes of data"):
        read_tensor(data)
