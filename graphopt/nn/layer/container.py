"""Layers that hold other layers or parameters: Sequential, LayerList, LayerDict, ParameterList."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphopt.ir.program import Parameter
from graphopt.nn.layer.layers import Layer


def _position(index: int, length: int, extra: int = 0) -> int:
    if not -length <= index < length + extra:
        raise IndexError(
            f"index {index} is out of range, should be an integer in range [{-length}, {length})"
        )
    return index + length if index < 0 else index


class Sequential(Layer):
    """Layers called one after the other (Paddle page: paddle.nn.Sequential).

    Takes layers, or (name, layer) pairs.
    """

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], (list, tuple)) and not _is_pair(layers[0]):
            layers = tuple(layers[0])
        for number, item in enumerate(layers):
            name, layer = (item[0], item[1]) if isinstance(item, (tuple, list)) else (number, item)
            self.add_sublayer(str(name), layer)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(*list(self._sub_layers.values())[index])
        if isinstance(index, str):
            return self._sub_layers[index]
        return list(self._sub_layers.values())[_position(index, len(self))]

    def __setitem__(self, index: Any, layer: Layer) -> None:
        name = (
            index if isinstance(index, str) else list(self._sub_layers)[_position(index, len(self))]
        )
        self.add_sublayer(str(name), layer)

    def __delitem__(self, index: Any) -> None:
        name = (
            index if isinstance(index, str) else list(self._sub_layers)[_position(index, len(self))]
        )
        del self._sub_layers[name]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def forward(self, input: Any) -> Any:
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


def _is_pair(value: Any) -> bool:
    return len(value) == 2 and isinstance(value[0], str)


class LayerList(Layer):
    """A list of layers (Paddle page: paddle.nn.LayerList)."""

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or ())

    def _renumber(self, layers: list[Layer]) -> None:
        self._sub_layers.clear()
        for number, layer in enumerate(layers):
            self.add_sublayer(str(number), layer)

    def __getitem__(self, index: Any) -> Any:
        layers = list(self._sub_layers.values())
        if isinstance(index, slice):
            return type(self)(layers[index])
        return layers[_position(index, len(layers))]

    def __setitem__(self, index: int, layer: Layer) -> None:
        self.add_sublayer(str(_position(index, len(self))), layer)

    def __delitem__(self, index: Any) -> None:
        layers = list(self._sub_layers.values())
        del layers[index]
        self._renumber(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._sub_layers.values())

    def append(self, sublayer: Layer) -> LayerList:
        """Add a layer at the end; return `self`."""
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        """Insert a layer before a position."""
        layers = list(self._sub_layers.values())
        layers.insert(_position(index, len(layers), extra=1), sublayer)
        self._renumber(layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        """Add several layers at the end; return `self`."""
        for layer in sublayers:
            self.append(layer)
        return self


class LayerDict(Layer):
    """Layers by name (Paddle page: paddle.nn.LayerDict)."""

    def __init__(self, sublayers: Any = None) -> None:
        super().__init__()
        self.update(sublayers or {})

    def __getitem__(self, key: str) -> Layer:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sub_layers)

    def __contains__(self, key: object) -> bool:
        return key in self._sub_layers

    def keys(self) -> Any:
        """Return the names."""
        return self._sub_layers.keys()

    def values(self) -> Any:
        """Return the layers."""
        return self._sub_layers.values()

    def items(self) -> Any:
        """Return the pairs of name and layer."""
        return self._sub_layers.items()

    def pop(self, key: str) -> Layer:
        """Remove a layer and return it."""
        return self._sub_layers.pop(key)

    def clear(self) -> None:
        """Remove all layers."""
        self._sub_layers.clear()

    def update(self, sublayers: Any) -> None:
        """Add layers from a mapping or from (name, layer) pairs."""
        pairs = sublayers.items() if isinstance(sublayers, (Mapping, LayerDict)) else sublayers
        for name, layer in pairs:
            self.add_sublayer(name, layer)


class ParameterList(Layer):
    """A list of parameters (Paddle page: paddle.nn.ParameterList)."""

    def __init__(self, parameters: Iterable[Parameter] | None = None) -> None:
        super().__init__()
        for parameter in parameters or ():
            self.append(parameter)

    def __getitem__(self, index: int) -> Parameter:
        return list(self._parameters.values())[_position(index, len(self))]

    def __setitem__(self, index: int, parameter: Parameter) -> None:
        self.add_parameter(str(_position(index, len(self))), parameter)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def append(self, parameter: Parameter) -> ParameterList:
        """Add a parameter at the end; return `self`."""
        self.add_parameter(str(len(self)), parameter)
        return self
