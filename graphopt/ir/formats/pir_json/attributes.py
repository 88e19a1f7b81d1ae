"""The attributes of operators in a PIR file, each with its kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from graphopt.ir.formats.pir_json.position import JsonPosition
from graphopt.ir.formats.pir_json.records import PirAttribute
from graphopt.ir.formats.pir_json.types import read_type

# JSON lacks these numbers: they have a key of their own. Paddle writes "NaN" and reads "NAN".
_SPECIAL = {"NaN": math.nan, "NAN": math.nan, "INF": math.inf, "-INF": -math.inf}
_INT32 = 1 << 31


def read_attribute(tree: Any, place: JsonPosition, depth: int = 0) -> PirAttribute:
    """Read the attribute in an `AT` field; FormatError for an unknown kind or a misfit value.

    Pointers, which Paddle writes as addresses of its own process, are unknown here.
    """
    if depth > place.limits.block_depth:
        raise place.over_limit(f"expected arrays at most {place.limits.block_depth} deep")
    fields = place.fields(tree, ("#",), ("D", "VD"))
    kind = (place / "#").text(fields["#"])
    if kind == "NULL":
        return PirAttribute("NULL", None)
    if "VD" in fields:
        return PirAttribute(_short(kind), _special(kind, fields, place))
    if "D" not in fields:
        raise place.error("the key 'D'", list(fields))
    data, at = fields["D"], place / "D"
    if kind == "0.a_array":
        items = [read_attribute(item, where, depth + 1) for where, item in at.items(data)]
        return PirAttribute("a_array", tuple(items))
    if kind.startswith("4.a_"):  # kinds of distributed programs, which graphopt does not read
        return PirAttribute(_short(kind), None)
    reader = _READERS.get(kind)
    if reader is None:
        raise (place / "#").error("an attribute kind of PIR", kind)
    return PirAttribute(_short(kind), reader(data, at))


def _short(kind: str) -> str:
    return kind.partition(".")[2]


def _special(kind: str, fields: Mapping[str, Any], place: JsonPosition) -> float:
    if kind not in ("0.a_f32", "0.a_f64") or "D" in fields:
        raise place.error("'VD' alone, for a floating-point number", list(fields))
    text = (place / "VD").text(fields["VD"])
    if text not in _SPECIAL:
        raise (place / "VD").error(f"one of {', '.join(_SPECIAL)}", text)
    return _SPECIAL[text]


def _bool(value: Any, place: JsonPosition) -> bool:
    return place.boolean(value)


def _int32(value: Any, place: JsonPosition) -> int:
    return place.integer(value, -_INT32, _INT32 - 1)


def _int64(value: Any, place: JsonPosition) -> int:
    return place.integer(value)


def _float(value: Any, place: JsonPosition) -> float:
    return place.number(value)


def _text(value: Any, place: JsonPosition) -> str:
    return place.text(value)


def _integers(value: Any, place: JsonPosition) -> list[int]:
    return [at.integer(item) for at, item in place.items(value)]


def _complex(value: Any, place: JsonPosition) -> complex:
    parts = [at.number(item) for at, item in place.items(value)]
    if len(parts) != 2:
        raise place.error("a real and an imaginary part", parts)
    return complex(*parts)


def _place(value: Any, place: JsonPosition) -> list[Any]:
    """Check the device of an operator: a kind, a number, and the name of a vendor."""
    parts = place.list_of(value)
    if len(parts) != 3:
        raise place.error("a kind of device, its number and a vendor", parts)
    (place / 0).integer(parts[0])
    (place / 1).integer(parts[1])
    (place / 2).text(parts[2])
    return parts


def _scalar(value: Any, place: JsonPosition) -> Any:
    """Read a number after its element type, or the two parts of a complex number."""
    parts = place.list_of(value)
    if len(parts) not in (2, 3):
        raise place.error("a dtype and a value", parts)
    (place / 0).text(parts[0])
    for position, part in enumerate(parts[1:], 1):
        if not isinstance(part, bool | str):
            (place / position).number(part)
    return complex(*parts[1:]) if len(parts) == 3 and _numbers(parts[1:]) else parts[1]


def _numbers(parts: list[Any]) -> bool:
    return all(isinstance(part, int | float) for part in parts)


_READERS: Mapping[str, Callable[[Any, JsonPosition], Any]] = {
    "0.a_bool": _bool,
    "0.a_i32": _int32,
    "0.a_i64": _int64,
    "0.a_index": _int64,
    "0.a_f32": _float,
    "0.a_f64": _float,
    "0.a_str": _text,
    "0.a_tensorname": _text,
    "0.a_type": read_type,
    "0.a_c64": _complex,
    "0.a_c128": _complex,
    "1.a_intarray": _integers,
    "1.a_dtype": _text,
    "1.a_place": _place,
    "1.a_scalar": _scalar,
    "1.a_layout": _text,
}
