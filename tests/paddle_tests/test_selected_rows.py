"""Single operators on variables with some rows of a taller tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import UnsupportedError
from graphopt.fluid.core import SelectedRows
from graphopt_tests.paddle_tests.single_operators.op import Operator
from graphopt_tests.paddle_tests.test_single_operators import PLACE, scope_of, value_in

ONES = np.ones((4, 2), "float32")
RATE = np.array([0.5], "float32")


def with_rows(scope: fluid.Scope, name: str, rows: list[int], values: Any, height: int = 4) -> Any:
    found = scope.var(name).get_selected_rows()
    found.set_rows(rows)
    found.set_height(height)
    found.get_tensor().set(np.array(values, "float32"), PLACE)
    return found


def test_the_record() -> None:
    found = SelectedRows([0, 2], 4)
    found.get_tensor().set(ONES[:2], PLACE)
    assert (found.rows(), found.height(), found.numel()) == ([0, 2], 4, 4)


def test_rows_are_merged_split_added_and_scaled() -> None:
    scope = fluid.Scope()
    with_rows(scope, "x", [2, 0, 2], [[1, 1], [2, 2], [3, 3]])
    outs = {name: scope.var(name).get_selected_rows() for name in ("merged", "a", "b", "sum")}
    Operator("merge_selected_rows", X="x", Out="merged").run(scope, PLACE)
    assert outs["merged"].rows() == [0, 2]
    assert value_in(scope, "merged").tolist() == [[2, 2], [4, 4]]
    Operator("split_selected_rows", X="x", Out=["a", "b"], height_sections=[2, 2]).run(scope, PLACE)
    assert (outs["a"].rows(), outs["b"].rows(), outs["b"].height()) == ([0], [0, 0], 2)
    Operator("sum", X=["x", "merged"], Out="sum").run(scope, PLACE)
    assert value_in(scope, "sum").tolist() == [[4, 4], [8, 8]]
    Operator("scale", X="x", Out="x", scale=2.0).run(scope, PLACE)
    assert value_in(scope, "x").tolist() == [[2, 2], [4, 4], [6, 6]]
    Operator("clip_by_norm", X="merged", Out="merged", max_norm=1.0).run(scope, PLACE)
    np.testing.assert_allclose(np.linalg.norm(value_in(scope, "merged")), 1, 1e-6)
    Operator("get_tensor_from_selected_rows", X="x", Out="dense").run(scope, PLACE)
    assert scope.var("dense").rows is None
    scope.var("whole").get_tensor().set(ONES, PLACE)
    Operator("sum", X=["whole", "x"], Out="total").run(scope, PLACE)
    assert value_in(scope, "total")[:, 0].tolist() == [5, 1, 9, 1]


def test_a_table_of_some_rows() -> None:
    scope = scope_of(ids=np.array([7, 3], "int64"))
    with_rows(scope, "table", [3, 7], [[1, 1], [2, 2]], 9)
    Operator("lookup_table_v2", W="table", Ids="ids", Out="out").run(scope, PLACE)
    assert value_in(scope, "out").tolist() == [[2, 2], [1, 1]]
    scope.var("ids").get_tensor().set(np.array([5], "int64"), PLACE)
    with pytest.raises(ValueError, match="has no row 5"):
        Operator("lookup_table_v2", W="table", Ids="ids", Out="out").run(scope, PLACE)
    with pytest.raises(UnsupportedError, match="softmax of selected rows"):
        Operator("softmax", X="table", Out="out").run(scope, PLACE)


def test_updates_by_some_rows() -> None:
    scope = scope_of(w=ONES, lr=RATE)
    with_rows(scope, "g", [1, 1], [[1, 1], [1, 1]])
    names = {"Grad": "g", "LearningRate": "lr"}
    Operator("sgd", Param="w", ParamOut="w", **names).run(scope, PLACE)
    assert value_in(scope, "w")[:, 0].tolist() == [1, 0, 1, 1]
    with_rows(scope, "rows", [1, 3], [[1, 1], [2, 2]])
    Operator("sgd", Param="rows", ParamOut="rows", **names).run(scope, PLACE)
    assert value_in(scope, "rows").tolist() == [[0, 0], [2, 2]]


@pytest.mark.parametrize(("lazy", "kept"), [(True, 1.0), (False, 0.9)])
def test_adam_moves_rows_alone_if_it_is_lazy(lazy: bool, kept: float) -> None:
    scope = scope_of(w=ONES, lr=RATE, m=ONES, v=ONES, p=RATE, q=RATE, beta=np.array([0.9], "f"))
    with_rows(scope, "g", [1], [[1.5, 1.5]])
    ins = {"Param": "w", "Moment1": "m", "Moment2": "v", "Beta1Pow": "p", "Beta2Pow": "q"}
    outs = {f"{slot}Out": name for slot, name in ins.items()}
    op = Operator(
        "adam", **ins, **outs, Grad="g", LearningRate="lr", Beta1Tensor="beta", lazy_mode=lazy
    )
    op.run(scope, PLACE)
    np.testing.assert_allclose(value_in(scope, "m")[:2, 0], [kept, 1.05], 1e-6)
    assert (value_in(scope, "w")[0, 0] == 1) == lazy
