"""`return`, `break` and `continue` as assignments, so that control leaves a block only at its end.

The statements after an `if` that jumps go into its other branch:

    if a:                    if a:
        return x                 _result = x
    return y                 else:
                                 _result = y

Where neither branch always jumps, and after loops, a flag guards the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeVar

RESULT, DONE = "_result", "_done"
Statements = list[ast.stmt]
_Node = TypeVar("_Node", bound=ast.AST)
Kinds = tuple[type[ast.stmt], ...]
_LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def place_node(node: _Node, at: ast.AST) -> _Node:
    """Give a new node the first line of another: a call over several lines would name its last."""
    ast.copy_location(node, at)
    node.end_lineno, node.end_col_offset = node.lineno, node.col_offset  # pyright: ignore
    return ast.fix_missing_locations(node)


def make_assignment(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    """Build `name = value` at the line of another node."""
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    return place_node(made, at)


def guard(flags: Sequence[str], body: Statements) -> ast.stmt:
    """Build `if not (flag or flag): body`."""
    names: list[ast.expr] = [ast.Name(flag, ast.Load()) for flag in flags]
    either = names[0] if len(names) == 1 else ast.BoolOp(ast.Or(), names)
    made = ast.If(ast.UnaryOp(ast.Not(), either), body, [])
    return place_node(made, body[0])


def jumps_in(node: ast.AST, kinds: Kinds) -> bool:
    """True if a statement contains a jump of these kinds that leaves it."""
    if isinstance(node, kinds):
        return True
    if isinstance(node, _SCOPES):
        return False
    if isinstance(node, _LOOPS) and ast.Return not in kinds:
        return any(jumps_in(each, kinds) for each in node.orelse)
    return any(jumps_in(child, kinds) for child in ast.iter_child_nodes(node))


def _always_jumps(body: Sequence[ast.stmt], kinds: Kinds) -> bool:
    """True if control never reaches the end of a block."""
    return any(
        isinstance(each, (*kinds, ast.Raise))
        or (
            isinstance(each, ast.If)
            and _always_jumps(each.body, kinds)
            and _always_jumps(each.orelse, kinds)
        )
        for each in body
    )


class _Jumps:
    """The jumps of some kinds in a block, replaced by assignments.

    `replace` returns the assignments for a jump; one of the `flags` is true after it.
    """

    def __init__(
        self, kinds: Kinds, flags: Sequence[str], replace: Callable[[ast.stmt], Statements]
    ) -> None:
        self.kinds, self.flags, self.replace = kinds, flags, replace

    def without(self, body: Sequence[ast.stmt]) -> Statements:
        """Remove the jumps from a block."""
        made: Statements = []
        for index, each in enumerate(body):
            if isinstance(each, self.kinds):
                return made + self.replace(each)
            if jumps_in(each, self.kinds):
                return made + self._with_rest(each, list(body[index + 1 :]))
            made.append(each)
        return made

    def _with_rest(self, each: ast.stmt, rest: Statements) -> Statements:
        """Convert a statement that may jump and the statements after it."""
        if isinstance(each, ast.If):
            if _always_jumps(each.body, self.kinds):
                each.orelse, rest = each.orelse + rest, []
            elif _always_jumps(each.orelse, self.kinds):
                each.body, rest = each.body + rest, []
        parts: list[ast.AST] = [*getattr(each, "handlers", ()), *getattr(each, "cases", ()), each]
        for part in parts:
            for field in ("body", "orelse", "finalbody"):
                is_inner = field == "body" and isinstance(part, _LOOPS)
                if not is_inner and isinstance(block := getattr(part, field, None), list):
                    setattr(part, field, self.without(block))  # pyright: ignore[reportUnknownArgumentType]
        return [each, guard(self.flags, self.without(rest))] if rest else [each]


def without_returns(body: Statements) -> Statements:
    """Reduce the `return`s of a function to one, its last statement.

    A body without other `return`s is unchanged.
    """
    ends_with_it = isinstance(body[-1], ast.Return)
    if not any(jumps_in(each, (ast.Return,)) for each in (body[:-1] if ends_with_it else body)):
        return body
    first, last = body[0], body[-1]
    module = ast.Module(body, [])
    _BreaksForReturns().visit(module)
    if not _always_jumps(module.body, (ast.Return,)):
        module.body.append(place_node(ast.Return(ast.Constant(None)), last))
    end = ast.Return(ast.Name(RESULT, ast.Load()))
    made = _Jumps((ast.Return,), (DONE,), _result_of).without(module.body)
    return [make_assignment(DONE, ast.Constant(False), first), *made, place_node(end, last)]


def _result_of(jump: ast.stmt) -> Statements:
    """Build the assignments for a `return`."""
    assert isinstance(jump, ast.Return)
    value = jump.value or ast.Constant(None)
    return [make_assignment(RESULT, value, jump), make_assignment(DONE, ast.Constant(True), jump)]


class _BreaksForReturns(ast.NodeTransformer):
    """Converts each `return` in a loop to a `break`, with a `return` after the loop."""

    def __init__(self) -> None:
        self.depth = 0

    def visit_Return(self, node: ast.Return) -> ast.stmt | Statements:
        """Convert a `return` inside a loop."""
        return [*_result_of(node), place_node(ast.Break(), node)] if self.depth else node

    def _loop(self, node: ast.For | ast.While) -> Statements:
        returns = any(jumps_in(each, (ast.Return,)) for each in node.body)
        body, orelse = ast.Module(node.body, []), ast.Module(node.orelse, [])
        self.visit(orelse)
        self.depth += 1
        self.visit(body)
        self.depth -= 1
        node.body, node.orelse = body.body, orelse.body
        if not returns:
            return [node]
        leave = ast.Break() if self.depth else ast.Return(ast.Name(RESULT, ast.Load()))
        return [node, place_node(ast.If(ast.Name(DONE, ast.Load()), [leave], []), node)]

    def _scope(self, node: ast.AST) -> ast.AST:
        return node

    visit_For = visit_While = _loop
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _scope


def without_breaks(body: Statements, broke: str, skipped: str) -> Statements:
    """Convert the body of a loop so that `break` and `continue` set these flags."""

    def replace(jump: ast.stmt) -> Statements:
        flag = broke if isinstance(jump, ast.Break) else skipped
        return [make_assignment(flag, ast.Constant(True), jump)]

    return _Jumps((ast.Break, ast.Continue), (broke, skipped), replace).without(body)
