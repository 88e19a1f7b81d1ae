"""DistributedStrategy: the settings of fleet, each obeyed, refused or reported as ineffective."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from graphopt.distributed.fleet.base.strategy_fields import CONFIGS, FIELDS, StrategyField
from graphopt.errors import UnsupportedError
from graphopt.ir.program.location import caller_level
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy

GradientScale = BuildStrategy.GradientScaleStrategy
_SCALES = {
    "avg": GradientScale.CoeffNumDevice,
    "sum": GradientScale.One,
    "customized": GradientScale.Customized,
}
_OBJECTS = {"build_strategy": BuildStrategy, "execution_strategy": ExecutionStrategy}


class DistributedStrategy:
    """The settings of `fleet.distributed_optimizer`.

    A setting without effect warns once when it is changed, and a refused one raises
    UnsupportedError. Raises TypeError for an unknown name or another type, ValueError for an
    unknown key of a `..._configs`. Paddle page: paddle.distributed.fleet.DistributedStrategy.
    """

    def __init__(self) -> None:
        values: dict[str, Any] = {name: field.default for name, field in FIELDS.items()}
        for name, keys in CONFIGS.items():
            values[name] = {key: _copy_default(field.default) for key, field in keys.items()}
        values |= {name: kind() for name, kind in _OBJECTS.items()}
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_warned", set[str]())

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Any] = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"{name} is not a attribute of DistributedStrategy")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        values: dict[str, Any] = self._values
        if name in _OBJECTS:
            if not isinstance(value, _OBJECTS[name]):
                raise TypeError(
                    f"DistributedStrategy.{name} must be a {_OBJECTS[name].__name__}, found "
                    f"{type(value).__name__}"
                )
            values[name] = value
        elif name in CONFIGS:
            values[name] = {**values[name], **self._checked_configs(name, value)}
        elif name in FIELDS:
            self._check(name, FIELDS[name], value)
            values[name] = value
        else:
            raise TypeError(f"{name} is not a attribute of DistributedStrategy")

    def _checked_configs(self, name: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError(f"DistributedStrategy.{name} must be a dict")
        found = {str(key): item for key, item in value.items()}
        for key, item in found.items():
            if key not in CONFIGS[name]:
                raise ValueError(
                    f"DistributedStrategy.{name} has no key '{key}'; it has "
                    f"{', '.join(CONFIGS[name])}"
                )
            self._check(f"{name}['{key}']", CONFIGS[name][key], item)
        return found

    def _check(self, name: str, field: StrategyField, value: Any) -> None:
        default = field.default
        wrong = isinstance(default, bool) and not isinstance(value, bool)
        number = isinstance(default, (int, float)) and not isinstance(default, bool)
        if wrong or (number and not isinstance(value, (int, float))):
            raise TypeError(
                f"DistributedStrategy.{name} must be a {type(default).__name__}, found "
                f"{type(value).__name__}"
            )
        if value == default:
            return
        if field.refused:
            raise UnsupportedError(f"DistributedStrategy.{name} = {value!r}: {field.refused}")
        if field.no_effect and name not in self._warned:
            self._warned.add(name)
            warnings.warn(
                f"DistributedStrategy.{name} has no effect: {field.no_effect}",
                stacklevel=caller_level(),
            )

    def __deepcopy__(self, memo: Any) -> DistributedStrategy:
        twin = DistributedStrategy()
        for name, value in self._values.items():
            kept = value._copy() if isinstance(value, BuildStrategy) else _copy_default(value)
            twin._values[name] = kept
        return twin

    def __repr__(self) -> str:
        plain = DistributedStrategy()
        changed = [
            f"    {name} = {value!r}"
            for name, value in self._values.items()
            if name not in _OBJECTS and value != plain._values[name]
        ]
        return "\n".join(["DistributedStrategy", *changed])

    def _stage(self) -> int:
        """Check the stage of sharding: 1 and 2 spread state and gradients, 3 parameters too."""
        stage = self.sharding_configs["stage"]
        if stage not in (1, 2, 3):
            raise ValueError(f"sharding_configs['stage'] is {stage}; it is 1, 2 or 3")
        return stage

    def _degree(self) -> int:
        """Return the devices per replica, by tensor parallelism or by the hybrid settings."""
        if self.tensor_parallel:
            return int(self.tensor_parallel_configs["tensor_parallel_degree"])
        return int(self.hybrid_configs["mp_degree"])

    def to_build_strategy(self) -> BuildStrategy:
        """Copy the BuildStrategy, and add the settings that DistributedStrategy has separately.

        Raises ValueError for an unknown `scale_strategy`, or stage of sharding.
        """
        made = self.build_strategy._copy()
        if self.sync_batch_norm:
            made.sync_batch_norm = True
        if not self.fuse_all_reduce_ops:
            made.fuse_all_reduce_ops = False
        if self.sharding:
            made.reduce_strategy = BuildStrategy.ReduceStrategy.Reduce
            made.shard_parameters = self._stage() == 3
        if self._degree() > 1:
            made.tensor_parallel_degree = self._degree()
        scale = self.gradient_scale_configs["scale_strategy"]
        if scale not in _SCALES:
            raise ValueError(
                f"gradient_scale_configs['scale_strategy'] is '{scale}'; it is one of "
                f"{', '.join(_SCALES)}"
            )
        if scale != "avg":
            made.gradient_scale_strategy = _SCALES[scale]
        return made


def _copy_default(value: Any) -> Any:
    """Copy a default value; sequences become lists."""
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, dict) else value
