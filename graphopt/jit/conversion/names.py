"""The names of a function that statements assign to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

# methods that change a list, dict or set in place
_CHANGING = (
    *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"),
    *("update", "setdefault", "popitem", "add", "discard"),
)


class Assigned(ast.NodeVisitor):
    """The names that nodes assign to, without those of nested functions and classes.

    `names` are bound, `changed` hold a container that is changed in place, `attributes` are
    attributes of names (`self.x`) with either, `elsewhere` are global and nonlocal names.
    """

    def __init__(self, nodes: Iterable[ast.AST] = ()) -> None:
        self.names: dict[str, None] = {}
        self.changed: dict[str, None] = {}
        self.attributes: dict[str, None] = {}
        self.elsewhere: set[str] = set()
        for node in nodes:
            self.visit(node)

    def state(self, own: Collection[str]) -> list[str]:
        """List the names among `own`, and the attributes, whose values the nodes change."""
        names = {**self.names, **self.changed}
        return [name for name in names if name in own] + list(self.attributes)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.names[node.id] = None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            self.attributes[f"{node.value.id}.{node.attr}"] = None
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._change(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            self._change(node.func.value)
        self.generic_visit(node)

    def _change(self, target: ast.expr) -> None:
        """Record that the value of a name, or of its attribute, is changed in place."""
        while isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Name):
            self.changed[target.id] = None
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            self.attributes[f"{target.value.id}.{target.attr}"] = None

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.names[(alias.asname or alias.name).partition(".")[0]] = None

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.names[node.name] = None

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.names[node.name] = None
        self.generic_visit(node)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.names[node.name] = None
        self.generic_visit(node)

    def _elsewhere(self, node: ast.Global | ast.Nonlocal) -> None:
        self.elsewhere.update(node.names)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Skip a lambda: its names are its own."""

    def _comprehension(self, node: ast.AST) -> None:
        inner = Assigned(ast.iter_child_nodes(node))
        targets = [each.target for each in getattr(node, "generators", ())]
        own = {name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name)}
        self.names.update(dict.fromkeys(name for name in inner.names if name not in own))
        self.changed.update(inner.changed)
        self.attributes.update(inner.attributes)

    visit_Import = visit_ImportFrom = _import
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition
    visit_MatchAs = visit_MatchStar = _capture
    visit_Global = visit_Nonlocal = _elsewhere
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension
