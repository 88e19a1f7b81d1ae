"""Decode the JSON of Paddle 3's programs (`.json`) to records, and check all of its structure.

The reader knows nothing about operators. Errors name the file and the path inside it, such as
`program.regions[0].blocks[0].ops[3].I[1]`.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Never, cast

from graphopt.errors import FormatError, LimitError
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.pir_json.attributes import read_attribute
from graphopt.ir.formats.pir_json.position import JsonPosition
from graphopt.ir.formats.pir_json.records import (
    PirAttribute,
    PirBlock,
    PirOp,
    PirProgram,
    PirValue,
)
from graphopt.ir.formats.pir_json.types import read_type
from graphopt.ir.formats.quote import quote

# 0 marks files of development builds; 3.0 writes 1, 3.1 writes 2, 3.2 writes 3, 3.3 writes 4.
VERSIONS = range(5)
# Operators of other dialects start with the dialect's name instead of a number.
_DIALECTS = {"0": "builtin", "1": "pd_op", "2": "cf", "3": "custom_op", "4": "dist"}
_PARAMETER_FLAGS = ("is_distributed", "is_parameter", "need_clip")
_RESULT_FLAGS = ("stop_gradient", "persistable")


def read_pir(data: bytes, source: str = "<program>", limits: Limits | None = None) -> PirProgram:
    """Decode the program in a PIR file.

    `source` names the bytes in errors. Operators of any name are accepted. Raises FormatError for
    bytes that are not a sound program and LimitError for a program that exceeds `limits`.
    """
    limits = limits or Limits()
    if len(data) > limits.json_bytes:
        raise LimitError(
            f"{source}: expected a JSON program of at most {limits.json_bytes} bytes, "
            f"found {len(data)}"
        )
    root = JsonPosition(source, limits)
    with _within_stack(root):
        return _PirReader(root, limits).program(_parse(data, source))


@contextmanager
def _within_stack(place: JsonPosition) -> Generator[None]:
    try:
        yield
    except RecursionError:
        raise place.over_limit("expected lists and objects in fewer levels, found more") from None


def _parse(data: bytes, source: str) -> Any:
    """Parse the text as JSON; refuse NaN, Infinity, repeated keys and huge numbers."""

    def token(text: str) -> Never:
        raise FormatError(f"{source}: expected JSON numbers, found {text}")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            names = [name for name, _ in items]
            again = next(name for name in names if names.count(name) > 1)
            raise FormatError(
                f"{source}: expected each key of an object once, found {quote(again)}"
            )
        return found

    def integer(text: str) -> int:
        # no field has a longer number, and long ones are slow to convert
        if len(text) > 20:
            raise FormatError(f"{source}: expected 64-bit integers, found {quote(text)}")
        return int(text)

    try:
        text = data.decode("utf-8")
        return json.loads(text, parse_constant=token, object_pairs_hook=pairs, parse_int=integer)
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{source}: byte {error.start}: expected UTF-8, found {data[error.start]:#04x}"
        ) from None
    except json.JSONDecodeError as error:
        raise FormatError(f"{source}: byte {error.pos}: expected JSON: {error.msg}") from None


class _PirReader:
    """Reads one file; tracks the values visible at each position."""

    def __init__(self, root: JsonPosition, limits: Limits) -> None:
        self.root = root
        self.limits = limits
        self.defined: set[int] = set()
        self.visible: set[int] = set()
        self.own: list[int] = []
        """The values defined so far by the block that is being read."""
        self.operators = 0
        self.blocks = 0

    def program(self, tree: Any) -> PirProgram:
        top = self.root.fields(tree, ("base_code", "program"))
        place = self.root / "base_code"
        code = place.fields(top["base_code"], ("magic", "version"), ("trainable",))
        if code["magic"] != "pir":
            raise (place / "magic").error("'pir'", code["magic"])
        version = (place / "version").integer(code["version"])
        if version not in VERSIONS:
            expected = f"a version in 0..{VERSIONS[-1]} (Paddle 3.0 to 3.3)"
            raise (place / "version").error(expected, version)
        (place / "trainable").boolean(code.get("trainable", True))
        place = self.root / "program"
        body = place.fields(top["program"], ("regions",))
        regions = self.regions(body["regions"], place / "regions", 0)
        if len(regions) != 1 or len(regions[0]) != 1:
            raise (place / "regions").error("one region of one block", [len(r) for r in regions])
        return PirProgram(version, regions[0][0], self.root.source)

    def regions(
        self, tree: Any, place: JsonPosition, depth: int
    ) -> tuple[tuple[PirBlock, ...], ...]:
        if depth > self.limits.block_depth:
            raise place.over_limit(
                f"expected blocks at most {self.limits.block_depth} deep, found one deeper"
            )
        found: list[tuple[PirBlock, ...]] = []
        for at, item in place.items(tree):
            blocks = at.fields(item, ("blocks",), ("#",))["blocks"]
            found.append(tuple(self.block(b, p, depth) for p, b in (at / "blocks").items(blocks)))
        return tuple(found)

    def block(self, tree: Any, place: JsonPosition, depth: int) -> PirBlock:
        self.blocks += 1
        if self.blocks > self.limits.blocks:
            raise place.over_limit(f"expected at most {self.limits.blocks} blocks, found more")
        fields = place.fields(tree, ("args", "ops"), ("#", "kwargs"))
        outer, self.own = self.own, []
        # `kwargs` repeats `args`, and the writer has lost the names
        (place / "kwargs").list_of(fields.get("kwargs", []))
        args = tuple(
            self.value(item, at, argument=True)
            for at, item in (place / "args").items(fields["args"])
        )
        self.define(args, place / "args")
        ops = tuple(self.op(item, at, depth) for at, item in (place / "ops").items(fields["ops"]))
        self.visible.difference_update(self.own)
        self.own = outer
        return PirBlock(args, ops)

    def op(self, tree: Any, place: JsonPosition, depth: int) -> PirOp:
        self.operators += 1
        if self.operators > self.limits.operators:
            raise place.over_limit(
                f"expected at most {self.limits.operators} operators, found more"
            )
        if isinstance(tree, dict) and cast("dict[str, Any]", tree).get("#") == "p":
            return self.parameter(cast("dict[str, Any]", tree), place)
        fields = place.fields(cast(Any, tree), ("#", "I", "O", "A"), ("OA", "regions"))
        name = self.op_name((place / "#").text(fields["#"]), place)
        operands = tuple(self.use(item, at) for at, item in (place / "I").items(fields["I"]))
        results = tuple(self.value(item, at) for at, item in (place / "O").items(fields["O"]))
        attributes = self.attributes(fields["A"], place / "A")
        flags = self.flags(fields.get("OA", []), place / "OA")
        # the regions define their values before the results, which they cannot read
        regions = self.regions(fields.get("regions", []), place / "regions", depth + 1)
        self.define(results, place / "O")
        return PirOp(name, operands, results, attributes, regions, flags)

    def op_name(self, text: str, place: JsonPosition) -> str:
        dialect, dot, name = text.partition(".")
        if not (dialect and dot and name):
            raise (place / "#").error("an operator with its dialect, such as '1.relu'", text)
        if dialect.isdigit() and dialect not in _DIALECTS:
            raise (place / "#").error(f"a dialect in 0..{len(_DIALECTS) - 1} or its name", text)
        return f"{_DIALECTS.get(dialect, dialect)}.{name}"

    def parameter(self, tree: Any, place: JsonPosition) -> PirOp:
        """Read a `p`, short for `builtin.parameter`, with its attributes by position."""
        fields = place.fields(tree, ("#", "O", "A"), ("OA", "DA", "QA", "I"))
        value = self.value(fields["O"], place / "O")
        given = (place / "A").list_of(fields["A"])
        if len(given) != len(_PARAMETER_FLAGS) + 1:
            raise (place / "A").error("three flags and a name", given)
        attributes: dict[str, PirAttribute] = {
            flag: PirAttribute("a_bool", bool((place / "A" / i).integer(given[i], 0, 1)))
            for i, flag in enumerate(_PARAMETER_FLAGS)
        }
        name = (place / "A" / len(_PARAMETER_FLAGS)).text(given[-1])
        attributes["parameter_name"] = PirAttribute("a_str", name)
        flags = [
            bool(at.integer(item, 0, 1)) for at, item in (place / "OA").items(fields.get("OA", []))
        ]
        if len(flags) not in (0, 3):
            raise (place / "OA").error("three flags", flags)
        persistable, stops, trainable = flags or (True, False, True)
        attributes["trainable"] = PirAttribute("a_bool", trainable)
        for key in ("DA", "QA"):
            self.attributes(fields.get(key, []), place / key)
        self.define((value,), place / "O")
        both = {"persistable": (persistable,), "stop_gradient": (stops,)}
        return PirOp("builtin.parameter", (), (value,), attributes, (), both)

    # Values -----------------------------------------------------------------------------------

    def use(self, tree: Any, place: JsonPosition) -> int:
        number = (place / "%").integer(place.fields(tree, ("%",), ("TT",))["%"])
        if number != 0 and number not in self.visible:
            why = "that is not visible here" if number in self.defined else "that nothing defines"
            raise (place / "%").error("a value defined before", f"{number}, {why}")
        return number

    def value(self, tree: Any, place: JsonPosition, argument: bool = False) -> PirValue:
        key = "#" if argument else "%"
        fields = place.fields(tree, (key, "TT"))
        number = (place / key).integer(fields[key])
        if (number >= 0) if argument else (number < 0):
            raise (place / key).error("a negative id" if argument else "an id from 0", number)
        return PirValue(number, read_type(fields["TT"], place / "TT"))

    def define(self, values: Sequence[PirValue], place: JsonPosition) -> None:
        for value in values:
            if value.id == 0:
                continue
            if value.id in self.defined:
                raise place.error("each value to be defined once", f"{value.id} again")
            self.defined.add(value.id)
            self.visible.add(value.id)
            self.own.append(value.id)
            if len(self.defined) > self.limits.variables:
                raise place.over_limit(f"expected at most {self.limits.variables} values")

    # Attributes -------------------------------------------------------------------------------

    def attributes(self, tree: Any, place: JsonPosition) -> dict[str, PirAttribute]:
        found: dict[str, PirAttribute] = {}
        for at, item in place.items(tree):
            fields = at.fields(item, ("N", "AT"))
            name = (at / "N").text(fields["N"])
            if name in found:
                raise (at / "N").error("each attribute once", f"{quote(name)} again")
            found[name] = read_attribute(fields["AT"], at / "AT")
        return found

    def flags(self, tree: Any, place: JsonPosition) -> dict[str, tuple[bool, ...]]:
        """Read the result flags that graphopt uses."""
        return {
            name: tuple(item.value is True for item in attribute.value)
            for name, attribute in self.attributes(tree, place).items()
            if name in _RESULT_FLAGS and attribute.kind == "a_array"
        }
