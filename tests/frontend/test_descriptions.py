"""Programs as Paddle's records (`desc`), and pruned programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import ProgramError
from graphopt_tests.frontend.programs import fresh


def test_operators_have_descriptions_and_programs_are_pruned() -> None:
    """An operator's record has methods; a program is pruned to the producers of targets."""
    with fresh() as (main, _):
        x = static.data("x", [2, 2], "float32")
        y = paddle.tanh(x * 2.0)
        paddle.exp(x)
        loss = paddle.mean(static.nn.fc(y, 1))
        paddle.optimizer.SGD(0.1).minimize(loss)
    record = main.global_block().ops[0].desc
    assert (record.type(), record.input("X")) == ("scale", ["x"])
    assert record.output_arg_names() == ["tmp_0"]
    assert record.has_attr("scale") and record.attr("scale") == 2.0
    assert "scale" in record.attr_names() and "X" in record.input_names()
    record._rename_output("tmp_0", "other")
    assert main.global_block().ops[0].output("Out") == record.output("Out") == ["other"]
    record._rename_output("other", "tmp_0")
    for target in (y, [y], y.name):
        assert [op.type for op in main._prune(target).global_block().ops] == ["scale", "tanh"]
    kept = main._prune([main.global_block().ops[2]]).global_block().ops
    assert [op.type for op in kept] == ["exp"]


def layer() -> Any:
    """Build a program of fluid with one layer, and return the layer's result."""
    return fluid.layers.fc(fluid.layers.data("x", [3]), 2)


def test_records_of_a_program_its_blocks_and_variables() -> None:
    """The records of a program equal those of Paddle 1.8.5."""
    with fresh() as (main, _):
        y = layer()
        record, block = main.desc, main.global_block().desc
        assert (record.num_blocks(), record.block(0), block.op_size()) == (1, block, 2)
        assert [op.type() for op in map(block.op, range(2))] == ["mul", "elementwise_add"]
        assert (block.id, block.parent) == (0, -1)
        assert {v.name() for v in block.all_vars()} == {
            *("fc_0.tmp_1", "fc_0.b_0", "fc_0.tmp_0", "fc_0.w_0", "x")
        }
        assert block.has_var(b"x") and not block.has_var_recursive("z")
        assert block.find_var(b"z") is None and block.find_var_recursive("x").name() == "x"
        own, types = y.desc, fluid.core.VarDesc.VarType
        assert (own.name(), own.shape(), own.dtype()) == ("fc_0.tmp_1", [-1, 2], types.FP32)
        assert (own.type(), own.persistable(), own.lod_level()) == (types.LOD_TENSOR, False, 0)
        assert not main.global_block().var("x").desc.need_check_feed()
        op = block.op(0)
        assert op == main.global_block().ops[0].desc and len({op, block.op(0)}) == 1
        assert op.inputs() == {"X": ["x"], "Y": ["fc_0.w_0"]}
        assert op.outputs() == {"Out": ["fc_0.tmp_0"]}
        assert (op.attr_type("x_num_col_dims"), op.block()) == (0, block)
        again = static.Program.parse_from_string(record.serialize_to_string())
        assert [op.type for op in again.global_block().ops] == ["mul", "elementwise_add"]


def test_a_parameter_with_fewer_columns() -> None:
    """Pruning tools write other shapes to the records, and other arrays to the scope."""
    with fresh() as (main, _):
        out = fluid.layers.fc(layer(), 1, bias_attr=False)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feed = {"x": np.eye(3, dtype="float32")}
        exe.run(feed=feed, fetch_list=[out])
        kept: dict[str, Any] = {}
        for name, place in (("fc_0.w_0", (..., [1])), ("fc_0.b_0", [1]), ("fc_1.w_0", [1])):
            slot = fluid.global_scope().find_var(name).get_tensor()
            kept[name] = np.array(slot)[place]
            slot.set(kept[name], fluid.CPUPlace())
            main.global_block().var(name).desc.set_shape(kept[name].shape)
        for op in main.global_block().ops:
            op.desc.infer_shape(main.global_block().desc)
        assert main.global_block().var("fc_0.tmp_1").shape == (-1, 1)
        (value,) = exe.run(feed=feed, fetch_list=[out])
    np.testing.assert_allclose(value, kept["fc_0.w_0"] @ kept["fc_1.w_0"], 1e-6)


def test_operators_are_edited_through_their_records() -> None:
    with fresh() as (main, _):
        y = layer()
        block = main.global_block()
        block.append_op("tanh", {"X": y}, {"Out": block.create_var("z")})
        record = block.ops[2].desc
        record.set_type("exp")
        record.set_input("X", ["x"])
        record.set_output("Out", ["other"])
        block.desc.var("other")
        record.infer_shape(block.desc)
        twin = block.desc.append_op()
        twin.copy_from(record)
        twin._rename_output("other", "twin")
        block.desc.var("twin").set_persistable(True)
        twin.infer_shape()
        block._sync_with_cpp()
        assert [op.type for op in block.ops] == ["mul", "elementwise_add", "exp", "exp"]
        assert block.var("twin").persistable and block.var("twin").shape == (-1, 3)
        block.desc._remove_op(0, 2)
        block._remove_var("z")
        main.desc.flush()
        feed = {"x": np.zeros((1, 3), "float32")}
        for value in fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=["other", "twin"]):
            np.testing.assert_array_equal(value, np.ones((1, 3)))


def test_unknown_members_say_what_there_is() -> None:
    with fresh() as (main, _):
        y = layer()
        assert not hasattr(y.desc, "set_shapes")
        with pytest.raises(AttributeError, match=r"has no attribute 'set_shapes'.*set_shape, set"):
            y.desc.set_shapes([[1]])
        with pytest.raises(
            AttributeError, match=r"ProgramDesc has no attribute 'get_op_deps'.*num_blocks"
        ):
            main.desc.get_op_deps()
        main.global_block().var("fc_0.w_0").desc.set_shape([7, 2])
        with pytest.raises(ProgramError, match="mul"):
            main.global_block().ops[0].desc.infer_shape()


def test_the_digest_of_a_program_follows_its_edits() -> None:
    """Equal programs have equal digests, and an edit requires a new one."""
    with fresh() as (main, _):
        x = static.data("x", [2], "float32")
        paddle.scale(x, 2.0)
        desc: Any = main.desc
        assert desc.need_update()
        digest = desc.cached_hash_str()
        assert not main.desc.need_update()
        assert main.clone().desc.cached_hash_str() == digest
        main.global_block().ops[0]._set_attr("scale", 3.0)
        assert desc.need_update()
        assert desc.cached_hash_str() != digest
        paddle.exp(x)
        desc.flush()
        assert not desc.need_update()
