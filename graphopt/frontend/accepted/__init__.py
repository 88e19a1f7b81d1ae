"""Tables of the types and dtypes that Paddle's functions accept for their arguments.

`fluid` follows Paddle 1.8.5; every other package rejects what both 2.6.2 and 3.3.1 reject. A row
consists of groups separated by semicolons, each `arguments: accepted values`:

    x y: f32 f64            both are Variables of one of these dtypes
    input...: f32 Variable  a list of them, or one alone
    axis?: i32 i64          the dtypes count only where a Variable is given
    =dtype: i32 i64         the argument is itself a dtype
    shape: list tuple       the argument is of one of these kinds

An argument whose default is None may be None. NumPy scalars count as numbers.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphopt.errors import OperandError
from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.ir.program.location import caller_location

Check = Callable[[tuple[Any, ...], Mapping[str, Any]], None]

_DTYPES = {
    "bool": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "c64": "complex64",
    "c128": "complex128",
}
_NAMED = {
    "Variable": "a Variable",
    "list": "a list",
    "tuple": "a tuple",
    "dict": "a dict",
    "set": "a set",
    "ndarray": "a NumPy array",
    "int": "an int",
    "float": "a float",
    "inexact": "a float and no int",
    "flag": "a bool",
    "str": "a str",
    "None": "None",
}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "Variable": (Variable,),
    "list": (list,),
    "tuple": (tuple,),
    "dict": (dict,),
    "set": (set, frozenset),
    "ndarray": (np.ndarray,),
    "int": (numbers.Integral,),
    "float": (numbers.Real,),
    "inexact": (float,),
    "flag": (bool, np.bool_),
    "str": (str,),
    "None": (type(None),),
}


@dataclass(frozen=True)
class _Rule:
    """One argument of a row: its place in a call, and its accepted values."""

    function: str
    name: str
    position: int
    default: Any
    several: bool
    only_variables: bool
    is_dtype: bool
    is_old: bool
    options: tuple[str, ...]

    @cached_property
    def _dtypes(self) -> frozenset[str]:
        found = {_DTYPES[option] for option in self.options if option in _DTYPES}
        # Paddle 1.8 has no bfloat16; graphopt accepts it wherever float16 is accepted
        half = self.is_old and "float16" in found
        return frozenset({*found, "bfloat16"} if half else found)

    @cached_property
    def _kinds(self) -> tuple[type, ...]:
        return tuple(kind for option in self.options for kind in _KINDS.get(option, ()))

    def check(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise OperandError if the argument of this call is not among the options."""
        value = kwargs.get(self.name, self.default)
        if self.position < len(args):
            value = args[self.position]
        if value is inspect.Parameter.empty or (value is None and self.default is None):
            return  # left out, or given under a name that the function handles itself
        if self.several and isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                self._check_one(item, f"{self.name}[{index}]")
        else:
            self._check_one(value, self.name)

    def _check_one(self, value: Any, name: str) -> None:
        if self.is_dtype:
            given = arguments.dtype(value, name, self.function)
            if given not in self._dtypes:
                self._refuse(name, f"{given}", "pass another dtype")
        elif self._kinds and isinstance(value, self._kinds):
            return
        elif not isinstance(value, Variable):
            if not self.only_variables:
                self._refuse(name, _show_value(value), _advice(value, self.options))
        elif not self._dtypes:
            advice = "put it into a list" if "list" in self.options else "pass a plain value"
            self._refuse(name, f"the Variable '{value.name}'", advice)
        elif value.has_type and value.dtype not in self._dtypes:
            found = f"'{value.name}', a Variable of dtype {value.dtype}"
            self._refuse(name, found, "convert it with cast")

    def _refuse(self, name: str, found: str, advice: str) -> None:
        dtypes = [dtype for dtype in _DTYPES.values() if dtype in self._dtypes]
        kinds = [_NAMED[option] for option in self.options if option in _KINDS]
        if dtypes:
            kinds.append(_or(dtypes) if self.is_dtype else f"a Variable of dtype {_or(dtypes)}")
        if self.several and name == self.name:
            kinds.append("a list or a tuple of them")
        where = caller_location()
        at = f" (at {where})" if where else ""
        raise OperandError(
            f"{self.function}(): the argument '{name}' must be {_or(kinds)}, found {found}; "
            f"{advice}{at}"
        )


def _or(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _show_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {list(value.shape)}"
    return f"{type(value).__name__} {value!r:.60}"


def _advice(value: Any, options: tuple[str, ...]) -> str:
    takes_variables = "Variable" in options or any(option in _DTYPES for option in options)
    if isinstance(value, np.ndarray) and takes_variables:
        return "feed it through static.data, or make a constant of it with assign"
    if len(options) > 1:
        return "pass one of these"
    return "pass a Variable" if takes_variables else "pass one"


class ArgumentChecks:
    """The checks of one function, read from its row when it is first called."""

    def __init__(self, name: str, row: str, function: Callable[..., Any]) -> None:
        self._name, self._row, self._function = name, row, function

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        for rule in self._rules:
            rule.check(args, kwargs)

    @cached_property
    def _rules(self) -> tuple[_Rule, ...]:
        parameters = inspect.signature(self._function).parameters
        return tuple(_rules(self._name, self._row, parameters))


def _rules(function: str, row: str, parameters: Mapping[str, inspect.Parameter]) -> Iterator[_Rule]:
    positions = {name: position for position, name in enumerate(parameters)}
    for group in row.split(";"):
        names, _, options = group.partition(":")
        for word in names.split():
            name = word.strip("=?.")
            parameter = parameters[name]
            position = positions[name]
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                position = len(parameters)
            yield _Rule(
                function.rpartition(".")[2],
                name,
                position,
                parameter.default,
                several="..." in word,
                only_variables=word.endswith("?"),
                is_dtype=word.startswith("="),
                is_old=function.startswith("fluid."),
                options=tuple(options.split()),
            )


def checks_of(package: str, name: str, function: Callable[..., Any]) -> tuple[Check, ...]:
    """Look up the argument checks of a function by its name in a package; () if it has no row."""
    path = ".".join([*package.split(".")[1:], name])
    row = _row(path) or (_row(name) if package.endswith(_SAME) else None)
    return () if row is None else (ArgumentChecks(path, row, function),)


# packages that also have functions of `paddle` itself
_SAME = (".linalg", ".tensor")


def _row(path: str) -> str | None:
    if path.startswith("fluid."):
        from graphopt.frontend.accepted.paddle18 import ROWS
    else:
        from graphopt.frontend.accepted.paddle26 import ROWS
    return ROWS.get(path)
