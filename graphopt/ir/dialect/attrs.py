"""Attribute kinds: how one Python value is stored, printed and parsed as a property of an op.

An op declares `axis = integer(-1)`; rules and lowerings then see the plain Python number, and the
text form shows `axis = 1` without a type suffix, because the declaration has the kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneType,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, VerificationContext, prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from graphopt.ir.dtypes import as_dtype, from_ir


@dataclass(frozen=True)
class Kind:
    """One kind of attribute value.

    `encode` maps a Python value to the stored attribute and raises TypeError when it does not fit;
    `decode` is its inverse. `many` is true for lists. `words` lists the values of a string
    property, if the op declares them.
    """

    name: str
    encode: Callable[[Any], Attribute]
    decode: Callable[[Any], Any]
    print_value: Callable[[Printer, Any], None]
    parse_value: Callable[[AttrParser], Any]
    many: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class KindConstraint(AttrConstraint[Attribute]):
    """The IRDL constraint `is a well-formed attribute of this kind`."""

    kind: Kind

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        try:
            canonical = self.kind.encode(self.kind.decode(attr))
        except (TypeError, ValueError, AttributeError) as error:
            raise VerifyException(f"expected {self.kind.name}, found {attr}") from error
        if canonical is not attr and canonical != attr:
            raise VerifyException(f"expected {self.kind.name}, found {attr}")

    def mapping_type_vars(self, type_var_mapping: Any) -> KindConstraint:
        return self


# Cached: programs repeat few values very often, and a lookup is faster than a new attribute.
_integer_attr = lru_cache(4096)(IntegerAttr[IntegerType])
_string_attr = lru_cache(4096)(StringAttr)


@lru_cache(4096)
def _float_attr(value: float, _sign: float) -> Attribute:
    """Build a float attribute; the sign separates 0.0 from -0.0 in the cache."""
    return FloatAttr(value, f64)


def _encode_int(value: Any) -> Attribute:
    if isinstance(value, bool) or int(value) != value:
        raise TypeError(f"expected an integer, found {value!r}")
    return _integer_attr(int(value), i64)


def _encode_flag(value: Any) -> Attribute:
    if not isinstance(value, (bool, int)) or value not in (0, 1):
        raise TypeError(f"expected true or false, found {value!r}")
    return _integer_attr(int(value), i1)


def _encode_number(value: Any) -> Attribute:
    if isinstance(value, str):
        raise TypeError(f"expected a number, found {value!r}")
    if isinstance(value, Integral) and _needs_all_digits(int(value)):
        return _integer_attr(int(value), i64)
    return _float_attr(float(value), math.copysign(1.0, value))


def _needs_all_digits(value: int) -> bool:
    """True for an int64 that float64 does not hold exactly; TypeError if neither holds it."""
    if int(float(value)) == value:
        return False
    if not -(2**63) <= value < 2**63:
        raise TypeError(f"expected a number that int64 or float64 holds exactly, found {value!r}")
    return True


def _encode_string(value: Any) -> Attribute:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, found {value!r}")
    return _string_attr(str(value))


def _print_number(printer: Printer, value: float) -> None:
    text = repr(value)
    if "." not in text and math.isfinite(value):
        text = text.replace("e", ".0e")
    printer.print_string(text)


def _print_list(printer: Printer, values: Sequence[Any], item: Callable[..., None]) -> None:
    with printer.in_square_brackets():
        printer.print_list(values, lambda value: item(printer, value))


def _print_int(printer: Printer, value: int) -> None:
    printer.print_string(str(value))


def _parse_number(parser: AttrParser) -> float:
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    for special in ("inf", "nan"):
        if parser.parse_optional_keyword(special):
            return sign * float(special)
    value = sign * parser.parse_number(allow_boolean=False)
    return value if isinstance(value, int) and _needs_all_digits(value) else float(value)


def _list_kind(name: str, item: Kind) -> Kind:
    def encode(values: Any) -> Attribute:
        return ArrayAttr([item.encode(value) for value in values])

    def decode(attr: Any) -> tuple[Any, ...]:
        return tuple(item.decode(element) for element in attr.data)

    return Kind(
        name,
        encode,
        decode,
        lambda printer, values: _print_list(printer, values, item.print_value),
        lambda parser: parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: item.parse_value(parser)
        ),
        many=True,
    )


def _optional_kind(item: Kind) -> Kind:
    """Build a kind that also admits None, printed `none`."""

    def print_value(printer: Printer, value: Any) -> None:
        if value is None:
            printer.print_string("none")
        else:
            item.print_value(printer, value)

    def parse_value(parser: AttrParser) -> Any:
        if parser.parse_optional_keyword("none"):
            return None
        return item.parse_value(parser)

    return Kind(
        f"{item.name} or none",
        # NoneAttr prints alike, but the parser of the generic text form returns NoneType
        lambda value: NoneType() if value is None else item.encode(value),
        lambda attr: None if isinstance(attr, NoneType) else item.decode(attr),
        print_value,
        parse_value,
        item.many,
    )


INTEGER = Kind(
    "an integer",
    _encode_int,
    lambda attr: attr.value.data,
    _print_int,
    lambda parser: parser.parse_integer(allow_boolean=False),
)
FLAG = Kind(
    "true or false",
    _encode_flag,
    lambda attr: bool(attr.value.data),
    lambda printer, value: printer.print_string("true" if value else "false"),
    lambda parser: parser.parse_boolean(),
)
NUMBER = Kind(
    "a number", _encode_number, lambda attr: attr.value.data, _print_number, _parse_number
)
STRING = Kind(
    "a string",
    _encode_string,
    lambda attr: attr.data,
    lambda printer, value: printer.print_string_literal(value),
    lambda parser: parser.parse_str_literal(),
)
DTYPE = Kind(
    "an element type",
    lambda value: as_dtype(value).ir,
    from_ir,
    lambda printer, value: printer.print_attribute(as_dtype(value).ir),
    lambda parser: from_ir(parser.parse_type()),
)
DICTIONARY = Kind(
    "a dictionary of attributes",
    lambda value: value if isinstance(value, DictionaryAttr) else DictionaryAttr(dict(value)),
    lambda attr: attr if isinstance(attr, DictionaryAttr) else DictionaryAttr(dict(attr)),
    lambda printer, value: printer.print_attribute(value),
    lambda parser: parser.parse_attribute(),
)
INTEGERS = _list_kind("a list of integers", INTEGER)
NUMBERS = _list_kind("a list of numbers", NUMBER)
STRINGS = _list_kind("a list of strings", STRING)

_REQUIRED = object()


def _field(kind: Kind, default: Any) -> Any:
    if default is _REQUIRED:
        return prop_def(KindConstraint(kind))
    if default is None:
        kind = _optional_kind(kind)
    return prop_def(KindConstraint(kind), default_value=kind.encode(default))


def integer(default: Any = _REQUIRED) -> Any:
    """Declare an int64 property; a default of None makes it optional."""
    return _field(INTEGER, default)


def flag(default: Any = _REQUIRED) -> Any:
    """Declare a boolean property."""
    return _field(FLAG, default)


def number(default: Any = _REQUIRED) -> Any:
    """Declare a float64 property."""
    return _field(NUMBER, default)


def string(default: Any = _REQUIRED, *, of: Sequence[str] = ()) -> Any:
    """Declare a string property; `of` lists its values, for tools that try them all.

    The type rule checks the value, with its own error message.
    """
    return _field(replace(STRING, words=tuple(of)) if of else STRING, default)


def dtype(default: Any = _REQUIRED) -> Any:
    """Declare an element-type property; values are anything that `as_dtype` accepts."""
    return _field(DTYPE, default)


def dictionary(default: Any = _REQUIRED) -> Any:
    """Declare a property of encoded attributes by name; rules see xDSL's DictionaryAttr."""
    return _field(DICTIONARY, default)


def integers(default: Any = _REQUIRED) -> Any:
    """Declare a list-of-integers property; rules see a tuple."""
    return _field(INTEGERS, default)


def numbers(default: Any = _REQUIRED) -> Any:
    """Declare a list-of-floats property; rules see a tuple."""
    return _field(NUMBERS, default)


def strings(default: Any = _REQUIRED) -> Any:
    """Declare a list-of-strings property; rules see a tuple."""
    return _field(STRINGS, default)
