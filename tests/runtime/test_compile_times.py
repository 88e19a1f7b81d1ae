"""The time of a compilation: each part occurs once, under one name in all reports."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.parts import EXPLAIN, LOWER, PARSE, TRACE, XLA, CompilationPart
from graphopt.passes.table.report import (
    PASSES,
    Ran,
    Report,
    by_kind,
    pass_rows,
    report_line,
    time_line,
    time_rows,
    timed_as,
)


def ran(name: str, seconds: float, sweep: int) -> Ran:
    return Ran("any strategy", name, seconds, sweep=sweep)


def test_each_pass_is_a_part() -> None:
    """Each pass has its own time, also in a shared sweep; a report's time is separate."""
    report = Report(PassContext({}), ran=[ran("a", 2, 1), ran("b", 4, 1), ran("c", 1, 2)])
    report.parts += [
        CompilationPart(XLA, 5, "x [2]"),
        CompilationPart(PARSE, 3),
        CompilationPart(XLA, 7, "x [4]"),
    ]
    rows = time_rows(report)
    assert [(row.kind, row.of, row.seconds) for row in rows] == [
        (PARSE, "", 3), (PASSES, "a", 2), (PASSES, "b", 4), (PASSES, "c", 1),
        (XLA, "x [2]", 5), (XLA, "x [4]", 7),
    ]  # fmt: skip
    assert by_kind(rows) == {PARSE: 3, PASSES: 7, XLA: 12}
    assert [row.seconds for row in pass_rows(report)] == [2, 4, 1]
    line = "compile time: 22000.0 ms (parse 3000.0, passes 7000.0, XLA 12000.0)"
    assert time_line(report) == line
    report.parts.append(CompilationPart(EXPLAIN, 2, "near misses"))
    assert time_line(report) == line
    assert report_line(report) == "this report: 2000.0 ms more, for near misses"
    report.parts.append(CompilationPart(EXPLAIN, 1, "near misses"))
    assert report_line(report) == "this report: 3000.0 ms more, for near misses"
    assert time_rows(report)[-1].kind == EXPLAIN


def test_times_are_those_of_the_compilation() -> None:
    """A second run that looks for near misses reports the times of the first one."""
    first = Report(PassContext({}), ran=[ran("a", 2, 1)], parts=[CompilationPart(PARSE, 3)])
    second = Report(PassContext({}), ran=[ran("a", 9, 1)], detailed=True)
    assert time_rows(timed_as(second, first)) == time_rows(first)
    second.parts.append(CompilationPart(EXPLAIN, 1))
    assert [row.kind for row in time_rows(timed_as(second, first))] == [PARSE, PASSES, EXPLAIN]
    other = Report(PassContext({}), ran=[ran("b", 9, 1)])
    assert time_rows(timed_as(other, first))[-1].seconds == 9


@pytest.mark.smoke
def test_of_a_program_that_ran() -> None:
    """Each size is traced, lowered and compiled; `explain` and its JSON have the same rows."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        y = paddle.nn.functional.relu(paddle.add(x, x))
    compiled = static.CompiledProgram(main)
    assert "compile time, XLA not yet run: " in paddle.explain(main, fetch_list=[y]).text()
    executor = static.Executor()
    for rows in (2, 4):
        executor.run(compiled, {"x": np.ones((rows, 4), "float32")}, [y])
    (explanation,) = compiled.explanations()
    times = explanation.to_json()["times"]
    parts = [(row["kind"], row["of"]) for row in times if row["kind"] != PASSES]
    assert parts == [
        (PARSE, ""),
        *((kind, f"x [{rows}, 4]") for rows in (2, 4) for kind in (TRACE, LOWER, XLA)),
        (EXPLAIN, "near misses, costs and blocks"),
    ]
    assert all(row["seconds"] > 0 for row in times)
    assert "compile time: " in explanation.text()
    assert "compile time: " in compiled.explain("all")
