"""Names of fluid.core that scripts choose devices, variables and scopes by."""

from __future__ import annotations

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
