"""Random programs with explicit gradients agree, raised and operator by operator.

The backward pass is the standard one, with one change at most: a gradient scaled or set to zero on
its way, or left out of a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Operator, Program
from graphopt.ir.translate.gradients.backward_pass import BackwardPass, NotStandard
from graphopt_tests.example_counts import examples

Array = np.ndarray[Any, Any]
SIZE = 3
LEAVES = ("w0", "w1", "x")
UNARY = ("tanh", "relu", "scale", "assign")
BINARY = ("elementwise_add", "elementwise_mul", "matmul_v2", "sum")


class Builder:
    """A program as read from a file, with its backward pass."""

    def __init__(self) -> None:
        self.program = Program()
        self.block = self.program.global_block()
        self.parts: dict[str, list[str]] = {}
        for name in LEAVES:
            self.declare(name)

    def declare(self, name: str) -> str:
        if not self.block.has_var(name):
            shape = () if name.startswith("loss") else (SIZE, SIZE)
            self.block.create_var(name, shape, "float32")
        return name

    def add(self, type: str, inputs: Any, outputs: Any, **attrs: Any) -> None:
        for names in (*inputs.values(), *outputs.values()):
            for name in names:
                self.declare(name)
        self.block.ops.append(Operator(self.block, type, inputs, outputs, attrs))

    def forward(self, steps: Sequence[tuple[str, int, int]]) -> None:
        known = list(LEAVES)
        for number, (type, a, b) in enumerate(steps):
            x, y, out = known[a % len(known)], known[b % len(known)], f"v{number}"
            if type in UNARY:
                attrs = {"scale": 0.5, "bias": 0.25} if type == "scale" else {}
                self.add(type, {"X": [x]}, {"Out": [out]}, **attrs)
            elif type == "sum":
                self.add(type, {"X": [x, y]}, {"Out": [out]})
            else:
                self.add(type, {"X": [x], "Y": [y]}, {"Out": [out]})
            known.append(out)
        flat = {"dim": [], "reduce_all": True}
        self.add("reduce_mean", {"X": [known[-1]]}, {"Out": ["loss"]}, **flat)
        self.last = known[-1]

    def backward(self, stopped: frozenset[str]) -> None:
        forward = list(self.block.ops[:-1])
        self.add("fill_constant", {}, {"Out": ["loss@GRAD"]}, shape=[], value=1.0, dtype=5)
        self.add(
            "reduce_mean_grad",
            {"X": [self.last], "Out@GRAD": ["loss@GRAD"]},
            {"X@GRAD": [self.part(self.last)]},
            dim=[],
            reduce_all=True,
        )
        for op in reversed(forward):
            (out,) = op.output("Out")
            if out in stopped or out not in self.parts:
                continue
            self.derive(op, self.total(out))
        for name in LEAVES:
            if name in self.parts:
                self.total(name)

    def part(self, name: str) -> str:
        parts = self.parts.setdefault(name, [])
        parts.append(f"{name}@GRAD@RENAME@{len(parts)}")
        return parts[-1]

    def total(self, name: str) -> str:
        self.add("sum", {"X": self.parts[name]}, {"Out": [f"{name}@GRAD"]})
        return f"{name}@GRAD"

    def derive(self, op: Operator, gradient: str) -> None:
        if op.type in ("tanh", "relu"):
            given = {"Out": op.output("Out"), "Out@GRAD": [gradient]}
            self.add(f"{op.type}_grad", given, {"X@GRAD": [self.part(op.input("X")[0])]})
        elif op.type in ("scale", "assign"):
            attrs = {"scale": 0.5, "bias": 0.0} if op.type == "scale" else {}
            self.add(op.type, {"X": [gradient]}, {"Out": [self.part(op.input("X")[0])]}, **attrs)
        elif op.type == "sum":
            for name in op.input("X"):
                self.add("scale", {"X": [gradient]}, {"Out": [self.part(name)]}, scale=1.0)
        else:
            (x,), (y,) = op.input("X"), op.input("Y")
            given = {"X": [x], "Y": [y], "Out@GRAD": [gradient]}
            made = {"X@GRAD": [self.part(x)], "Y@GRAD": [self.part(y)]}
            self.add(f"{op.type}_grad", given, made)

    def change(self, how: str, where: int) -> None:
        """Insert one change after one of the gradient operators."""
        ops = self.block.ops
        start = next(i for i, op in enumerate(ops) if op.type == "reduce_mean_grad")
        at = start + where % (len(ops) - start)
        names = ops[at].output_arg_names
        name = names[where % len(names)]
        slots = {"X": [name]}, {"Out": [name]}
        if how == "double":
            ops.insert(at + 1, Operator(self.block, "scale", *slots, {"scale": 2.0}))
        elif how == "zero":
            ops.insert(at + 1, Operator(self.block, "fill_zeros_like", *slots, {}))
        elif how == "leave out":
            long = [op for op in ops[start:] if op.type == "sum" and len(op.input("X")) > 1]
            if long:
                long[where % len(long)].inputs["X"].pop()


def run(program: Program, fetches: Sequence[str]) -> list[Array]:
    rng = np.random.default_rng(5)
    feed = {n: rng.standard_normal((SIZE, SIZE)).astype(np.float32) for n in LEAVES}
    executor = static.Executor(paddle.CPUPlace())
    return executor.run(program, feed=feed, fetch_list=list(fetches))


STEPS = st.lists(
    st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 20), st.integers(0, 20)),
    min_size=2,
    max_size=8,
)


@settings(max_examples=examples(12))
@given(
    steps=STEPS,
    stopped=st.frozensets(st.sampled_from([f"v{i}" for i in range(8)]), max_size=2),
    how=st.sampled_from(["nothing", "double", "zero", "leave out"]),
    where=st.integers(0, 40),
    middle=st.booleans(),
)
def test_raised_and_single_agree(
    steps: list[tuple[str, int, int]],
    stopped: frozenset[str],
    how: str,
    where: int,
    middle: bool,
) -> None:
    builder = Builder()
    builder.forward(steps)
    builder.backward(stopped - {builder.last})
    builder.change(how, where)
    written = {n for op in builder.block.ops for n in op.output_arg_names}
    fetches = [f"{name}@GRAD" for name in LEAVES if f"{name}@GRAD" in written]
    if middle:
        fetches += sorted(n for n in written if n.startswith("v") and n.endswith("@GRAD"))[:2]
    if not fetches:
        return
    raised = run(builder.program, fetches)

    def refuse(self: BackwardPass) -> Any:
        raise NotStandard("for this test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BackwardPass, "raise_derivative", refuse)
        single = run(builder.program.clone(), fetches)
    for name, one, other in zip(fetches, raised, single, strict=True):
        largest = float(np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * largest, err_msg=name)
