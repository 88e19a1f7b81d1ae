"""paddle.fluid: differences of 1.8 from the later front end, and errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid
from graphopt.errors import ScopeError, UnsupportedError
from graphopt.fluid import refused
from graphopt.ir.program import OpRole

layers = fluid.layers
X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], "float32")


@contextmanager
def fresh() -> Iterator[Any]:
    """Enter a new main program with its scope, and names that count from zero."""
    main, startup = fluid.Program(), fluid.Program()
    with (
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.core.Scope()),
        fluid.program_guard(main, startup),
    ):
        yield main


def run(*fetches: Any, **feed: Any) -> list[np.ndarray[Any, Any]]:
    """Run the startup program, then the main program."""
    exe = fluid.Executor(fluid.CPUPlace())
    if fluid.default_startup_program().global_block().ops:
        exe.run(fluid.default_startup_program())
    return exe.run(fluid.default_main_program(), feed=feed, fetch_list=list(fetches))


def computed(function: Callable[..., Any], *values: Any) -> np.ndarray[Any, Any]:
    """Compute a function of fed variables, and check its static shape."""
    with fresh():
        arrays = {f"x{i}": np.asarray(value) for i, value in enumerate(values)}
        fed = [fluid.data(name, [*a.shape], str(a.dtype)) for name, a in arrays.items()]
        out = function(*fed)
        (result,) = run(out, **arrays)
    assert out.shape == result.shape
    return result


@pytest.mark.exhaustive
def test_it_is_imported_on_demand() -> None:
    """`import graphopt` does not import fluid; `graphopt.fluid` does."""
    code = "import graphopt, sys; assert 'graphopt.fluid' not in sys.modules; graphopt.fluid.layers"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'fluids'"):
        _ = paddle.fluids  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (layers.mean, (1,)),
        (layers.reduce_sum, (1,)),
        (lambda x: layers.reduce_max(x, dim=[0, 1]), (1,)),
        (lambda x: layers.reduce_mean(x, keep_dim=True), (1, 1)),
        (layers.isfinite, (1,)),
        (layers.size, (1,)),
        (lambda x: layers.matmul(layers.reshape(x, [-1]), layers.reshape(x, [-1])), (1,)),
    ],
)
def test_results_have_one_dimension_at_least(function: Any, shape: tuple[int, ...]) -> None:
    assert computed(function, X).shape == shape


def test_operators_are_those_of_1_8() -> None:
    with fresh() as main:
        x = fluid.layers.data("x", [3])
        label = fluid.layers.data("label", [1], dtype="int64")
        hidden = layers.fc(x, 4, act="softmax")
        loss = layers.mean(layers.cross_entropy(hidden, label))
        layers.matmul(x, x, transpose_y=True, alpha=0.5)
        kinds = [op.type for op in main.global_block().ops]
    assert x.shape == (-1, 3)
    assert loss.shape == (1,)
    assert kinds == [
        "mul",
        "elementwise_add",
        "softmax",
        "cross_entropy2",
        "mean",
        "reshape2",
        "matmul",
    ]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: layers.expand(x, [1, 2]), np.tile(X, [1, 2])),
        (lambda x: layers.leaky_relu(x), np.where(X > 0, X, 0.02 * X)),
        (lambda x: layers.argmax(x), X.argmax(0)),
        (lambda x: layers.flatten(x, 0), X.reshape(1, -1)),
        (lambda x: layers.dropout(x, 0.25, is_test=True), 0.75 * X),
        (lambda x: layers.cumsum(x, exclusive=True), np.cumsum(X, 1) - X),
        (
            lambda x: layers.elementwise_add(x, layers.reduce_sum(x, 1), axis=0),
            X + X.sum(1)[:, None],
        ),
        (lambda x: layers.relu6(x, threshold=2.0), np.clip(X, 0, 2)),
        (lambda x: layers.crop(x, [1, 2], [1, 0]), X[1:, :2]),
        (lambda x: layers.clip_by_norm(x, 1.0), X / np.sqrt((X * X).sum())),
    ],
)
def test_values(function: Any, wanted: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(computed(function, X), wanted, rtol=1e-6)


def test_integers_divide_as_in_c() -> None:
    """Quotients are truncated, and remainders have the sign of the dividend."""
    a, b = np.array([-7, 7, -7]), np.array([2, -2, -2])
    assert computed(layers.elementwise_floordiv, a, b).tolist() == [-3, -3, 3]
    assert computed(layers.elementwise_mod, a, b).tolist() == [-1, 1, -1]
    with pytest.raises(TypeError, match="must be int32 or int64"):
        computed(layers.elementwise_floordiv, X, X)


def test_probabilities_of_zero_have_a_finite_loss() -> None:
    p = np.array([[0.0, 1.0], [0.5, 0.5]], "float32")
    loss = computed(layers.cross_entropy, p, np.array([[0], [1]]))
    np.testing.assert_allclose(loss, [[1e20], [np.log(2)]], rtol=1e-6)


def test_sampled_classes_are_different() -> None:
    """A uniform softmax over all classes but one has a loss between 0 and log(classes)."""
    with fresh():
        logits, label = fluid.data("x", [2, 8]), fluid.data("y", [2, 1], "int64")
        loss = layers.sampled_softmax_with_cross_entropy(logits, label, 7, seed=3)
        (value,) = run(loss, x=np.zeros([2, 8], "float32"), y=np.array([[0], [5]]))
    assert value.shape == (2, 1)
    assert np.isfinite(value).all()


FIRST = [0, -0.97915226, 0.83747703, 0.14167525]


@pytest.mark.parametrize(
    ("remove", "losses", "slopes"),
    [
        (True, [3.8705087, 1.3178713], [FIRST, [0.59988433, 0, -0.59988433, 0]]),
        (False, [3.8705087, 64.0], [FIRST, [0, 0, 0, 0]]),
    ],
)
def test_samples_that_are_given(remove: bool, losses: Any, slopes: Any) -> None:
    """A sample equal to the label, and a probability of 0, give the numbers of 1.8.5."""
    x = np.array([[0.5, -1, 2, 0], [1, 0.25, -0.5, 3]], "float32")
    samples = np.array([[1, 2, 3], [2, 2, 0]])
    chances = np.array([[0.5, 0.25, 0.2], [0.3, 0, 0.6]], "float32")
    with fresh():
        logits, label = fluid.data("x", [None, 4]), fluid.data("y", [None, 1], "int64")
        logits.stop_gradient = False
        given = fluid.data("s", [None, 3], "int64"), fluid.data("p", [None, 3])
        loss = layers.sampled_softmax_with_cross_entropy(logits, label, 2, 1, remove, True, *given)
        (slope,) = fluid.gradients(layers.reduce_sum(loss), [logits])
        feed = {"y": np.array([[1], [2]]), "s": samples, "p": chances}
        value, gradient = fluid.Executor().run(feed={"x": x, **feed}, fetch_list=[loss, slope])
    np.testing.assert_allclose(value[:, 0], losses, 1e-5)
    np.testing.assert_allclose(gradient, slopes, 1e-5, 1e-6)


def test_random_crop_takes_a_block() -> None:
    values = np.arange(60, dtype="float32").reshape(2, 5, 6)
    with fresh():
        x = fluid.data("x", [2, 5, 6])
        (block,) = run(layers.random_crop(x, [3, 2], seed=1), x=values)
    row, column = divmod(int(block[0, 0, 0]), 6)
    np.testing.assert_array_equal(block, values[:, row : row + 3, column : column + 2])


def test_rates_are_operators() -> None:
    """A counter of runs precedes the program; a clone for testing drops it."""
    with fresh() as main:
        rate = layers.linear_lr_warmup(layers.piecewise_decay([3], [0.5, 0.1]), 2, 0.0, 0.4)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        rates = [exe.run(main, fetch_list=[rate])[0].item() for _ in range(5)]
        assert main.global_block().ops[0].type == "increment"
        assert all(op.role == OpRole.LR_SCHEDULE for op in main.global_block().ops)
        assert main.clone(for_test=True).global_block().ops == []
    np.testing.assert_allclose(rates, [0.0, 0.2, 0.5, 0.1, 0.1], rtol=1e-6)


def test_optimizers_have_the_arguments_of_1_8() -> None:
    with fresh():
        x = fluid.data("x", [None, 3])
        attr = fluid.ParamAttr(
            "w", fluid.initializer.NumpyArrayInitializer(np.ones([3, 1], "float32"))
        )
        loss = layers.mean(layers.fc(x, 1, param_attr=attr, bias_attr=False))
        fluid.optimizer.SGDOptimizer(
            0.5,
            parameter_list=["w"],
            regularization=fluid.regularizer.L2DecayRegularizer(regularization_coeff=0.1),
            grad_clip=fluid.clip.GradientClipByValue(1.0, need_clip=lambda p: p.name != "w"),
        ).minimize(loss)
        run(loss, x=X[:1])
        value = np.array(fluid.global_scope().find_var("w").get_tensor())
    np.testing.assert_allclose(value[:, 0], 1 - 0.5 * (X[0] + 0.1), rtol=1e-6)
    with pytest.raises(TypeError, match="does not know the argument 'parameters'"):
        fluid.optimizer.Adam(0.1, parameters=[])
    with pytest.raises(TypeError, match="needs the argument 'learning_rate'"):
        fluid.optimizer.Momentum(momentum=0.9)


def test_feeder_makes_batches() -> None:
    with fresh():
        image, label = fluid.data("image", [None, 1, 2, 2]), fluid.data("label", [None, 1], "int64")
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        feeder = fluid.DataFeeder([image, label, words], fluid.CPUPlace())
        feed = feeder.feed([([1, 2, 3, 4], 5, [1, 2]), ([5, 6, 7, 8], 6, [3])])
        assert feed["image"].shape() == [2, 1, 2, 2]
        assert np.array(feed["label"]).tolist() == [[5], [6]]
        assert feed["words"].recursive_sequence_lengths() == [[2, 1]]
        with pytest.raises(ValueError, match="row 0 of the batch has 2 values"):
            feeder.feed([(1, 2)])
        with pytest.raises(ValueError, match=r"'image' has the shape \[-1, 1, 2, 2\], but its 2"):
            feeder.feed([([1, 2], 5, [1]), ([3, 4], 6, [1])])
        texts = fluid.data("texts", [None, 1], "int64", lod_level=2)
        (made,) = fluid.DataFeeder([texts], None).feed([([[1, 2], [3]],), ([[4]],)]).values()
        assert made.recursive_sequence_lengths() == [[2, 1], [2, 1, 1]]
        assert np.array(made).tolist() == [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("names", "rows", "words"),
    [
        (["x"], [(["a", "b"],)], "rows of 'x', float32 .* row 0 is .* could not convert"),
        (["x"], [([1, 2],), ([1, 2, 3],)], r"row 1 has the shape \[3\] and .* before it \[2\]"),
        (["x"], [(object(),)], "rows of 'x'.* row 0 is <object"),
        (["x"], [1.0, 2.0], "row 0 of the batch should be a tuple with a value for each of x"),
        (["x"], ["ab"], "row 0 of the batch should be a tuple with a value for each of x"),
        (["x"], [{"x": [1, 2]}], "row 0 of the batch should be a tuple"),
        (["y"], [(1,), (2**70,)], "rows of 'y', int64 .* row 1 is 1180591620717411303424"),
        (["s"], [(3,)], "'s' has sequences .* at level 1 item 0 is 3; give a list, such as"),
    ],
)
def test_a_feeder_names_variable_and_row(names: list[str], rows: list[Any], words: str) -> None:
    """A feed error names variable and row, not only NumPy's complaint."""
    with fresh():
        fluid.data("x", [None, 2], "float32")
        fluid.data("y", [None, 1], "int64")
        fluid.data("s", [None, 1], "int64", lod_level=1)
        with pytest.raises((TypeError, ValueError), match=words):
            fluid.DataFeeder(names, None).feed(rows)


def test_tensors_keep_their_lengths() -> None:
    made = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], fluid.CPUPlace())
    assert np.array(made).tolist() == [[1], [2], [3]]
    assert (made.recursive_sequence_lengths(), made.lod()) == ([[2, 1]], [[0, 2, 3]])
    with pytest.raises(ValueError, match="invalid"):
        fluid.create_lod_tensor(X, [[1, 2]], fluid.CPUPlace())
    for lengths in [[1, 1]], [[2], [1, 1, 1]], [[], [2, 1]]:
        with pytest.raises(fluid.core.EnforceNotMet, match="are not valid sequence lengths for"):
            made.set_recursive_sequence_lengths(lengths)
    assert made.lod() == [[0, 2, 3]]
    with fresh():
        x = fluid.data("x", [None, 1], "int64", lod_level=1)
        exe = fluid.Executor(fluid.CPUPlace())
        (out,) = exe.run(feed={"x": made}, fetch_list=[layers.cast(x, "int32")], return_numpy=False)
    assert out.recursive_sequence_lengths() == [[2, 1]]
    assert np.array(out).tolist() == [[1], [2], [3]]


@pytest.mark.parametrize("filename", [None, "all"])
def test_variables_are_saved_and_loaded(filename: str | None, tmp_path: Path) -> None:
    with fresh():
        x = fluid.data("x", [None, 3])
        out = layers.fc(x, 2)
        (before,) = run(out, x=X)
        exe = fluid.Executor(fluid.CPUPlace())
        fluid.io.save_params(exe, str(tmp_path), filename=filename)
        bias = fluid.io.get_parameter_value_by_name("fc_0.b_0", exe)
        np.testing.assert_array_equal(bias, np.zeros(2))
        with pytest.raises(AssertionError, match="should be a Parameter, found Variable"):
            fluid.io.get_parameter_value(x, exe)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ([filename] if filename else ["fc_0.b_0", "fc_0.w_0"])
        with fluid.scope_guard(fluid.Scope()):
            fluid.io.load_params(exe, str(tmp_path), filename=filename)
            (after,) = exe.run(feed={"x": X}, fetch_list=[out])
        with fluid.scope_guard(fluid.Scope()), pytest.raises(ScopeError, match="no value to save"):
            fluid.io.save_persistables(exe, str(tmp_path))
    np.testing.assert_array_equal(before, after)


def test_parameters_and_models_in_memory(tmp_path: Path) -> None:
    """Without a folder, saving returns the bytes of one file; loading takes them as its name."""
    with fresh():
        out = layers.fc(fluid.data("x", [None, 3]), 2)
        (before,) = run(out, x=X)
        exe, io = fluid.Executor(fluid.CPUPlace()), fluid.io
        data = io.save_persistables(exe, None)
        assert io.save_params(exe, str(tmp_path), filename="all") is None
        assert isinstance(data, bytes)
        io.save_inference_model(str(tmp_path), ["x"], [out], exe)
        program = (tmp_path / "__model__").read_bytes()
        with fluid.scope_guard(fluid.Scope()):
            io.load_persistables(exe, None, filename=(tmp_path / "all").read_bytes())
            (after,) = exe.run(feed={"x": X}, fetch_list=[out])
        with fluid.scope_guard(fluid.Scope()):
            loaded, _, fetches = io.load_inference_model(None, exe, program, data)
            (inferred,) = exe.run(loaded, feed={"x": X}, fetch_list=fetches)
        with pytest.raises(ValueError, match="'all', but 'dirname' is None"):
            io.save_params(exe, None, filename="all")
        with pytest.raises(ValueError, match="'dirname' is None; set a folder, or pass the bytes"):
            io.load_params(exe, None)
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(before, inferred)


def test_a_compiled_program_is_saved_as_its_program(tmp_path: Path) -> None:
    with fresh():
        run(layers.fc(fluid.data("x", [None, 3]), 2), x=X)
        compiled = fluid.CompiledProgram(fluid.default_main_program())
        exe = fluid.Executor(fluid.CPUPlace())
        with pytest.warns(UserWarning, match="CompiledProgram, this is not recommended"):
            fluid.io.save_params(exe, str(tmp_path), compiled)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["fc_0.b_0", "fc_0.w_0"]


@pytest.mark.parametrize("kind", ["Normal", "Uniform"])
def test_distributions_of_a_batch(kind: str) -> None:
    """A sample has as many rows as the parameters in the run."""
    with fresh():
        x = fluid.data("x", [None, 3])
        made = getattr(layers, kind)(x, layers.scale(x, 1.0, 1.0))
        samples = [made.sample(shape) for shape in ([], [2], [2, 1])]
        assert [s.shape for s in samples] == [(-1, 3), (2, -1, 3), (2, 1, -1, 3)]
        exe = fluid.Executor(fluid.CPUPlace())
        found = exe.run(feed={"x": np.zeros((5, 3), "float32")}, fetch_list=samples)
    assert [value.shape for value in found] == [(5, 3), (2, 5, 3), (2, 1, 5, 3)]
    assert len(np.unique(found[0])) == 15


def test_parameters_of_fluid_in_later_releases() -> None:
    """`rois_num` has the numbers of boxes, as in 2.0; softplus has `beta` and `threshold`."""
    image = np.arange(32, dtype="float32").reshape(2, 1, 4, 4)
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]], "float32")
    counts = np.array([1, 2], "int32")
    later: Any = layers
    found = computed(lambda x, r, n: later.roi_pool(x, r, rois_num=n), image, boxes, counts)
    assert found.ravel().tolist() == [5.0, 21.0, 31.0]
    soft = computed(lambda x: later.softplus(x, beta=2.0, threshold=3.0), counts.astype("float32"))
    np.testing.assert_allclose(soft, [np.log1p(np.exp(2.0)) / 2, 2], rtol=1e-6)


@pytest.mark.exhaustive
def test_boxes_of_several_images_need_their_numbers() -> None:
    image = np.arange(32, dtype="float32").reshape(2, 1, 4, 4)
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]], "float32")
    ends = np.array([0, 1, 3], "int64")
    found = computed(lambda x, r, e: layers.roi_pool(x, r, rois_lod=e), image, boxes, ends)
    assert found.ravel().tolist() == [5.0, 21.0, 31.0]
    with pytest.raises(UnsupportedError, match="the number of boxes in each of 2 images"):
        computed(layers.roi_align, image, boxes)
    (whole,) = computed(layers.roi_align, image[:1], boxes[2:]).ravel().tolist()
    assert whole == 12.5


def test_fetches_have_the_lengths_that_functions_note() -> None:
    with fresh():
        x = fluid.data("x", [None, 3], lod_level=1)
        y = fluid.data("y", [None, 1], lod_level=1)
        image = fluid.data("image", [None, 1, 2, 3])
        outs = [
            layers.lod_reset(x, target_lod=[0, 2]),
            layers.lod_reset(x, y),
            layers.im2sequence(image, 2),
        ]
        exe = fluid.Executor(fluid.CPUPlace())
        rows = fluid.create_lod_tensor(np.zeros([2, 1], "float32"), [[1, 1]], None)
        feed = {"x": X, "y": rows, "image": np.arange(12, dtype="float32").reshape(2, 1, 2, 3)}
        found = exe.run(feed=feed, fetch_list=outs, return_numpy=False)
    assert [t.recursive_sequence_lengths() for t in found] == [[[2]], [[1, 1]], [[2, 2]]]
    assert np.array(found[2])[:2].tolist() == [[0, 1, 3, 4], [1, 2, 4, 5]]


def test_versions_and_flags() -> None:
    fluid.require_version("1.7")
    fluid.require_version("1.8.0", "1.8.5")
    with pytest.raises(Exception, match=r"Paddle 2\.0 or later is required"):
        fluid.require_version("2.0")
    fluid.set_flags({"FLAGS_eager_delete_tensor_gb": 1.0})
    assert fluid.get_flags("FLAGS_eager_delete_tensor_gb") == {"FLAGS_eager_delete_tensor_gb": 1.0}
    with pytest.raises(ValueError, match="should be named FLAGS_"):
        fluid.set_flags({"eager": 1})


@pytest.mark.parametrize("name", [*refused.LAYERS])
def test_refused_layers_say_why(name: str) -> None:
    assert name not in vars(layers)
    with pytest.raises(UnsupportedError, match=rf"layers\.{name} is not supported: .+\. Instead"):
        getattr(layers, name)()


def test_random_rows_for_an_open_batch() -> None:
    """Each draw has as many rows as the fed batch, and differs from the others."""
    with fresh():
        x = fluid.data("x", [None, 3])
        drawn = [
            layers.uniform_random_batch_size_like(x, [-1, 50], min=2.0, max=3.0),
            layers.gaussian_random_batch_size_like(x, [50, -1], output_dim_idx=1, mean=9.0),
            layers.sampling_id(layers.softmax(x)),
        ]
        uniform, normal, words = run(drawn, x=np.zeros((4, 3), "float32"))
    assert uniform.shape == (4, 50) and 2 <= uniform.min() < uniform.max() < 3
    assert normal.shape == (50, 4) and abs(normal.mean() - 9) < 0.5
    assert words.shape == (4,) and set(words.tolist()) <= {0, 1, 2}


@pytest.mark.parametrize("name", [*refused.FLUID])
def test_refused_names_say_why(name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"fluid\.{name} is not supported: .+\. Instead"):
        getattr(fluid, name)()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: layers.reshape(x, [3, 2], actual_shape=x),
            "dimensions in 'shape' must be known",
        ),
        (
            lambda x: fluid.nets.sequence_conv_pool(layers.transpose(x, [1, 0]), 2, 3),
            "has no sequence lengths",
        ),
    ],
)
def test_unsupported_uses_say_why(call: Any, message: str) -> None:
    with fresh(), pytest.raises(UnsupportedError, match=message):
        call(fluid.data("x", [None, 3]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: layers.embedding(layers.cast(x, "int64"), [4, 2]),
            "should be 1; use fluid.embedding",
        ),
        (lambda x: layers.cross_entropy(x, x), "last dimension of 1"),
        (lambda x: layers.pool2d(x), "'pool_size' must be set"),
        (lambda x: layers.expand(x, [2]), "a number for each axis"),
        (lambda x: layers.one_hot(layers.cast(x, "int64"), 3), "last dimension of 1"),
        (lambda x: layers.assign([1.0]), "must be a Variable or a NumPy array"),
        (lambda x: layers.assign(np.zeros(2)), "convert it with astype"),
        (lambda x: layers.lrn(x), "rank 4"),
        (lambda x: layers.piecewise_decay([1], [1.0]), "one item more"),
        (lambda x: layers.hsigmoid(x, layers.cast(x, "int64"), 1), "less than 2"),
        (lambda x: layers.Normal(x, 1.0), "must be Variables"),
    ],
)
def test_wrong_uses_say_why(call: Any, message: str) -> None:
    with fresh(), pytest.raises((ValueError, TypeError), match=message):
        call(fluid.data("x", [None, 3]))


def test_expand_by_a_tensor() -> None:
    """`expand_times` may have Variables; the other sizes stay known, as in 1.8.5."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, like = fluid.data("x", [None, 1, 3]), fluid.data("like", [None, None])
        times = [1, layers.shape(like)[1], 1]
        y = layers.expand(x, times)
        assert y.shape == (-1, -1, 3)
        given = np.arange(6, dtype="float32").reshape(2, 1, 3)
        feed = {"x": given, "like": np.zeros([2, 4], "float32")}
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[y])
        np.testing.assert_array_equal(found, np.tile(given, [1, 4, 1]))


def test_cross_entropy_of_bare_labels() -> None:
    """Losses of labels without a last axis have the labels' shape, as in 1.8.5."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x, label = fluid.data("x", [None, 2, 3]), fluid.data("label", [None, 2], "int64")
        loss = layers.cross_entropy(layers.softmax(x), label)
        assert loss.shape == (-1, 2)
        feed = {
            "x": np.arange(12, dtype="float32").reshape(2, 2, 3),
            "label": np.array([[0, 1], [2, 0]]),
        }
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=[loss])
        np.testing.assert_allclose(found, [[2.407606, 1.407606], [0.407606, 2.407606]], rtol=1e-6)


def test_random_shapes_of_variables() -> None:
    with fresh() as main:
        x = fluid.data("x", [None, 2])
        rows = fluid.layers.shape(x)[0]
        drawn = [
            fluid.layers.uniform_random(rows, min=0.0, max=1.0),
            fluid.layers.gaussian_random([rows, 3]),
        ]
        feed = {"x": np.zeros((5, 2), "float32")}
        found = fluid.Executor().run(main, feed, drawn)
    assert [value.shape for value in found] == [(5,), (5, 3)]
    assert found[0].min() >= 0
    assert found[0].max() < 1


def test_a_rate_that_is_a_variable_is_known_before_minimize() -> None:
    with fresh():
        rate = fluid.layers.cosine_decay(0.1, 10, 2)
        assert fluid.optimizer.Momentum(rate, 0.9)._global_learning_rate() is rate
        assert fluid.optimizer.Momentum(0.1, 0.9)._global_learning_rate() is None


def test_absent_attributes_have_their_defaults() -> None:
    with fresh() as main:
        x, w = fluid.data("x", [None, 4, 8, 8]), fluid.data("w", [6, 4, 3, 3])
        out = main.global_block().create_var(name="out", dtype="float32")
        op = main.global_block().append_op(
            "conv2d", {"Input": x, "Filter": w}, {"Output": out}, {"groups": None}
        )
        assert not op.has_attr("groups")
        assert out.shape == (-1, 6, 6, 6)


def test_a_sequence_in_an_array_before_the_loader_starts() -> None:
    """Building needs no batch: the first element's lengths are an array of their own."""
    with fresh() as main:
        x = fluid.data("x", [None, 1], "int64", lod_level=1)
        fluid.io.DataLoader.from_generator([x], 2, iterable=False)
        at = fluid.layers.fill_constant([1], "int64", 0)
        made = fluid.layers.array_write(x, at)
        fluid.layers.array_write(x, at, made)
        assert sum(op.type == "write_to_array" for op in main.global_block().ops) == 4
        assert bool(x == at)
        assert fluid.layers.core is fluid.core


def test_a_rate_put_into_the_map_is_used() -> None:
    with fresh() as main:
        weight = fluid.layers.create_parameter([1], "float32", name="w")
        rate = fluid.layers.create_global_var([1], 0.5, "float32", persistable=True)
        sgd = fluid.optimizer.SGD(0.1)
        sgd._learning_rate_map[main] = rate
        sgd.minimize(fluid.layers.reduce_sum(weight))
        assert sgd._global_learning_rate() is rate
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        before, after = (exe.run(main, {}, [weight])[0] for _ in range(2))
    np.testing.assert_allclose(before - after, [0.5], 1e-6)


def test_warnings_of_saved_models(tmp_path: Path) -> None:
    """Saving warns of a model without parameters, and of one with the counts of auc."""
    exe = fluid.Executor(fluid.CPUPlace())
    with fresh():
        out = fluid.data("x", [None, 1]) + 1.0
        with pytest.warns(UserWarning, match="no variable in your model"):
            fluid.io.save_inference_model(str(tmp_path / "plain"), ["x"], [out], exe)
    with fresh():
        scores = layers.softmax(layers.fc(fluid.data("x", [None, 2]), 2))
        layers.auc(scores, fluid.data("y", [None, 1], "int64"))
        exe.run(fluid.default_startup_program())
        with pytest.warns(UserWarning, match="you have set the auc states to zeros"):
            fluid.io.save_inference_model(str(tmp_path / "auc"), ["x"], [scores], exe)
