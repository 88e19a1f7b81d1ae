"""`graphopt-opt --numerics`: how far each pass moves the results, and the budget for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from graphopt.cli.opt import main
from graphopt.debug.numerics import error_of, inputs_for, measure
from graphopt.errors import FeedError
from graphopt.ir.dialect.ops.activation import Gelu
from graphopt.passes.cleanup.fold_identity import FoldIdentity
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, replace
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.target.fold_batch_norm import FoldBatchNorm
from graphopt.testing import parse

PROGRAM = """builtin.module {
  func.func @main(%x: tensor<?x4xf32> {pd.feed = "x"}, %w: tensor<4x3xf32> {pd.state = "w"}, %b: tensor<3xf32> {pd.state = "b"}) -> (tensor<?x3xf32> {pd.fetch = "y"}) {
    %p = pd.matmul(%x, %w) : (tensor<?x4xf32>, tensor<4x3xf32>) -> tensor<?x3xf32>
    %a = pd.add(%p, %b) : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
    %g = pd.gelu(%a) : tensor<?x3xf32>
    %y = pd.scale(%g) : tensor<?x3xf32>
    func.return %y : tensor<?x3xf32>
  }
}
"""  # noqa: E501


@dataclass(frozen=True)
class TanhGelu(RewritePass):
    """The cheaper formula of gelu."""

    name = "tanh-gelu"
    numerics = Numerics.APPROXIMATE

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in [op for op in module.walk() if isinstance(op, Gelu)]:
            log.applied(op)
            new = Gelu.make(op.operands[0], approximate=True)
            assert op.parent is not None
            op.parent.insert_op_before(new, op)
            replace(op, {op.results[0]: new.results[0]}, log)
        return log.outcomes


def data() -> dict[str, Any]:
    generator = np.random.default_rng(3)
    shapes = {"x": (5, 4), "w": (4, 3), "b": (3,)}
    return {name: generator.normal(size=s).astype(np.float32) for name, s in shapes.items()}


def test_each_pass_is_measured() -> None:
    """A bit-exact pass moves no result; another formula moves the results slightly."""
    numbers = measure(parse(PROGRAM), [FoldIdentity(), TanhGelu(), FoldBatchNorm()], data())
    exact, approximate = numbers.passes
    assert (exact.pass_name, exact.claim, exact.times) == ("fold-identity", "bit-exact", 1)
    assert exact.unfused.abs == 0
    assert exact.float64 == numbers.unfused
    assert numbers.unfused is not None
    # gelu's negative side has few digits, and so many units in the last place of its own
    assert 0 < numbers.unfused.abs < 1e-6
    assert 0 < numbers.unfused.ulp < 512
    assert 1e-6 < approximate.unfused.abs < 1e-3
    assert approximate.float64 is not None
    assert approximate.float64.abs == pytest.approx(approximate.unfused.abs, rel=1e-2)
    assert approximate.unfused.result == "pd.fetch y"
    assert "tanh-gelu" in numbers.text()


def test_budget() -> None:
    """A pass over the budget is switched off, and later passes are measured without it."""
    passes = [TanhGelu(), FuseGemmEpilogue()]
    numbers = measure(parse(PROGRAM), passes, data(), budget=1e-7)
    assert numbers.switched_off == {"tanh-gelu"}
    assert measure(parse(PROGRAM), passes, data(), budget=1e-2).switched_off == set()
    fused = numbers.passes[1]
    assert fused.float64 is not None
    assert fused.float64.rel < 1e-6


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command reads data from a file, prints JSON, and prints the optimized program."""
    program, file = tmp_path / "program.mlir", tmp_path / "data.npz"
    program.write_text(PROGRAM)
    np.savez(file, **data())
    options = ["--numerics", "--data", str(file), "--explain-format", "json"]
    strategy = ["--build-strategy", "fuse_gemm_epilogue"]
    assert main([str(program), *strategy, *options]) == 0
    out, err = capsys.readouterr()
    assert "pd.fused_gemm_epilogue" in out
    told = json.loads(err)
    assert told["schema"] == 1
    assert [p["pass"] for p in told["passes"]] == ["fold-identity", "fuse-gemm-epilogue"]
    assert told["data"] == str(file)


def test_budget_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pass that is switched off is named, and its rewrites are not in the program."""
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    # no error is below a negative budget
    options = ["-p", "fuse-gemm-epilogue", "--numerics-budget=-1"]
    assert main([str(program), *options]) == 0
    out, err = capsys.readouterr()
    assert "pd.fused_gemm_epilogue" not in out
    assert "fuse-gemm-epilogue is switched off" in err


def test_data_has_to_fit(tmp_path: Path) -> None:
    """A wrong name, dtype or shape is an error; a missing feed is random, of the same batch."""
    module = parse(PROGRAM)
    for array, message in (
        (np.zeros((2, 5), np.float32), "'x' should be"),
        (np.zeros((2, 4), np.float64), "'x' should be"),
    ):
        np.savez(tmp_path / "bad.npz", x=array)
        with pytest.raises(FeedError, match=message):
            inputs_for(module, str(tmp_path / "bad.npz"))
    np.savez(tmp_path / "bad.npz", q=np.zeros(2))
    with pytest.raises(FeedError, match="contains 'q'"):
        inputs_for(module, str(tmp_path / "bad.npz"))
    np.savez(tmp_path / "w.npz", w=np.ones((4, 3), np.float32))
    found, told = inputs_for(module, str(tmp_path / "w.npz"))
    assert found["w"].all()
    assert found["x"].shape[1] == 4
    assert "random data for 2 inputs" in told


def test_errors() -> None:
    """Errors are absolute, relative to the largest element, and in units in the last place."""
    wanted = np.array([1.0, 4.0, np.inf, np.nan], np.float32)
    found = wanted.copy()
    found[1] = np.nextafter(np.float32(4), np.float32(5))
    error = error_of({"y": found}, {"y": wanted})
    assert error is not None
    assert (error.ulp, error.abs) == (1.0, 2.0**-21)
    assert error.rel == pytest.approx(2.0**-23)
    half = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    error = error_of({"y": half}, {"y": half.astype(np.float64) * (1 + 2.0**-7)})
    assert error is not None
    assert error.ulp == 1.0
    found[2] = 1
    assert error_of({"y": found}, {"y": wanted}).abs == np.inf  # pyright: ignore
