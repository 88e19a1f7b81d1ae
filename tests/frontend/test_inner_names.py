"""Inner names of Paddle 1.8 that tools use: tensors, places, records, loaders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import fluid
from graphopt.fluid import backward, core, framework, layer_helper, layers
from graphopt_tests.frontend.test_fluid import fresh


def test_tensors_are_allocated_and_written_by_element() -> None:
    tensor: Any = fluid.Scope().var("x").get_tensor()
    tensor._set_dims([2, 3])
    tensor._alloc_double(fluid.CPUPlace())
    tensor._set_double_element(4, 2.5)
    assert tensor._get_double_element(4) == 2.5
    assert (tensor.shape(), tensor._dtype()) == ([2, 3], core.VarDesc.VarType.FP64)
    assert np.array(tensor[1, 1:]).tolist() == [2.5, 0.0]
    tensor._set_dims([3, 2])
    assert np.array(tensor)[2].tolist() == [2.5, 0.0]
    assert core.LoDTensor(np.zeros(2))._place()._equals(fluid.CPUPlace())


def test_a_general_place_becomes_another() -> None:
    place = core.Place()
    place.set_place(fluid.CUDAPlace(1))
    assert (place.is_gpu_place(), place.gpu_device_id()) == (True, 1)
    assert place._type() == fluid.CUDAPlace(0)._type() != fluid.CPUPlace()._type()
    assert place._equals(fluid.CUDAPlace(1))


def test_default_programs_are_switched() -> None:
    with fresh():
        other = fluid.Program()
        before = framework.switch_main_program(other)
        assert fluid.default_main_program() is other
        assert framework.switch_main_program(before) is other
        start = framework.switch_startup_program(other)
        assert framework.switch_startup_program(start) is other


def test_records_without_a_program() -> None:
    records: Any = core
    program = records.ProgramDesc()
    inner = program.append_block(program.block(0))
    assert (inner.id, inner.parent, program.num_blocks()) == (1, 0, 2)
    op = program.block(0).append_op()
    op.set_block_attr("sub_block", inner)
    op._set_attr("axis", 1)
    assert op._block_attr_id("sub_block") == 1
    assert op.attr_type("axis") == core.AttrType.INT


def test_parameters_take_what_variables_take() -> None:
    block = fluid.Program().global_block()
    kind = core.VarDesc.VarType.LOD_TENSOR
    made = block.create_parameter(name="w", shape=[2], dtype="float32", lod_level=0, type=kind)
    assert (made.persistable, made.is_parameter, made.lod_level) == (True, True, 0)


def test_programs_are_pruned_to_targets() -> None:
    with fresh():
        x = fluid.data("x", [2, 2])
        y = layers.relu(x)
        z = layers.sqrt(y)
        layers.exp(x)
        program: Any = fluid.default_main_program()
        kept = program._prune_with_input([y.name], [z])
        assert [op.type for op in kept.global_block().ops] == ["sqrt"]
        for feeds, targets in ([y], [z]), ([], [None]), ([], ["nothing"]):
            with pytest.raises(ValueError, match=r"_prune_with_input|associated operator"):
                program._prune_with_input(feeds, targets)
        assert set(kept.global_block().vars) == {y.name, z.name}
        assert backward._get_stop_gradients_(program) == {0: {"x@GRAD"}}
    assert backward._as_list(None) == []
    assert backward._strip_grad_suffix_(backward._append_grad_suffix_("x")) == "x"


def test_readers_of_feeds_for_places() -> None:
    with fresh():
        feeder = fluid.DataFeeder([fluid.data("x", [None, 1])], fluid.CPUPlace())
        batches = [[(number,)] for number in range(3)]
        feeds = list(feeder.decorate_reader(lambda: batches, True, 2)())
        assert [[np.array(feed["x"]).tolist() for feed in group] for group in feeds] == [
            [[[0]], [[1]]]
        ]
        assert len(list(feeder.decorate_reader(lambda: batches, False)())) == 3
        with pytest.raises(ValueError, match="1 batches are left for 2 places"):
            list(feeder.decorate_reader(lambda: batches, True, 2, drop_last=False)())


def test_an_epoch_of_an_iterable_loader_is_ended() -> None:
    with fresh():
        loader = fluid.io.PyReader([fluid.data("x", [None, 1])], 2, iterable=True)
        loader.decorate_batch_generator(
            lambda: iter([[np.zeros((1, 1), "float32")]] * 100), places=fluid.CPUPlace()
        )
        seen = 0
        for _ in loader():
            seen += 1
            if seen == 2:
                loader._loader._reset()
        assert seen == 2


def test_weight_decay_by_itself() -> None:
    with fresh() as main:
        y = layers.mean(layers.fc(fluid.data("x", [2, 2]), 1, bias_attr=False))
        pairs = fluid.backward.append_backward(y)
        before = len(main.global_block().ops)
        decay = fluid.regularizer.L1Decay(0.5)
        ((parameter, grad),) = fluid.regularizer.append_regularization_ops(pairs, decay)
        made = [op.type for op in main.global_block().ops[before:]]
        assert (parameter, grad) == pairs[0]
        assert made == ["sign", "scale", "sum"]


def test_the_state_of_an_optimizer_is_emptied() -> None:
    optimizers: Any = fluid.optimizer
    with fresh():
        optimizer = optimizers.Adam(0.1)
        optimizer.minimize(layers.mean(layers.fc(fluid.data("x", [2, 2]), 1)))
        assert optimizer._accumulators
        with pytest.raises(ValueError, match="emptied only"):
            optimizer._accumulators = {"moment": {}}
        optimizer._accumulators = {}
        assert not optimizer._accumulators


def test_tensors_as_arrays() -> None:
    tensor = core.LoDTensor(np.ones(2), [[1, 1]])
    plain = core.LoDTensor(np.ones(2))
    assert fluid.executor.as_numpy([plain])[0].tolist() == [1, 1]
    assert fluid.executor.as_numpy(core.LoDTensor()) is None
    with pytest.raises(RuntimeError, match="LoD information"):
        fluid.executor.as_numpy(tensor)


def test_the_operator_data_hands_out_a_feed() -> None:
    """The fed variable has the operator's `name` and shape."""
    with fresh():
        helper = layer_helper.LayerHelper("data")
        out = helper.create_variable_for_type_inference("float32")
        attrs = {"shape": [-1, 2], "dtype": 0, "place": 0, "name": "fed"}
        helper.append_op(type="data", inputs={}, outputs={"out": out}, attrs=attrs)
        assert (out.shape, out.dtype) == ((-1, 2), "float32")
        doubled = layers.scale(out, 2.0)
        found = fluid.Executor(fluid.CPUPlace()).run(
            feed={"fed": np.ones((3, 2), "float32")}, fetch_list=[doubled]
        )
    np.testing.assert_array_equal(found[0], np.full((3, 2), 2.0))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("x@GRAD", "x"),
        ("x@GRAD@GRAD", "x"),
        ("x@GRAD@RENAME@1", "x"),
        ("x@GRAD_slice_0@GRAD", "x@GRAD_slice_0"),
        ("grad/grad/x@GRAD@RENAME@block0@1@GRAD", "x"),
    ],
)
def test_the_variable_of_a_gradient(name: str, source: str) -> None:
    assert fluid.backward._strip_grad_suffix_(name) == source
