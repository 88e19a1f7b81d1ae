"""graphopt: Paddle's static-graph API as an optimizing compiler; `import graphopt as paddle`.

Its names are in `__init__.pyi`; each is imported when a script first uses it.
"""

from __future__ import annotations

from typing import Any

from graphopt.frontend import finders as _finders
from graphopt.frontend import lazy as _lazy


def _find(name: str) -> Any:
    if name == "__version__":
        from graphopt.frontend.version import version

        return version()
    from graphopt.frontend.refused import NAMES, refuse

    return refuse("paddle", name, NAMES)


_lazy.attach_stub(globals(), find=_find)
_finders.explain_imports()
