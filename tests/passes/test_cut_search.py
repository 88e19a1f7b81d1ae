"""The search for cuts of parameters, against all choices, and its steps."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from graphopt.passes.engine.rewrite import RewriteLog
from graphopt.passes.parallel.cut_search import Candidate, CutSearch, Price
from graphopt.passes.parallel.tensor_parallel import Cutting, TensorParallel
from graphopt.testing import parse

CHAINS = [
    *itertools.product(("wide", "narrow"), ("relu", "norm"), ("skip", "")),
    *itertools.product(("heads",), ("relu", "norm"), ("skip", "")),
    *itertools.product(("tied",), ("relu", "norm"), ("skip", "")),
    *itertools.product(("table",), ("relu", "norm"), ("skip", "")),
]


def program(kind: str, between: str, skip: str, seed: int) -> str:
    """Build a program of three or four products."""
    n = int(np.random.default_rng(seed).choice([8, 16, 32]))
    m = {"wide": 4 * n, "narrow": n // 2}.get(kind, n)
    act = "pd.layer_norm(%h0) {begin_norm_axis = 1}" if between == "norm" else "pd.relu(%h0)"
    act = f"%a, %mean, %variance = {act}" if between == "norm" else f"%a = {act}"
    first = "%x0 = pd.embedding(%ids, %t)" if kind == "table" else "%x0 = pd.assign(%x)"
    last = "%w0" if kind == "tied" else "%w2"
    end = "{transpose_y = true}" if kind == "tied" else ""
    added = "%s = pd.add(%h1, %x0)" if skip else "%s = pd.tanh(%h1)"
    return f"""func.func @main(feed %x: tensor<?x{n}xf32>, feed %ids: tensor<?xi64>,
    state %t: tensor<40x{n}xf32>, state %w0: tensor<{n}x{m}xf32>, state %w1: tensor<{m}x{n}xf32>,
    state %w2: tensor<{n}x{n}xf32>) -> (fetch "y": tensor<?x{n}xf32>) {{
  {first}
  %h0 = pd.matmul(%x0, %w0)
  {act}
  %h1 = pd.matmul(%a, %w1)
  {added}
  %y = pd.matmul(%s, {last}) {end}
  func.return %y : tensor<?x{n}xf32>
}}"""


def all_costs(search: CutSearch) -> list[float]:
    """List the costs of all choices before the horizon."""
    candidates = [Candidate()]
    for op in search.ops[: search.horizon]:
        candidates = [
            search.after(each, op, form) for each in candidates for form in search.ways(each, op)
        ]
    return [search._grow(each).cost for each in candidates]


@pytest.mark.parametrize("rows", [1, 64])
def test_the_search_finds_the_cheapest(rows: int) -> None:
    """The result is within 3 % of the best choice in twenty programs; most have cuts."""
    cut = 0
    assert len(CHAINS) == 20
    for seed, chain in enumerate(CHAINS):
        module = parse(program(*chain, seed))
        price = Price(degree=2, rows=rows, latency=16)
        search = Cutting(module, price, RewriteLog(TensorParallel.name)).search({})
        found, every = search.best(), all_costs(search)
        assert len(every) > 8, chain
        assert found.cost <= 1.03 * min(every), chain
        cut += bool(found.axes)
    assert cut >= (15 if rows == 1 else 1)
