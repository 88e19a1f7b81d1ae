"""Expressions whose value may depend on a tensor, as calls of helpers.

    a and b           _graphopt.all_of(lambda: a, lambda: b)
    x.shape[0]        _graphopt.shape(x)[0]
    f(x)              _graphopt.call(f)(x)

The helpers do what Python does unless a value is a Variable.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphopt.jit.conversion.jumps import place_node

HELPERS = "_graphopt"
_AUTOMATIC = ("super", "locals", "globals", "vars", "dir", "eval", "exec")


def helper(name: str, *args: ast.expr) -> ast.Call:
    """Build a call of a helper."""
    function = ast.Attribute(ast.Name(HELPERS, ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), [])


def thunk(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments([], [], None, [], [], None, [])
    return ast.Lambda(nothing, value)


def definition(name: str, parameters: Sequence[str], body: Sequence[ast.stmt]) -> ast.FunctionDef:
    """Build `def name(parameters): body`."""
    made = ast.parse(f"def {name}({', '.join(parameters)}): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body = list(body) or made.body
    return made


class Expressions(ast.NodeTransformer):
    """Converts calls, `and`, `or`, `not`, comparisons, conditional expressions and shapes."""

    def __init__(self, first: str | None) -> None:
        self.first = first  # the function's first parameter

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Convert `f(x)` to call the converted f."""
        if isinstance(node.func, ast.Name) and node.func.id in _AUTOMATIC:
            return self._super(node) if node.func.id == "super" else node
        self.generic_visit(node)
        node.func = place_node(helper("call", node.func), node.func)
        return node

    def _super(self, node: ast.Call) -> ast.expr:
        """Add arguments to `super()`, which would use those of a nested function."""
        if not node.args and self.first:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Convert `a and b`, which the program evaluates if a is a Variable."""
        self.generic_visit(node)
        if any(isinstance(each, ast.NamedExpr) for each in ast.walk(node)):
            return node
        name = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return place_node(helper(name, *(thunk(value) for value in node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Convert `not a`."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return place_node(helper("negation", node.operand), node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Convert `a if c else b`."""
        self.generic_visit(node)
        made = helper("choice", node.test, thunk(node.body), thunk(node.orelse))
        return place_node(made, node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Convert `a < b < c` to two comparisons; `a is b` refuses Unknown values."""
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            node.left = place_node(helper("known", node.left), node.left)
            return node
        if len(node.ops) == 1 or any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
            return node
        pairs: list[ast.expr] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            sides = [ast.arg("a"), ast.arg("b")]
            names: list[ast.expr] = [ast.Name("a", ast.Load()), ast.Name("b", ast.Load())]
            compare = ast.Lambda(
                ast.arguments([], sides, None, [], [], None, []),
                ast.Compare(names[0], [op], [names[1]]),
            )
            pairs += [compare, thunk(right)]
        return place_node(helper("comparison", node.left, *pairs), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Convert `x.shape`, which has Variables for unknown dimensions."""
        self.generic_visit(node)
        if node.attr == "shape" and isinstance(node.ctx, ast.Load):
            return place_node(helper("shape", node.value), node)
        return node

    def _keep(self, node: ast.AST) -> ast.AST:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _keep
