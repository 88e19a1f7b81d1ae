"""Rprop, Ftrl, Dpsgd, and LBFGS, which static programs do not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.ir.program import Block, Operator, Parameter, Variable
from graphopt.optimizer.optimizer import Optimizer, check_required


class Rprop(Optimizer):
    """Steps by the gradient's sign; each element's step grows while its sign stays the same.

    Steps start at `learning_rate`, change by the factors `etas` and stay in
    `learning_rate_range`. Meant for the gradient of the whole data set. The state is
    `<parameter>_prevs_0` and `<parameter>_learning_rates_0`. Raises ValueError unless the range
    contains the rate and the factors are around 1. Paddle page: paddle.optimizer.Rprop.
    """

    operator = "rprop"

    def __init__(
        self,
        learning_rate: float = 0.001,
        learning_rate_range: Sequence[float] = (1e-5, 50),
        parameters: Any = None,
        etas: Sequence[float] = (0.5, 1.2),
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        check_required("Rprop", learning_rate=learning_rate)
        if not isinstance(learning_rate, (int, float)) or isinstance(learning_rate, bool):
            raise TypeError(
                "Rprop(): learning_rate must be a number, because each element has a step of its "
                f"own from then on; found {type(learning_rate).__name__}"
            )
        least, most = learning_rate_range
        if not 0.0 < least <= learning_rate <= most:
            raise ValueError(
                "Rprop(): '0.0 < learning_rate_range[0] <= learning_rate <= "
                "learning_rate_range[1]' must be true"
            )
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError("Rprop(): '0.0 < etas[0] < 1.0 < etas[1]' must be true")
        super().__init__(learning_rate, parameters, None, grad_clip, name)
        self._range, self._etas = [float(least), float(most)], [float(e) for e in etas]
        self._multi_precision = bool(multi_precision)
        self._constants: dict[int, dict[str, Variable]] = {}

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        start = self.get_lr()
        return {
            "prev": self.accumulator("prevs", parameter, widen=False),
            "learning_rate": self.accumulator(
                "learning_rates", parameter, value=start, widen=False
            ),
        }

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        found = self._constants.get(block.program.serial)
        if found is None:
            from graphopt.tensor.creation import to_tensor

            dtype = "float64" if parameter.dtype == "float64" else "float32"
            found = {
                "learning_rate_range": to_tensor(self._range, dtype),
                "etas": to_tensor(self._etas, dtype),
            }
            self._constants[block.program.serial] = found
        state = self.state(parameter)
        slots = {"param": parameter, "grad": grad, **state, **found}
        outs = {f"{slot}_out": value for slot, value in state.items()}
        return self.append(block, "rprop", slots, {"param_out": parameter, **outs})

    lower_slots = True


class Ftrl(Optimizer):
    """Follow the regularized leader (McMahan and others, 2013), with penalties `l1` and `l2`.

    The state is `<parameter>_squared_0` and `<parameter>_linear_0`. Paddle page:
    paddle.fluid.optimizer.FtrlOptimizer.
    """

    operator = "ftrl"
    _squared_acc_str, _linear_acc_str = "squared", "linear"

    def __init__(
        self,
        learning_rate: Any,
        l1: float = 0.0,
        l2: float = 0.0,
        lr_power: float = -0.5,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        check_required("Ftrl", learning_rate=learning_rate)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._l1, self._l2, self._lr_power = float(l1), float(l2), float(lr_power)

    def append_update(
        self, block: Block, parameter: Parameter, grad: Variable, rate: Variable
    ) -> Operator:
        squared, linear = self.state(parameter).values()
        slots = {"Param": parameter, "Grad": grad, "LearningRate": rate}
        slots |= {"SquaredAccumulator": squared, "LinearAccumulator": linear}
        outs = {"ParamOut": parameter, "SquaredAccumOut": squared, "LinearAccumOut": linear}
        attrs = {"l1": self._l1, "l2": self._l2, "lr_power": self._lr_power}
        return self.append(block, "ftrl", slots, outs, **attrs)

    def state(self, parameter: Parameter) -> dict[str, Variable]:
        return {
            "SquaredAccumulator": self.accumulator("squared", parameter),
            "LinearAccumulator": self.accumulator("linear", parameter),
        }


class Dpsgd(Optimizer):
    """Gradients clipped to a length of `clip`, plus one number of noise per parameter and step.

    The noise is normal with deviation `sigma`, over `batch_size`. Paddle page:
    paddle.fluid.optimizer.DpsgdOptimizer.
    """

    operator = "dpsgd"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        clip: float = 0.9,
        batch_size: float = 0.999,
        sigma: float = 1e-8,
        parameters: Any = None,
        name: str | None = None,
    ) -> None:
        check_required("Dpsgd", learning_rate=learning_rate, clip=clip, sigma=sigma)
        super().__init__(learning_rate, parameters, None, None, name)
        self._clip, self._batch_size, self._sigma = float(clip), float(batch_size), float(sigma)

    def attributes(self, parameter: Parameter) -> dict[str, Any]:
        return {
            "clip": self._clip,
            "batch_size": self._batch_size,
            "sigma": self._sigma,
            "seed": parameter.block.program.random_seed,
        }


class LBFGS(Optimizer):
    """Raises NotImplementedError: LBFGS calls a closure many times per step.

    As in Paddle, static programs do not have it. Paddle page: paddle.optimizer.LBFGS.
    """

    operator = "lbfgs"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "LBFGS calls a closure many times per step and is for dynamic mode only; use e.g. "
            "paddle.optimizer.Adam in a static program"
        )
