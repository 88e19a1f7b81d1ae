"""Results, parameters and state have Paddle's names, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.fluid import layers
from graphopt.ir.program import Program, Variable, program_guard
from graphopt.utils import unique_name

TABLE = Path(__file__).parents[1] / "data" / "layer_names.txt"
# name -> shape, dtype, levels of lengths
DATA: dict[str, tuple[list[int | None], str, int]] = {
    "x": ([None, 8], "float32", 0),
    "x2": ([None, 8], "float32", 0),
    "img": ([None, 3, 16, 16], "float32", 0),
    "vol": ([None, 3, 4, 8, 8], "float32", 0),
    "t3": ([None, 4, 8], "float32", 0),
    "s2": ([4, 8], "float32", 0),
    "sq": ([4, 4], "float32", 0),
    "h4": ([None, 4], "float32", 0),
    "y": ([None, 1], "float32", 0),
    "p": ([None, 2], "float32", 0),
    "lab": ([None, 1], "int64", 0),
    "w": ([None, 1], "int64", 0),
    "n": ([None], "int64", 0),
    "lb": ([None], "int64", 0),
    "c": ([None, 1], "bool", 0),
    "seq": ([None, 1], "int64", 1),
    "sf": ([None, 8], "float32", 1),
    "f16": ([None, 16], "float32", 1),
    "f12": ([None, 12], "float32", 1),
}
NAMES = {
    "fluid": {"fluid": fluid, "L": layers, "P": fluid.ParamAttr, "np": np},
    "paddle": {"P": paddle, "S": static, "F": paddle.nn.functional},
}
DECLARE: dict[str, Callable[..., Variable]] = {"fluid": fluid.data, "paddle": static.data}


def recorded(era: str) -> list[tuple[str, list[str], list[str]]]:
    """Read the expressions of a section, with the names of their results and state."""
    section = TABLE.read_text("utf-8").split(f"[{era}]\n")[1].split("\n\n")[0]
    found: list[tuple[str, list[str], list[str]]] = []
    for line in section.splitlines():
        expression, names = line.split(" -> ")
        results, _, state = names.partition(" | ")
        found.append((expression, results.split(), state.split()))
    return found


def made(era: str, expression: str) -> tuple[list[str], list[str]]:
    """Return the names that an expression gives here."""
    main = Program()
    with program_guard(main, Program()), unique_name.guard():
        variables = {
            name: DECLARE[era](name, shape, dtype, level)
            for name, (shape, dtype, level) in DATA.items()
        }
        found: Any = eval(expression, NAMES[era] | variables)
    results = found if isinstance(found, (list, tuple)) else [found]
    state = sorted(variable.name for variable in main.list_vars() if variable.persistable)
    return [result.name for result in results], state


@pytest.mark.parametrize("era", ["fluid", "paddle"])
def test_names_are_those_of_paddle(era: str) -> None:
    table = recorded(era)
    assert len(table) > 200
    wrong = [
        f"{expression}: {found}, in Paddle {names, state}"
        for expression, names, state in table
        if (found := made(era, expression)) != (names, state)
    ]
    assert not wrong, "\n".join(wrong)


def test_names_after_a_layer_of_several_operators() -> None:
    """The operators of a composite layer take no number from layers of their kind."""
    with program_guard(Program(), Program()), unique_name.guard():
        x = fluid.data("x", [None, 8])
        names = [layers.cos_sim(x, x).name, layers.reduce_sum(x).name, layers.square(x).name]
        assert names == ["cos_sim_0.tmp_0", "reduce_sum_0.tmp_0", "square_0.tmp_0"]
        twice = [layers.reduce_mean(x, name="mine") for _ in range(2)]
        assert [mean.name for mean in twice] == ["mine.tmp_0", "mine.tmp_1"]
        assert len({op.output("Out")[0] for op in x.block.ops}) == len(x.block.ops)


def test_a_prefix_for_names() -> None:
    """`guard` takes a prefix, and `switch` returns the previous generator."""
    with unique_name.guard("A"):
        assert [unique_name.generate("fc"), unique_name.generate("fc")] == ["Afc_0", "Afc_1"]
        with unique_name.guard(b"B"):
            assert unique_name.generate("fc") == "Bfc_0"
        before = unique_name.switch()
        assert unique_name.generate("fc") == "fc_0"
        assert unique_name.generate_with_ignorable_key("fc") == "fc_1"
        unique_name.switch(before)
        assert unique_name.generate("fc") == "Afc_2"


def test_scripts_reset_an_area_by_the_names_of_its_counts() -> None:
    """Scripts reset the counts by name, so a second epoch starts from zero."""
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], "float32")
    labels = np.array([[0], [1], [0]])
    programs = Program(), Program()
    with program_guard(*programs), unique_name.guard(), static.scope_guard(static.Scope()):
        area, _, _ = static.auc(static.data("p", [None, 2]), static.data("y", [None, 1], "int64"))
        exe = static.Executor(paddle.CPUPlace())
        exe.run(programs[1])
        (first,) = exe.run(feed={"p": scores, "y": labels}, fetch_list=[area])
        for i in range(4):
            tensor = static.global_scope().find_var(f"_generated_var_{i}").get_tensor()
            tensor.set(np.zeros(tensor._get_dims(), "int64"), paddle.CPUPlace())
        (second,) = exe.run(feed={"p": scores, "y": 1 - labels}, fetch_list=[area])
    assert (float(first), float(second)) == (1.0, 0.0)
