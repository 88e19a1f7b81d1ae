"""The error for a program that cannot be one XLA program."""

from __future__ import annotations

from graphopt.errors import UnsupportedError


class NeedsData(UnsupportedError):
    """A size depends on data; such a program cannot be one XLA program."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} depends on data: such a program runs op by op on one device, not over "
            f"several devices or in a compiled export"
        )
