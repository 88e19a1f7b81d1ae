"""Stochastic gradient descent, and its average over the latest gradients of several batches."""

from __future__ import annotations

from typing import Any

from graphopt.ir.program import Block, Operator, Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer, check_required


class SGD(Optimizer):
    """p -= lr * g (Paddle page: paddle.optimizer.SGD).

    With `multi_precision` a float16 or bfloat16 parameter is a copy of a float32 master weight.
    """

    operator = "sgd"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        check_required("SGD", learning_rate=learning_rate)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = bool(multi_precision)


class ASGD(Optimizer):
    """p -= lr / n * (the sum of the latest gradient of each of `batch_num` batches).

    n counts the steps up to `batch_num`. The state is `<parameter>_d_0` (the sum), `_y_0` (the
    gradients) and `_m_0` (the step). Raises ValueError unless `batch_num` is positive. Paddle
    page: paddle.optimizer.ASGD.
    """

    operator = "asgd"
    lower_slots = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        batch_num: int = 1,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        check_required("ASGD", learning_rate=learning_rate, batch_num=batch_num)
        if not batch_num > 0:
            raise ValueError("ASGD(): batch_num should be greater than 0")
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = bool(multi_precision)
        self._n = int(batch_num)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {"d": self.accumulator("d", parameter, widen=False)}

    def _batches(self, parameter: Parameter) -> tuple[Variable, Variable]:
        """Get the accumulator of every batch's latest gradient, and the step counter."""
        shape = [self._n, *parameter.shape]
        step = self.accumulator("m", parameter, shape=[1], dtype="int64")
        return self.accumulator("y", parameter, shape=shape, widen=False), step

    def create_accumulators(self, parameter: Parameter) -> None:
        self.state(parameter)
        self._batches(parameter)

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        from graphopt.tensor.creation import assign, full
        from graphopt.tensor.manipulation import cast, gather, reshape
        from graphopt.tensor.math import minimum, remainder
        from graphopt.tensor.positions import scatter

        total = self.state(parameter)["d"]
        batches, step = self._batches(parameter)
        limit = full([1], self._n, "int64")
        index = remainder(step, limit)
        before = reshape(gather(batches, index), parameter.shape)
        self.append(block, "increment", {"X": step}, {"Out": step}, step=1.0)
        count = cast(minimum(step, limit), total.dtype)
        latest = block.create_var(f"{before.name}.latest", before.shape, before.dtype)
        slots = {"param": parameter, "grad": grad, "learning_rate": rate, "d": total}
        slots |= {"y": before, "n": count}
        outs = {"param_out": parameter, "d_out": total, "y_out": latest}
        made = self.append(block, "asgd", slots, outs)
        row = reshape(latest, [1, *parameter.shape])
        assign(scatter(batches, index, row), batches)
        return made
