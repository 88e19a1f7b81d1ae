"""Passes that are wrong on purpose: each guard removed or inverted, one at a time.

A mutant of the source changes one condition of one function; its code object replaces the
function's own while the mutant is in force. A mutant of a pattern changes a node: other ops match,
in another order, or may be missing.
"""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import walk_packages
from types import CodeType, FunctionType, ModuleType
from typing import Any

from graphopt import passes as every_pass
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.passes.engine.fusion import Fusion, Node
from graphopt.testing.mutations import SIBLINGS
from graphopt_tests.proof.corpus import FUSIONS
from graphopt_tests.proof.equivalent import EQUIVALENT as EQUIVALENT
from graphopt_tests.proof.suite import KINDS, TOGETHER, UNDONE, suite

ENGINE = ("matching", "fusion")
GROUPS = ("group-reductions", "group-elementwise")
REWRITES = {
    "rewrite": (
        "simplify",
        "fold-constants",
        "drop-dropout",
        "reassociate-matmul",
        "cse",
        "assign-layout",
        "shard-updates",
        UNDONE,
    ),
    "fold_constants": ("fold-constants",),
    "fold_identity": ("fold-identity", "simplify"),
    "simplify": ("simplify",),
    "recognise_gelu": ("recognise-gelu",),
    "einsum_to_matmul": ("einsum-to-matmul",),
    "cse": ("cse",),
    "drop_dropout": ("drop-dropout",),
    "reassociate_matmul": ("reassociate-matmul",),
    "grouping": ("fuse-all-optimizer-ops", "fuse-adamw", "sort-ops", "stack-updates"),
    "group_borders": GROUPS,
    "group_growth": GROUPS,
    "kept_values": GROUPS,
    "min_cut": GROUPS,
    "fusion_groups": GROUPS,
    "outlining": (*GROUPS, "choose-group-kernel"),
    "choose_group_kernel": ("choose-group-kernel",),
    "fuse_all_optimizer_ops": ("fuse-all-optimizer-ops", "fuse-adamw"),
    "pack_filters": ("pack-filters",),
}
TRANSFORMERS = ("fused-attention", "fused-feedforward", "fuse-dot-product-attention")
# passes that a module of fusions serves, where it is not named after its only one
SHARED = {
    "transformer_parts": TRANSFORMERS,
    "head_layout": ("fused-attention",),
    "fuse_dot_product_attention": (
        "fuse-dot-product-attention",
        "fused-attention",
        "fuse-long-attention",
        "fuse-cudnn-attention",
        "fuse-pallas-attention",
    ),
    "fuse_bn_act": ("fuse-bn-act", "fuse-bn-add-act"),
    "fused_attention": ("fused-attention",),
    "fused_feedforward": ("fused-feedforward",),
}
# functions that only word an explanation: which op to edit how, which end a near miss lacks
WORDS = frozenset(
    {
        "_edit_that_helps",
        "_explain_shared",
        "_explain_transposed",
        "_flawed",
        "_swaps",
        "apply",
        "edits",
        "lacking",
        "miss",
        "origin",
        "vetoed",
    }
)
# what watches, counts, times or validates rewrites, which has tests of its own (bisect, --validate)
WATCHES = (
    *("watch", "allow(", "bisect.", "veto", "undo_if_wrong(", "log is None", "numerics or"),
    "seconds is not None",
)


@dataclass(frozen=True)
class Mutant:
    """One wrong pass. `passes` are the passes that may be affected; `apply` puts it in force."""

    name: str
    passes: tuple[str, ...]
    kind: str
    apply: Callable[[], Any]

    def __str__(self) -> str:
        return self.name


# the modules of passes by the last part of their names
_FOUND = [found.name for found in walk_packages(every_pass.__path__, "graphopt.passes.")]
_ROOMS = {name.rpartition(".")[2]: name for name in _FOUND}


def modules() -> dict[str, tuple[str, ...]]:
    """Map the modules whose conditions are mutated to the passes that use them."""
    found = dict(REWRITES)
    for name in ENGINE:
        found[name] = (*FUSIONS, TOGETHER, UNDONE)
    for name, fusion in FUSIONS.items():
        module = fusion.__module__.rpartition(".")[2]
        found[module] = SHARED.get(module, (name,))
    return {**found, **SHARED}


def source_mutants() -> Iterator[Mutant]:
    """Yield every condition of every module, changed in each way."""
    for name, passes in modules().items():
        module = import_module(_ROOMS[name])
        for function, number, text in _sites(module):
            yield Mutant(
                f"{name}.{function}: {text}",
                passes,
                "condition",
                lambda m=module, f=function, n=number: _patched(m, f, n),
            )


# -- conditions ------------------------------------------------------------------------------------


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods of a module, by qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _sites(module: ModuleType) -> Iterator[tuple[str, int, str]]:
    """Yield function, number and words of each change; equal words are numbered."""
    for name, function in _functions(_tree(module)):
        if name.rpartition(".")[2] in WORDS or name.rpartition(".")[2].startswith("__"):
            continue
        seen = Counter[str]()
        for number, (_, words) in enumerate(_changes(function)):
            seen[words] += 1
            yield name, number, words if seen[words] == 1 else f"{words} ({seen[words]})"


Change = tuple[Callable[[], None], str]


def _changes(function: ast.AST) -> Iterator[Change]:
    """Yield each way to change a condition of a function in place, with words for it.

    Conditions within a `Reason` only choose words, and are left out.
    """
    for node in _walk(function):
        for field in ("test",):
            if isinstance(node, (ast.If, ast.IfExp)):
                test = getattr(node, field)
                if _watches(test):
                    continue
                yield _set(node, field, ast.Constant(False)), f"never `{_text(test)}`"
                yield _set(node, field, ast.Constant(True)), f"always `{_text(test)}`"
        if isinstance(node, ast.comprehension):
            for index, test in enumerate(node.ifs):
                yield _set_item(node.ifs, index, ast.Constant(True)), f"each, not `{_text(test)}`"
        if isinstance(node, ast.Return) and _is_truth(node.value):
            yield (
                _set(node, "value", ast.Constant(False)),
                f"returns False, not `{_text(node.value)}`",
            )
            yield (
                _set(node, "value", ast.Constant(True)),
                f"returns True, not `{_text(node.value)}`",
            )
        if isinstance(node, ast.BoolOp):
            for index, value in enumerate(node.values):
                if _watches(value):
                    continue
                word = "or" if isinstance(node.op, ast.Or) else "and"
                yield _without(node, index), f"without `{word} {_text(value)}`"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for inner in ast.iter_child_nodes(node):
        if not (isinstance(inner, ast.Call) and _text(inner.func) == "Reason"):
            yield from _walk(inner)


def _is_truth(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in (
            "any",
            "all",
            "isinstance",
            "bool",
        )
    if isinstance(value, ast.BoolOp):
        return all(map(_is_truth, value.values))
    return isinstance(value, (ast.Compare, ast.UnaryOp)) and not isinstance(
        getattr(value, "op", None), ast.USub
    )


def _watches(test: ast.expr) -> bool:
    return any(word in _text(test) for word in WATCHES)


def _text(node: ast.AST | None) -> str:
    text = ast.unparse(node) if node is not None else ""
    return text if len(text) < 90 else text[:87] + "..."


def _set(node: ast.AST, field: str, value: ast.expr) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _set_item(items: list[ast.expr], index: int, value: ast.expr) -> Callable[[], None]:
    def change() -> None:
        items[index] = value

    return change


def _without(node: ast.BoolOp, index: int) -> Callable[[], None]:
    return lambda: node.values.pop(index) and None


@contextmanager
def _patched(module: ModuleType, name: str, number: int) -> Generator[None]:
    """Put the function with its condition changed in force."""
    target: Any = module
    for part in name.split("."):
        target = inspect.getattr_static(target, part)
    target = getattr(target, "__wrapped__", target)
    target = getattr(target, "__func__", getattr(target, "fget", None) or target)
    assert isinstance(target, FunctionType), name
    old = target.__code__
    target.__code__ = _changed(module, name, number, old.co_qualname)
    try:
        yield
    finally:
        target.__code__ = old


@lru_cache(1)
def _changed(module: ModuleType, name: str, number: int, code_name: str) -> CodeType:
    tree = copy.deepcopy(_tree(module))
    node = dict(_functions(tree))[name]
    list(_changes(node))[number][0]()
    for inner in ast.walk(tree):
        if isinstance(inner, ast.BoolOp) and len(inner.values) == 1:
            inner.values.append(inner.values[0])
    ast.fix_missing_locations(tree)
    flags = sys.modules["__future__"].annotations.compiler_flag
    code = compile(tree, module.__file__ or "", "exec", flags=flags, dont_inherit=True)
    return _code(code, code_name)


def _code(code: CodeType, name: str) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                return constant
            found = _code_or_none(constant, name)
            if found is not None:
                return found
    raise LookupError(name)


def _code_or_none(code: CodeType, name: str) -> CodeType | None:
    try:
        return _code(code, name)
    except LookupError:
        return None


# -- patterns --------------------------------------------------------------------------------------


def pattern_mutants() -> Iterator[Mutant]:
    """Yield every node of every pattern changed: other ops, the other order, or optional.

    Nodes of one name in the patterns of a pass are changed together.
    """
    for name, fusion in FUSIONS.items():
        found: dict[tuple[str, str], list[tuple[Node, dict[str, Any]]]] = {}
        for rule in fusion.RULES:
            for node in nodes_of(rule):
                for words, attrs in _other_nodes(node):
                    found.setdefault((node.name, words), []).append((node, attrs))
        for (node_name, words), changes in found.items():
            yield Mutant(
                f"{name} `{node_name}`: {words}",
                (name,),
                "pattern",
                lambda changes=changes: _with_attrs(changes),
            )


def nodes_of(rule: Fusion) -> list[Node]:
    """List the nodes of a pattern, each once, the last op first."""
    found: dict[Node, None] = {}
    todo: list[Any] = [rule.root]
    while todo:
        hole = todo.pop()
        node = getattr(hole, "node", hole)
        if isinstance(node, Node) and node not in found:
            found[node] = None
            todo += node.operands
    return list(found)


def _other_nodes(node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    others = tuple(
        other
        for family in SIBLINGS
        if any(kind in family for kind in node.types)
        for other in family
        if other not in node.types
    )
    if others:
        yield "any op of its kind", {"types": (*node.types, *others)}
    if len(node.operands) > 1:
        word = "one order" if node.commutes else "either order"
        yield word, {"commutes": not node.commutes}
    if not node.optional:
        first: Sequence[type[PdOp]] = node.types
        if Matmul not in first:
            yield "may be missing", {"optional": True}
    else:
        yield "must be there", {"optional": False}


@contextmanager
def _with_attrs(changes: Sequence[tuple[Node, dict[str, Any]]]) -> Generator[None]:
    old = [{name: getattr(node, name) for name in attrs} for node, attrs in changes]
    _set_all(changes)
    try:
        yield
    finally:
        _set_all([(node, attrs) for (node, _), attrs in zip(changes, old, strict=True)])


def _set_all(changes: Sequence[tuple[Node, dict[str, Any]]]) -> None:
    for node, attrs in changes:
        for name, value in attrs.items():
            setattr(node, name, value)
    # nodes remember what follows from their own attributes and from those of the nodes below them
    for node in _all_nodes():
        for name in ("orders", "producers"):
            node.__dict__.pop(name, None)


@cache
def _all_nodes() -> list[Node]:
    rules = (rule for fusion in FUSIONS.values() for rule in fusion.RULES)
    return list(dict.fromkeys(node for rule in rules for node in nodes_of(rule)))


def all_mutants() -> list[Mutant]:
    """List every mutant, in a fixed order."""
    return [*source_mutants(), *pattern_mutants()]


def verdict(mutant: Mutant, count: int) -> str:
    """Name the check that notices a mutant; "same" if no program changes, "" for no check."""
    found = "same"
    every = [suite(name, count).checks() for name in mutant.passes]
    # each kind of check by all passes before the next kind, which is slower
    for check in (next(checks) for _ in range(KINDS) for checks in every):
        with mutant.apply():
            seen = check()
        found = seen if seen != "same" else found
        if found not in ("", "same"):
            break
    return found
