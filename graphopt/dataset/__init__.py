"""Readers of data sets (paddle.dataset), each imported when first used; nothing is downloaded."""

from __future__ import annotations

from graphopt.frontend import lazy as _lazy

_lazy.attach_stub(globals())
