"""`make paddle-tests SOURCES=FOLDER`: Paddle's own tests, run on graphopt.

    python tests/paddle_tests/run.py FOLDER [--only TEXT] [--seconds 120] [--memory 8]

Runs each `test_*.py` in FOLDER, or under it, in a new process with a limit of time and of
memory, and writes `docs/reference/paddle-tests.md`. Only cases count that pass on the real
release: they are in `real_passes.tsv.gz`. The files of the tests come from Paddle's repository and
are not kept here.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "reference" / "paddle-tests.md"

LEFT_OUT = re.compile(
    "test_(fused_elemwise_activation|fused_embedding|fusion_|attention_lstm|conv2d_fusion"
    "|filter_by_instag|tdm_|partial_|pull_|similarity_focus|var_conv_2d|match_matrix|pyramid_hash)"
)
"""Files of operators that only Paddle's own passes and parameter servers write."""

CAUSES: Mapping[str, str] = {
    "time": "took longer than the limit",
    "crash": "the process ended",
    "name": "a name that graphopt lacks",
    "import": "another error when the file was loaded",
    "operator": "an operator or attribute without translation",
    "numbers": "other numbers, shapes or lengths",
    "no error": "an error that Paddle raises and graphopt does not",
    "program": "a program that graphopt refuses",
    "other": "another error",
}
_PATTERNS: Sequence[tuple[str, str]] = (
    ("name", r"has no paddle\.|has no attribute|No module named|cannot import name|has no '"),
    ("no error", r"AssertionError: \w+ not raised"),
    ("operator", r"no translation|is not supported|UnsupportedError|does not know the operator"),
    ("numbers", r"AssertionError|Not equal to tolerance"),
    ("program", r"graphopt\.errors\.\w+"),
)


@dataclass(frozen=True)
class Outcome:
    """A case, its outcome, and the last line of its error."""

    file: str
    case: str
    outcome: str
    error: str = ""

    @property
    def cause(self) -> str:
        """The key in CAUSES of a case that does not pass."""
        if self.outcome in ("time", "crash"):
            return self.outcome
        found = next((name for name, text in _PATTERNS if re.search(text, self.error)), "other")
        if self.outcome == "import" and found not in ("name", "operator"):
            return "import"
        return found


def head(error: str) -> str:
    """Find the line of a traceback that names the error."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|NotMet)\b", line)]
    return (named or lines or [""])[-1][:300]


def run_file(file: Path, seconds: float, memory: int) -> list[Outcome]:
    """Run a file, and return the outcome of each case that began."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "CPU_NUM": "2"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "graphopt", "run", str(HERE / "child.py")]
        child = subprocess.Popen(
            [*command, str(file), str(log), str(memory)],
            cwd=folder,
            env={**environment, "HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        ended = "crash"
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            ended = "time"
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return outcomes(file.name, lines, ended)


def outcomes(file: str, lines: Iterable[str], ended: str) -> list[Outcome]:
    """Take the last outcome of each case; a case under way `ended` with its process."""
    last: dict[str, Outcome] = {}
    for line in lines:
        row = json.loads(line)
        last[row["case"]] = Outcome(file, row["case"], row["outcome"], head(row["error"]))
    if not last:
        return [Outcome(file, file.removesuffix(".py"), ended)]
    return [Outcome(file, o.case, ended) if o.outcome == "started" else o for o in last.values()]


def real_passes(path: Path = HERE / "real_passes.tsv.gz") -> dict[str, set[str]]:
    """Read the cases of each file that pass on the real Paddle."""
    found: dict[str, set[str]] = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines()[1:]:
        _release, file, case = line.split("\t")
        found.setdefault(file, set()).add(case)
    return found


def counted(found: Sequence[Outcome], real: Mapping[str, set[str]]) -> list[Outcome]:
    """List one outcome for each case that passes on the real release, of the files that ran.

    A case without an outcome has its file's: it was not imported, or not reached.
    """
    files = {o.file: o for o in found if o.outcome in ("import", "time", "crash")}
    known = {(o.file, o.case): o for o in found}
    result: list[Outcome] = []
    for file in sorted({o.file for o in found} & real.keys()):
        for case in sorted(real[file]):
            stopped = files.get(file, Outcome(file, case, "crash"))
            given = known.get((file, case))
            result.append(given or Outcome(file, case, stopped.outcome, stopped.error))
    return result


def page(cases: Sequence[Outcome], seconds: float, listed: int) -> str:
    """Format the report as Markdown, where `listed` files have cases that count."""
    passed = sum(o.outcome == "pass" for o in cases)
    files = len({o.file for o in cases})
    share = f"{passed / len(cases):.1%}" if cases else "none"
    causes = Counter(o.cause for o in cases if o.outcome not in ("pass", "skip"))
    lines = [
        "# Paddle's own tests",
        "",
        "`make paddle-tests SOURCES=FOLDER` writes this page. FOLDER has the tests of Paddle 1.8.5",
        "(`python/paddle/fluid/tests/unittests` of its repository). Each file runs in a separate",
        f"process with a limit of {seconds:g} seconds. Only cases that pass on Paddle 1.8.5 count.",
        "Operators that only Paddle's own passes and parameter servers write are left out.",
        "",
        f"{passed} of {len(cases)} cases pass ({share}), in {files} of {listed} files.",
        "",
        "| why a case does not pass | cases | most frequent |",
        "|---|---|---|",
    ]
    for cause, count in causes.most_common():
        errors = Counter(o.error for o in cases if o.outcome != "pass" and o.cause == cause)
        example = errors.most_common(1)[0][0].replace("|", "\\|")
        example = example.replace(f"{ROOT}/", "")[:120]
        lines.append(f"| {CAUSES[cause]} | {count} | {f'`{example}`' if example else ''} |")
    lines += ["", "| file | cases | pass |", "|---|---|---|"]
    for file in sorted({o.file for o in cases}):
        own = [o for o in cases if o.file == file]
        lines.append(f"| {file} | {len(own)} | {sum(o.outcome == 'pass' for o in own)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the files and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path)
    parser.add_argument("--only", default="", help="files whose names contain this text")
    parser.add_argument("--seconds", type=float, default=120, help="the limit of a file")
    parser.add_argument("--memory", type=int, default=8, help="the limit of a file in GiB")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    real = {file: own for file, own in real_passes().items() if not LEFT_OUT.match(file)}
    files = sorted(
        path
        for path in args.sources.rglob("test_*.py")
        if path.name in real and args.only in path.name
    )
    if not files:
        parser.error(f"{args.sources} has no tests that are in the list of cases")
    found: list[Outcome] = []
    for file in files:
        own = run_file(file, args.seconds, args.memory)
        found += own
        cases = counted(own, real)
        passed = sum(o.outcome == "pass" for o in cases)
        first = next((o.error or o.outcome for o in cases if o.outcome != "pass"), "")
        print(f"{file.name}: {passed} of {len(cases)} {first}", flush=True)
        text = page(counted(found, real), args.seconds, len(real))
        args.page.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
