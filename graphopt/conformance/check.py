"""Checking one case: the kinds, answers of other releases, Paddle's own errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from graphopt.conformance.cases import Case, Corpus
from graphopt.conformance.compare import Finding
from graphopt.conformance.tensors import random_complaints, tensor_complaints
from graphopt.conformance.trainings import (
    eager_complaints,
    optimizer_complaints,
    program_complaints,
    schedule_complaints,
)

KINDS: Mapping[str, Callable[[Corpus, Case], Finding]] = {
    "op": tensor_complaints,
    "layer": tensor_complaints,
    "random": random_complaints,
    "optimizer": optimizer_complaints,
    "lr": schedule_complaints,
    "eager": eager_complaints,
    "program": program_complaints,
}


@dataclass(frozen=True)
class CaseOutcome:
    """The result of one case. It passed when there are no complaints."""

    id: str
    name: str
    section: str
    complaints: tuple[str, ...]
    operators: frozenset[str] = frozenset()


def check(corpus: Corpus, case: Case) -> CaseOutcome:
    """Run a case and compare; an error that it raises is a complaint.

    Where releases of Paddle differ, each one's answer (`alt`) is accepted. Results that the record
    marks as an error of Paddle's own (`quirk`) are not compared.
    """
    quirk = case.get("quirk")
    if quirk and quirk["drop"] == "all":
        return CaseOutcome(case["id"], case["name"], case["section"], ())
    if quirk:
        case = {name: value for name, value in case.items() if name not in ("grads", "cot")}
    found = _find(corpus, case)
    for other in case.get("alt", {}).values():
        if found.complaints:
            changed = {name: value for name, value in other.items() if name in case}
            second = _find(corpus, {**case, **changed})
            found = found if second.complaints else second
    complaints = tuple(found.complaints)
    return CaseOutcome(case["id"], case["name"], case["section"], complaints, found.operators)


def _find(corpus: Corpus, case: Case) -> Finding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return KINDS[case["kind"]](corpus, case)
    except Exception as error:  # any error is the case's result
        message = " ".join(str(error).split())
        return Finding([f"raised {type(error).__name__}: {message}"])
