"""Images of the input pipeline: transforms and data sets (paddle.vision), imported when used."""

from __future__ import annotations

from graphopt.frontend import lazy as _lazy

_lazy.attach_stub(globals())
