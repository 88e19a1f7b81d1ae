"""The base class of Paddle's tests of operators, on names that scripts may use.

A test sets `op_type`, `inputs`, `outputs` and `attrs`, and calls `check_output` or `check_grad`.
Here the operator is the only one of a program. Its outputs are compared with the test's, its
gradient with central differences at some of the elements. Runs under `graphopt run`, where
`paddle` is graphopt.
"""

from __future__ import annotations

import unittest
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.layer_helper import LayerHelper

PROBES = 24
"""How many elements of an input are moved to find its gradient."""

Array = np.ndarray[Any, Any]


def skip_check_grad_ci(reason: str | None = None) -> Any:
    """Mark a test of Paddle that checks no gradient."""
    return lambda test: test


skip_check_inplace_ci = skip_check_grad_ci


def _set_use_system_allocator(value: bool | None = None) -> bool:  # pyright: ignore[reportUnusedFunction]
    """Ignore the switch of Paddle's allocator, and return the old value, off."""
    return False


def randomize_probability(batch_size: int, class_num: int, dtype: str = "float32") -> Array:
    """Draw rows of positive numbers that add up to 1."""
    rows = np.random.uniform(0.1, 1.0, (batch_size, class_num))
    return (rows / rows.sum(1, keepdims=True)).astype(dtype)


def named(slots: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (slot, variable name, value) of the inputs or outputs of a test."""
    for slot, value in slots.items():
        several = isinstance(value, list) and value and isinstance(value[0], (tuple, list))
        if several and isinstance(value[0][0], str):
            yield from ((slot, name, part) for name, part in value)
        else:
            yield slot, slot, value


def rows_and_lengths(value: Any) -> tuple[Array, Any]:
    """Split a value into its array and the lengths of its sequences, if any."""
    if isinstance(value, tuple):
        return np.asarray(value[0]), value[1]
    return np.asarray(value), None


class OpTest(unittest.TestCase):
    """A test of one operator."""

    op_type: str
    dtype: Any = None
    inputs: dict[str, Any]
    outputs: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        np.random.seed(123)

    @staticmethod
    def get_sequence_batch_size_1_input(lod: Any = None, shape: Any = None) -> Any:
        """Draw the rows of one sequence, with its length."""
        lod, shape = lod or [[13]], shape or [13, 23]
        return np.random.uniform(0.1, 1, shape).astype("float32"), lod

    @staticmethod
    def get_sequence_instance_size_0_input(lod: Any = None, shape: Any = None) -> Any:
        """Draw the rows of sequences, several of them empty, with their lengths."""
        lod, shape = lod or [[0, 0, 4, 0, 3, 0, 0, 5, 0, 0]], shape or [12, 10]
        return np.random.uniform(0.1, 1, shape).astype("float32"), lod

    @staticmethod
    def np_dtype_to_fluid_dtype(input: Any) -> Any:
        """Return the array of a test unchanged, to be fed."""
        return input

    def _built(self, wanted: Sequence[str] | None = None) -> Any:
        """Build the program; return it with its feeds and the variables by name."""
        program = fluid.Program()
        block, feeds, variables = program.global_block(), {}, {}
        read: dict[str, list[Any]] = {}
        written: dict[str, list[Any]] = {}
        for slot, name, value in named(self.inputs):
            array, lengths = rows_and_lengths(value)
            dtype = str(array.dtype)
            feeds[name] = array
            if lengths:
                with fluid.program_guard(program, fluid.Program()):
                    rows = [-1, *array.shape[1:]]
                    made = fluid.data(name, rows, dtype, lod_level=len(lengths))
                feeds[name] = fluid.create_lod_tensor(array, lengths, fluid.CPUPlace())
            else:
                made = block.create_var(name=name, dtype=dtype, shape=array.shape)
            made.stop_gradient = False
            read.setdefault(slot, []).append(made)
            variables[name] = made
        for slot, name, value in named(self.outputs):
            array, lengths = rows_and_lengths(value)
            made = block.create_var(name=name, dtype=str(array.dtype), lod_level=len(lengths or ()))
            written.setdefault(slot, []).append(made)
            variables[name] = made
        attrs = dict(getattr(self, "attrs", None) or {})
        with fluid.program_guard(program, fluid.Program()):
            helper = LayerHelper(self.op_type)
            helper.append_op(type=self.op_type, inputs=read, outputs=written, attrs=attrs)
            if wanted is not None:
                parts = [fluid.layers.mean(variables[name]) for name in wanted]
                variables["loss"] = parts[0] if len(parts) == 1 else fluid.layers.sums(parts)
        return program, feeds, variables

    def check_output(
        self, atol: float = 1e-5, no_check_set: Any = None, *_: Any, **__: Any
    ) -> None:
        """Compare each output with the output that the test sets."""
        program, feeds, _variables = self._built()
        wanted = [
            (name, *rows_and_lengths(value))
            for _slot, name, value in named(self.outputs)
            if name not in (no_check_set or ()) and _slot not in (no_check_set or ())
        ]
        exe = fluid.Executor(fluid.CPUPlace())
        names = [name for name, _array, _lengths in wanted]
        found = exe.run(program, feed=feeds, fetch_list=names, return_numpy=False)
        for (name, array, lengths), value in zip(wanted, found, strict=True):
            got = np.array(value)
            if array.size == got.size and array.shape != got.shape:
                got = got.reshape(array.shape)
            np.testing.assert_allclose(got, array, 1e-5, atol, equal_nan=True, err_msg=name)
            if lengths:
                self.assertEqual(value.recursive_sequence_lengths(), lengths, name)

    def check_output_customized(self, checker: Any) -> None:
        """Pass the outputs to the test's own comparison."""
        program, feeds, _variables = self._built()
        names = [name for _slot, name, _value in named(self.outputs)]
        found = fluid.Executor(fluid.CPUPlace()).run(program, feed=feeds, fetch_list=names)
        checker(sorted((np.array(value) for value in found), key=len))

    def check_output_with_place(
        self, place: Any, atol: float = 1e-5, *given: Any, **more: Any
    ) -> None:
        """Check the outputs on the CPU, whatever the place."""
        self.check_output(atol, *given, **more)

    def check_grad(
        self,
        inputs_to_check: Sequence[str],
        output_names: Any,
        no_grad_set: Any = None,
        numeric_grad_delta: float = 0.005,
        in_place: bool = False,
        max_relative_error: float = 0.005,
        user_defined_grads: Any = None,
        *_: Any,
        **__: Any,
    ) -> None:
        """Compare the gradient of the mean of the outputs with differences."""
        wanted = [output_names] if isinstance(output_names, str) else list(output_names)
        program, feeds, variables = self._built(wanted)
        loss = variables["loss"]
        with fluid.program_guard(program, fluid.Program()):
            checked = [variables[name] for name in inputs_to_check]
            gradients = fluid.gradients(loss, checked)
        exe = fluid.Executor(fluid.CPUPlace())
        found = exe.run(program, feed=feeds, fetch_list=gradients)
        plain, _feeds, twins = self._built(wanted)

        def at(name: str, array: Array) -> float:
            value, given = array, feeds[name]
            if hasattr(given, "recursive_sequence_lengths"):
                lengths = given.recursive_sequence_lengths()
                value = fluid.create_lod_tensor(array, lengths, fluid.CPUPlace())
            fed = {**feeds, name: value}
            return float(exe.run(plain, feed=fed, fetch_list=[twins["loss"]])[0].reshape(()))

        for number, (name, gradient) in enumerate(zip(inputs_to_check, found, strict=True)):
            start = np.array(feeds[name])
            if user_defined_grads is not None:
                numeric = np.asarray(user_defined_grads[number]).ravel()
                probes = np.arange(numeric.size)
            else:
                count = min(start.size, PROBES)
                probes = np.random.RandomState(0).choice(start.size, count, False)
                numeric = np.array(
                    [self._slope(at, name, start, p, numeric_grad_delta) for p in probes]
                )
            exact = np.asarray(gradient).ravel()[probes]
            size = np.where(np.abs(numeric) < 1e-3, 1, np.abs(numeric))
            worst = float(np.max(np.abs(exact - numeric) / size, initial=0))
            self.assertLessEqual(worst, max_relative_error, f"the gradient of {name}")

    @staticmethod
    def _slope(at: Any, name: str, start: Array, probe: int, delta: float) -> float:
        ends: list[float] = []
        for sign in (1, -1):
            moved = start.copy()
            moved.flat[probe] += sign * delta
            ends.append(at(name, moved))
        return (ends[0] - ends[1]) / (2 * delta)

    def check_grad_with_place(self, place: Any, *given: Any, **more: Any) -> None:
        """Check the gradient on the CPU, whatever the place."""
        self.check_grad(*given, **more)
