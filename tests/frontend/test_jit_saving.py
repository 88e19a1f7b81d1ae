"""Saved traced programs: written, read again, and Paddle's own files.

The files in tests/data/jit and the numbers for them are those of Paddle 2.6.2 and 3.3.1.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import jit, nn, static
from graphopt.ir.formats.pickle.reader import read_pickle
from graphopt_tests.frontend.programs import start

Spec = static.InputSpec
PADDLES = Path(__file__).parents[1] / "data" / "jit" / "two_methods"
X = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")


pytestmark = pytest.mark.usefixtures("fresh_state")


class Net(nn.Layer):
    """A layer with two methods that share a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("scale", paddle.to_tensor([1.0, 2.0]))

    def forward(self, x: Any, y: Any = None) -> Any:
        x = self.drop(self.fc(x)) * self.scale
        if x.sum() > 0:
            x = x * 2
        return x, x.sum()

    @jit.to_static(input_spec=[Spec([None, 2], name="z")])
    def head(self, z: Any) -> Any:
        t = self.fc.bias + z
        while t.sum() < 10:
            t = t + 1
        return t


def saved(tmp_path: Path) -> tuple[Any, str]:
    """Save a layer in training mode; return it in evaluation, and the prefix of its files."""
    net = jit.to_static(Net(), input_spec=[Spec([None, 2], name="image")])
    path = str(tmp_path / "deep" / "net")
    jit.save(net, path)
    net.eval()
    return net, path


def test_saved_and_loaded(tmp_path: Path) -> None:
    """Both methods compute the numbers of the layer in evaluation."""
    net, path = saved(tmp_path)
    layer = jit.load(path)
    assert isinstance(layer, jit.TranslatedLayer)
    for one, other in zip(layer(X), net(X), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(layer.head(X), net.head(X), rtol=1e-6)
    assert [v.name for v in layer.forward.inputs] == ["image"]
    assert list(layer.state_dict()) == ["param_0", "param_1", "buffer_0"]
    assert "conditional_block" in {op.type for op in layer.program().global_block().ops}
    assert "while" in {op.type for op in layer.program("head").global_block().ops}
    with pytest.raises(ValueError, match="no method 'tail'; its methods are forward, head"):
        layer.program("tail")


def test_the_files(tmp_path: Path) -> None:
    """Files have Paddle's names, and its records of parameters."""
    _, path = saved(tmp_path)
    names = {file.name for file in Path(path).parent.iterdir()}
    wanted = ("pdmodel", "pdiparams", "pdiparams.info", "head.pdmodel", "head.pdiparams")
    assert names == {f"net.{suffix}" for suffix in wanted}
    info = read_pickle(Path(f"{path}.pdiparams.info").read_bytes(), "info")
    assert info == {
        "linear_0.w_0": {"structured_name": "fc.weight", "stop_gradient": False, "trainable": True},
        "linear_0.b_0": {"structured_name": "fc.bias", "stop_gradient": False, "trainable": True},
        "assign_0.tmp_0": {"structured_name": "scale", "stop_gradient": True},
    }


def test_files_of_paddle() -> None:
    """Both methods have Paddle's numbers."""
    layer = jit.load(str(PADDLES))
    y, total = layer(X)
    expected = [[4.01608419418335, -9.91071605682373], [9.07571792602539, -16.927152633666992]]
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    np.testing.assert_allclose(float(total), -13.74606704711914, rtol=1e-6)
    assert layer.head(X).tolist() == [[1.5, 1.5], [3.5, 3.5]]
    assert layer.head(np.array([[-5.0, 1.0]], "float32")).tolist() == [[2.5, 7.5]]
    assert len(layer.parameters()) == 6
    assert len(layer.buffers()) == 1


@pytest.mark.parametrize("ending", ["", ".json"])
def test_files_of_paddle_3(ending: str) -> None:
    """Both methods have Paddle's numbers; the file says which parameters are trained."""
    layer = jit.load(str(PADDLES.with_name("paddle3")) + ending)
    y, total = layer(X)
    expected = [[3.860957145690918, -2.126786708831787], [6.459506988525391, -6.218973159790039]]
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    np.testing.assert_allclose(float(total), 1.9747042655944824, rtol=1e-6)
    assert layer.head(X).tolist() == [[2, 2], [4, 4]]
    assert [p.trainable for p in layer.parameters()] == [True, True, False, False, True, True]


def test_an_older_file_is_preferred(tmp_path: Path) -> None:
    """Of two files `jit.load` reads the .pdmodel, as `import_model` does."""
    for name in ("paddle3", "two_methods"):
        for file in PADDLES.parent.glob(f"{name}.*"):
            shutil.copy(file, tmp_path / file.name.replace(name, "net"))
    assert len(jit.load(str(tmp_path / "net")).buffers()) == 1
    assert jit.load(str(tmp_path / "net.pdmodel")).head(X).tolist() == [[1.5, 1.5], [3.5, 3.5]]
    shutil.copy(PADDLES.with_name("paddle3.pdiparams"), tmp_path / "net.pdiparams")
    shutil.copy(PADDLES.with_name("paddle3.head.pdiparams"), tmp_path / "net.head.pdiparams")
    assert jit.load(str(tmp_path / "net.json")).head(X).tolist() == [[2, 2], [4, 4]]


@pytest.mark.exhaustive
def test_a_loaded_layer_goes_on(tmp_path: Path) -> None:
    """A loaded layer can be saved, called in programs and traced functions, trained and changed."""
    net, path = saved(tmp_path)
    layer = jit.load(path)
    jit.save(layer, str(tmp_path / "again"))
    np.testing.assert_allclose(jit.load(str(tmp_path / "again"))(X)[0], net(X)[0], rtol=1e-6)

    @jit.to_static
    def around(x: Any) -> Any:
        return layer(x)[0] * 3

    np.testing.assert_allclose(around(X), net(X)[0].numpy() * 3, rtol=1e-6)
    layer.train()
    assert (layer(X)[0].numpy() == 0).any() or (layer(X)[0].numpy() == 0).any(), "dropout is on"
    layer.eval()
    x = static.data("x", [None, 2])
    y = layer.head(x)
    loss = paddle.mean(layer(x)[0] * layer(x)[0]) + y.mean() * 0
    paddle.optimizer.SGD(0.001, parameters=layer.parameters()).minimize(loss)
    before = float(np.mean(net(X)[0].numpy() ** 2))
    start()
    exe = static.Executor()
    losses = [float(exe.run(feed={"x": X}, fetch_list=[loss])[0]) for _ in range(5)]
    np.testing.assert_allclose(losses[0], before, rtol=1e-5)
    assert losses[-1] < losses[0]


@pytest.mark.filterwarnings("ignore:no variable in your model")
def test_a_loaded_layer_keeps_the_meaning_of_its_file(tmp_path: Path) -> None:
    """A slice to the first element ends at -1 in a file of Paddle 2, also after it is copied."""

    @jit.to_static(input_spec=[Spec([None, 2], name="x")])
    def turned(x: Any) -> Any:
        y = x * 1
        y[::-1, 0] = x[:, 1]
        return y[:, ::-1]

    jit.save(turned, str(tmp_path / "turned"))
    layer = jit.load(str(tmp_path / "turned"))
    jit.save(layer, str(tmp_path / "again"))
    again = jit.load(str(tmp_path / "again"))
    for function in (turned, layer, again):
        assert np.asarray(function(X)).tolist() == [[2, 4], [4, 2]]


def test_functions_hooks_and_outputs(tmp_path: Path) -> None:
    """Functions are saved as layers are, hooks are included, and outputs can be dropped."""

    def function(x: Any) -> Any:
        return x + 1, x * 2

    path = str(tmp_path / "function")
    with pytest.warns(UserWarning, match="no variable in your model"):
        jit.save(function, path, input_spec=[Spec([None, 2])], output_spec=[1])
    assert not Path(f"{path}.pdiparams.info").exists()
    np.testing.assert_array_equal(jit.load(path)(X), X * 2)

    net = nn.Linear(2, 2)
    net.register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,))
    net.register_forward_post_hook(lambda layer, inputs, output: output * 2)
    jit.save(net, path, input_spec=[X])
    expected = ((X + 1) @ net.weight.numpy() + net.bias.numpy()) * 2
    np.testing.assert_allclose(jit.load(path)(X), expected, rtol=1e-5)

    traced = jit.to_static(Net())
    traced.eval()
    out = traced(X)
    jit.save(traced, path)
    np.testing.assert_array_equal(jit.load(path)(X)[0], out[0])


@pytest.mark.parametrize(
    ("save", "error", "words"),
    [
        (lambda path: jit.save(3, path), TypeError, "should be 'Layer' or 'Function'"),
        (lambda path: jit.save(nn.Linear(2, 2), f"{path}/"), ValueError, "file_prefix is"),
        (lambda path: jit.save(nn.Linear(2, 2), path, foo=1), ValueError, r"config \(foo\)"),
        (lambda path: jit.save(nn.Linear(2, 2), path), ValueError, "has not been traced"),
        (
            lambda path: jit.save(nn.Linear(2, 2), path, input_spec=Spec([2])),
            TypeError,
            "must be a list",
        ),
        (
            lambda path: jit.save(Net(), path, input_spec=[Spec([2, 2])]),
            ValueError,
            "other than 'forward'",
        ),
        (
            lambda path: jit.save(lambda_free, path, input_spec=[Spec([2])] * 2),
            ValueError,
            "is not involved",
        ),
        (
            lambda path: jit.save(lambda_free, path, [Spec([2])] * 2, output_spec=["x"]),
            ValueError,
            "names none of the outputs",
        ),
        (lambda path: jit.load(path), ValueError, "to load model not exists"),
        (lambda path: jit.load(path, foo=1), ValueError, r"config \(foo\)"),
    ],
)
def test_errors(save: Any, error: type[Exception], words: str, tmp_path: Path) -> None:
    """Errors name what cannot be saved or loaded."""
    with pytest.raises(error, match=words):
        save(str(tmp_path / "net"))


def lambda_free(x: Any, y: Any) -> Any:
    """Ignore one of the two arguments."""
    return x + 1
