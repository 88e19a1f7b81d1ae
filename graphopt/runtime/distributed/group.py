"""The trainers of a job as this one sees them: joining, steps, barriers, the end.

Communication runs on JAX's multi-process runtime. `Meeting` and `Member` wrap it, because by itself
it answers a lost trainer with an abort after minutes, or with none.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any

from graphopt.errors import TrainerError
from graphopt.runtime.distributed.meeting import Meeting
from graphopt.runtime.distributed.member import Member, quit_now
from graphopt.runtime.distributed.stopping import Stopping
from graphopt.runtime.distributed.wire import run
from graphopt.runtime.distributed.world import FAULT_EXIT, World, free_ports
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.state.uninterrupted import Uninterrupted

# The exit code that a shell reports for a program that Ctrl-C ended.
INTERRUPTED = 130
# The packages whose versions must agree on all trainers.
SOFTWARE = ("graphopt", "jax", "jaxlib", "numpy")


@dataclass
class Announced:
    """A step announced to the other trainers, whose results are not stored here yet.

    `about` identifies the program. `waits` is true if the trainers wait for each other, `taken` if
    state was taken from trainer 0.
    """

    name: str
    about: Any
    waits: bool
    key: list[int] | None = None
    taken: bool = False


class TrainerGroup:
    """The trainers of a world, which this process joins.

    Raise TrainerError when trainers do not come, refuse or differ.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.announced: Announced | None = None
        self._barriers = 0
        self._at_barrier = False
        self._does: Mapping[str, Any] = {}
        self._pid = os.getpid()
        self._error = ""
        self._own_fault = False
        self.meeting = Meeting(world) if world.trainer == 0 else None
        self.member = Member(world)
        port = None
        if self.meeting is not None:
            run(self.meeting.open())
            port = world.jax_port or free_ports(world.meeting_place[0], 1)[0]
        found = {name: [each.version for each in distributions(name=name)] for name in SOFTWARE}
        versions = {f"version of {name}": each[0] for name, each in found.items() if each}
        jax_port = self.member.join(values=versions, key=port)["key"]
        self._watch_exceptions()
        self.stopping = Stopping(lambda: self.member.wire.send("stop"), self._is_between, quit_now)
        self.member.stopping = self.stopping.begin
        try:
            self._start_jax(jax_port)
        except TrainerError as error:
            self.member.leave(str(error))
            raise
        atexit.register(self.leave)

    def _start_jax(self, port: int) -> None:
        """Connect JAX's runtime; its own timeouts are longer, so that ours expire first."""
        import_jax()
        import jax

        address = f"{self.world.meeting_place[0]}:{port}"
        limits = self.world.timeouts
        # JAX would only record SIGTERM for scripts that query it, and these scripts do not.
        jax.config.update("jax_enable_preemption_service", False)
        try:
            jax.distributed.initialize(
                coordinator_address=address,
                coordinator_bind_address=address,
                num_processes=self.world.trainers,
                process_id=self.world.trainer,
                local_device_ids=self.world.device,
                cluster_detection_method="deactivate",
                initialization_timeout=int(limits.start) + 60,
                heartbeat_timeout_seconds=int(10 * limits.silence) + 100,
                shutdown_timeout_seconds=int(limits.silence) + 10,
            )
        except RuntimeError as error:
            raise TrainerError(
                f"trainer {self.world.trainer} cannot start JAX's distributed runtime at {address}:"
                f" {str(error).rstrip('.')}. JAX's distributed runtime must start before anything "
                "runs on JAX: at the start of the script, call "
                "graphopt.distributed.init_parallel_env(), or with_data_parallel with a strategy "
                "that has trainers_endpoints"
            ) from error

    # -- during the job ----------------------------------------------------------------------------

    def begin_step(
        self,
        about: Any,
        does: Mapping[str, Any],
        values: dict[str, Any],
        key: list[int],
        *,
        sync: bool,
    ) -> Announced:
        """Announce a step; its `key` is trainer 0's if the trainers waited for each other.

        They wait when `does` differs from the step before, or with `sync`. `does` must be equal on
        all of them, and so must `values`, which are compared while the step runs. A step that an
        interrupt ended here after its announcement is not announced again. Raise SystemExit when
        the job was to end (SIGTERM) before this step.
        """
        self.member.check()
        self.member.busy_since = time.monotonic()
        if self.announced is None:
            known = does == self._does
            with Uninterrupted():
                number = self.member.next_step()
                if number is None:
                    self.stopping.leave()
                    raise TrainerError(
                        "this trainer received a request to stop, but its script continues to run "
                        "steps"
                    )
                step = self.announced = Announced(f"step {number}", about, sync or not known)
                self._does = does
                self.member.come(
                    step.name,
                    does=None if known else does,
                    values=values,
                    key=key,
                    wait=step.waits,
                )
        step = self.announced
        if step.about is not about:
            raise TrainerError(
                f"trainer {self.world.trainer} was interrupted in {step.name}, which the other "
                "trainers run; run the same program again before any other program"
            )
        if step.waits and step.key is None:
            step.key = self.member.answer(step.name)["key"]
        return step

    def end_step(self) -> None:
        """Note that the step has ended, with results or without."""
        self.member.busy_since = None

    def confirm(self, error: str) -> None:
        """Wait for all reports on the step; TrainerError when it failed on another trainer.

        `error` is the reason if the step failed on this one.
        """
        assert self.announced is not None
        end = f"the end of {self.announced.name}"
        self.member.come(end, error=error)
        errors = self.member.answer(end)["errors"]
        if errors and not error:
            trainer = min(errors, key=int)
            raise TrainerError(
                f"{self.announced.name} failed on {self.world.name(int(trainer))}, so no trainer "
                f"stored its results: {errors[trainer]}"
            )

    def find_fault(self, error: Exception) -> TrainerError | None:
        """Find the trainer's fault that caused a JAX error; wait if one is likely."""
        text = str(error).lower()
        peer = any(word in text for word in ("gloo", "peer", "connection", "coordination", "nccl"))
        limits = self.world.timeouts
        is_lost = self.member.is_lost(limits.silence + 2 * limits.beat if peer else 0.5)
        return TrainerError(self.member.reason) if is_lost else None

    def _is_between(self, late: bool = False) -> bool:
        """Return whether no step runs here and, unless `late`, none is to come."""
        return (late or self.member.is_last) and self.announced is None

    def barrier(self) -> None:
        """Wait until every trainer reaches this barrier; TrainerError when one cannot."""
        self.member.check()
        if self._is_between():
            self.stopping.leave()
        with Uninterrupted():
            if not self._at_barrier:  # else an interrupt ended the last call; the others count it
                self._barriers += 1
                self._at_barrier = True
                self.member.come(f"barrier {self._barriers}")
        self.member.answer(f"barrier {self._barriers}")
        self._at_barrier = False

    # -- the end -----------------------------------------------------------------------------------

    def _watch_exceptions(self) -> None:
        """Record the exception that ends the script, to report it to the others."""
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            text = str(error).strip()
            self._own_fault = not isinstance(error, TrainerError)
            self._error = f"{kind.__name__}: {text.splitlines()[0]}" if text else kind.__name__
            before(kind, error, trace)

        sys.excepthook = hook

    def leave(self) -> None:
        """Wait for the others at exit, or end at once when the job has failed."""
        if os.getpid() != self._pid:
            return
        self.stopping.over()
        try:
            parted = not self.member.is_lost() and self.member.leave(self._error)
        except KeyboardInterrupt:
            quit_now(INTERRUPTED)
            return
        if not parted:
            if self.meeting is not None:
                run(self.meeting.outlast(self.world.timeouts.grace + 1.0))
            quit_now(1 if self._own_fault else FAULT_EXIT)
        import jax

        jax.distributed.shutdown()
