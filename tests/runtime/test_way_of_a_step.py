"""The classes between `exe.run` and the step are exactly those of a table in the-house.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.runtime.settings.flags import KERNELS, TIER
from graphopt.runtime.state import generator
from graphopt_tests.runtime.nets import Net, build

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "the-house.md"
PACKAGES = ("graphopt.runtime.", "graphopt.lowering.plan")
FEED = {"x": np.ones((8, 4), "float32")}


def classes_of(call: Callable[[], Any]) -> set[str]:
    """Collect the runtime's classes whose methods run in a call, with their defining bases."""
    found: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_argcount or code.co_varnames[0] != "self":
            return
        kind = type(frame.f_locals["self"])
        owners = [each for each in kind.__mro__ if each is kind or code.co_name in vars(each)]
        found.update(each.__name__ for each in owners if each.__module__.startswith(PACKAGES))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def in_the_table() -> tuple[set[str], set[str]]:
    """Return all classes of the table, and the starred ones."""
    table = (
        PAGE.read_text("utf-8")
        .partition("| class | what it decides, or holds |")[2]
        .partition("\n\n")[0]
    )
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    pairs = [pair for cell in cells for pair in re.findall(r"`(\w+)`( \*)?", cell)]
    return {name for name, _ in pairs}, {name for name, star in pairs if star}


def net(*, trains: bool) -> Net:
    """Build four layers, with feeds of an open size."""

    def make() -> tuple[Any, Any]:
        hidden = static.data("x", [None, 4], "float32")
        for _ in range(4):
            hidden = static.nn.fc(hidden, 16, activation="relu")
        out = paddle.mean(hidden)
        if trains:
            paddle.optimizer.SGD(0.05).minimize(out)
        return out, out

    return build(make).start()


@pytest.fixture
def _as_users_run_it(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Allow all forms, without a seed."""
    monkeypatch.setattr(generator.default_generator(), "seeded", False)
    old = paddle.get_flags([TIER, KERNELS])
    paddle.set_flags({TIER: "auto", KERNELS: "auto"})
    yield
    paddle.set_flags(old)


@pytest.mark.usefixtures("_as_users_run_it")
def test_the_table_has_the_classes_on_the_way_of_a_step() -> None:
    first, later = set[str](), set[str]()
    for trains, tier in ((True, "auto"), (False, "auto"), (True, "full")):
        paddle.set_flags({TIER: tier})
        net(trains=trains).run(FEED, ())  # what is imported for a first run runs there too
        made = net(trains=trains)

        def run(made: Net = made) -> None:
            made.run(FEED, made.out)

        first |= classes_of(run)
        later |= classes_of(run)
    known, starred = in_the_table()
    assert first | later == known
    assert later == starred
