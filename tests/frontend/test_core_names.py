"""Names of fluid.core that scripts use to choose devices, variables and scopes."""

from __future__ import annotations

import importlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, pir_utils, static
from graphopt.errors import UnsupportedError
from graphopt.fluid import backward, core, framework
from graphopt_tests.frontend.programs import fresh, start


def test_device_types_are_told_apart() -> None:
    kinds = core.DeviceType
    assert len({kinds.CPU, kinds.CUDA, kinds.XPU}) == 3


def test_dense_tensors_are_those_of_older_programs() -> None:
    kinds = core.VarDesc.VarType
    assert kinds.DENSE_TENSOR == kinds.LOD_TENSOR
    assert kinds.DENSE_TENSOR_ARRAY == kinds.LOD_TENSOR_ARRAY
    assert fluid.DenseTensor is core.DenseTensor is core.LoDTensor
    assert fluid.DenseTensorArray is core.DenseTensorArray is core.LoDTensorArray


def test_a_scope_counts_its_own_variables() -> None:
    scope = core.Scope()
    scope.var("a")
    assert (scope.size(), scope.new_scope().size()) == (1, 0)


def test_flags_read_and_write_as_a_dict() -> None:
    flags = core.globals()
    assert "FLAGS_check_nan_inf_level" in flags
    assert flags.get("FLAGS_no_such", 3) == 3
    with pytest.raises(RuntimeError, match="not writable"):
        flags["FLAGS_free_idle_chunk"] = True
    core._set_eager_deletion_mode(2.0, 0.5, False)
    assert flags["FLAGS_eager_delete_tensor_gb"] == 2.0


def test_a_variable_of_a_scope_holds_a_whole_number() -> None:
    variable = core.Scope().var("n")
    assert not variable.is_int()
    variable.set_int(10)
    assert variable.is_int()
    assert variable.get_int() == 10
    variable.get_tensor().set(np.ones(2, "int64"))
    with pytest.raises(TypeError, match="'n'"):
        variable.get_int()


def test_a_compiled_program_is_bound_once() -> None:
    program = static.CompiledProgram(static.Program())
    scope = core.Scope()
    assert program._compile(scope, core.CPUPlace()) is program
    with pytest.raises(ValueError, match="different scope"):
        program._compile(core.Scope(), core.CPUPlace())


def test_what_devices_support() -> None:
    """Only GPUs support half types, as in Paddle."""
    assert not core.is_float16_supported(core.CPUPlace())
    assert core.is_bfloat16_supported(core.CUDAPlace(0))
    assert not paddle.amp.is_bfloat16_supported("cpu")
    assert not core.supports_bfloat16() and not core.supports_int8()
    assert core.op_support_gpu("relu") == core.is_compiled_with_cuda()
    assert (core.grad_var_suffix(), core.empty_var_name()) == ("@GRAD", "@EMPTY@")


def test_switches_of_primitives() -> None:
    """Each switch keeps its value."""
    core._set_prim_all_enabled(True)
    assert core._is_all_prim_enabled() and core._is_fwd_prim_enabled()
    core._set_prim_backward_enabled(False)
    assert not core._is_all_prim_enabled() and not core._is_bwd_prim_enabled()
    core.set_prim_eager_enabled(True)
    assert core._is_eager_prim_enabled()
    core.set_prim_eager_enabled(False)
    core._set_prim_forward_enabled(False)
    assert not core._is_fwd_prim_enabled()


def test_modes_and_guards() -> None:
    """Every function reports static mode; the guards for both IRs build the same program twice."""
    assert paddle.pir_utils is pir_utils
    assert not framework.in_pir_mode() and not framework.use_pir_api()
    assert framework._current_expected_place() == core.CPUPlace()
    assert framework._dygraph_tracer() is None
    built: list[list[str]] = []

    @pir_utils.test_with_pir_api
    def build() -> None:
        with static.program_guard(static.Program()):
            out = paddle.tensor.exp(static.data("x", [2], "float32"))
        built.append([op.type for op in out.block.ops])
        with pytest.raises(UnsupportedError), framework._dygraph_guard(object()):
            pass

    build()
    assert built == [["exp"], ["exp"]]
    before = static.default_main_program()
    with pir_utils.IrGuard():
        assert static.default_main_program() is not before
    assert static.default_main_program() is before
    with pir_utils.OldIrGuard(), pir_utils.DygraphOldIrGuard():
        assert static.default_main_program() is before
    paddle.disable_static()
    try:
        with pir_utils.OldIrGuard():
            assert not paddle.in_dynamic_mode()
        with pir_utils.DygraphPirGuard():
            assert paddle.in_dynamic_mode() and static.default_main_program() is not before
        with pir_utils.DygraphOldIrGuard():
            assert paddle.in_dynamic_mode() and static.default_main_program() is before
        with framework._dygraph_guard(None):
            framework.static_only(build)()
        with pytest.raises(UnsupportedError):
            framework.static_only(build)()
    finally:
        paddle.enable_static()


def test_programs_under_the_names_of_paddle_3() -> None:
    """A paddle.pir Value is a Variable, and paddle.pir has static's default programs."""
    assert not fluid.in_pir_mode() and not fluid.in_dynamic_or_pir_mode()
    with paddle.pir.core.program_guard(paddle.pir.Program()):
        x = static.data("x", [2], framework.convert_np_dtype_to_proto_type(np.float64))
        assert static.default_main_program() is paddle.pir.core.default_main_program()
    assert isinstance(x, paddle.pir.Value) and isinstance(x.block, paddle.pir.Block)
    assert x.dtype == core.DataType.FLOAT64 == paddle.pir.core.DataType.FLOAT64
    with pytest.raises(UnsupportedError, match=r"Instead: static\.BuildStrategy"):
        paddle.pir.PassManager()


def test_names_that_paddle_offers_in_two_places() -> None:
    """paddle.tensor has paddle's functions, and nn.layer the layers of nn."""
    assert paddle.tensor.matmul(*[paddle.ones([2, 2])] * 2).shape == (2, 2)
    assert paddle.nn.layer.MaxPool2D is paddle.nn.MaxPool2D
    assert paddle.nn.loss.CrossEntropyLoss is paddle.nn.CrossEntropyLoss
    pool = static.nn.sequence_lod.sequence_pool
    assert pool.__name__ == static.nn.sequence_pool.__name__
    with static.program_guard(static.Program()):
        x = static.data("x", [2], "float32")
        x.stop_gradient = False
        (found,) = paddle.autograd.ir_backward.grad(paddle.exp(x), x)
    assert found.name == "x@GRAD"
    with pytest.raises(UnsupportedError, match="static_pylayer"):
        paddle.autograd.PyLayer()


@pytest.mark.parametrize(
    "path",
    [
        *("tensor.math.count_nonzero", "tensor.linalg.qr", "tensor.logic.is_tensor"),
        *("tensor.ops.sigmoid", "tensor.sigmoid_", "tensor.ceil_", "tensor.svd"),
        *("nn.functional.loss.kl_div", "nn.functional.extension.diag_embed"),
        *("nn.layer.loss.HingeEmbeddingLoss", "nn.layer.distance.PairwiseDistance"),
        *("optimizer.lr.exponential_decay", "optimizer.lr.linear_lr_warmup"),
        *("distributed.transpiler.memory_optimize", "nn.initializer.xavier.XavierInitializer"),
        *("static.nn.common.row_conv", "static.nn.metric.accuracy", "metric.metrics.Accuracy"),
    ],
)
def test_functions_are_found_in_the_files_of_paddle(path: str) -> None:
    """Functions are found under the module of Paddle's file, even if graphopt has another."""
    module, _, name = path.rpartition(".")
    assert callable(getattr(importlib.import_module(f"graphopt.{module}"), name))


def test_operators_of_dynamic_mode_can_be_imported() -> None:
    operators = importlib.import_module("graphopt.frontend.eager_operators")
    assert paddle._C_ops is operators._C_ops
    with pytest.raises(UnsupportedError, match=r"no paddle\._legacy_C_ops"):
        paddle._legacy_C_ops.relu(1)


def test_element_types_have_their_numbers() -> None:
    kinds = core.VarDesc.VarType
    assert [int(kinds.BF16), int(kinds.COMPLEX64), int(kinds.COMPLEX128)] == [22, 23, 24]


def test_a_seed_is_an_integer() -> None:
    with pytest.raises(ValueError, match="must be an integer, but received str"):
        static.Program().random_seed = "seed"  # type: ignore[assignment]


def test_a_setting_without_a_seed_is_seed_zero() -> None:
    assert paddle.seed(False).initial_seed() == 0


def test_a_file_finds_nothing_private_in_its_package() -> None:
    with pytest.raises(AttributeError, match="_STUB"):
        paddle.tensor.math._STUB  # noqa: B018
    with pytest.raises(AttributeError, match=r"'graphopt.tensor.math' has no attribute 'methods'"):
        paddle.tensor.math.methods  # noqa: B018


def test_a_scope_is_deleted_once() -> None:
    scope = core.Scope()
    scope.var("a")
    scope._remove_from_pool()
    assert scope.find_var("a") is None
    with pytest.raises(RuntimeError, match="Deleting a nonexistent scope is not allowed"):
        scope._remove_from_pool()


def test_wishes_of_an_operator_are_kept() -> None:
    with static.program_guard(static.Program()):
        op: Any = paddle.exp(static.data("x", [2], "float32")).block.ops[-1]
    assert (op.dist_attr.op_type, op.dist_attr.scheduling_priority) == ("exp", 0)
    op.dist_attr.run_time_us = 1.5
    assert op.dist_attr.run_time_us == 1.5


def test_the_type_of_a_gradient_is_that_of_its_variable() -> None:
    block = static.Program().global_block()
    block.create_var("x", [3], "float64")
    gradient = block.create_var("x@GRAD")
    backward._infer_var_data_type_shape_("x@GRAD", block)
    assert (gradient.shape, gradient.dtype) == ((3,), "float64")
    alone = block.create_var("y@GRAD", [2], "float64")
    with pytest.warns(UserWarning, match="default FP32"):
        backward._infer_var_data_type_shape_("y@GRAD", block)
    assert alone.dtype == "float32"


def test_what_saving_asks(tmp_path: Path) -> None:
    """Functions for saving classify variables, files and buffers."""
    with fresh() as (main, _):
        w = static.create_parameter([2], "float32", name="w")
        paddle.optimizer.Momentum(0.1).minimize(paddle.sum(w * w))
        io = paddle.framework.io_utils
        state = [v.name for v in main.list_vars() if io.is_belong_to_optimizer(v)]
        assert state == ["learning_rate_0", "w_velocity_0"]
        assert io.is_parameter(w) and io.is_persistable(w) and not io.is_pir_fetch_var(w)
        assert [v.name for v in static.io.get_program_persistable_vars(main)] == ["w", *state]
        start()
        files = paddle.distributed.io
        files.save_persistables(static.Executor(), str(tmp_path / "saved"), main)
        before = np.array(static.global_scope().find_var("w").get_tensor())
        static.global_scope().find_var("w").get_tensor().set(before + 1, core.CPUPlace())
        files.load_persistables(static.Executor(), str(tmp_path / "saved"), main)
        after = np.array(static.global_scope().find_var("w").get_tensor())
        np.testing.assert_array_equal(after, before)
    with io._open_file_buffer(str(tmp_path / "f"), "wb") as file:
        file.write(b"abc")
    buffer = BytesIO(b"abc")
    with pytest.raises(KeyError), io._open_file_buffer(buffer, "rb") as found:
        assert found.read(2) == b"ab"
        raise KeyError
    assert buffer.tell() == 0
    with pytest.raises(ValueError, match="'r' or 'w'"):
        io._open_file_buffer(buffer, "b")
