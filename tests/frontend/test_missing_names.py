"""Names of Paddle that graphopt lacks: each error says so, and names a replacement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.distributed.refused import NAMES as DISTRIBUTED
from graphopt.errors import UnsupportedError
from graphopt.fluid.refused import FLUID, LAYERS
from graphopt.frontend import missing, refused
from graphopt.frontend.missing import MODULES, missing_module, public_names
from graphopt.sparse import refused as sparse
from graphopt_tests.frontend.programs import fresh

# classes whose members are recorded; other spaces are modules
OBJECTS = {
    "paddle.Tensor": lambda: static.data("x", [2, 2]),
    "paddle.static.Program": static.Program,
    "paddle.static.Executor": lambda: static.Executor(paddle.CPUPlace()),
    "paddle.nn.Layer": paddle.nn.Layer,
    "paddle.optimizer.Optimizer": lambda: paddle.optimizer.SGD(0.1),
}
WORDS = re.compile(r"graphopt has no (paddle[.\w]+)\. Instead: .+", re.DOTALL)
# what advice calls things of Paddle by: paddle.x.y, static.x, fluid.x
RECOMMENDED = re.compile(r"\b(?:paddle|static|fluid)\.[\w.]*\w")


SPARSE = (sparse.FUNCTIONS, sparse.LAYERS, sparse.LAYER_FUNCTIONS)


def ours(space: str) -> str:
    return space.replace("paddle", "graphopt", 1)


def spaces() -> Iterator[str]:
    """Yield the modules and classes of graphopt that have public names."""
    for space in public_names():
        if not missing_module(space) and space != "paddle.batch":  # a function since 1.8
            yield space


def error_of(owner: Any, name: str) -> str | None:
    """Return the message of the AttributeError for a missing name, or None."""
    try:
        getattr(owner, name)
    except AttributeError as error:
        return str(error)
    return None


@pytest.mark.parametrize("space", [*spaces()])
def test_a_missing_name_says_what_to_use(space: str) -> None:
    """Every public name of three releases exists, or its error names a replacement."""
    with fresh():
        owner = OBJECTS[space]() if space in OBJECTS else import_module(ours(space))
        for name in sorted(public_names()[space]):
            text = error_of(owner, name)
            assert text is None or WORDS.fullmatch(text), f"{space}.{name}: {text}"


@pytest.mark.parametrize("space", sorted(set(spaces()) - set(OBJECTS)))
def test_an_import_of_a_missing_name_says_the_same(space: str) -> None:
    module = import_module(ours(space))
    for name in sorted(public_names()[space]):
        text = error_of(module, name)
        if text is not None:
            with pytest.raises(ImportError) as raised:
                exec(f"from {ours(space)} import {name}")
            assert str(raised.value) == text


def test_an_import_of_a_missing_module_says_what_to_use() -> None:
    """Inner public modules are covered, and each row of the table is for a missing module."""
    inner = [space for space in public_names() if missing_module(space)]
    for space in sorted({*MODULES, *inner}):
        with pytest.raises(ImportError) as raised:
            import_module(ours(space))
        found = WORDS.fullmatch(str(raised.value))
        assert found is not None and f"{space}.".startswith(f"{found.group(1)}.")


def advice() -> Iterator[str]:
    """Yield all replacements that errors recommend."""
    yield from MODULES.values()
    for rows in missing._ADVICE.values():
        yield from rows
    for table in (refused.NAMES, LAYERS, FLUID, DISTRIBUTED, *SPARSE):
        yield from (instead for _, instead in table.values())


@pytest.mark.parametrize("text", sorted(set(advice())))
def test_what_is_recommended_exists(text: str) -> None:
    for name in RECOMMENDED.findall(text):
        found: Any = paddle
        for part in name.removeprefix("paddle.").split("."):
            found = getattr(found, part)


def test_advice_is_for_missing_names() -> None:
    """A name that graphopt has must not be in the table."""
    with fresh():
        for space, rows in missing._ADVICE.items():
            owner = OBJECTS[space]() if space in OBJECTS else import_module(ours(space))
            for name in " ".join(rows.values()).replace("*", "").split():
                assert error_of(owner, name), f"{space}.{name} is there"
                assert name in public_names()[space], f"{space}.{name} is no public name"


def test_names_that_paddle_lacks_have_the_error_of_python() -> None:
    with pytest.raises(AttributeError, match=r"module 'graphopt\.nn' has no attribute 'Linaer'"):
        _ = paddle.nn.Linaer
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'graphopt\.nothing'"):
        import_module("graphopt.nothing")
    with pytest.raises(ImportError, match=r"cannot import name 'Linaer' from 'graphopt\.nn'"):
        exec("from graphopt.nn import Linaer")
    with fresh(), pytest.raises(AttributeError, match="'Variable' object has no attribute 'size_'"):
        _ = static.data("x", [2]).size_


@pytest.mark.parametrize(
    ("space", "name", "near"),
    [
        ("graphopt", "enable_statc", "enable_static"),
        ("graphopt.nn", "Linaer", "Linear"),
        ("graphopt.nn.functional", "crossentropy", "cross_entropy"),
        ("graphopt.static.nn", "batchnorm", "batch_norm"),
    ],
)
def test_the_nearest_name_is_in_the_message(space: str, name: str, near: str) -> None:
    """The message has the nearest name, for logs without a traceback."""
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; did you mean '{near}'"):
        getattr(import_module(space), name)


def test_the_nearest_member_is_in_the_message() -> None:
    with fresh(), pytest.raises(AttributeError, match="no attribute 'bakward'; did you mean 'back"):
        _ = static.data("x", [2]).bakward
    with fresh(), pytest.raises(AttributeError, match=r"has no attribute 'qqqqqq'$"):
        _ = static.data("x", [2]).qqqqqq


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("base", "fluid"),
        ("base.core", "fluid.core"),
        ("core", "fluid.core"),
        ("framework.core", "fluid.core"),
        ("utils.unique_name", "fluid.unique_name"),
        ("vision.transforms.transforms", "vision.transforms"),
    ],
)
def test_modules_of_other_releases(name: str, own: str) -> None:
    """A module has other releases' names, as an import and as an attribute."""
    module = import_module(f"graphopt.{own}")
    assert import_module(f"graphopt.{name}") is module
    assert error_of(paddle, name.partition(".")[0]) is None


@pytest.mark.parametrize(
    "space", ["paddle.sparse", "paddle.sparse.nn", "paddle.sparse.nn.functional"]
)
def test_names_of_sparse_tensors_say_what_to_write(space: str) -> None:
    """The names can be imported, and raise when they are called."""
    module = import_module(ours(space))
    for name in sorted(public_names()[space] - {"creation", "functional", "nn"}):
        words = rf"{space}\.{name} is not supported: XLA computes with dense.*Instead: "
        with pytest.raises(UnsupportedError, match=words):
            getattr(module, name)(1)


def test_what_is_written_instead_of_sparse_tensors() -> None:
    """The advice works for both sparse forms, and for a softmax over stored elements."""
    crows = np.array([0, 1, 3])
    with fresh():
        indices = paddle.to_tensor(np.array([[0, 1, 1], [1, 0, 2]]))
        values = paddle.to_tensor(np.array([1, 2, -3], "float32"))
        coo = paddle.scatter_nd(paddle.transpose(indices, [1, 0]), values, [2, 3])
        counts = paddle.to_tensor(crows[1:] - crows[:-1])
        rows = paddle.repeat_interleave(paddle.arange(2), counts)
        places = paddle.stack([rows, indices[1]], 1)
        csr = paddle.scatter_nd(places, values, [2, 3])
        mask = paddle.scatter_nd(paddle.transpose(indices, [1, 0]), values * 0 + 1, [2, 3])
        shares = paddle.nn.functional.softmax(coo + (mask - 1) * 1e9) * mask
        found = static.Executor().run(fetch_list=[coo, csr, shares])
    wanted = [[0, 1, 0], [2, 0, -3]]
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], wanted)
    # as Paddle 3.3.1 computes it
    np.testing.assert_allclose(found[2], [[0, 1, 0], [0.99330717, 0, 0.00669285]], 1e-6)
