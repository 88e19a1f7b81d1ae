"""Readable calls: one for each op of a program, or for a few ops together.

The text of a call has `{0}`, `{1}`, ... for the values that it reads and `<0>`, `<1>`, ... for the
names of layers of weights. Calls that differ only in these have equal texts.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.ir import SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.definition import default_attrs
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dtypes import DType


class NotReadable(UnsupportedError):
    """An op, or a use of it, that has no readable call; the message gives the reason."""


@dataclass(frozen=True)
class Numbered:
    """A name or a number in a function: letters, then one of its parameters plus an offset."""

    letters: str
    parameter: str
    offset: int = 0


Label: TypeAlias = str | int | Numbered


@dataclass
class Inner:
    """A function inside a call, for branches and loops: its parameters, body and results."""

    name: str
    parameters: Sequence[SSAValue]
    calls: list[SourceCall]
    results: Sequence[str]
    operands: Sequence[SSAValue]


@dataclass
class SourceCall:
    """A call: its text, operands and results.

    `hint` is a name for the result. `functions` are the inner functions that the text names.
    """

    text: str
    results: Sequence[SSAValue]
    operands: list[SSAValue] = field(default_factory=list[SSAValue])
    labels: list[Label] = field(default_factory=list[Label])
    hint: str = ""
    functions: list[Inner] = field(default_factory=list[Inner])
    refused: str = ""
    """The reason why the op has no call; an error if the program needs it."""


@dataclass
class Emit:
    """The operands and weights of one call, for the rule that writes its text in one style."""

    style: str
    weights: Mapping[SSAValue, tuple[str, str]]
    op: PdOp
    used: Collection[int]
    call: SourceCall = field(init=False)

    def __post_init__(self) -> None:
        self.call = SourceCall("", [])

    @property
    def is_jax(self) -> bool:
        """True for functions of JAX, False for Paddle's."""
        return self.style == "jax"

    @property
    def module(self) -> str:
        """The module with the functions on arrays."""
        return "jnp" if self.is_jax else "paddle"

    @property
    def functions(self) -> str:
        """The prefix of `nn.functional` functions; for JAX the script defines them."""
        return "" if self.is_jax else "F."

    def value(self, value: SSAValue) -> str:
        """Return the placeholder of an operand in the text, or the weight that it is."""
        if value in self.weights:
            layer, role = self.weights[value]
            return f'{self.layer(layer)}["{role}"]'
        operands = self.call.operands
        if value not in operands:
            operands.append(value)
        return f"{{{operands.index(value)}}}"

    def values(self, values: Sequence[SSAValue]) -> str:
        """Format operands as a list."""
        return f"[{', '.join(self.value(value) for value in values)}]"

    def layer(self, layer: str) -> str:
        """Return the text for the weights of a layer, by role."""
        self.call.labels.append(layer)
        return f"w[<{len(self.call.labels) - 1}>]"

    def layer_of(self, **operands: SSAValue | None) -> str | None:
        """Find the layer that holds exactly these operands by role; None if there is none."""
        given = {role: value for role, value in operands.items() if value is not None}
        if any(value not in self.weights for value in given.values()):
            return None
        found = {role: self.weights[value] for role, value in given.items()}
        layers = {layer for layer, _ in found.values()}
        if len(layers) != 1 or any(role != own for role, (_, own) in found.items()):
            return None
        (layer,) = layers
        roles = {role for each, role in self.weights.values() if each == layer}
        return layer if roles == set(given) else None

    def arguments_of_layer(self, **operands: SSAValue | None) -> list[str]:
        """Format operands as arguments by role; one argument for a whole layer."""
        layer = self.layer_of(**operands)
        if layer is not None:
            return [f"**{self.layer(layer)}"]
        return [f"{role}={self.value(v)}" for role, v in operands.items() if v is not None]


def literal(value: Any) -> str:
    """Format a value as a Python literal; float32 numbers with as few digits as they need."""
    if isinstance(value, bool | np.bool_):
        return repr(bool(value))
    if isinstance(value, DType):
        return f'"{value}"'
    if isinstance(value, int | np.integer):
        return repr(int(value))
    if isinstance(value, float | np.floating):
        return _number(float(value))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return f"[{', '.join(map(literal, items))}]"
    return repr(value)


def _number(number: float) -> str:
    if not np.isfinite(number):
        return f'float("{number}")'
    short = np.float32(number) if abs(number) < 3e38 else np.float32(0)
    if float(short) == number:
        number = float(str(short))
    return repr(number)


def arguments(*parts: str, **options: tuple[Any, Any]) -> str:
    """Format the arguments of a call; omit options that have their default value."""
    texts = [
        f"{name}={literal(value)}" for name, (value, default) in options.items() if value != default
    ]
    return ", ".join([*parts, *texts])


def number_of(dtype: DType, value: float) -> bool | int | float:
    """Convert a number to a dtype's Python number; raise NotReadable if it does not fit."""
    kind = dtype.numpy.kind
    if kind not in "iu":
        return bool(value) if kind == "b" else float(value)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value <= limits.max or value % 1:
        raise NotReadable(f"{dtype} cannot represent {literal(value)}")
    return int(value)


def free_name(name: str, taken: Collection[str]) -> str:
    """Append the first number that makes a name unused, if it is taken."""
    wanted, number = name, 1
    while wanted in taken:
        number += 1
        wanted = f"{name}_{number}"
    return wanted


def with_labels(text: str, labels: Sequence[Label]) -> str:
    """Insert the names of its layers into a text."""
    for at, label in enumerate(labels):
        text = text.replace(f"<{at}>", show_label(label))
    return text


def show_label(label: Label) -> str:
    """Format the name of a layer, or a number, as Python source."""
    if isinstance(label, Numbered):
        number = f"{label.parameter} + {label.offset}" if label.offset else label.parameter
        return f'f"{label.letters}{{{number}}}"' if label.letters else number
    return f'"{label}"' if isinstance(label, str) else str(label)


_OPTION = re.compile(r", (\w+)=\{(\w+)=([^}]*)\}")
_PLACE = re.compile(r"\{(\w+)\}")
_NAMED = re.compile(r"\{(\w+)")


def fill_template(
    template: str, emit: Emit, operands: Mapping[str, Any], attrs: Mapping[str, Any]
) -> str:
    """Fill in a row of the table for one op.

    `{x}` is an operand or an attribute, and `, axis={axis=-1}` an option, omitted if it has its
    default. Raises NotReadable if an attribute that the row omits does not have its default.
    """

    said, usual = set(_NAMED.findall(template)), default_attrs(type(emit.op))
    for name, value in attrs.items():
        if name not in said and value != usual.get(name):
            raise NotReadable(f"no call supports {name}={literal(value)}")

    def option(found: re.Match[str]) -> str:
        name, attr, default = found.groups()
        value = plain(attr, attrs[attr])
        if value == literal_eval(default):
            return ""
        return f", {name}={literal(value)}"

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if name in attrs:
            return literal(plain(name, attrs[name]))
        operand = operands[name]
        if isinstance(operand, tuple):
            return emit.values(cast("Sequence[SSAValue]", operand))
        return emit.value(operand)

    return _PLACE.sub(place, _OPTION.sub(option, template))


def plain(name: str, value: Any) -> Any:
    """Convert an attribute to the functions' form: None for no axes, a number for one axis."""
    if name in ("axis", "axes") and isinstance(value, tuple):
        axes = cast("tuple[int, ...]", value)
        return None if not axes else axes[0] if len(axes) == 1 else tuple(axes)
    if isinstance(value, tuple):
        return list(cast("tuple[Any, ...]", value))
    if isinstance(value, DType):
        return str(value)
    return value


Rule: TypeAlias = Callable[..., str]
RULES: dict[str, Rule] = {}
"""Rules of ops that need more than a table row: (emit, operands, attributes) -> text."""


def spells(*ops: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule of ops of the dialect."""

    def register(rule: Rule) -> Rule:
        for op in ops:
            assert op not in RULES, f"{op} has two rules for source"
            RULES[op] = rule
        return rule

    return register
