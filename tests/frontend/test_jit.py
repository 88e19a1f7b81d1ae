"""Functions and layers as programs: calls, modes, states, strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import jit, nn, static
from graphopt.errors import FeedError, UnsupportedError
from graphopt.frontend import mode
from graphopt.frontend.script import run_script
from graphopt.jit import static_function
from graphopt.tensor import methods
from graphopt_tests.frontend.programs import start

Spec = static.InputSpec
X = np.arange(8, dtype="float32").reshape(2, 4)


pytestmark = pytest.mark.usefixtures("fresh_state")


class Net(nn.Layer):
    """A layer with parameters, running statistics, a buffer, a constant, and a sub-layer."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(4, 3), Scaled())
        self.norm = nn.BatchNorm1D(3)
        self.drop = nn.Dropout(0.5)
        self.offset = paddle.to_tensor([1.0])

    def forward(self, x: Any, again: bool = False) -> Any:
        y = self.drop(self.norm(self.blocks(x))) + self.offset
        return (y, y.sum()) if again else y


class Scaled(nn.Layer):
    """A layer with a branch, called by another layer of the library."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", paddle.to_tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Any) -> Any:
        if x.sum() > 1e6:
            return x
        return x * self.scale


def expected(net: Any, x: Any) -> Any:
    """Compute `Net` in evaluation with NumPy."""
    linear, norm = net.blocks[0], net.norm
    y = (x @ linear.weight.numpy() + linear.bias.numpy()) * [1, 2, 3]
    y = (y - norm._mean.numpy()) / np.sqrt(norm._variance.numpy() + 1e-5)
    return y * norm.weight.numpy() + norm.bias.numpy() + 1


def test_a_layer() -> None:
    """Parameters are initialized, the mode chooses the program, and states are updated."""
    net = jit.to_static(Net())
    net.eval()
    np.testing.assert_allclose(net(X), expected(net, X), rtol=1e-4, atol=1e-5)
    y, total = net(X, again=True)
    np.testing.assert_allclose(float(total), y.numpy().sum(), rtol=1e-5)
    net.train()
    before = net.norm._mean.numpy()
    out = net(X)
    assert (out.numpy() == 1).any(), "dropout is on"
    assert not np.array_equal(net.norm._mean.numpy(), before)
    net.eval()
    np.testing.assert_allclose(net(X), expected(net, X), rtol=1e-4, atol=1e-5)


@pytest.mark.exhaustive
def test_a_state_dict(tmp_path: Path) -> None:
    """A state dict can be saved before the first call, and set values are used."""
    net, other = Net(), Net()
    path = str(tmp_path / "net.pdparams")
    paddle.save(net.state_dict(), path)
    missing, unexpected = other.set_state_dict(paddle.load(path))
    assert not missing
    assert not unexpected
    for layer in (net, other):
        layer.eval()
    np.testing.assert_array_equal(jit.to_static(net)(X), jit.to_static(other)(X))
    other.blocks[1].scale.set_value(np.zeros(3, "float32"))
    other.norm.bias.set_value(np.full(3, 2.0, "float32"))
    out = other(X).numpy()
    assert np.ptp(out, axis=0).max() == 0


def test_methods_of_a_class() -> None:
    """Each object has its own trace, which includes other methods."""

    class Two(nn.Layer):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.weight = self.create_parameter(
                [2], default_initializer=nn.initializer.Constant(value)
            )
            self.__secret = 10.0

        @jit.to_static
        def forward(self, x: Any) -> Any:
            return super().full_name()[:3], self.helped(x)

        def helped(self, x: Any) -> Any:
            return x * self.weight + self.__secret

        @jit.to_static(input_spec=[Spec([None, 2], name="rows")])
        def head(self, rows: Any) -> Any:
            return rows - self.weight

    one, two = Two(1.0), Two(2.0)
    x = np.ones([1, 2], "float32")
    assert [one(x)[0], float(one(x)[1][0, 0]), float(two(x)[1][0, 0])] == ["two", 11, 12]
    assert one.forward is not two.forward
    assert two.head(x).tolist() == [[-1, -1]]
    assert two.head.inputs[0].name == "rows"


def test_arguments() -> None:
    """Arrays in any structure are fed; other values are constants of the program."""
    calls: list[Any] = []

    @jit.to_static
    def function(pair: Any, *rest: Any, factor: float = 1.0, kind: str = "a") -> Any:
        calls.append(kind)
        return {"sum": (pair["a"] + rest[0][1]) * factor, "kind": kind}

    one = np.ones(2, "float32")
    for factor in (1.0, 1.0, 3.0):
        found = function({"a": one, "b": 1}, [one, one * 2], factor=factor)
        assert found["sum"].tolist() == [3 * factor] * 2
        assert found["kind"] == "a"
    function({"a": np.ones(3, "float32"), "b": 1}, [one, np.ones(3, "float32")])
    assert len(calls) == 3, "traced once for each kind of arguments"
    assert [v.name for v in function.inputs] == ["pair_0", "rest_0", "rest_1"]
    with pytest.raises(TypeError, match="missing a required argument: 'pair'"):
        function()


def test_an_input_spec() -> None:
    """One program serves all inputs that fit the spec; others are refused."""
    traced = jit.to_static(lambda_free, input_spec=[Spec([None, 2], "float32", "x")])
    for rows in (1, 5):
        assert traced(np.ones([rows, 2], "float32")).shape == [rows]
    assert traced.concrete_program.inputs[0].shape == (-1, 2)
    with pytest.raises(FeedError, match="'x'"):
        traced(np.ones([2, 3], "float32"))
    with pytest.raises(ValueError, match="'x' does not match its input_spec"):
        traced([np.ones([2, 2], "float32")])
    with pytest.raises(TypeError, match="'input_spec' must be a list"):
        jit.to_static(lambda_free, input_spec=Spec([2]))
    with pytest.raises(ValueError, match="has not been traced"):
        jit.to_static(lambda_free).main_program  # noqa: B018


def lambda_free(x: Any) -> Any:
    """Sum over the last axis."""
    return x.sum(-1)


def test_inside_programs() -> None:
    """Called with a Variable, or in a traced function, it appends its operators there."""
    layer = nn.Linear(4, 3)
    net = jit.to_static(layer)
    x = static.data("x", [None, 4])
    y = net(x)
    assert isinstance(net(paddle.full([2, 4], 0.5)), static.Variable)
    assert y.block.program is static.default_main_program()
    start()
    (found,) = static.Executor().run(feed={"x": X}, fetch_list=[y])

    @jit.to_static
    def around(x: Any) -> Any:
        return net(x) * 2

    np.testing.assert_allclose(around(X), found * 2, rtol=1e-6)
    assert around.main_program.num_blocks == 1


def test_a_strategy() -> None:
    """`build_strategy` chooses the passes, and `explain` reports their effect."""

    class Mlp(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.linear(x))

    strategy = static.BuildStrategy()
    strategy.fuse_gemm_epilogue = True
    fused, plain = Mlp(), Mlp()
    plain.set_state_dict({k: v.numpy() for k, v in fused.state_dict().items()})
    fused, plain = jit.to_static(fused, build_strategy=strategy), jit.to_static(plain)
    np.testing.assert_allclose(fused(X), plain(X), rtol=1e-5)
    assert paddle.explain(fused).applied("fuse-gemm-epilogue") == 1
    assert paddle.explain(plain.forward).applied("fuse-gemm-epilogue") == 0
    assert "fused_gemm_epilogue" in fused.forward.compiled_program().text()


def test_values() -> None:
    """Results look like tensors; an error explains that they have no derivatives."""
    value = jit.to_static(lambda_free)(X)
    assert value.shape == [2]
    assert (value.dtype, value.ndim, value.size, len(value)) == ("float32", 1, 2, 2)
    assert repr(value) == (
        "Tensor(shape=[2], dtype=float32, stop_gradient=True,\n       [ 6., 22.])"
    )
    assert float(value[0]) == value[0].item() == int(value[0]) == 6
    assert (value / 2 > 5).tolist() == [False, True]
    assert f"{value[1]:.1f}" == "22.0"
    assert [float(each) for each in value] == value.tolist() == [6, 22]
    np.testing.assert_array_equal(np.maximum(value, 10), [10, 22])
    value.numpy()[0] = 0
    assert value[0] == 6, "numpy() is a copy"
    with pytest.raises(UnsupportedError, match=r"backward\(\) of a result: .* minimize\(loss\)"):
        value.mean_loss = value.backward()
    with pytest.raises(AttributeError, match=r"has no attribute 'argmax'.* NumPy on result.numpy"):
        value.argmax()


def test_dynamic_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """In dynamic mode layers and constants can be made, and traced functions called."""
    mode.disable_static()
    try:
        net = jit.to_static(Net())
        net.eval()
        assert net(paddle.to_tensor(X)).shape == [2, 3]
        assert float(paddle.to_tensor([2.5])) == 2.5
        monkeypatch.setattr(methods, "_said", False)
        with pytest.warns(UserWarning, match="script never called paddle.enable_static") as caught:
            print(paddle.to_tensor([2.5]), paddle.to_tensor([3.5]))
        assert len(caught) == 1
        with pytest.raises(UnsupportedError, match="put the computation into a function decorated"):
            paddle.ones([2])
    finally:
        mode.enable_static()


def test_a_script_without_static_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of eager functions name the missing enable_static call if no mode was chosen."""
    x = static.data("x", [2], "float32")
    optimizer = paddle.optimizer.SGD(0.1)
    for fails in (x.backward, x.numpy, lambda: f"{x:.2f}", optimizer.step, optimizer.clear_grad):
        for never in (False, True):
            monkeypatch.setattr(mode, "would_be_dynamic", lambda never=never: never)
            with pytest.raises((UnsupportedError, TypeError)) as caught:
                fails()
            said = "This script never called paddle.enable_static()" in str(caught.value)
            assert said == never, caught.value


CONSTRUCTORS = """
import paddle

rates = [x for x in paddle.linspace(0, 0.5, 3)]
assert [bool(rate > 0.2) for rate in rates] == [False, True, True], rates
assert [float(rates[1]), rates[2].item()] == [0.25, 0.5]
mask = paddle.zeros([2, 2])
mask[0] = 3
assert mask.numpy().tolist() == [[3, 3], [0, 0]]
mask[:, 1] = 1
assert mask.numpy().tolist() == [[3, 1], [0, 1]]
net = paddle.nn.Linear(2, 1)
net.weight[0] = 3.5
net.weight.set_value(net.weight * 2)
assert net.weight.numpy()[0] == 7
x = paddle.static.data("x", [2])
try:
    float(x.sum())
except TypeError:
    print("fed")


@paddle.jit.to_static
def function(x):
    return x + mask


print(function(paddle.ones([2, 2])).numpy().tolist())
"""


def test_constants_of_constructors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a script chooses a mode, constants have values, which layers' constructors need."""
    monkeypatch.setattr(mode, "_chosen", False)
    monkeypatch.setattr("graphopt.ir.program.defaults._first", static.default_main_program())
    path = tmp_path / "script.py"
    path.write_text(CONSTRUCTORS)
    assert run_script(path) == 0, capfd.readouterr().err
    assert capfd.readouterr().out.split("\n")[:2] == ["fed", "[[4.0, 2.0], [1.0, 2.0]]"]


def test_switches(capfd: pytest.CaptureFixture[str]) -> None:
    """The switches are `enable_to_static`, `set_verbosity`, `set_code_level` and `rollback`."""
    translator = jit.settings.ProgramTranslator()
    assert translator is jit.settings.ProgramTranslator.get_instance()
    traced = jit.to_static(lambda_free)
    translator.enable(False)
    try:
        assert not translator.enable_to_static
        with pytest.raises(UnsupportedError, match="no dynamic mode; leave to_static enabled"):
            traced(X)
    finally:
        jit.enable_to_static(True)
    jit.set_verbosity(1)
    jit.set_code_level(100, also_to_stdout=True)
    try:

        def named(x: Any) -> Any:
            return x.sum() if x.sum() > 0 else x.min()

        jit.to_static(named)(X)
    finally:
        jit.set_verbosity(0)
        jit.set_code_level(0)
    shown = capfd.readouterr()
    assert "to_static converts" in shown.err
    assert "_graphopt.choice(" in shown.err
    assert "_graphopt.choice(" in shown.out
    assert "_graphopt.choice(" in jit.to_static(named).code
    net = jit.to_static(nn.Linear(4, 3))
    net.forward.rollback()
    assert not isinstance(net.forward, type(traced))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: jit.to_static(3), TypeError, "takes a function or a Layer"),
        (
            lambda: jit.to_static(lambda_free, build_strategy=3),
            TypeError,
            "shall be `paddle.static.BuildStrategy`",
        ),
        (lambda: jit.to_static(lambda_free, backend="x"), ValueError, "'CINN' or None"),
        (lambda: jit.to_static(lambda_free, full=True), ValueError, "no argument 'full'"),
        (lambda: jit.to_static(lambda_free, property=True), UnsupportedError, "from forward"),
        (lambda: jit.ignore_module([3]), TypeError, "takes modules"),
        (lambda: jit.enable_to_static(3), TypeError, "enable_to_static_bool"),
    ],
)
def test_errors(make: Any, error: type[Exception], words: str) -> None:
    """Arguments of the wrong kind raise."""
    with pytest.raises(error, match=words):
        make()


FLUID = """
import numpy as np
import paddle.fluid as fluid
import paddle.fluid.dygraph.nn as layers
from paddle.fluid.dygraph import ProgramTranslator, declarative, guard
from paddle.fluid.dygraph.jit import dygraph_to_static_func


@dygraph_to_static_func
def chosen(x):
    if fluid.layers.mean(x) > 0:
        return x + 1
    return x - 1


assert ProgramTranslator().enable_to_static
x = fluid.data("x", [2], "float32")
y = chosen(x)
feed = {"x": np.ones(2, "float32")}
print(fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[y])[0])
print(declarative(chosen)(-feed["x"]).numpy())
for name in (guard, layers.Linear, fluid.dygraph.to_variable):
    try:
        name()
    except NotImplementedError as error:
        print(error)
"""


def test_fluid(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The names of 1.8 for programs work; errors for those of dynamic mode explain why not."""
    path = tmp_path / "script.py"
    path.write_text(FLUID)
    assert run_script(path) == 0, capfd.readouterr().err
    shown = capfd.readouterr().out.splitlines()
    assert shown[:2] == ["[2. 2.]", "[-2. -2.]"]
    assert len(shown) == 5
    assert all("runs static programs only" in line for line in shown[2:])
    assert "fluid.dygraph.guard" in shown[2]


def test_traces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces used last are kept, and others are traced again."""
    monkeypatch.setattr(static_function, "MOST_TRACES", 2)
    calls: list[int] = []

    @jit.to_static
    def scaled(x: Any, factor: int) -> Any:
        calls.append(factor)
        return x * factor

    for factor in (1, 2, 1, 3, 1, 2):
        np.testing.assert_allclose(scaled(X, factor).numpy(), X * factor)
    assert calls == [1, 2, 3, 2]


def downwards(x: Any, times: int) -> Any:
    """Double x `times` times, by recursion."""
    return x if times == 0 else downwards(x * 2, times - 1)


def endless(x: Any) -> Any:
    """Recurse until a tensor is not positive, which tracing cannot follow."""
    if x.sum() > 0:
        return endless(x - 1)
    return x


@pytest.mark.exhaustive
def test_functions_that_call_themselves() -> None:
    """A number ends the recursion; otherwise the error names the line."""

    def inner(x: Any, times: int) -> Any:
        return x if times == 0 else inner(x + 1, times - 1)

    assert jit.to_static(downwards)(X, 3).tolist() == (X * 8).tolist()
    assert jit.to_static(inner)(X, 3).tolist() == (X + 3).tolist()
    at = endless.__code__.co_firstlineno + 2
    with pytest.raises(
        UnsupportedError, match=rf"test_jit.py:{at}: 'endless' calls itself endlessly"
    ):
        jit.to_static(endless)(X)


def test_batches_of_a_loader() -> None:
    """A DataLoader's tensors are fed as arrays are, alone and in containers."""

    class Rows(paddle.io.Dataset):
        def __getitem__(self, index: int) -> Any:
            return np.full(4, index, "float32"), np.int64(index)

        def __len__(self) -> int:
            return 4

    @jit.to_static
    def total(batch: Any, more: Any) -> Any:
        return batch[0].sum(1) + more["rows"].sum(1)

    found = [
        total(batch, {"rows": batch[0]}).numpy().tolist()
        for batch in paddle.io.DataLoader(Rows(), batch_size=2)
    ]
    assert found == [[0, 8], [16, 24]]
