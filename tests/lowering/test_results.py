"""The results of a module: fetches and state, in any order."""

from __future__ import annotations

import numpy as np

from graphopt.debug.compare import run_module
from graphopt.testing import parse

MODULE = """
func.func @main(feed %x: tensor<2xf32>, state %w: tensor<2xf32>) -> (
  fetch "a": tensor<2xf32>,
  state "w": tensor<2xf32>,
  fetch "b": tensor<2xf32>
) {
  %a = pd.scale(%x) {scale = 2.0}
  %n = pd.add(%w, %x)
  %b = pd.scale(%x) {scale = 3.0}
  func.return %a, %n, %b : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}"""


def test_fetches_after_state() -> None:
    """Each result has the value that the module returns at its position."""
    ones = np.ones(2, np.float32)
    found = run_module(parse(MODULE), {"x": ones, "w": 10 * ones})
    assert {name: float(value[0]) for name, value in found.items()} == {
        "pd.fetch a": 2.0,
        "pd.fetch b": 3.0,
        "pd.state w": 11.0,
    }
