"""Helpers for testing passes, in graphopt and outside of it (needs the `testing` extra).

`programs()` generates well-typed modules with planted patterns, `check_preserves_meaning` runs a
module before and after a pass, `check_pass` does both for a pass and checks all that it claims,
`load_page` reads the before/after pages of `tests/passes`.

Without hypothesis, `check_pass` and `programs` are missing, and the rest is there.
"""

from typing import NoReturn

from graphopt.debug.compare import assert_same_bits as assert_same_bits
from graphopt.debug.compare import assert_same_results as assert_same_results
from graphopt.debug.compare import check_preserves_meaning as check_preserves_meaning
from graphopt.debug.compare import random_inputs as random_inputs
from graphopt.debug.compare import run_module as run_module
from graphopt.debug.reduce import reduce_module as reduce_module
from graphopt.testing.pages import Case as Case
from graphopt.testing.pages import check_case as check_case
from graphopt.testing.pages import load_page as load_page
from graphopt.testing.pages import page_text as page_text
from graphopt.testing.pages import parse as parse
from graphopt.testing.pages import result_text as result_text

try:
    from graphopt.testing.check import check_pass as check_pass
    from graphopt.testing.programs import programs as programs
except ModuleNotFoundError as error:
    # the commands use this package, and are installed without the `testing` extra
    if error.name != "hypothesis":
        raise

    def __getattr__(name: str) -> NoReturn:
        """Raise an error that names the package which `check_pass` and `programs` need."""
        if name not in ("check_pass", "programs"):
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        raise ImportError(f"{__name__}.{name} needs hypothesis: pip install 'graphopt[testing]'")
