"""Checks after every pass. A violation names the pass or fusion that caused it.

`verify_each` (or the environment variable GRAPHOPT_VERIFY_EACH) enables all checks: every op is
verified, definitions come before uses, and the program keeps its signature. Otherwise only the
order of definitions is checked, which xDSL's own verifier does not do.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from graphopt.errors import PassError
from graphopt.ir.dialect.signature import Port, signature_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.passes.engine import bisect

Ports = tuple[tuple[str, str], ...]


def asked_for() -> bool:
    """True when the environment enables all checks after each pass."""
    return os.environ.get("GRAPHOPT_VERIFY_EACH", "") not in ("", "0")


class ModuleChecks:
    """The checks of one module. A pass with `changes_signature` may change its arguments."""

    def __init__(self, module: ModuleOp, *, verify_each: bool | None = None) -> None:
        self.each = asked_for() if verify_each is None else verify_each
        self.module = module
        self.names = _names(module) if self.each else ((), ())
        self.checked: list[object] = []

    def after(self, name: str, *, changes_signature: bool = False) -> None:
        """Raise PassError, naming the pass, unless the module is valid."""
        fault = self._new_fault(changes_signature)
        if fault:
            raise PassError(f"the IR is not valid after {name}; this is a bug there: {fault}")

    def run(self, name: str, apply: Callable[[ModuleOp], object]) -> None:
        """Apply a sweep of fusions and check it; PassError names the first wrong fusion."""
        before = self.module.clone() if self.each else None
        apply(self.module)
        fault = self._new_fault(False)
        if not fault:
            return
        if before is not None:
            name = self._culprit(before, apply) or name
        raise PassError(f"the IR is not valid after {name}; this is a bug there: {fault}")

    def _new_fault(self, changes_signature: bool) -> str:
        """Find the module's fault, "" if none; an unchanged module is not verified again."""
        if not self.each:
            return self._fault(self.module, changes_signature)
        parts = _parts(self.module)
        if parts == self.checked:
            return ""
        fault = self._fault(self.module, changes_signature)
        if not fault:
            self.checked = parts
        return fault

    def _fault(self, module: ModuleOp, changes_signature: bool) -> str:
        try:
            if self.each:
                module.verify()
            verify_ssa(module)
        except VerifyException as error:
            return str(error)
        if not self.each:
            return ""
        names = _names(module)
        if changes_signature:
            self.names = names
        elif names != self.names:
            return f"it takes and gives {names}, not {self.names}"
        return ""

    def _culprit(self, before: ModuleOp, apply: Callable[[ModuleOp], object]) -> str:
        """Find the first rewrite after which the module is invalid, by bisection."""
        lines: list[str] = []
        with bisect.limit_rewrites(-1, lines.append):
            apply(before.clone())
        low, high = 0, len(lines)
        while high - low > 1:
            middle = (low + high) // 2
            attempt = before.clone()
            with bisect.limit_rewrites(middle):
                apply(attempt)
            low, high = (low, middle) if self._fault(attempt, False) else (middle, high)
        return lines[high - 1].partition(") ")[2] if lines else ""


def _parts(module: ModuleOp) -> list[object]:
    """Collect all that the checks read: ops with their parents, operands, attributes and types."""
    parts: list[object] = []
    for op in module.walk():
        types = [result.type for result in op.results]
        parts.append((op, op.parent, *op.operands, *types))
        parts.append((*op.properties.items(), *op.attributes.items()))
        for region in op.regions:
            for block in region.blocks:
                parts.append((*block.args, *(arg.type for arg in block.args)))
    return parts


def _names(module: ModuleOp) -> tuple[Ports, Ports]:
    signature = signature_of(module)
    return _ports(signature.arguments), _ports(signature.results)


def _ports(ports: tuple[Port, ...]) -> Ports:
    return tuple((port.kind, port.name) for port in ports)
