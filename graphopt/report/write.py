"""Writing a report to a file: a page, or data for Model Explorer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from graphopt.report.difference import ProgramDifference
from graphopt.report.model_explorer import model_explorer_json
from graphopt.report.page import difference_page, page
from graphopt.report.stages import Optimization

SUFFIX_OF_DATA = ".json"


def write_report(
    path: str | os.PathLike[str], programs: Sequence[Optimization], title: str
) -> None:
    """Write the report of one or several programs; OSError when it cannot be written."""
    is_data = Path(path).suffix == SUFFIX_OF_DATA
    text = model_explorer_json(programs, title) if is_data else page(programs, title)
    Path(path).write_text(text, "utf-8")


def write_difference(path: str | os.PathLike[str], found: ProgramDifference, title: str) -> None:
    """Write a page with both programs and their difference; OSError when it cannot be written."""
    Path(path).write_text(difference_page(found, title), "utf-8")
