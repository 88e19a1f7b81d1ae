"""Times of steps, runs and marked spans (paddle.profiler)."""

from collections.abc import Mapping

from graphopt.frontend import lazy
from graphopt.frontend.calls import publish
from graphopt.profiler.profiler import Profiler as Profiler
from graphopt.profiler.profiler import ProfilerTarget as ProfilerTarget
from graphopt.profiler.profiler import RecordEvent as RecordEvent
from graphopt.profiler.profiler import export_chrome_tracing as export_chrome_tracing
from graphopt.profiler.schedule import ProfilerState as ProfilerState
from graphopt.profiler.schedule import make_scheduler as make_scheduler
from graphopt.profiler.table import SortedKeys as SortedKeys
from graphopt.profiler.table import SummaryView as SummaryView

_PROTOBUF = (
    "graphopt writes what it records as JSON",
    "paddle.profiler.export_chrome_tracing",
)
_REFUSED: Mapping[str, lazy.Refusal] = {
    "export_protobuf": _PROTOBUF,
    "load_profiler_result": _PROTOBUF,
}
lazy.attach(globals(), refused=_REFUSED)
publish(globals(), __name__)
