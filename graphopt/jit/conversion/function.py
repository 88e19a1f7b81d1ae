"""Conversion of a user's function, from its source, to a function that a trace can call.

The new code has the user's file and lines, so that errors and operators name them. It shares the
globals, defaults and closure of the original.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType
from weakref import WeakKeyDictionary

from graphopt.jit.conversion.expressions import HELPERS, definition
from graphopt.jit.conversion.jumps import without_returns
from graphopt.jit.conversion.names import Assigned
from graphopt.jit.conversion.statements import Conversion

_LEFT_ALONE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_codes: WeakKeyDictionary[CodeType, CodeType | None] = WeakKeyDictionary()


def convert_function(
    function: FunctionType, helpers: object, report: Callable[[str], None] | None = None
) -> FunctionType:
    """Convert a function; return it unchanged where there is nothing to convert.

    That is so for generators, coroutines, lambdas, and functions without source. `report` gets the
    text of a newly converted function.
    """
    code = function.__code__
    if HELPERS in code.co_freevars:
        return function  # converted already
    if code not in _codes:
        _codes[code] = _converted_code(function, report)
    found = _codes[code]
    if found is None:
        return function
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[HELPERS] = CellType(helpers)
    # a cell without a value for a free variable that the original function does not have
    closure = tuple(cells.get(name) or CellType() for name in found.co_freevars)
    made = FunctionType(
        found, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    return made


def source_of(function: FunctionType) -> str:
    """Return the text of the converted function; an unconverted function's own source."""
    tree = _tree(function)
    return inspect.getsource(function) if tree is None else ast.unparse(tree)


def _converted_code(
    function: FunctionType, report: Callable[[str], None] | None
) -> CodeType | None:
    tree = _tree(function)
    if tree is None:
        return None
    if report is not None:
        report(ast.unparse(tree))
    free = [*function.__code__.co_freevars, HELPERS]
    # a recursive call reads a global name, unless the name is a free variable
    own: list[ast.stmt] = [] if tree.name in free else [ast.Global([tree.name])]
    around = definition("_around", free, [*own, tree])
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(around, tree)], []))
    compiled = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    outer = next(_codes_in(compiled, "_around"))
    return next(_codes_in(outer, tree.name))


def _codes_in(code: CodeType, name: str) -> Iterator[CodeType]:
    return (c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _tree(function: FunctionType) -> ast.FunctionDef | None:
    """Convert the definition of a function; None if it is not converted."""
    code = function.__code__
    if code.co_flags & _LEFT_ALONE or code.co_name == "<lambda>":
        return None
    try:
        lines, first = inspect.getsourcelines(code)
        text = "".join(lines)
        if text[:1].isspace():
            # a nested definition; a dedent would change its multi-line strings
            tree, first = ast.parse("if True:\n" + text).body[0], first - 1
            (definition,) = tree.body  # pyright: ignore[reportAttributeAccessIssue]
        else:
            (definition,) = ast.parse(text).body
    except (OSError, SyntaxError, ValueError):
        return None
    if not isinstance(definition, ast.FunctionDef):
        return None
    ast.increment_lineno(definition, first - 1)
    _strip(definition)
    _mangle(definition, function.__qualname__)
    _convert(definition)
    return definition


def _strip(definition: ast.FunctionDef) -> None:
    """Remove decorators, defaults and annotations, which the compiled code does not hold."""
    definition.decorator_list, definition.returns = [], None
    arguments = definition.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for each in (*every, arguments.vararg, arguments.kwarg):
        if each is not None:
            each.annotation = None
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [each and ast.Constant(None) for each in arguments.kw_defaults]


def _mangle(definition: ast.FunctionDef, qualname: str) -> None:
    """Prefix names like `__x` with the class, as the compiler does inside a class."""
    owner = qualname.split(".")[-2].lstrip("_") if "." in qualname else ""
    if not owner or owner == "<locals>":
        return
    for node in ast.walk(definition):
        for field in ("id", "attr", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                setattr(node, field, f"_{owner}{name}")


def _parameters(definition: ast.FunctionDef) -> list[str]:
    given = definition.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [each.arg for each in every if each is not None]


def _convert(definition: ast.FunctionDef) -> None:
    parameters = _parameters(definition)
    doc = definition.body[:1] if ast.get_docstring(definition, clean=False) is not None else []
    body = without_returns(definition.body[len(doc) :] or [ast.Pass()])
    found = Assigned(body)
    own = {*parameters, *found.names} - found.elsewhere
    positional = [*definition.args.posonlyargs, *definition.args.args]
    first = positional[0].arg if positional else None
    conversion = Conversion(first, own, found.elsewhere)
    made = conversion.block(body)
    # an annotation without a value makes a name local
    locals_ = [
        ast.AnnAssign(ast.Name(name, ast.Store()), ast.Constant(None), None, 1)
        for name in sorted(conversion.own.difference(parameters))
    ]
    definition.body = [*doc, *locals_, *made]
    ast.fix_missing_locations(definition)
