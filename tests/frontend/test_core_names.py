"""Names of fluid.core that scripts choose devices, variables and scopes by."""

from __future__ import annotations

import numpy as np
import pytest

from graphopt import static
from graphopt.fluid import core


def test_device_types_are_told_apart() -> None:
    kinds = core.DeviceType
    assert len({kinds.CPU, kinds.CUDA, kinds.XPU}) == 3


def test_dense_tensors_are_those_of_older_programs() -> None:
    kinds = core.VarDesc.VarType
    assert kinds.DENSE_TENSOR == kinds.LOD_TENSOR
    assert kinds.DENSE_TENSOR_ARRAY == kinds.LOD_TENSOR_ARRAY


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
