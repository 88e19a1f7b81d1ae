"""Unmodified scripts that import paddle."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from graphopt.frontend.missing import MODULES, paddle_modules
from graphopt.frontend.script import run_script

pytestmark = pytest.mark.usefixtures("fresh_state")


FIT_A_LINE = """
    import sys

    import numpy as np
    import paddle
    import paddle.nn.functional as F
    import paddle.static as static
    from paddle.static import nn
    from paddle.vision.transforms import Compose, Normalize

    paddle.enable_static()
    paddle.set_device("cpu")
    paddle.seed(33)
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 13], "float32")
        y = static.data("y", [None, 1], "float32")
        prediction = nn.fc(x, 1)
        loss = paddle.mean(F.square_error_cost(prediction, y))
        paddle.optimizer.SGD(learning_rate=0.05).minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    chance = np.random.RandomState(0)
    slope = chance.randn(13, 1).astype("float32")
    for _ in range(60):
        rows = chance.randn(20, 13).astype("float32")
        (value,) = exe.run(main, feed={"x": rows, "y": rows @ slope}, fetch_list=[loss])
    path = sys.argv[1] + "/model"
    static.save_inference_model(path, [x], [prediction], exe, program=main)
    program, feeds, fetches = static.load_inference_model(path, exe)
    (found,) = exe.run(program, feed={feeds[0]: rows}, fetch_list=fetches)
    print(float(value) < 0.1, found.shape, __name__, __file__ == sys.argv[0])

    import graphopt.static
    assert graphopt.static is static is sys.modules["paddle.static"]
    assert static.__spec__.name == static.__name__ == "graphopt.static"
"""

MNIST = """
    import numpy
    import paddle
    import paddle.nn.functional as F

    paddle.enable_static()
    image = paddle.static.data("image", [None, 1, 12, 12])
    label = paddle.static.data("label", [None, 1], "int64")
    hidden = paddle.static.nn.conv2d(image, 4, 3, act=None, bias_attr=False)
    hidden = paddle.static.nn.batch_norm(hidden, act="relu")
    hidden = F.max_pool2d(hidden, 2)
    scores = paddle.static.nn.fc(hidden, 10)
    loss = paddle.mean(F.cross_entropy(scores, label))
    paddle.optimizer.Adam(0.01).minimize(loss)
    strategy = paddle.static.BuildStrategy()
    strategy.fuse_bn_act_ops = True
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    program = paddle.static.CompiledProgram(
        paddle.static.default_main_program(), build_strategy=strategy
    )
    chance = numpy.random.RandomState(0)
    feed = {
        "image": chance.rand(8, 1, 12, 12).astype("float32"),
        "label": chance.randint(0, 10, (8, 1)).astype("int64"),
    }
    losses = [float(exe.run(program, feed=feed, fetch_list=[loss])[0]) for _ in range(10)]
    print(losses[-1] < losses[0])
"""

FLUID = """
    import numpy
    import paddle
    import paddle.fluid as fluid
    import paddle.fluid.layers as layers
    from paddle.fluid.initializer import Xavier

    image = fluid.layers.data(name="image", shape=[1, 12, 12], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    pooled = fluid.nets.simple_img_conv_pool(
        image, filter_size=5, num_filters=4, pool_size=2, pool_stride=2, act="relu"
    )
    scores = layers.fc(pooled, 10, act="softmax")
    cost = layers.mean(layers.cross_entropy(scores, label))
    fluid.optimizer.Adam(0.001).minimize(cost)
    place = fluid.CUDAPlace(0) if fluid.core.is_compiled_with_cuda() else fluid.CPUPlace()
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=cost.name, places=[fluid.CPUPlace()]
    )
    feed = {
        "image": numpy.random.rand(8, 1, 12, 12).astype("float32"),
        "label": numpy.random.randint(0, 10, (8, 1)).astype("int64"),
    }
    print(exe.run(program, feed=feed, fetch_list=[cost])[0].shape)
"""


def script(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (FIT_A_LINE, "True (20, 1) __main__ True"),
        (MNIST, "True"),
        (FLUID, "(1,)"),
    ],
)
def test_scripts_run_unmodified(
    text: str, printed: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Programs of the tutorials of 2.x and 1.8 run."""
    assert run_script(script(tmp_path, text), [str(tmp_path)]) == 0
    assert capfd.readouterr().out.strip() == printed


def test_functions_that_modules_share_a_name_with(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A function is still there after a module of its name is imported as paddle's."""
    text = """
        import paddle.fluid as fluid
        from paddle.fluid.layers.rnn import LSTMCell
        import paddle.fluid.data
        print(callable(fluid.layers.rnn), callable(fluid.data))
        """
    assert run_script(script(tmp_path, text)) == 0
    assert capfd.readouterr().out.strip() == "True True"


def test_the_process_is_as_before(tmp_path: Path) -> None:
    """A script leaves no trace in the process, even after an error; it can import its neighbors."""
    script(tmp_path, "import paddle\nvalue = paddle.float32", "beside_the_script.py")
    before = list(sys.argv), list(sys.path), sys.modules["__main__"], list(sys.meta_path)
    path = script(tmp_path, "import beside_the_script, sys\nsys.argv.clear()\nraise ValueError")
    assert run_script(path) == 1
    del sys.modules["beside_the_script"]
    assert (sys.argv, sys.path, sys.modules["__main__"], sys.meta_path) == before
    assert not any(name.partition(".")[0] == "paddle" for name in sys.modules)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys\nsys.exit(7)", 7, ""),
        ("import sys\nsys.exit()", 0, ""),
        ("import sys\nsys.exit('bye')", 1, "bye"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
        ("def (:", 1, "SyntaxError"),
        ("import paddle\npaddle.sparse.abs(1)", 1, "Instead: paddle.abs of the dense tensor"),
        ("from paddle.hub import load", 0, ""),
        ("from paddle.hub import load\nload()", 1, "no paddle.hub. Instead: "),
        ("from paddle import amp\namp.auto_cast()", 1, "Instead: paddle.static.amp.decorate"),
        (
            "from paddle.distributed import fleet\nfleet.init()\nfleet.run_server()",
            1,
            "graphopt has no parameter server",
        ),
        (
            "import paddle.fluid.incubate.fleet.parameter_server.pslib as p\np.fleet.init()",
            1,
            "no paddle.fluid.incubate.fleet.parameter_server. Instead: ",
        ),
        ("import paddle.hapi as s\nclass A(s.B):\n    pass\nA()", 1, "no paddle.hapi."),
        ("import paddle.nothing", 1, "graphopt has no module paddle.nothing"),
        ("from paddle.nn import Nothing", 1, "graphopt has no paddle.nn.Nothing"),
    ],
)
def test_exit_codes_and_errors(
    text: str, code: int, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit codes and errors are Python's, with advice on names that graphopt lacks."""
    assert run_script(script(tmp_path, text)) == code
    assert said in capfd.readouterr().err


def test_a_traceback_starts_at_the_script(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "import paddle\n\ndef train():\n    1 / 0\n\ntrain()")
    assert run_script(path) == 1
    lines = capfd.readouterr().err.splitlines()
    assert lines[1] == f'  File "{path}", line 6, in <module>'
    assert "script.py" not in "".join(lines[1:]).replace(str(path), "")


def test_no_script_and_another_paddle(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_script(tmp_path / "gone.py") == 2
    assert "can't open file" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "paddle", ModuleType("paddle"))
    assert run_script(script(tmp_path, "")) == 2
    assert "process of its own" in capfd.readouterr().err


def test_a_folder_runs_its_main(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script(tmp_path, "import paddle, sys\nprint(sys.argv[1:])", "__main__.py")
    assert run_script(tmp_path, ["a"]) == 0
    assert capfd.readouterr().out == "['a']\n"


def test_missing_modules_can_be_imported(tmp_path: Path) -> None:
    """Each missing module can be imported and refuses calls; an existing one must not be listed."""
    names = "\n".join(f"    {name!r}," for name in MODULES)
    text = f"import importlib\nfor name in [\n{names}\n]:\n"
    text += "    made = importlib.import_module(name)\n"
    text += "    if type(made).__name__ != 'AbsentModule':\n        raise SystemExit(name)\n"
    assert run_script(script(tmp_path, text)) == 0


def test_modules_of_paddle_can_be_imported(tmp_path: Path) -> None:
    """A file of 1.8.5 or 2.6.2 that is not here has its package's names, and refuses others.

    If a module has the name of a function of its package, an import would replace the function.
    """
    names = sorted(f"{package}.{name}" for package, own in paddle_modules().items() for name in own)
    text = f"names = {names!r}\n"
    text += """
import importlib
import sys

import paddle

for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        package, _, last = name.rpartition(".")
        assert callable(getattr(sys.modules[package], last)), name

from paddle.fluid.layer_helper_base import LayerHelperBase
from paddle.fluid.layers.collective import _c_reducescatter
from paddle.fluid.transpiler.memory_optimization_transpiler import memory_optimize
from paddle.optimizer.adamw import AdamW
from paddle.vision.datasets.cifar import Cifar10

assert AdamW is paddle.optimizer.AdamW and Cifar10 is paddle.vision.datasets.Cifar10
assert memory_optimize is paddle.fluid.transpiler.memory_optimize
assert LayerHelperBase is paddle.fluid.layer_helper.LayerHelper
try:
    _c_reducescatter(None, 1)
except NotImplementedError as error:
    print(error)
"""
    assert run_script(script(tmp_path, text)) == 0


def test_paddle_base_is_fluid(tmp_path: Path) -> None:
    """`paddle.base` is fluid as an import from `paddle`, as a module, and as an attribute."""
    text = "from paddle import base\nimport paddle\nimport paddle.base as other\n"
    assert run_script(script(tmp_path, f"{text}assert paddle.base is base is other")) == 0
