"""State of traced functions: a call's changes to objects of the script are visible to the next.

The numbers are those of the same layers in Paddle's dynamic mode.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import jit, nn, static
from graphopt.errors import UnsupportedError
from graphopt.static import InputSpec
from graphopt_tests.frontend.programs import run, start

X = np.array([[1.0, 2.0]], "float32")
Forward = Callable[[Any, Any], Any]


pytestmark = pytest.mark.usefixtures("fresh_state")


class Stateful(nn.Layer):
    """A layer with buffers and other tensors, which `step` changes."""

    def __init__(self, step: Forward) -> None:
        super().__init__()
        self.step = step
        self.register_buffer("n", paddle.zeros([1]))
        self.register_buffer("m", paddle.ones([1]), persistable=False)
        self.register_buffer("queue", paddle.zeros([3]))
        self.plain = paddle.zeros([1])
        self.rows = [paddle.zeros([1]) for _ in range(3)]
        self.named = {"a": paddle.zeros([1])}
        self.pair = (paddle.zeros([1]), paddle.ones([1]))
        self.other = SimpleNamespace(n=paddle.zeros([1]))
        self.made: Any = None
        self.parts = nn.LayerList([Counter(), Counter()])
        self.frozen: Any = self.create_parameter(
            [1], default_initializer=nn.initializer.Constant(0.0)
        )
        self.frozen.stop_gradient = True

    def forward(self, x: Any) -> Any:
        return self.step(self, x)


class Counter(nn.Layer):
    """A layer that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", paddle.zeros([1]))

    def forward(self, x: Any) -> Any:
        self.n = self.n + 1
        return x


def values(layer: Any, calls: int = 3) -> list[float]:
    """Return the first element of the result of each call; call k has k times the input."""
    return [float(layer(X * (at + 1)).numpy().ravel()[0]) for at in range(calls)]


def adds(layer: Any, x: Any) -> Any:
    layer.n = layer.n + 1
    return x[0] * 0 + layer.n


def adds_in_place(layer: Any, x: Any) -> Any:
    layer.n += 1
    layer.n.add_(paddle.ones([1]))
    return layer.n


def assigns(layer: Any, x: Any) -> Any:
    paddle.assign(layer.n + 1, layer.n)
    return layer.n


def puts_an_item(layer: Any, x: Any) -> Any:
    layer.n[0] = layer.n[0] + 1
    return layer.n


def increments(layer: Any, x: Any) -> Any:
    paddle.increment(layer.n)
    return layer.n


def sets_a_value(layer: Any, x: Any) -> Any:
    layer.n.set_value(layer.n + 1)
    return layer.n


def averages(layer: Any, x: Any) -> Any:
    layer.n = 0.5 * layer.n + 0.5 * x[0, :1]
    return layer.n


def takes_the_old(layer: Any, x: Any) -> Any:
    old = layer.n
    layer.n = layer.n + x[0, :1]
    return old


def queues(layer: Any, x: Any) -> Any:
    layer.queue = paddle.concat([x[0, :1], layer.queue[:-1]])
    return layer.queue.sum()


def not_persistable(layer: Any, x: Any) -> Any:
    layer.m = layer.m * 2
    return layer.m


def a_parameter(layer: Any, x: Any) -> Any:
    paddle.assign(layer.frozen + 2, layer.frozen)
    return layer.frozen


def a_plain_attribute(layer: Any, x: Any) -> Any:
    layer.plain = layer.plain + 1
    return layer.plain


def a_list(layer: Any, x: Any) -> Any:
    layer.rows[1] = layer.rows[1] + 1
    return layer.rows[1]


def a_list_that_rotates(layer: Any, x: Any) -> Any:
    layer.rows.append(x[0, :1])
    layer.rows.pop(0)
    return layer.rows[0] + layer.rows[1] + layer.rows[2]


def another_list(layer: Any, x: Any) -> Any:
    layer.rows = [row + 1 for row in layer.rows]
    return layer.rows[2]


def a_dict(layer: Any, x: Any) -> Any:
    layer.named["a"] = layer.named["a"] + 1
    return layer.named["a"]


def a_tuple(layer: Any, x: Any) -> Any:
    layer.pair = (layer.pair[1], layer.pair[0] + layer.pair[1])
    return layer.pair[1]


def a_swap(layer: Any, x: Any) -> Any:
    layer.n, layer.m = layer.m, layer.n
    return layer.n * 10 + layer.m


def an_object(layer: Any, x: Any) -> Any:
    layer.other.n = layer.other.n + 1
    return layer.other.n


def in_a_branch(layer: Any, x: Any) -> Any:
    if layer.n < 2:
        layer.n = layer.n + 1
    else:
        layer.n = layer.n * 10
    return layer.n


def in_a_loop(layer: Any, x: Any) -> Any:
    at = paddle.zeros([1])
    while at < 2:
        layer.n = layer.n + 1
        at = at + 1
    return layer.n


def after_a_return(layer: Any, x: Any) -> Any:
    if x.sum() > 7:
        return layer.n
    layer.n = layer.n + 1
    return layer.n


def called_in_a_branch(layer: Any, x: Any) -> Any:
    if x.sum() < 7:
        layer.parts[0](x)
    return layer.parts[0].n


def called_in_a_loop(layer: Any, x: Any) -> Any:
    at = paddle.zeros([1])
    while at < 2:
        layer.parts[1](x)
        at = at + 1
    return layer.parts[1].n


def twice(layer: Any, x: Any) -> Any:
    layer.parts[0](layer.parts[0](x))
    return layer.parts[0].n


WAYS: dict[Forward, list[float]] = {
    adds: [1, 2, 3],
    adds_in_place: [2, 4, 6],
    assigns: [1, 2, 3],
    puts_an_item: [1, 2, 3],
    increments: [1, 2, 3],
    sets_a_value: [1, 2, 3],
    averages: [0.5, 1.25, 2.125],
    takes_the_old: [0, 1, 3],
    queues: [1, 3, 6],
    not_persistable: [2, 4, 8],
    a_parameter: [2, 4, 6],
    a_plain_attribute: [1, 2, 3],
    a_list: [1, 2, 3],
    a_list_that_rotates: [1, 3, 6],
    another_list: [1, 2, 3],
    a_dict: [1, 2, 3],
    a_tuple: [1, 2, 3],
    a_swap: [10, 1, 10],
    an_object: [1, 2, 3],
    in_a_branch: [1, 2, 20],
    in_a_loop: [2, 4, 6],
    after_a_return: [1, 2, 2],
    called_in_a_branch: [1, 2, 2],
    called_in_a_loop: [2, 4, 6],
    twice: [2, 4, 6],
}


@pytest.mark.every(3)
@pytest.mark.parametrize("step", WAYS)
def test_each_way(step: Forward) -> None:
    """The next call sees the changed state, and the layer keeps its tensor objects."""
    layer = Stateful(step)
    before = layer.n, layer.m, layer.plain, [*layer.rows], {**layer.named}, layer.pair
    assert values(jit.to_static(layer)) == WAYS[step]
    after = layer.n, layer.m, layer.plain, [*layer.rows], {**layer.named}, layer.pair
    for one, other in zip(before, after, strict=True):
        assert str(one) == str(other)


COUNT: Any = None


def test_closures_and_global_names() -> None:
    """A function changes closure variables, containers and globals."""
    inside = paddle.zeros([1])
    held = [paddle.zeros([1])]

    def count(x: Any) -> Any:
        global COUNT
        nonlocal inside
        inside = inside + 1
        held[0] = held[0] + 2
        COUNT = COUNT + 3
        return inside + held[0] * 10 + COUNT * 100

    global COUNT
    COUNT = paddle.zeros([1])
    assert values(jit.to_static(count)) == [321, 642, 963]


def test_traces_of_one_layer_share_it() -> None:
    """Traces for other shapes, for evaluation and of other methods share the state."""

    class Two(Counter):
        def forward(self, x: Any) -> Any:
            super().forward(x)
            return x.sum() * 0 + self.n

        @jit.to_static
        def reset(self, x: Any) -> Any:
            self.n = x.sum().reshape([1])
            return x

    layer = jit.to_static(Two())
    wide = np.ones([3, 2], "float32")
    assert [float(layer(x)) for x in (X, wide, X)] == [1, 2, 3]
    layer.eval()
    assert float(layer(X)) == 4
    layer.reset(X)
    assert float(layer(X)) == 4
    layer.set_state_dict({"n": np.array([10.0], "float32")})
    assert float(layer(wide)) == 11
    assert np.asarray(layer.state_dict()["n"].get_value()) == 11


def test_a_shared_buffer() -> None:
    """Two names share a buffer through in-place writes, until one is assigned another tensor."""

    class Shared(nn.Layer):
        def __init__(self, *, in_place: bool) -> None:
            super().__init__()
            self.one: Any = Counter()
            self.two: Any = Counter()
            self.in_place = in_place
            self.two.register_buffer("n", self.one.n)

        def forward(self, x: Any) -> Any:
            if self.in_place:
                paddle.increment(self.one.n)
            else:
                self.one(x)
            return self.one.n + 10 * self.two.n

    assert values(jit.to_static(Shared(in_place=True))) == [11, 22, 33]
    layer = Shared(in_place=False)
    assert values(jit.to_static(layer)) == [1, 2, 3]
    assert layer.one.n is not layer.two.n


def test_saved_and_loaded(tmp_path: Path) -> None:
    """A saved program has the state at the time; the loaded layer continues on its own."""
    layer = jit.to_static(Stateful(adds))
    assert values(layer, 2) == [1, 2]
    path = str(tmp_path / "net")
    jit.save(layer, path, [InputSpec([None, 2])])
    loaded = jit.load(path)
    assert values(loaded, 2) == [3, 4]
    assert values(layer, 1) == [3]
    jit.save(loaded, str(tmp_path / "again"))
    assert values(jit.load(str(tmp_path / "again")), 1) == [5]


def grows(layer: Any, x: Any) -> Any:
    layer.n = paddle.concat([layer.n, layer.n])
    return layer.n.sum()


def changes_dtype(layer: Any, x: Any) -> Any:
    layer.n = (layer.n + 1).astype("float64")
    return layer.n


def begins_as_none(layer: Any, x: Any) -> Any:
    if layer.made is None:
        layer.made = paddle.zeros([1])
    layer.made = layer.made + 1
    return layer.made


@pytest.mark.parametrize(
    ("step", "line", "words"),
    [
        (grows, 1, r"'n' changes from float32 \[1\] to float32 \[2\] in a call"),
        (changes_dtype, 1, r"'n' changes from float32 \[1\] to float64 \[1\]"),
        (begins_as_none, 1, "'made' is made by one call of a traced function and read by the next"),
    ],
)
def test_refused(step: Forward, line: int, words: str) -> None:
    """The error names the line; the layer is unchanged, so a corrected call works."""
    layer = Stateful(step)
    traced = jit.to_static(layer)
    at = step.__code__.co_firstlineno + line
    with pytest.raises(UnsupportedError, match=rf"test_jit_state.py:{at}: {words}"):
        traced(X)
    assert layer.made is None
    layer.step = adds
    assert values(traced, 2) == [1, 2]


def test_what_only_a_call_has() -> None:
    """An attribute may hold a value that each call sets; an error for outer uses has the remedy."""

    def keeps_the_last(layer: Any, x: Any) -> Any:
        layer.made = [x * 2]
        return layer.made[0]

    layer = Stateful(keeps_the_last)
    assert values(jit.to_static(layer)) == [2, 4, 6]
    with pytest.raises(UnsupportedError, match="or return it from the function"):
        print(layer.made[0] + 1)


def test_a_program_keeps_a_persistable_buffer() -> None:
    """A layer called while a program is built, traced or not, writes its buffer in each run."""

    class Persistent(Counter):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", static.create_global_var([1], 0.0, "float32", True))

        def forward(self, x: Any) -> Any:
            super().forward(x)
            return x[0] * 0 + self.n

    x = static.data("x", [1, 2])
    fetches = [Persistent()(x), jit.to_static(Persistent())(x)]
    start()
    counts = [[float(value[0]) for value in run(fetches, x=X)] for _ in range(3)]
    assert counts == [[1, 1], [2, 2], [3, 3]]


def test_a_number_is_no_buffer() -> None:
    """Assigning a number to a buffer raises Paddle's error."""
    layer: Any = Counter()
    with pytest.raises(TypeError, match="assignment to buffers 'n' should be"):
        layer.n = 5


def test_a_list_that_contains_itself() -> None:
    """Objects of the script may refer to each other, as the nodes of a tree to their parent."""

    class Tree(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.root: dict[str, Any] = {"kids": [], "steps": paddle.zeros([1])}
            self.root["kids"].append({"parent": self.root})

        def forward(self, x: Any) -> Any:
            self.root["steps"] = self.root["steps"] + len(self.root["kids"])
            return self.root["steps"] + x * 0.0

    assert values(jit.to_static(Tree())) == [1, 2, 3]
