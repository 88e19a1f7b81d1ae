"""Layer classes; scripts use them as `paddle.nn.<name>`, and some as `paddle.nn.layer.<name>`."""

from pathlib import Path

from graphopt.frontend import lazy

_PACKAGE = __name__.rpartition(".")[0]

lazy.attach(
    globals(),
    lazy.names_from(Path(__file__).parents[1] / "__init__.py", _PACKAGE, __name__),
)
