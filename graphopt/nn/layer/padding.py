"""Padding with one mode each, as Paddle 3 names it (paddle.nn)."""

from __future__ import annotations

from typing import Any

from graphopt.nn.layer.vision import Pad1D, Pad2D, Pad3D


class ConstantPad1D(Pad1D):
    """One number around sequences [n, c, l] (paddle.nn.ConstantPad1D)."""

    def __init__(
        self, padding: Any, value: float, data_format: str = "NCL", name: str | None = None
    ) -> None:
        super().__init__(padding, "constant", value, data_format, name)


class ConstantPad2D(Pad2D):
    """One number around images [n, c, h, w] (paddle.nn.ConstantPad2D)."""

    def __init__(
        self, padding: Any, value: float, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__(padding, "constant", value, data_format, name)


class ConstantPad3D(Pad3D):
    """One number around volumes [n, c, d, h, w] (paddle.nn.ConstantPad3D)."""

    def __init__(
        self, padding: Any, value: float, data_format: str = "NCDHW", name: str | None = None
    ) -> None:
        super().__init__(padding, "constant", value, data_format, name)


class ReflectionPad1D(Pad1D):
    """Mirrored elements around sequences [n, c, l] (paddle.nn.ReflectionPad1D)."""

    def __init__(self, padding: Any, data_format: str = "NCL", name: str | None = None) -> None:
        super().__init__(padding, "reflect", 0.0, data_format, name)


class ReflectionPad2D(Pad2D):
    """Mirrored elements around images [n, c, h, w] (paddle.nn.ReflectionPad2D)."""

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(padding, "reflect", 0.0, data_format, name)


class ReflectionPad3D(Pad3D):
    """Mirrored elements around volumes [n, c, d, h, w] (paddle.nn.ReflectionPad3D)."""

    def __init__(self, padding: Any, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(padding, "reflect", 0.0, data_format, name)


class ReplicationPad1D(Pad1D):
    """The nearest element around sequences [n, c, l] (paddle.nn.ReplicationPad1D)."""

    def __init__(self, padding: Any, data_format: str = "NCL", name: str | None = None) -> None:
        super().__init__(padding, "replicate", 0.0, data_format, name)


class ReplicationPad2D(Pad2D):
    """The nearest element around images [n, c, h, w] (paddle.nn.ReplicationPad2D)."""

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(padding, "replicate", 0.0, data_format, name)


class ReplicationPad3D(Pad3D):
    """The nearest element around volumes [n, c, d, h, w] (paddle.nn.ReplicationPad3D)."""

    def __init__(self, padding: Any, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(padding, "replicate", 0.0, data_format, name)


class CircularPad1D(Pad1D):
    """Elements of the other end around sequences [n, c, l] (paddle.nn.CircularPad1D)."""

    def __init__(self, padding: Any, data_format: str = "NCL", name: str | None = None) -> None:
        super().__init__(padding, "circular", 0.0, data_format, name)


class CircularPad2D(Pad2D):
    """Elements of the other end around images [n, c, h, w] (paddle.nn.CircularPad2D)."""

    def __init__(self, padding: Any, data_format: str = "NCHW", name: str | None = None) -> None:
        super().__init__(padding, "circular", 0.0, data_format, name)


class CircularPad3D(Pad3D):
    """Elements of the other end around volumes [n, c, d, h, w] (paddle.nn.CircularPad3D)."""

    def __init__(self, padding: Any, data_format: str = "NCDHW", name: str | None = None) -> None:
        super().__init__(padding, "circular", 0.0, data_format, name)
