"""Running an unmodified script of Paddle in this process, with `paddle` meaning graphopt."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType

from graphopt.frontend.paddle_names import PaddleFinder, forget, hint
from graphopt.frontend.version import of_a_script

# the exit code that a shell reports for a program that Ctrl-C ended
_INTERRUPTED = 130
# an import or other use of fluid in a script
_FLUID = re.compile(rb"\bpaddle\.fluid\b|\bfrom\s+paddle\s+import\b[^\n]*\bfluid\b")


def run_script(path: str | os.PathLike[str], args: Sequence[str] = ()) -> int:
    """Run a script as `python path args` would, and return its exit code.

    In it `import paddle`, `import paddle.fluid as fluid` and the like are graphopt's modules, and
    `paddle.__version__` is "1.8.5" if it uses fluid, else "2.6.2".
    `sys.argv`, `sys.path`, `__main__` and `__file__` are as Python sets them, and as they were
    before when the script has ended. A path to a folder runs its `__main__.py`. The code is 1 after
    an exception, whose traceback starts at the script; 2 when there is no script, or when the real
    Paddle was imported already.
    """
    given = os.fspath(path)
    file = Path(given) / "__main__.py" if Path(given).is_dir() else Path(given)
    real = sys.modules.get("paddle")
    if real is not None and not real.__name__.startswith("graphopt"):
        print(
            f"graphopt: paddle is imported already, from {getattr(real, '__file__', 'somewhere')}; "
            "run the script in a process of its own",
            file=sys.stderr,
        )
        return 2
    try:
        source = file.read_bytes()
    except OSError as error:
        print(f"graphopt: can't open file '{file}': {error.strerror}", file=sys.stderr)
        return 2
    uses_fluid = _FLUID.search(source) is not None
    with of_a_script(uses_fluid), _as_main(file, [given, *args]) as main:
        try:
            exec(compile(source, str(file), "exec", dont_inherit=True), main.__dict__)
        except SystemExit as error:
            return _exit_code(error)
        except KeyboardInterrupt as error:
            _show(error, str(file))
            return _INTERRUPTED
        except BaseException as error:
            _show(error, str(file))
            return 1
        finally:
            sys.stdout.flush()
    return 0


@contextmanager
def _as_main(file: Path, argv: list[str]) -> Iterator[ModuleType]:
    """Install the module `__main__` of a script, and restore the process state after it."""
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(file), __builtins__=__builtins__, __cached__=None)
    finder = PaddleFinder()
    before = sys.argv, list(sys.path), sys.modules["__main__"], sys.excepthook
    sys.argv = argv
    sys.path.insert(0, str(file.resolve().parent))
    sys.modules["__main__"] = main
    sys.meta_path.insert(0, finder)
    try:
        yield main
    finally:
        sys.meta_path.remove(finder)
        forget()
        sys.argv, sys.path[:], sys.modules["__main__"], sys.excepthook = before


def _exit_code(error: SystemExit) -> int:
    """Compute the exit code of `sys.exit(x)`; print a text to stderr."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _show(error: BaseException, file: str) -> None:
    """Print the traceback from the script's first frame on, and hints for missing names."""
    start: TracebackType | None = error.__traceback__
    while start is not None and start.tb_frame.f_code.co_filename != file:
        start = start.tb_next
    found = hint(error)
    if found is not None and found not in str(error):
        error.add_note(found)
    sys.stdout.flush()
    sys.excepthook(type(error), error.with_traceback(start), start)
