"""Caches in buffers: the page of the pass, and generated decoders at every length."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.passes.engine.fusion import Declined
from graphopt.passes.padding.growing import KeepCaches, keep_caches
from graphopt.passes.padding.masked import PAST, Masked, buffer_name, count_name, mask_name
from graphopt.reference import evaluate
from graphopt.runtime.feeds.padded_rows import count_of, cut, mask_of, rows_of
from graphopt.runtime.runners.decoder import _with_zeros
from graphopt.testing.pages import UPDATE, Case, _update, load_page, page_text, parse, result_text
from graphopt_tests.example_counts import share

PAGE = Path(__file__).parent / "growing" / "keep-caches.md"
CASES = load_page(PAGE)
Array = np.ndarray[Any, Any]
# rows of the caches, and of their buffers
SIZES = ((1, 4), (3, 4), (5, 8), (6, 16))


def feeds_of(module: ModuleOp, past: int, generator: np.random.Generator) -> dict[str, Array]:
    """Make feeds and state of a program; open axes have `past` rows, a mask one more."""
    found: dict[str, Array] = {}
    for port in signature_of(module).arguments:
        more = past + 1 if port.name == "m" else past
        shape = tuple(more if size == UNKNOWN else size for size in port.shape)
        if port.dtype == "int64":
            found[port.name] = generator.integers(0, 3, shape)
        else:
            found[port.name] = generator.standard_normal(shape).astype(port.dtype.numpy)
    return found


def in_buffers(
    module: ModuleOp, masked: Masked, inputs: dict[str, Array], past: int, size: int
) -> dict[str, Array]:
    """Compute the fetches of a program with buffers of this size."""
    rows = {PAST: (past, size)}
    given = dict(inputs)
    for name, axes in masked.feeds.items():
        given[name] = _with_zeros(inputs[name], axes, rows)
    fetch_of: dict[str, str] = {}
    for cache in masked.caches:
        if cache.in_place:
            given[buffer_name(cache.feed)] = given.pop(cache.feed)
            fetch_of[f"pd.state {buffer_name(cache.feed)}"] = cache.fetch
    given |= {mask_name(dim): mask_of(dim, rows) for dim in masked.masks}
    given |= {count_name(dim): np.array(count_of(dim, rows)) for dim in masked.counts}
    found: dict[str, Array] = {}
    for port, array in evaluate(module, given).items():
        name = fetch_of.get(port, port.split(" ", 1)[1])
        axes = masked.fetches.get(name, ())
        for at, dim in enumerate(axes):  # what is fetched may be fed
            if dim is not None:
                real, _ = rows_of(dim[0], rows)
                assert not np.take(array, range(real, size), at).any(), name
        found[name] = cut(array, axes, rows)
    return found


def assert_equal_at_every_length(module: ModuleOp, seed: int = 0) -> None:
    """Check that a program in buffers of any size gives the same fetches."""
    rewritten, generator = module.clone(), np.random.default_rng(seed)
    masked = keep_caches(rewritten)
    rewritten.verify()
    for past, size in SIZES:
        inputs = feeds_of(module, past, generator)
        wanted = {key.split(" ", 1)[1]: a for key, a in evaluate(module, inputs).items()}
        found = in_buffers(rewritten, masked, inputs, past, size)
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            assert array.shape == found[name].shape
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_page(case: Case) -> None:
    """The program of a case becomes the page's, or is declined with its reason."""
    before = parse(case.before, case.title)
    after = before.clone()
    outcomes = KeepCaches().rewrite(after)
    declined = [str(o.reason) for o in outcomes if isinstance(o, Declined)]
    kind, found = "refused", "\n".join(declined) or "no pattern"
    if str(after) != str(before):
        kind, found = "mlir", result_text(before, after)
        after.verify()
        assert_equal_at_every_length(before)
    if os.environ.get(UPDATE):
        _update(case, page_text(before), page_text(after), kind, found)
        return
    assert (kind, found) == (case.expected_kind, case.expected)


STEPS = (
    "%a = pd.matmul(%q, %keys) {transpose_y = true}\n  %b = pd.softmax(%a)\n"
    "  %y = pd.matmul(%b, %values)",
    "%a = pd.mean(%keys) {axis = [1], keepdim = true}\n  %y = pd.add(%a, %q)",
    "%a = pd.cumsum(%values) {axis = 1}\n  %b = pd.slice(%a) {axes = [1], ends = [2147483647], "
    "starts = [-1]}\n  %c = pd.reshape(%b) {shape = [2, 1, 4]}\n  %y = pd.multiply(%c, %q)",
    "%a = pd.max(%keys) {axis = [1], keepdim = true}\n  %y = pd.tanh(%a)",
    "%a = pd.unsqueeze(%values) {axis = [2]}\n  %b = pd.tile(%a) {repeat_times = [1, 1, 2, 1]}\n"
    "  %c = pd.transpose(%b) {perm = [0, 2, 1, 3]}\n  %d = pd.sum(%c) {axis = [1, 2]}\n"
    "  %y = pd.reshape(%d) {shape = [2, 1, 4]}",
    "%a = pd.multiply(%keys, %values)\n  %b = pd.exp(%a)\n  %c = pd.mean(%b) {axis = [1]}\n"
    "  %y = pd.unsqueeze(%c) {axis = [1]}",
    "%a = pd.flip(%keys) {axis = [1]}\n  %b = pd.slice(%a) {axes = [1], ends = [1], starts = [0]}\n"
    "  %c = pd.reshape(%b) {shape = [2, 1, 4]}\n  %y = pd.add(%c, %q)",
    "%a = pd.log_softmax(%keys) {axis = 1}\n  %b = pd.multiply(%a, %values)\n"
    "  %y = pd.sum(%b) {axis = [1], keepdim = true}",
    "%a = pd.stack(inputs = [%keys, %values]) {axis = 0}\n  %b = pd.min(%a) {axis = [0, 2]}\n"
    "  %y = pd.unsqueeze(%b) {axis = [1]}",
)


def generated(seed: int) -> str:
    """Build a decoder of some layers, each with two caches."""
    generator = np.random.default_rng(seed)
    feeds, body, fetches, x = ["feed %x: tensor<2x1x4xf32>"], list[str](), list[str](), "%x"
    for layer in range(int(generator.integers(1, 4))):
        feeds += [f"feed %{kind}{layer}: tensor<2x?x4xf32>" for kind in "kv"]
        keys, values = (f"%{name}{layer}" for name in ("keys", "values"))
        body += [
            f"{keys} = pd.concat(inputs = [%k{layer}, {x}]) {{axis = 1}}",
            f"{values} = pd.concat(inputs = [%v{layer}, {x}]) {{axis = 1}}",
        ]
        text = STEPS[generator.integers(len(STEPS))].replace("%keys", keys)
        text = text.replace("%values", values).replace("%q", x)
        for name in "abcdy":
            text = text.replace(f"%{name} ", f"%{name}_{layer} ").replace(
                f"%{name})", f"%{name}_{layer})"
            )
            text = text.replace(f"%{name},", f"%{name}_{layer},")
        body.append(text)
        x, fetches = f"%y_{layer}", [*fetches, keys, values]
    types = ["tensor<2x1x4xf32>", *["tensor<2x?x4xf32>"] * len(fetches)]
    results = [
        f'fetch "{name[1:]}": {type_}' for name, type_ in zip([x, *fetches], types, strict=True)
    ]
    lines = "\n  ".join(body)
    return (
        f"func.func @main({', '.join(feeds)}) -> ({', '.join(results)}) {{\n  {lines}\n"
        f"  func.return {', '.join([x, *fetches])} : {', '.join(types)}\n}}"
    )


@pytest.mark.parametrize("seed", [*share(range(30))])
def test_generated_decoders(seed: int) -> None:
    """Decoders give the same results in buffers of any size, at every length."""
    assert_equal_at_every_length(parse(generated(seed)), seed)
