"""Statements whose control flow may depend on a tensor, as calls of helpers.

    if a > 0:                def _yes(): nonlocal x; x = x + 1
        x = x + 1            def _no(): nonlocal x; x = x - 1
    else:                    _graphopt.branch(a > 0, _yes, _no, <read x>, <write x>, ("x",))
        x = x - 1

The helpers do what Python does unless the condition is a Variable.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphopt.jit.conversion.expressions import Expressions, definition, helper, thunk
from graphopt.jit.conversion.jumps import (
    Statements,
    guard,
    jumps_in,
    make_assignment,
    place_node,
    without_breaks,
)
from graphopt.jit.conversion.names import Assigned


def _load(name: str) -> ast.expr:
    owner, _, attribute = name.rpartition(".")
    if owner:
        return ast.Attribute(ast.Name(owner, ast.Load()), attribute, ast.Load())
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.expr:
    made = _load(name)
    made.ctx = ast.Store()  # pyright: ignore[reportAttributeAccessIssue]
    return made


class Conversion(Expressions):
    """Converts branches, loops and assertions, too.

    `own` are the local names of the function.
    """

    def __init__(self, first: str | None, own: set[str], elsewhere: set[str]) -> None:
        super().__init__(first)
        self.own, self.elsewhere = own, elsewhere
        self.count = 0

    def block(self, body: Sequence[ast.stmt]) -> Statements:
        """Convert the statements of a block."""
        module = ast.Module(list(body), [])
        self.generic_visit(module)
        return module.body

    def visit_If(self, node: ast.If) -> Statements:
        """Convert a branch."""
        number = self._number()
        state = self._state([*node.body, *node.orelse])
        test = self.visit(node.test)
        yes = self._function(f"_yes_{number}", self.block(node.body), state)
        no = self._function(f"_no_{number}", self.block(node.orelse), state)
        call = helper("branch", test, *_names(yes, no), *self._access(number, state))
        return self._place(node, [yes, no, *self._accessors(number, state), ast.Expr(call)])

    def visit_While(self, node: ast.While) -> Statements:
        """Convert a loop with a condition."""
        number = self._number()
        flags, body, after = self._flat_loop(node, number)
        test: ast.expr = node.test
        if flags:
            test = ast.BoolOp(ast.And(), [_no(flags[0]), test])
            place_node(test, node)
        state = self._state([*body, node.test])
        condition = self._function(f"_test_{number}", [ast.Return(self.visit(test))], state)
        inner = self._function(f"_body_{number}", self.block(body), state)
        call = helper("loop", *_names(condition, inner), *self._access(number, state))
        made = [condition, inner, *self._accessors(number, state), ast.Expr(call)]
        return self._with_flags(node, flags, made, after)

    def visit_For(self, node: ast.For) -> Statements:
        """Convert a loop over items."""
        number = self._number()
        flags, body, after = self._flat_loop(node, number)
        item = f"_item_{number}"
        take = ast.Assign([node.target], ast.Name(item, ast.Load()))
        place_node(take, node)
        state = self._state([take, *body])
        inner = self._function(f"_body_{number}", self.block([take, *body]), state, item)
        stop: ast.expr = thunk(_load(flags[0])) if flags else ast.Constant(None)
        items = self.visit(node.iter)
        call = helper("each", items, *_names(inner), stop, *self._access(number, state))
        made = [inner, *self._accessors(number, state), ast.Expr(call)]
        return self._with_flags(node, flags, made, after)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        """Convert a `return`, whose value must be known on every path."""
        self.generic_visit(node)
        if node.value is not None:
            node.value = place_node(helper("returned", node.value), node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Convert an assertion."""
        test = self.visit(node.test)
        message = self.visit(node.msg) if node.msg else ast.Constant(None)
        call = ast.Expr(helper("assertion", test, thunk(message)))
        return self._place(node, [call])[0]

    # -- parts ---------------------------------------------------------------------------------

    def _number(self) -> int:
        self.count += 1
        return self.count

    def _state(self, nodes: Sequence[ast.AST]) -> list[str]:
        return Assigned(nodes).state(self.own)

    def _flat_loop(
        self, node: ast.For | ast.While, number: int
    ) -> tuple[list[str], Statements, Statements]:
        """Remove the jumps from a loop; return its flags, its body and the statements after it."""
        if not any(jumps_in(each, (ast.Break, ast.Continue)) for each in node.body):
            return [], node.body, node.orelse
        flags = [f"_broke_{number}", f"_skipped_{number}"]
        self.own.update(flags)
        body = without_breaks(node.body, *flags)
        start = make_assignment(flags[1], ast.Constant(False), node)
        after = [guard(flags[:1], node.orelse)] if node.orelse else []
        return flags, [start, *body], after

    def _with_flags(
        self, node: ast.stmt, flags: Sequence[str], made: Statements, after: Statements
    ) -> Statements:
        before = [make_assignment(flag, ast.Constant(False), node) for flag in flags]
        return [*before, *self._place(node, made), *self.block(after)]

    def _function(
        self, name: str, body: Statements, state: Sequence[str], item: str | None = None
    ) -> ast.FunctionDef:
        """Build a nested function that may change local names of the converted one."""
        inside = Assigned(body).names
        names = [n for n in {**dict.fromkeys(state), **inside} if "." not in n and n in self.own]
        declared: Statements = [ast.Nonlocal(names)] if names else []
        if elsewhere := sorted(name for name in inside if name in self.elsewhere):
            declared.append(ast.Global(elsewhere))
        return definition(name, [item] if item else [], [*declared, *body])

    def _access(self, number: int, state: Sequence[str]) -> list[ast.expr]:
        shown = ast.Tuple([ast.Constant(name) for name in state], ast.Load())
        return [_load(f"_read_{number}"), _load(f"_write_{number}"), shown]

    def _accessors(self, number: int, state: Sequence[str]) -> Statements:
        """Build the functions that read and write the values of the state."""
        values = [helper("value", thunk(_load(name)), ast.Constant(name)) for name in state]
        read = [ast.Return(ast.List(list(values), ast.Load()))]
        given = f"_values_{number}"
        stored = ast.List([_store(name) for name in state], ast.Store())
        write = [ast.Assign([stored], _load(given))]
        made = [
            self._function(f"_read_{number}", list(read), []),
            self._function(f"_write_{number}", list(write), state, given),
        ]
        return list(made)

    def _place(self, at: ast.stmt, made: Statements) -> Statements:
        for each in made:
            # the user's nodes keep their lines
            place_node(each, at)
        return made


def _names(*functions: ast.FunctionDef) -> list[ast.expr]:
    return [ast.Name(function.name, ast.Load()) for function in functions]


def _no(flag: str) -> ast.expr:
    return ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load()))
