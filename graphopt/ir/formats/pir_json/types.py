"""The types of values in a PIR file."""

from __future__ import annotations

from typing import Any

from graphopt.ir.formats.pir_json.position import JsonPosition
from graphopt.ir.formats.pir_json.records import PirType

# Element types by the file's name; None for those without a graphopt dtype.
_ELEMENTS: dict[str, str | None] = {
    "t_bool": "bool",
    "t_bf16": "bfloat16",
    "t_f16": "float16",
    "t_f32": "float32",
    "t_f64": "float64",
    "t_i8": "int8",
    "t_ui8": "uint8",
    "t_i16": "int16",
    "t_i32": "int32",
    "t_i64": "int64",
    "t_index": "int64",
    "t_c64": "complex64",
    "t_c128": "complex128",
    "t_f8e4m3fn": None,
    "t_f8e5m2": None,
    "t_undefined": None,
}
# The fields after the element type and the dimensions: layout, LoD, offset of the LoD.
_TENSORS = {
    "0.t_dtensor": 5,
    "1.t_dense_tensor_array": 3,
    "1.t_selected_rows": 5,
    "1.t_sparse_coo_tensor": None,
    "1.t_sparse_csr_tensor": None,
}
_OTHERS = ("2.t_stack", "2.t_inlet", "2.t_outlet")
_NULL = PirType("NULL")


def read_type(tree: Any, place: JsonPosition) -> PirType:
    """Read the type in a `TT` field; distributed and sparse types lose their details."""
    fields = place.fields(tree, ("#",), ("D",))
    name = (place / "#").text(fields["#"])
    data, at = fields.get("D"), place / "D"
    if name == "NULL":
        return _NULL
    dialect, _, kind = name.partition(".")
    if dialect == "0" and kind in _ELEMENTS:
        return PirType(kind, _ELEMENTS[kind])
    if name == "0.t_vec":
        elements = tuple(read_type(item, where) for where, item in at.items(data))
        return PirType("vec", elements=elements)
    if name in _TENSORS:
        return _tensor(kind.removeprefix("t_"), at.list_of(data), at, _TENSORS[name])
    if name in _OTHERS or (dialect == "4" and kind):
        return PirType(kind.removeprefix("t_"))
    raise (place / "#").error("a type of PIR", name)


def _tensor(kind: str, data: list[Any], place: JsonPosition, length: int | None) -> PirType:
    """Read element type and dimensions; layout and LoD must be present and are ignored."""
    if len(data) < 2 or (length is not None and len(data) != length):
        expected = f"{length or 'two or more'} parts: an element type, dimensions, …"
        raise place.error(expected, f"{len(data)} of them")
    element = read_type(data[0], place / 0)
    if element is not _NULL and not element.kind.startswith("t_"):
        raise (place / 0).error("an element type", element.kind)
    dims: list[int] = []
    for at, dim in (place / 1).items(data[1]):
        largest = place.limits.dimension
        dims.append(max(at.integer(dim, -largest, largest), -1))
    if len(dims) > place.limits.rank:
        raise place.over_limit(
            f"expected at most {place.limits.rank} dimensions, found {len(dims)}"
        )
    if length is not None:
        (place / 2).text(data[2])
    if length == 5:
        _lod(data[3], place / 3)
        (place / 4).integer(data[4])
    return PirType(kind, element.dtype, tuple(dims))


def _lod(tree: Any, place: JsonPosition) -> None:
    levels = place.list_of(tree)
    if len(levels) > place.limits.lod_levels:
        raise place.over_limit(
            f"expected at most {place.limits.lod_levels} levels of offsets, found {len(levels)}"
        )
    for at, level in place.items(levels):
        for where, offset in at.items(level):
            where.integer(offset)
